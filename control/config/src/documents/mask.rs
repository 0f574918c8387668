//! Masks secrets: a client may write them, but never reads them back.
//!
//! The API serves [`masked`] documents. If a client writes one back, [`unmasked`] restores the secrets from
//! the previous document.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::pointer::escape;
use super::{ResourceKind, kinds};
use crate::credentials::{
    CREDENTIAL_KEYS, MASK, holds_private_key as holds_key, is_secret_of_plugin, is_variable,
};
use crate::spec::sections;

/// All keys of the configuration whose values are secret.
static SECRET_KEYS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let keys = sections().into_iter().flat_map(|section| section.keys);
    keys.filter(|key| key.secret).map(|key| key.name).collect()
});

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
