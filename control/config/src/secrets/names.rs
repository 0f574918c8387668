//! Recognises secrets by the names of keys, and credentials in URLs, where the spec table does not know the mapping.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use crate::credentials::CREDENTIAL_KEYS;
use crate::spec::{Conceal, sections};

/// Names of secret keys, for mappings that the spec table does not describe. Names that another section uses
/// for something else are left out.
pub(super) static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let keys = || sections().into_iter().flat_map(|section| section.keys);
    let concealed = keys().filter(|key| key.conceal == Conceal::Always);
    let names = concealed.flat_map(|key| key.aliases.iter().copied().chain([key.name]));
    let more = ["passwd", "pwd", "pass", "passphrase", "private_key", "credentials"];
    names.chain(more).filter(|name| !OTHER_NAMES.contains(name)).map(plain).collect()
});

/// Names of the keys that may hold something else than a secret.
pub(super) static OTHER_NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let keys = sections().into_iter().flat_map(|section| section.keys);
    keys.filter(|key| key.conceal != Conceal::Always).map(|key| key.name).collect()
});

pub(super) fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Returns whether a key of this name holds a secret wherever it is written.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = plain(name);
    NAMES.contains(&name)
        || CREDENTIAL_KEYS.iter().any(|known| plain(known) == name)
        || ["_password", "_secret", "_token", "_api_key"].iter().any(|end| name.ends_with(end))
}

/// Policies and settings with credentials. A single value in place of one of them, such as `jwt: KEY`, is a mistake that
/// may show a credential.
pub(super) const CREDENTIAL_SETTINGS: [&str; 12] = [
    "api_key",
    "apikey",
    "key_auth",
    "basic",
    "basic_auth",
    "basicauth",
    "auth_basic",
    "jwt",
    "jwt_auth",
    "hmac",
    "hmac_auth",
    "tokens",
];

/// Returns the part of a URL in which a user and a password stand, if there is one: `user:password` between
/// a slash and an `@`.
pub(super) fn user_info(text: &str) -> Option<Range<usize>> {
    let at = text.rfind('@')?;
    let blank = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let word =
        text[..at].char_indices().rfind(|(_, c)| blank(*c)).map_or(0, |(blank, c)| blank + c.len_utf8());
    let start = word + text[word..at].find('/')?;
    let start = start + text[start..at].bytes().take_while(|byte| *byte == b'/').count();
    text[start..at].contains(':').then_some(start..at)
}
