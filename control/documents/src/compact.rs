//! JSON that is kept as text.
//!
//! For the document of a route, a tree of `serde_json` takes about 2 KiB and its text 200 bytes. Thousands of documents
//! are kept and seldom read, so sources, the documents of `config` and the replicas of a fleet share one text.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A JSON value that is kept as text. It serializes and deserializes like the value itself.
#[derive(Clone, Debug, Default)]
pub struct Compact(Arc<str>);

impl Compact {
    /// Parses the value. An absent value is null.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// Returns the text; empty if the value is absent.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

impl From<&Value> for Compact {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::default(),
            value => Self(value.to_string().into()),
        }
    }
}

/// The text must be valid JSON, as `serde_json` writes it.
impl From<Arc<str>> for Compact {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

/// Compares values: the order of a mapping's keys does not count. Equal texts, the usual case, are not parsed.
impl PartialEq for Compact {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0 == other.0
            // If only the order of keys differs, the length is the same.
            || self.0.len() == other.0.len() && self.value() == other.value()
    }
}

impl Eq for Compact {}

impl Serialize for Compact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Compact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::from(&value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_the_value() {
        let value = json!({ "a": [1, 0.25, "\u{e9}\n"], "b": null });
        let compact = Compact::from(&value);
        assert_eq!((compact.value(), serde_json::to_value(&compact).ok()), (value.clone(), Some(value)));
        assert_eq!(serde_json::from_str::<Compact>(compact.text()).ok(), Some(compact));
        assert_eq!(Compact::default().value(), Value::Null);
        assert_eq!(Compact::from(&Value::Null), Compact::default());
    }

    #[test]
    fn the_order_of_keys_does_not_count() {
        let one = Compact::from(&json!({ "a": 1, "b": 2 }));
        assert_eq!(one, Compact::from(&json!({ "b": 2, "a": 1 })));
        assert_ne!(one, Compact::from(&json!({ "b": 1, "a": 2 })));
        assert_ne!(one, Compact::default());
    }
}
