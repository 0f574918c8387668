//! Reads `basic`.

use std::time::Duration;

use super::shared::{identity, optional};
use crate::model::Basic;
use crate::reader::{Field, Reader};
use crate::scalar::ScalarError;
use crate::spec::BASIC_POLICY;

pub(super) fn basic(reader: &mut Reader, field: Field<'_>) -> Option<Basic> {
    let mut out = Basic::default();
    let Some(fields) = optional(reader, field, &BASIC_POLICY)? else { return Some(out) };
    if let Some(realm) = fields.get("realm").and_then(|field| reader.field(field, realm)) {
        out.realm = realm;
    }
    reader.switch(fields.get("forward"), &mut out.forward);
    if let Some(cache) = reader.duration(fields.get("cache")) {
        out.cache = cache.unwrap_or(Duration::ZERO);
    }
    reader.switch(fields.get("optional"), &mut out.optional);
    out.identity = identity(reader, &fields);
    Some(out)
}

/// Checks a realm, which is sent between quotes in a header field.
fn realm(text: &str) -> Result<String, ScalarError> {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\';
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} cannot be a realm").help("printable ASCII, without `\"` and `\\`")),
    }
}
