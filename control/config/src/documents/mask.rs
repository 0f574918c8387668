//! Secrets are written, and never read back.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, PoisonError, RwLock};

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

/// Plugins' keys whose values are secret, by plugin: said once, by the program that has the plugins.
static PLUGINS: LazyLock<RwLock<HashMap<String, HashSet<String>>>> = LazyLock::new(RwLock::default);

/// Has the values of these keys, at any depth of the settings of a plugin, be secret.
pub fn hide_in_plugin(plugin: &str, keys: &[&str]) {
    let mut plugins = PLUGINS.write().unwrap_or_else(PoisonError::into_inner);
    plugins.entry(plugin.to_owned()).or_default().extend(keys.iter().map(|key| (*key).to_owned()));
}

fn is_secret_of_plugin(plugin: &str, key: &str) -> bool {
    let plugins = PLUGINS.read().unwrap_or_else(PoisonError::into_inner);
    plugins.get(plugin).is_some_and(|keys| keys.contains(key))
}

/// Where a mapping stands: under which key, and whether in a plugin's settings.
#[derive(Clone, Copy, Default)]
struct Within<'a> {
    key: &'a str,
    /// Its keys are names of plugins.
    names: bool,
    plugin: Option<&'a str>,
}

impl<'a> Within<'a> {
    /// One mapping deeper.
    fn under(self, key: &'a str) -> Self {
        let names = self.plugin.is_none() && self.key == "policies" && key == "plugins";
        Self { key, names, plugin: self.plugin.or_else(|| self.names.then_some(key)) }
    }
}

/// Whether a secret can stand under this key of a mapping that stands there.
fn is_secret_key(key: &str, within: Within<'_>) -> bool {
    let named = SECRET.contains(key) || CREDENTIALS.iter().any(|name| key.eq_ignore_ascii_case(name));
    let of_plugin = within.plugin.is_some_and(|plugin| is_secret_of_plugin(plugin, key));
    named && !within.names || of_plugin || (key == "url" && within.key == "redis")
}

fn is_secret(key: &str, value: &Value, within: Within<'_>) -> bool {
    if !is_secret_key(key, within) {
        return false;
    }
    match value {
        // What a plugin says of its own key holds for all that is under it.
        Value::Array(_) | Value::Object(_) => {
            within.plugin.is_some_and(|plugin| is_secret_of_plugin(plugin, key))
        }
        // A URL is a secret if there is a password in it.
        Value::String(text) => !is_variable(text) && (key != "url" || text.contains('@')),
        Value::Number(_) => true,
        _ => false,
    }
}

/// The value with its secrets covered. What names a variable of the environment tells nothing and stays.
#[must_use]
pub fn masked(value: &Value) -> Value {
    covered(value, Within::default())
}

fn covered(value: &Value, within: Within<'_>) -> Value {
    match value {
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| {
                    let secret = is_secret(key, value, within);
                    (key.clone(), if secret { Value::from(MASK) } else { covered(value, within.under(key)) })
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
    uncovered(value, before, Within::default())
}

fn uncovered(value: &mut Value, before: Option<&Value>, within: Within<'_>) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let before = before.and_then(|before| before.get(key));
                let path = || format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                if is_secret_key(key, within) && value.as_str() == Some(MASK) {
                    *value = before.cloned().ok_or_else(path)?;
                } else {
                    uncovered(value, before, within.under(key)).map_err(|rest| path() + &rest)?;
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
    #[test]
    fn what_a_plugin_calls_secret_is_covered_in_its_settings_and_nowhere_else() {
        hide_in_plugin("lock", &["code", "codes"]);
        let value = json!({"code": 1, "policies": {"plugins": {
            "lock": {"codes": ["1", "2"], "deep": [{"code": "x"}], "hint": "y"},
            "other": {"code": "z"}, "code": "off"
        }}});
        let shown = masked(&value);
        let lock = &shown["policies"]["plugins"]["lock"];
        assert_eq!(lock, &json!({"codes": MASK, "deep": [{"code": MASK}], "hint": "y"}));
        assert_eq!(
            (&shown["code"], &shown["policies"]["plugins"]["other"]["code"]),
            (&json!(1), &json!("z"))
        );
        assert_eq!(shown["policies"]["plugins"]["code"], "off");
        let mut written = shown;
        assert_eq!((unmasked(&mut written, Some(&value)), &written), (Ok(()), &value));
    }
}
