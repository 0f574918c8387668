//! Masks secrets: a client may write them, but never reads them back.
//!
//! The API serves [`masked`] documents. If a client writes one back, [`unmasked`] restores the secrets from
//! the previous document.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, PoisonError, RwLock};

use serde_json::Value;

use super::pointer::escape;
use super::{ResourceKind, kinds};
use crate::secrets::{holds_private_key as holds_key, is_variable};
use crate::spec::sections;

/// The text shown in place of a secret.
pub const MASK: &str = "(secret)";

/// All keys of the configuration whose values are secret.
static SECRET_KEYS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let keys = sections().into_iter().flat_map(|section| section.keys);
    keys.filter(|key| key.secret).map(|key| key.name).collect()
});

/// Request fields that carry credentials (RFC 9110, sections 11.6.2 and 11.7.2); a configured value for one
/// is also secret. `Cookie` is not included, because the configuration has a key of that name that holds a
/// cookie's name. The last two are keys of APISIX plugins.
pub(crate) const CREDENTIAL_KEYS: [&str; 5] =
    ["authorization", "proxy-authorization", "x-api-key", "redis_password", "sentinel_password"];

/// Secret keys by plugin. The program that registers the plugins sets them once.
static PLUGIN_SECRETS: LazyLock<RwLock<HashMap<String, HashSet<String>>>> = LazyLock::new(RwLock::default);

/// Declares the values of these keys secret, at any depth of a plugin's settings.
pub fn register_plugin_secrets(plugin: &str, keys: &[&str]) {
    let mut plugins = PLUGIN_SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    plugins.entry(plugin.to_owned()).or_default().extend(keys.iter().map(|key| (*key).to_owned()));
}

pub(crate) fn is_secret_of_plugin(plugin: &str, key: &str) -> bool {
    let plugins = PLUGIN_SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    plugins.get(plugin).is_some_and(|keys| keys.contains(key))
}

/// The part of a key's value that is secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SecretRule {
    #[default]
    Nothing,
    /// The whole value; in a mapping, every value.
    Whole,
    /// The URL, if it contains a password.
    Url,
}

/// Position of a value: its key, whether it is in a plugin's settings, and its secret part.
#[derive(Clone, Copy, Default)]
struct ValuePosition<'a> {
    key: &'a str,
    /// Whether its keys are names of plugins.
    names: bool,
    plugin: Option<&'a str>,
    secret: SecretRule,
}

impl<'a> ValuePosition<'a> {
    /// Returns the position of a document's root. The root of a policy set corresponds to the value of
    /// `policies` elsewhere.
    fn root(kind: &ResourceKind) -> Self {
        let key = if kind.index == kinds::POLICIES { "policies" } else { "" };
        Self { key, ..Self::default() }
    }

    /// Returns the position of the value under `key`.
    fn child(self, key: &'a str) -> Self {
        let names = self.plugin.is_none() && self.key == "policies" && key == "plugins";
        let plugin = self.plugin.or_else(|| self.names.then_some(key));
        let known =
            SECRET_KEYS.contains(key) || CREDENTIAL_KEYS.iter().any(|name| key.eq_ignore_ascii_case(name));
        let of_plugin = self.plugin.is_some_and(|plugin| is_secret_of_plugin(plugin, key));
        let secret = match (self.secret, key, self.key) {
            (SecretRule::Whole, ..) => SecretRule::Whole,
            _ if known && !self.names || of_plugin => SecretRule::Whole,
            (_, "url", "redis") => SecretRule::Url,
            _ => SecretRule::Nothing,
        };
        Self { key, names, plugin, secret }
    }
}

impl SecretRule {
    fn is_secret(self, text: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Whole => !is_variable(text),
            Self::Url => !is_variable(text) && text.contains('@'),
        }
    }
}

/// Returns a document with its secrets masked. Values that name an environment variable reveal nothing and
/// are kept.
#[must_use]
pub fn masked(kind: &ResourceKind, value: &Value) -> Value {
    mask_value(value, ValuePosition::root(kind))
}

fn mask_value(value: &Value, position: ValuePosition<'_>) -> Value {
    match value {
        Value::Object(entries) => {
            let entries =
                entries.iter().map(|(key, value)| (key.clone(), mask_value(value, position.child(key))));
            Value::Object(entries.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| mask_value(item, position)).collect()),
        Value::String(text) if position.secret.is_secret(text) || holds_key(text) => Value::from(MASK),
        Value::Number(_) if position.secret == SecretRule::Whole => Value::from(MASK),
        other => other.clone(),
    }
}

/// Keys that may hold an inline private key.
const PEM_KEYS: [&str; 2] = ["certificate", "key"];

/// Restores the secrets behind the masks of a document, so that a client can write back what it read.
/// `before` is the previous document, which supplies them.
///
/// # Errors
/// Returns the pointer to a mask for which no secret is known.
pub fn unmasked(kind: &ResourceKind, value: &mut Value, before: Option<&Value>) -> Result<(), String> {
    unmask_value(value, before, ValuePosition::root(kind))
}

