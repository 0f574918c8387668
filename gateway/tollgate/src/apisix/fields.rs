//! Takes an APISIX object apart so that no entry is ignored.

use serde_json::{Map, Value};

/// An object whose entries are taken out one at a time. [`ObjectFields::end`] refuses the remaining ones by name.
pub struct ObjectFields {
    entries: Map<String, Value>,
    /// The path of the object in messages: empty, or `upstream/` and the like.
    path: String,
}

impl ObjectFields {
    /// Wraps an object at this path.
    pub fn new(entries: Map<String, Value>, path: &str) -> Self {
        Self { entries, path: path.to_owned() }
    }

    /// Wraps a value that must be an object.
    pub fn of(value: Value, path: &str) -> Result<Self, String> {
        match value {
            Value::Object(entries) => Ok(Self::new(entries, &format!("{path}/"))),
            _ => Err(format!("`{path}` must be an object")),
        }
    }

    /// Takes out an entry; `None` if it is missing or null.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.entries.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Returns an entry without taking it out.
    pub fn peek(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Takes out a string.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    /// Takes out a whole number.
    pub fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.wrong(key, "a whole number")),
        }
    }

    /// Takes out a boolean.
    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.wrong(key, "`true` or `false`")),
        }
    }

    /// Takes out a string, or a number as a string.
    pub fn value(&mut self, key: &str) -> Result<String, String> {
        match self.take(key) {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(self.wrong(key, "a text")),
        }
    }

    /// Returns the remaining keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns a key with its path, in backticks.
    pub fn place(&self, key: &str) -> String {
        format!("`{}{key}`", self.path)
    }

    /// Returns a key with its path, as the path of the object below it.
    pub fn bare(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    /// Takes out a list of strings that is not empty.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let items = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
        let texts: Option<Vec<String>> = items.and_then(Iterator::collect);
        let texts = texts.filter(|texts| !texts.is_empty());
        texts.map(Some).ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    /// Takes out an entry that may only have one of these values, because the gateway always behaves that
    /// way.
    pub fn only(&mut self, key: &str, values: &[Value]) -> Result<(), String> {
        match self.take(key) {
            Some(value) if !values.contains(&value) => {
                let values: Vec<_> = values.iter().map(Value::to_string).collect();
                Err(format!("`{}{key}` must be {} here, not {value}", self.path, values.join(" or ")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the message for a value of the wrong type or range.
    pub fn wrong(&self, key: &str, expected: &str) -> String {
        format!("`{}{key}` must be {expected}", self.path)
    }

    /// Checks that no entry remains; the error names the remaining ones.
    pub fn end(self) -> Result<(), String> {
        let left: Vec<_> = self.entries.keys().map(|key| format!("`{}{key}`", self.path)).collect();
        match left.len() {
            0 => Ok(()),
            1 => Err(format!(
                "{} has no counterpart in this gateway's APISIX front: /api/v1 has every setting",
                left[0]
            )),
            _ => Err(format!(
                "{} have no counterpart in this gateway's APISIX front: /api/v1 has every setting",
                left.join(", ")
            )),
        }
    }
}
