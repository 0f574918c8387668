//! Writes `Cache-Status` (RFC 9211).

use tollgate_http::h1::write_decimal;

/// Why a request was forwarded (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The configuration did not use the cache for it.
    Bypass,
    /// The method is not served from the cache.
    Method,
    /// There is nothing under its key.
    UriMiss,
    /// There is, but for other values of the fields that `Vary` names.
    VaryMiss,
    /// A response was stale.
    Stale,
    /// The request did not accept the response: its directives forbade it.
    Request,
    /// A part of it is stored, and not the part that the request asks for.
    Partial,
}

impl Forward {
    /// The token of the parameter `fwd`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Stale => "stale",
            Self::Request => "request",
            Self::Partial => "partial",
        }
    }
}

/// The way in which a cache handled a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Why the request was forwarded; `None`: it was answered from the cache (`hit`).
    pub forward: Option<Forward>,
    /// The status of the endpoint's response, if it differs from the sent one (`fwd-status`).
    pub forward_status: Option<u16>,
    /// Whether the response was stored (`stored`). Only for a forwarded request.
    pub is_stored: bool,
    /// Whether another request's response was used (`collapsed`). Only for a forwarded request.
    pub is_collapsed: bool,
    /// Seconds for which the response stays fresh, negative if it is stale (`ttl`).
    pub ttl_seconds: Option<i64>,
    /// A token with a reason of the gateway (`detail`).
    pub detail: Option<&'a str>,
}

/// Appends the member of this cache as a value of `Cache-Status`. `name` names the cache; it is written as a string,
/// so that any name is valid (RFC 9211, 2).
pub fn write_cache_status(out: &mut Vec<u8>, name: &str, status: &CacheStatus<'_>) {
    out.push(b'"');
    for byte in name.bytes().filter(|byte| matches!(byte, 0x20..=0x7e)) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    match status.forward {
        None => out.extend_from_slice(b"; hit"),
        Some(forward) => {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(forward.as_str().as_bytes());
            if let Some(code) = status.forward_status {
                out.extend_from_slice(b"; fwd-status=");
                write_decimal(out, u64::from(code));
            }
            for (is_set, text) in [(status.is_stored, "; stored"), (status.is_collapsed, "; collapsed")] {
                if is_set {
                    out.extend_from_slice(text.as_bytes());
                }
            }
        }
    }
    if let Some(seconds) = status.ttl_seconds {
        out.extend_from_slice(b"; ttl=");
        if seconds < 0 {
            out.push(b'-');
        }
        // RFC 9651, 3.3.1: an integer has 15 digits at most.
        write_decimal(out, seconds.unsigned_abs().min(999_999_999_999_999));
    }
    if let Some(detail) = status.detail {
        out.extend_from_slice(b"; detail=");
        out.extend_from_slice(detail.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_rfc_9211() {
        let none = CacheStatus::default();
        for (status, expected) in [
            (none, "\"tollgate\"; hit"),
            (CacheStatus { ttl_seconds: Some(376), ..none }, "\"tollgate\"; hit; ttl=376"),
            (CacheStatus { ttl_seconds: Some(-5), ..none }, "\"tollgate\"; hit; ttl=-5"),
            (
                CacheStatus { forward: Some(Forward::UriMiss), is_stored: true, ..none },
                "\"tollgate\"; fwd=uri-miss; stored",
            ),
            (
                CacheStatus {
                    forward: Some(Forward::Stale),
                    forward_status: Some(304),
                    is_collapsed: true,
                    ..none
                },
                "\"tollgate\"; fwd=stale; fwd-status=304; collapsed",
            ),
            (
                CacheStatus { forward: Some(Forward::VaryMiss), detail: Some("no-store"), ..none },
                "\"tollgate\"; fwd=vary-miss; detail=no-store",
            ),
        ] {
            let mut out = Vec::new();
            write_cache_status(&mut out, "tollgate", &status);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
        let mut out = Vec::new();
        write_cache_status(&mut out, "a\"b\\c\u{e9}\r\n", &none);
        assert_eq!(String::from_utf8_lossy(&out), "\"a\\\"b\\\\c\"; hit");
        let tokens =
            [Forward::Bypass, Forward::Method, Forward::Request, Forward::Partial].map(Forward::as_str);
        assert_eq!(tokens, ["bypass", "method", "request", "partial"]);
    }
}
