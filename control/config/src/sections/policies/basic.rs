//! `basic`: admits requests with a consumer's name and password.

use std::time::Duration;

use super::IdentityHeaders;
use crate::section::{Field, Reader, ScalarError, Section};

/// Admits requests with the name and password of one of the `consumers` (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "basic_policy", noun = "`basic`", switch)]
pub struct Basic {
    /// The realm that browsers show.
    #[key(expected = "a text such as `staff only`", pattern = "^[^\"\\\\]+$", loose, parse = realm, default = restricted)]
    pub realm: String,
    /// Whether the password is forwarded upstream.
    #[key(default = off, also = ["keep", "hide_credentials"])]
    pub forward: bool,
    /// How long a verified password is cached.
    #[key(time = "1s"..="1h", off, read = cache, default = "1m")]
    pub cache: Duration,
    /// Whether a request without such a credential passes, without a consumer. An invalid credential is still
    /// rejected (401).
    #[key(default = off)]
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
    #[key(flatten)]
    pub identity: IdentityHeaders,
}

/// Reads how long a password is cached; zero: not at all.
fn cache(reader: &mut Reader, field: Field<'_>) -> Option<Duration> {
    reader.duration(Some(field)).map(Option::unwrap_or_default)
}

/// Checks a realm, which is sent between quotes in a header field.
fn realm(text: &str) -> Result<String, ScalarError> {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\';
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} cannot be a realm").help("printable ASCII, without `\"` and `\\`")),
    }
}
