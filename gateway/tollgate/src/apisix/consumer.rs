//! Consumers: APISIX's form to the gateway's.
//!
//! A key or a password stands in the object as its hash, which is all that the gateway wants of it.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tollgate_config::MASK;

use super::fields::Fields;
use super::plugins;

/// The cost of bcrypt: some 60 ms of a core for each password that is not remembered.
const COST: u32 = 10;

/// Puts hashes in the place of secrets; a secret that is written as it is shown stays what it was.
///
/// # Errors
/// One cannot be hashed, or there was none.
pub fn hashed(object: &mut Map<String, Value>, before: Option<&Map<String, Value>>) -> Result<(), String> {
    for (plugin, key) in SECRETS {
        let pointer = format!("/{plugin}/{key}");
        let known = before.and_then(|before| before.get("plugins")?.pointer(&pointer)).cloned();
        let Some(secret) = object.get_mut("plugins").and_then(|plugins| plugins.pointer_mut(&pointer)) else {
            continue;
        };
        let Some(text) = secret.as_str() else { continue };
        *secret = match (text, plugin) {
            (MASK, _) => {
                known.ok_or_else(|| format!("`plugins{pointer}` is `{MASK}`, and there is none yet"))?
            }
            ("", _) => return Err(format!("`plugins{pointer}` is empty")),
            (hash, "key-auth") if is_digest(hash) => continue,
            (text, "key-auth") => {
                let digits: String = digest(&SHA256, text.as_bytes())
                    .as_ref()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                json!(format!("sha256:{digits}"))
            }
            (hash, _) if hash.starts_with("$2") || hash.starts_with("$argon2") => continue,
            (text, _) => {
                if text.len() > 72 {
                    return Err(format!("`plugins{pointer}` has more than 72 bytes"));
                }
                json!(bcrypt::hash(text, COST).map_err(|_| format!("`plugins{pointer}` cannot be hashed"))?)
            }
        };
    }
    Ok(())
}

/// Where secrets stand.
const SECRETS: [(&str, &str); 2] = [("key-auth", "key"), ("basic-auth", "password")];

/// The object as it is shown: secrets are not.
pub fn masked(object: &mut Map<String, Value>) {
    for (plugin, key) in SECRETS {
        let plugins = object.get_mut("plugins");
        if let Some(secret) = plugins.and_then(|plugins| plugins.pointer_mut(&format!("/{plugin}/{key}"))) {
            *secret = json!(MASK);
        }
    }
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The consumer's document.
///
/// # Errors
/// What has no counterpart, by its name.
pub fn document(name: &str, group: Option<String>, mut fields: Fields) -> Result<Value, String> {
    fields.only("username", &[json!(name)])?;
    let plugins = fields.take("plugins").map(plugins::map).transpose()?.unwrap_or_default();
    fields.end()?;
    let mut out = Map::new();
    if let Some(group) = group {
        out.insert("groups".to_owned(), json!([group]));
    }
    for (plugin, conf) in plugins {
        let mut conf = Fields::of(conf, &format!("plugins/{plugin}"))?;
        match plugin.as_str() {
            "key-auth" => {
                let key = conf.text("key")?.ok_or_else(|| conf.wrong("key", "a key"))?;
                out.insert("api_keys".to_owned(), json!([key]));
            }
            "basic-auth" => {
                conf.only("username", &[json!(name)]).map_err(|error| {
                    format!("{error}: who a password belongs to is told by the consumer's own name")
                })?;
                let password = conf.text("password")?.ok_or_else(|| conf.wrong("password", "a password"))?;
                out.insert("password".to_owned(), json!(password));
            }
            "jwt-auth" => {
                return Err("`plugins/jwt-auth`: a consumer has no key for tokens here; write `policies.jwt` with the issuer's \
                            keys at the route, over /api/v1"
                    .to_owned());
            }
            "hmac-auth" => {
                return Err("`plugins/hmac-auth`: signatures are those of RFC 9421 here; write `hmac_keys` of the consumer and \
                            `policies.hmac`, over /api/v1"
                    .to_owned());
            }
            _ => {
                return Err(format!(
                    "`plugins/{plugin}`: a consumer has `key-auth` and `basic-auth` here; write it at the route, with \
                     `consumer_name` as the key of a limit"
                ));
            }
        }
        conf.end()?;
    }
    Ok(Value::Object(out))
}