fn unmask_value(
    value: &mut Value,
    before: Option<&Value>,
    position: ValuePosition<'_>,
) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let before = before.and_then(|before| before.get(key));
                unmask_value(value, before, position.child(key)).map_err(|rest| escape(key) + &rest)?;
            }
        }
        Value::Array(items) => {
            let known = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let count = items.len();
            for (index, item) in items.iter_mut().enumerate() {
                // Each other item is compared with the previous list, and a list of addresses may be long.
                if !holds_mask(item) {
                    continue;
                }
                let before = matching_entry(item, (index, count), known, position);
                unmask_value(item, before, position).map_err(|rest| format!("/{index}{rest}"))?;
            }
        }
        Value::String(text) if text == MASK => match before {
            Some(Value::String(known)) if holds_key(known) => *value = Value::from(known.as_str()),
            // A value without a private key is shown unmasked, so no client can have read a mask here.
            _ if PEM_KEYS.contains(&position.key) => return Err(String::new()),
            before if position.secret != SecretRule::Nothing => {
                *value = before.cloned().ok_or_else(String::new)?;
            }
            _ => {}
        },
        _ => {}
    }
    Ok(())
}

/// Returns whether a value contains a mask.
fn holds_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text == MASK,
        Value::Array(items) => items.iter().any(holds_mask),
        Value::Object(entries) => entries.values().any(holds_mask),
        _ => false,
    }
}

