//! Consumers: APISIX's form to the gateway's.
//!
//! A key or a password stands in the object as its hash, which is all that the gateway wants of it. The secret of tokens stands
//! there itself, and is shown to nobody.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tollgate_config::MASK;

use super::fields::Fields;
use super::objects::{self, Objects, Of};
use super::plugins::{self, Tokens};

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
            // Signatures want the secret itself.
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
                json!(bcrypt::hash(text, COST).map_err(|_| format!("`plugins{pointer}` cannot be hashed"))?)
            }
        };
    }
    Ok(())
}

/// Where secrets stand.
const SECRETS: [(&str, &str); 3] = [("key-auth", "key"), ("basic-auth", "password"), ("jwt-auth", "secret")];

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

/// The consumer's document, of what it says itself and of its credentials.
///
/// # Errors
/// What has no counterpart, by its name.
pub fn document(
    objects: &Objects,
    name: &str,
    group: Option<String>,
    mut fields: Fields,
) -> Result<Value, String> {
    fields.only("username", &[json!(name)])?;
    let plugins = fields.take("plugins").map(plugins::map).transpose()?.unwrap_or_default();
    fields.end()?;
    let mut shown = Shown::default();
    shown.all(name, plugins, "")?;
    for id in objects.credentials(name) {
        let Some(object) = objects.get(Of::Credentials, &id) else { continue };
        shown.all(
            name,
            credential(object.clone())?,
            &format!("{}: ", objects::document(&(Of::Credentials, id))),
        )?;
    }
    let mut out = Map::new();
    if let Some(group) = group {
        out.insert("groups".to_owned(), json!([group]));
    }
    if !shown.keys.is_empty() {
        out.insert("api_keys".to_owned(), json!(shown.keys));
    }
    out.extend(shown.password.map(|password| ("password".to_owned(), password)));
    Ok(Value::Object(out))
}

/// The plugins of a credential.
///
/// # Errors
/// What has no counterpart, by its name.
pub fn credential(object: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut fields = Fields::new(object, "");
    super::derive::described(&mut fields)?;
    let plugins = fields.take("plugins").map(plugins::map).transpose()?.unwrap_or_default();
    fields.end()?;
    if let Some(other) = plugins.keys().find(|name| !AUTHENTICATE.contains(&name.as_str())) {
        return Err(format!("`plugins/{other}`: a credential has `key-auth`, `basic-auth` or `jwt-auth`"));
    }
    Ok(plugins)
}

/// The plugins by which a consumer is known.
const AUTHENTICATE: [&str; 3] = ["key-auth", "basic-auth", "jwt-auth"];

/// What a consumer shows.
#[derive(Default)]
struct Shown {
    keys: Vec<String>,
    password: Option<Value>,
}

impl Shown {
    fn all(&mut self, name: &str, plugins: Map<String, Value>, whose: &str) -> Result<(), String> {
        plugins.into_iter().try_for_each(|(plugin, conf)| {
            self.one(name, &plugin, conf).map_err(|message| format!("{whose}{message}"))
        })
    }

    fn one(&mut self, name: &str, plugin: &str, conf: Value) -> Result<(), String> {
        let mut conf = Fields::of(conf, &format!("plugins/{plugin}"))?;
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
                        "{}: a consumer has one password here; write a consumer of its own for a second one",
                        conf.place("password")
                    ));
                }
            }
            // The routes that ask for tokens have its key.
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

/// What verifies a consumer's tokens.
#[derive(Debug)]
pub struct TokenKey {
    /// What its tokens have in the claim that says whose they are.
    pub key: String,
    secret: String,
    algorithm: String,
}

/// `jwt-auth` of a consumer.
///
/// # Errors
/// What has no counterpart, by its name.
fn token_key(conf: &mut Fields) -> Result<TokenKey, String> {
    let key =
        conf.text("key")?.ok_or_else(|| conf.wrong("key", "what its tokens have in the claim `key`"))?;
    if conf.take("public_key").is_some() {
        return Err(format!(
            "{}: a public key stands in a file, or at a URL: write `policies.jwt` with `jwks` at the route, over /api/v1",
            conf.place("public_key")
        ));
    }
    let algorithm = conf.text("algorithm")?.unwrap_or_else(|| "HS256".to_owned());
    if !matches!(algorithm.as_str(), "HS256" | "HS384" | "HS512") {
        return Err(conf.wrong("algorithm", "`HS256`, `HS384` or `HS512`"));
    }
    let secret = conf.text("secret")?.filter(|secret| secret.len() >= 32);
    let secret = secret.ok_or_else(|| {
        conf.wrong(
            "secret",
            "a text of at least 32 bytes: from a token and a shorter one, others could find it out",
        )
    })?;
    conf.only("base64_secret", &[json!(false)])?;
    conf.only("lifetime_grace_period", &[json!(0)])?;
    // For how long APISIX would sign: here nobody signs.
    conf.number("exp")?;
    Ok(TokenKey { key, secret, algorithm })
}

/// A consumer whose tokens a route admits.
pub struct TokenOwner {
    /// Its name.
    pub consumer: String,
    /// Its consumer group.
    pub group: Option<String>,
    /// The value of the claim by which its tokens name it.
    pub key: String,
}

/// `jwt-auth` of all consumers and of their credentials, by the names of the consumers.
fn token_confs(objects: &Objects) -> impl Iterator<Item = (&str, &Value)> {
    let own = objects.all(Of::Consumers);
    let credentials =
        objects.all(Of::Credentials).filter_map(|(id, object)| Some((id.split('/').next()?, object)));
    own.chain(credentials).filter_map(|(name, object)| Some((name, object.get("plugins")?.get("jwt-auth")?)))
}

/// The policies that let those in whose tokens consumers' keys verify, and all keys. Each token is verified by the key of the
/// consumer that it names, and by no other.
pub fn tokens(objects: &Objects, tokens: &Tokens) -> (Map<String, Value>, Vec<TokenOwner>) {
    let mut keys = Vec::new();
    let mut alternatives = Vec::new();
    for (name, conf) in token_confs(objects) {
        let group = objects.get(Of::Consumers, name).and_then(|consumer| consumer.get("group_id"));
        let group = group.and_then(objects::named);
        let conf = Fields::of(conf.clone(), "plugins/jwt-auth");
        // What is wrong with it was told when it was written.
        let Ok(key) = conf.and_then(|mut conf| token_key(&mut conf)) else { continue };
        // Its owner can sign whatever it likes: nothing but what is compared says anything.
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
        // Nobody can come.
        0 => drop(policies.insert("ip".to_owned(), json!({ "deny": ["0.0.0.0/0", "::/0"] }))),
        1 => drop(policies.insert("jwt".to_owned(), alternatives.swap_remove(0))),
        _ => {
            let all: Vec<_> = alternatives.into_iter().map(|jwt| json!({ "jwt": jwt })).collect();
            policies.insert("any_of".to_owned(), json!(all));
        }
    }
    (policies, keys)
}
