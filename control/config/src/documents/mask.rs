//! Secrets are written, and never read back.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::spec::sections;

/// What is shown in a secret's place.
pub const MASK: &str = "(secret)";

/// The keys whose values are secret, of the whole language.
static SECRET: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let keys = sections().into_iter().flat_map(|section| section.keys);
    keys.filter(|key| key.secret).map(|key| key.name).collect()
});

/// The value with its secrets covered. What names a variable of the environment tells nothing and stays.
#[must_use]
pub fn masked(value: &Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| {
                    let secret = SECRET.contains(key.as_str()) && !is_variable(value);
                    (key.clone(), if secret { Value::from(MASK) } else { masked(value) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(masked).collect()),
        other => other.clone(),
    }
}

fn is_variable(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with("${") && text.ends_with('}'))
}

/// The value with what stands behind its masks: who writes back what was read does not change the secrets. Gives the
/// pointer to a mask behind which nothing is known.
///
/// # Errors
/// The pointer.
pub fn unmasked(value: &mut Value, before: Option<&Value>) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let before = before.and_then(|before| before.get(key));
                let path = || format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                if SECRET.contains(key.as_str()) && value.as_str() == Some(MASK) {
                    *value = before.cloned().ok_or_else(path)?;
                } else {
                    unmasked(value, before).map_err(|rest| path() + &rest)?;
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let before = before.and_then(|before| before.get(index));
                unmasked(item, before).map_err(|rest| format!("/{index}{rest}"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_covered_and_kept_when_they_are_written_back() {
        let value = json!({"balance": {"sticky": {"cookie": "c", "secret": "hunter2-hunter2"}}, "endpoints": ["h:1"]});
        let shown = masked(&value);
        assert_eq!(shown["balance"]["sticky"]["secret"], MASK);
        assert_eq!(shown["endpoints"], value["endpoints"]);
        let mut written = shown.clone();
        assert_eq!(unmasked(&mut written, Some(&value)), Ok(()));
        assert_eq!(written, value);
        let mut written = shown;
        assert_eq!(unmasked(&mut written, None), Err("/balance/sticky/secret".to_owned()));
        let variable = json!({"secret": "${STICKY}"});
        assert_eq!(masked(&variable), variable);
    }
}
