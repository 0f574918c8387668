//! Converts APISIX consumers to the gateway's.
//!
//! Keys and passwords are stored only as hashes: the gateway needs no more. The secret of a
//! consumer's tokens is stored itself, and is never shown.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tollgate_config::MASK;

use super::fields::ObjectFields;
use super::objects::{ObjectId, ObjectKind, Objects, id_text};
use super::plugins::{self, TokenSettings};

/// The cost of bcrypt. Verifying a password that is not cached takes some 60 ms of a core.
const BCRYPT_COST: u32 = 10;

/// Replaces secrets by their hashes. A secret that equals the mask keeps its old value.
///
/// # Errors
/// A secret cannot be hashed, or is the mask while there is no old value.
pub fn hash_secrets(
    object: &mut Map<String, Value>,
    before: Option<&Map<String, Value>>,
) -> Result<(), String> {
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
            // Verifying signatures requires the secret itself.
            (_, "jwt-auth") => continue,
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
                json!(
                    bcrypt::hash(text, BCRYPT_COST)
                        .map_err(|_| format!("`plugins{pointer}` cannot be hashed"))?
                )
            }
        };
    }
    Ok(())
}

/// The plugins and keys that hold secrets.
const SECRETS: [(&str, &str); 3] = [("key-auth", "key"), ("basic-auth", "password"), ("jwt-auth", "secret")];

/// Masks the secrets of an object before it is shown.
pub fn mask_secrets(object: &mut Map<String, Value>) {
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

/// Returns the consumer's document, made from the object and its credentials.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn document(
    objects: &Objects,
    name: &str,
    group: Option<String>,
    mut fields: ObjectFields,
) -> Result<Value, String> {
    fields.only("username", &[json!(name)])?;
    let plugins = fields.take("plugins").map(plugins::plugins_object).transpose()?.unwrap_or_default();
    fields.end()?;
    let mut credentials = ConsumerCredentials::default();
    credentials.add_all(name, plugins, "")?;
    for id in objects.credentials(name) {
        let Some(object) = objects.get(ObjectKind::Credentials, &id) else { continue };
        credentials.add_all(
            name,
            credential(object.clone())?,
            &format!("{}: ", ObjectId::new(ObjectKind::Credentials, id).document()),
        )?;
    }
    let mut out = Map::new();
    if let Some(group) = group {
        out.insert("groups".to_owned(), json!([group]));
    }
    if !credentials.keys.is_empty() {
        out.insert("api_keys".to_owned(), json!(credentials.keys));
    }
    out.extend(credentials.password.map(|password| ("password".to_owned(), password)));
    Ok(Value::Object(out))
}

/// Returns the plugins of a credential.
///
/// # Errors
/// Names a setting that has no counterpart here.
pub fn credential(object: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut fields = ObjectFields::new(object, "");
    super::parts::take_description(&mut fields)?;
    let plugins = fields.take("plugins").map(plugins::plugins_object).transpose()?.unwrap_or_default();
    fields.end()?;
    if let Some(other) = plugins.keys().find(|name| !AUTHENTICATION_PLUGINS.contains(&name.as_str())) {
        return Err(format!("`plugins/{other}`: a credential has `key-auth`, `basic-auth` or `jwt-auth`"));
    }
    Ok(plugins)
}

/// The plugins that authenticate a consumer.
const AUTHENTICATION_PLUGINS: [&str; 3] = ["key-auth", "basic-auth", "jwt-auth"];

/// The credentials of a consumer.
#[derive(Default)]
struct ConsumerCredentials {
    keys: Vec<String>,
    password: Option<Value>,
}

impl ConsumerCredentials {
    fn add_all(&mut self, name: &str, plugins: Map<String, Value>, origin: &str) -> Result<(), String> {
        plugins.into_iter().try_for_each(|(plugin, conf)| {
            self.add_plugin(name, &plugin, conf).map_err(|message| format!("{origin}{message}"))
        })
    }

    fn add_plugin(&mut self, name: &str, plugin: &str, conf: Value) -> Result<(), String> {
        let mut conf = ObjectFields::of(conf, &format!("plugins/{plugin}"))?;
        match plugin {
            "key-auth" => {
                let key = conf.text("key")?.ok_or_else(|| conf.wrong("key", "a key"))?;
                self.keys.push(key);
            }
            "basic-auth" => {
                conf.only("username", &[json!(name)])
                    .map_err(|error| format!("{error}: a password belongs to the consumer of that name"))?;
                let password = conf.text("password")?.ok_or_else(|| conf.wrong("password", "a password"))?;
                if self.password.replace(json!(password)).is_some() {
                    return Err(format!(
                        "{}: a consumer has one password here; create another consumer for a second one",
                        conf.place("password")
                    ));
                }
            }
            // The secret goes to the routes that require tokens.
            "jwt-auth" => drop(token_key(&mut conf)?),
            "hmac-auth" => {
                return Err("`plugins/hmac-auth`: signatures are those of RFC 9421 here; write `hmac_keys` of the consumer and \
                            `policies.hmac`, over /api/v1"
                    .to_owned());
            }
            _ => {
                return Err(format!(
                    "`plugins/{plugin}`: a consumer has `key-auth`, `basic-auth` and `jwt-auth` here; write the plugin at the \
                     route"
                ));
            }
        }
        conf.end()
    }
}