/// Returns the previous entry of a list that corresponds to `item`. A client may have reordered or removed
/// entries, and each must keep its own secrets. Returns `None` if the correspondence is uncertain.
fn matching_entry<'v>(
    item: &Value,
    (index, count): (usize, usize),
    known: &'v [Value],
    position: ValuePosition<'_>,
) -> Option<&'v Value> {
    let same = |known: &&Value| mask_value(known, position) == *item;
    let in_place = known.get(index);
    if let Some(unchanged) = in_place.filter(same).or_else(|| known.iter().find(same)) {
        return Some(unchanged);
    }
    // The entry was edited. A token issuer is matched by its name; any other entry by its index, if no key of
    // the previous entry is missing.
    let Value::Object(entries) = item else { return in_place };
    if let Some(issuer) = entries.get("issuer") {
        return known.iter().find(|known| known.get("issuer") == Some(issuer));
    }
    let has_its_keys = |known: &&Value| {
        known.as_object().is_some_and(|known| known.keys().all(|key| entries.contains_key(key)))
    };
    in_place.filter(|_| known.len() == count).filter(has_its_keys)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::documents::kind;

    fn route() -> &'static ResourceKind {
        kind("routes").expect("a kind")
    }

    #[test]
    fn secrets_are_covered_and_kept_when_they_are_written_back() {
        let value = json!({"balance": {"sticky": {"cookie": "c", "secret": "hunter2-hunter2"}}, "endpoints": ["h:1"]});
        let shown = masked(route(), &value);
        assert_eq!(shown["balance"]["sticky"]["secret"], MASK);
        assert_eq!(shown["endpoints"], value["endpoints"]);
        let mut written = shown.clone();
        assert_eq!(unmasked(route(), &mut written, Some(&value)), Ok(()));
        assert_eq!(written, value);
        let mut written = shown;
        assert_eq!(unmasked(route(), &mut written, None), Err("/balance/sticky/secret".to_owned()));
        let value = json!({"policies": {
            "headers": {"request": {"set": {"Authorization": "Basic Zm9v", "X-Plain": "p"}}},
            "rate_limit": {"redis": {"url": "redis://u:p@h", "password": "p"}},
            "jwt": {"secret": "x", "url": "https://u@h"},
        }});
        let shown = masked(route(), &value);
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
        assert_eq!((unmasked(route(), &mut written, Some(&value)), &written), (Ok(()), &value));
        // Secrets in a mapping by name. A client that omits one removes it.
        let value =
            json!({"hmac_keys": {"ann-1": "0123456789abcdef", "url": "fedcba9876543210"}, "groups": ["a"]});
        let mut written = masked(route(), &value);
        assert_eq!(written, json!({"hmac_keys": {"ann-1": MASK, "url": MASK}, "groups": ["a"]}));
        written["hmac_keys"].as_object_mut().expect("a mapping").shift_remove("ann-1");
        assert_eq!(unmasked(route(), &mut written, Some(&value)), Ok(()));
        assert_eq!(written["hmac_keys"], json!({"url": "fedcba9876543210"}));
        let mut new = json!({"hmac_keys": {"b/c": MASK}});
        assert_eq!(unmasked(route(), &mut new, Some(&value)), Err("/hmac_keys/b~1c".to_owned()));
        // A private key is masked anywhere, but the path of a key file is not.
        let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (value, shown) in [
            (json!({"certificate": chain, "key": pem}), json!({"certificate": chain, "key": MASK})),
            (json!({"certificate": format!("{chain}{pem}")}), json!({"certificate": MASK})),
            (
                json!({"certificate": "a.pem", "key": "a.key"}),
                json!({"certificate": "a.pem", "key": "a.key"}),
            ),
        ] {
            let mut written = masked(route(), &value);
            assert_eq!(written, shown);
            assert_eq!((unmasked(route(), &mut written, Some(&value)), &written), (Ok(()), &value));
        }
        let mut new = json!({"certificate": chain, "key": MASK});
        assert_eq!(unmasked(route(), &mut new.clone(), None), Err("/key".to_owned()));
        assert_eq!(unmasked(route(), &mut new, Some(&json!({"key": "a.key"}))), Err("/key".to_owned()));
        let variable = json!({"secret": "${STICKY}"});
        assert_eq!(masked(route(), &variable), variable);
    }

    #[test]
    fn entries_of_a_list_keep_their_own_secrets() {
        let one = |issuer: &str, secret: &str| json!({"issuer": issuer, "secret": secret});
        let alternatives = |issuers: Value| json!({"policies": {"any_of": [{"jwt": {"issuers": issuers}}]}});
        let before = alternatives(json!([one("a", "secret of a"), one("b", "secret of b")]));
        let back = |issuers: Value| {
            let mut written = alternatives(issuers);
            unmasked(route(), &mut written, Some(&before)).map(|()| written)
        };
        assert_eq!(masked(route(), &before), alternatives(json!([one("a", MASK), one("b", MASK)])));
        let turned = alternatives(json!([one("b", "secret of b"), one("a", "secret of a")]));
        assert_eq!(back(json!([one("b", MASK), one("a", MASK)])), Ok(turned));
        assert_eq!(back(json!([one("b", MASK)])), Ok(alternatives(json!([one("b", "secret of b")]))));
        let changed = |secret: &str| json!({"issuer": "b", "secret": secret, "audience": "x"});
        assert_eq!(back(json!([changed(MASK)])), Ok(alternatives(json!([changed("secret of b")]))));
        let pointer = "/policies/any_of/0/jwt/issuers/0/secret";
        assert_eq!(back(json!([one("c", MASK)])), Err(pointer.to_owned()));
    }

    /// A pairwise comparison would take minutes.
    #[test]
    fn a_long_list_without_masks_is_compared_with_nothing() {
        let list = |from: u32| (from..from + 50_000).map(|n| n.to_string()).collect::<Vec<_>>();
        let value = |from: u32| json!({"policies": {"ip": {"deny": list(from)}, "jwt": {"secret": "s"}}});
        let mut written = masked(route(), &value(1));
        assert_eq!(unmasked(route(), &mut written, Some(&value(0))), Ok(()));
        assert_eq!(written, value(1));
    }

    #[test]
    fn what_a_plugin_calls_secret_is_covered_in_its_settings_and_nowhere_else() {
        register_plugin_secrets("lock", &["code", "codes"]);
        let value = json!({"code": 1, "policies": {"plugins": {
            "lock": {"codes": ["1", "2"], "deep": [{"code": "x"}], "hint": "y"},
            "other": {"code": "z"}, "code": "off"
        }}});
        let shown = masked(route(), &value);
        let lock = &shown["policies"]["plugins"]["lock"];
        assert_eq!(lock, &json!({"codes": [MASK, MASK], "deep": [{"code": MASK}], "hint": "y"}));
        assert_eq!(
            (&shown["code"], &shown["policies"]["plugins"]["other"]["code"]),
            (&json!(1), &json!("z"))
        );
        assert_eq!(shown["policies"]["plugins"]["code"], "off");
        let mut written = shown;
        assert_eq!((unmasked(route(), &mut written, Some(&value)), &written), (Ok(()), &value));
    }

    #[test]
    fn a_set_of_policies_is_what_stands_under_policies() {
        register_plugin_secrets("bolt", &["code"]);
        let set = kind("policies").expect("a kind");
        let value = json!({
            "jwt": {"secret": "x"},
            "headers": {"request": {"set": {"Authorization": "Basic Zm9v"}}},
            "rate_limit": {"redis": {"url": "redis://u:p@h"}},
            "plugins": {"bolt": {"code": "x"}, "code": {"code": "z"}, "secret": "on"}
        });
        let shown = masked(set, &value);
        for pointer in ["/jwt/secret", "/headers/request/set/Authorization", "/rate_limit/redis/url"] {
            assert_eq!(shown.pointer(pointer), Some(&json!(MASK)), "{pointer}");
        }
        assert_eq!(
            shown["plugins"],
            json!({"bolt": {"code": MASK}, "code": {"code": "z"}, "secret": "on"}),
            "keys of a plugin's settings, and not the plugins' names"
        );
        let mut written = shown;
        assert_eq!((unmasked(set, &mut written, Some(&value)), &written), (Ok(()), &value));
        let mut new = json!({"plugins": {"bolt": {"code": MASK}}});
        assert_eq!(unmasked(set, &mut new, None), Err("/plugins/bolt/code".to_owned()));
    }
}
