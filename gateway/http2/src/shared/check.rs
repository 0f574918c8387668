//! Checks the fields of trailer sections (RFC 9113, 8.1 and 8.2).

use tollgate_http::{Name, is_http2_field};

/// Whether all fields are allowed in a message; a trailer section for example.
pub(crate) fn are_allowed<'a>(mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> bool {
    fields.all(|(name, value)| is_allowed(name, value))
}

/// Whether a regular field (not a pseudo-header field) is allowed in a message.
fn is_allowed(name: &[u8], value: &[u8]) -> bool {
    if !is_http2_field(name, value) {
        return false;
    }
    match Name::of(name) {
        // RFC 9113, 8.2.2: connection-specific fields are forbidden.
        Name::Connection
        | Name::KeepAlive
        | Name::ProxyConnection
        | Name::TransferEncoding
        | Name::Upgrade => false,
        Name::Te => value == b"trailers",
        _ => true,
    }
}
