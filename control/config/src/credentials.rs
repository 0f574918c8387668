//! Rules that make keys and texts secret, in addition to the table of keys.
//!
//! The masking of documents and the rendering of problems use the same rules, so neither shows what the other
//! hides.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, PoisonError, RwLock};

/// The text shown in place of a secret.
pub const MASK: &str = "(secret)";

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

/// Returns whether a plugin declared the value of this key secret.
pub(crate) fn is_secret_of_plugin(plugin: &str, key: &str) -> bool {
    let plugins = PLUGIN_SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    plugins.get(plugin).is_some_and(|keys| keys.contains(key))
}

/// Returns whether a text is exactly one `${VARIABLE}` without a default. It reveals nothing.
pub(crate) fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// Returns whether a text is, or is meant to be, PEM with a private key (RFC 7468, sections 10 and 11).
pub(crate) fn holds_private_key(text: &str) -> bool {
    text.contains("PRIVATE KEY")
}
