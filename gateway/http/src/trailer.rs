//! What may stand behind a body.

use crate::Name;

/// Fields that may not (RFC 9110, 6.5.1), beside all that the gateway knows by [`Name`]: what steers a request or a response,
/// guards or describes its content, and the gateway's own.
const BARRED: [&str; 18] = [
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

/// Whether a field of that name is dropped where it comes behind a body: whoever merges trailers into the head would be
/// steered by them, past all that was decided by the head.
#[must_use]
pub(crate) fn is_barred(name: &[u8]) -> bool {
    Name::of(name).is_barred_from_trailers()
        || BARRED.iter().any(|barred| barred.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_barred_and_what_tells_is_not() {
        for name in [
            "Content-Length",
            "content-range",
            "IF-None-Match",
            "retry-after",
            "Set-Cookie",
            "Www-Authenticate",
            "x_real_ip",
        ] {
            assert!(is_barred(name.as_bytes()), "{name}");
        }
        for name in
            ["grpc-status", "Server-Timing", "Digest", "ETag", "x-checksum", "authentication-info", "ages"]
        {
            assert!(!is_barred(name.as_bytes()), "{name}");
        }
    }
}