/// The key that verifies a consumer's tokens.
#[derive(Debug)]
pub struct TokenKey {
    /// The value of the claim by which its tokens name the consumer.
    pub key: String,
    secret: String,
    algorithm: String,
}

/// Converts `jwt-auth` of a consumer.
///
/// # Errors
/// Names a setting that has no counterpart here.
fn token_key(conf: &mut ObjectFields) -> Result<TokenKey, String> {
    let key =
        conf.text("key")?.ok_or_else(|| conf.wrong("key", "the value of the claim `key` in its tokens"))?;
    if conf.take("public_key").is_some() {
        return Err(format!(
            "{}: a public key comes from a file or a URL: write `policies.jwt` with `jwks` of the route, over /api/v1",
            conf.place("public_key")
        ));
    }
    let algorithm = conf.text("algorithm")?.unwrap_or_else(|| "HS256".to_owned());
    if !matches!(algorithm.as_str(), "HS256" | "HS384" | "HS512") {
        return Err(conf.wrong("algorithm", "`HS256`, `HS384` or `HS512`"));
    }
    let secret = conf.text("secret")?.filter(|secret| secret.len() >= 32);
    let secret = secret.ok_or_else(|| {
        conf.wrong("secret", "a text of at least 32 bytes: a shorter one could be guessed from a token")
    })?;
    conf.only("base64_secret", &[json!(false)])?;
    conf.only("lifetime_grace_period", &[json!(0)])?;
    // How long a token that APISIX signs is valid. This front signs none.
    conf.number("exp")?;
    Ok(TokenKey { key, secret, algorithm })
}

/// A consumer whose tokens a route admits.
pub struct TokenOwner {
    /// The name of the consumer.
    pub consumer: String,
    /// Its consumer group.
    pub group: Option<String>,
    /// The value of the claim by which its tokens name it.
    pub key: String,
}

/// Returns `jwt-auth` of all consumers and credentials, with the names of the consumers.
fn token_confs(objects: &Objects) -> impl Iterator<Item = (&str, &Value)> {
    let own = objects.all(ObjectKind::Consumers);
    let credentials =
        objects.all(ObjectKind::Credentials).filter_map(|(id, object)| Some((id.split('/').next()?, object)));
    own.chain(credentials).filter_map(|(name, object)| Some((name, object.get("plugins")?.get("jwt-auth")?)))
}

/// Returns the policies that admit tokens of all consumers, and the owners of the tokens. Each token is
/// verified with the key of the consumer that it names, and with no other.
pub fn tokens(objects: &Objects, tokens: &TokenSettings) -> (Map<String, Value>, Vec<TokenOwner>) {
    let mut keys = Vec::new();
    let mut alternatives = Vec::new();
    for (name, conf) in token_confs(objects) {
        let group = objects.get(ObjectKind::Consumers, name).and_then(|consumer| consumer.get("group_id"));
        let group = group.and_then(id_text);
        let conf = ObjectFields::of(conf.clone(), "plugins/jwt-auth");
        // Its errors were reported when it was written.
        let Ok(key) = conf.and_then(|mut conf| token_key(&mut conf)) else { continue };
        // The consumer holds the secret and can sign any claim. Only the claim that is compared with its key
        // identifies it.
        alternatives.push(json!({
            "secret": key.secret,
            "algorithms": [key.algorithm],
            "claims": { tokens.claim.as_str(): [key.key] },
            "consumer_claim": tokens.claim,
            "groups_claim": tokens.claim,
            "consumer_header": plugins::CONSUMER,
            "from": tokens.from,
            "forward": tokens.forward,
        }));
        keys.push(TokenOwner { consumer: name.to_owned(), group, key: key.key });
    }
    let mut policies = Map::new();
    match alternatives.len() {
        // No consumer has tokens, so the route admits no client.
        0 => drop(policies.insert("ip".to_owned(), json!({ "deny": ["0.0.0.0/0", "::/0"] }))),
        1 => drop(policies.insert("jwt".to_owned(), alternatives.swap_remove(0))),
        _ => {
            let all: Vec<_> = alternatives.into_iter().map(|jwt| json!({ "jwt": jwt })).collect();
            policies.insert("any_of".to_owned(), json!(all));
        }
    }
    (policies, keys)
}
