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

/// Fields of a request that say who sends it (RFC 9110, sections 11.6.2 and 11.7.2): where one is given a value, that is a
/// secret as well. `Cookie` is not among them: the language has a key of that name, which holds a cookie's name.
const CREDENTIALS: [&str; 3] = ["authorization", "proxy-authorization", "x-api-key"];

/// Whether a secret can stand under this key of a mapping that stands under `within`.
fn is_secret_key(key: &str, within: &str) -> bool {
    let named = SECRET.contains(key) || CREDENTIALS.iter().any(|name| key.eq_ignore_ascii_case(name));
    named || (key == "url" && within == "redis")
}

fn is_secret(key: &str, value: &Value, within: &str) -> bool {
    if !is_secret_key(key, within) {
        return false;
    }
    match value {
        // A URL is a secret if there is a password in it.
        Value::String(text) => !is_variable(text) && (key != "url" || text.contains('@')),
        Value::Number(_) => true,
        _ => false,
    }
}

/// The value with its secrets covered. What names a variable of the environment tells nothing and stays.
#[must_use]
pub fn masked(value: &Value) -> Value {
    covered(value, "")
}

fn covered(value: &Value, within: &str) -> Value {
    match value {
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| {
                    let secret = is_secret(key, value, within);
                    (key.clone(), if secret { Value::from(MASK) } else { covered(value, key) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(|item| covered(item, within)).collect()),
        other => other.clone(),
    }
}

fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}')
}

/// The value with what stands behind its masks: who writes back what was read does not change the secrets. Gives the
/// pointer to a mask behind which nothing is known.
///
/// # Errors
/// The pointer.
pub fn unmasked(value: &mut Value, before: Option<&Value>) -> Result<(), String> {
    uncovered(value, before, "")
}

fn uncovered(value: &mut Value, before: Option<&Value>, within: &str) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let before = before.and_then(|before| before.get(key));
                let path = || format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                if is_secret_key(key, within) && value.as_str() == Some(MASK) {
                    *value = before.cloned().ok_or_else(path)?;
                } else {
                    uncovered(value, before, key).map_err(|rest| path() + &rest)?;
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let before = before.and_then(|before| before.get(index));
                uncovered(item, before, within).map_err(|rest| format!("/{index}{rest}"))?;
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
        let value = json!({"policies": {
            "headers": {"request": {"set": {"Authorization": "Basic Zm9v", "X-Plain": "p"}}},
            "rate_limit": {"redis": {"url": "redis://u:p@h", "password": "p"}},
            "jwt": {"secret": "x", "url": "https://u@h"},
        }});
        let shown = masked(&value);
        let covered = [
            "/policies/headers/request/set/Authorization",
            "/policies/rate_limit/redis/url",
            "/policies/rate_limit/redis/password",
            "/policies/jwt/secret",
        ];
        for pointer in covered {
            assert_eq!(shown.pointer(pointer), Some(&json!(MASK)), "{pointer}");
        }
        assert_eq!(shown["policies"]["headers"]["request"]["set"]["X-Plain"], "p");
        assert_eq!(shown["policies"]["jwt"]["url"], "https://u@h");
        let mut written = shown;
        assert_eq!((unmasked(&mut written, Some(&value)), &written), (Ok(()), &value));
        let variable = json!({"secret": "${STICKY}"});
        assert_eq!(masked(&variable), variable);
    }
}
