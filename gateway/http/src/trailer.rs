//! Decides which fields may be forwarded as trailers. The chunked reader and the HTTP/2 decoder drop the
//! others from every trailer section, in both directions.

use crate::Name;

/// Fields that may not be trailers (RFC 9110, 6.5.1), in addition to every field that the gateway knows by
/// [`Name`]. They control a request or a response, restrict or describe its content, or are the gateway's
/// own.
const FORBIDDEN: [&str; 18] = [
    "age",
    "content-location",
    "content-range",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "range",
    "retry-after",
    "strict-transport-security",
    "tollgate-reason",
    "vary",
    "warning",
    "www-authenticate",
];

/// Whether a trailer with this name is dropped. A recipient that merges trailers into the head would act on
/// such a field, which bypassed every decision made by the head.
#[must_use]
pub(crate) fn is_forbidden(name: &[u8]) -> bool {
    Name::of(name).is_forbidden_in_trailers()
        || FORBIDDEN.iter().any(|barred| barred.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_control_handling_are_no_trailers() {
        for name in [
            "Content-Length",
            "content-range",
            "IF-None-Match",
            "retry-after",
            "Set-Cookie",
            "Www-Authenticate",
            "x_real_ip",
        ] {
            assert!(is_forbidden(name.as_bytes()), "{name}");
        }
        for name in
            ["grpc-status", "Server-Timing", "Digest", "ETag", "x-checksum", "authentication-info", "ages"]
        {
            assert!(!is_forbidden(name.as_bytes()), "{name}");
        }
    }
}
