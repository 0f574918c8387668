//! Detects requests that return to the gateway that sent them, by `CDN-Loop` (RFC 8586).
//!
//! The gateway adds its name to the field each time it sends a request that may return to it. The number of
//! its own names in the field is therefore the number of returns.

use tollgate_http::RequestHead;

/// How often a request may have returned when a policy asks a service about it. The service may be this
/// gateway.
const AUTH_RETURNS_MAX: usize = 2;

/// Returns how often a request has returned to this process.
#[must_use]
pub fn count_returns(head: &RequestHead) -> usize {
    let own = tollgate_net::instance_name().as_bytes();
    let members = |line: &[u8]| {
        let names = line.split(|byte| *byte == b',');
        // `cdn-info = cdn-id *( OWS ";" OWS parameter )`
        let names = names.map(|member| member.split(|byte| *byte == b';').next().unwrap_or_default());
        names.filter(|name| name.trim_ascii().eq_ignore_ascii_case(own)).count()
    };
    head.head.all_by_text(b"cdn-loop").map(members).sum()
}

/// Whether the request has returned more than [`AUTH_RETURNS_MAX`] times, so that another authorization call
/// would continue a loop.
pub(crate) fn is_auth_loop(head: &RequestHead) -> bool {
    count_returns(head) > AUTH_RETURNS_MAX
}

/// Returns the value of the field to send: the received members and this gateway's name.
pub(crate) fn forwarded_value(head: &RequestHead) -> Vec<u8> {
    let mut value = Vec::new();
    for line in head.head.all_by_text(b"cdn-loop") {
        value.extend_from_slice(line);
        value.extend_from_slice(b", ");
    }
    value.extend_from_slice(tollgate_net::instance_name().as_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;

    #[test]
    fn returns_are_counted() {
        let own = tollgate_net::instance_name();
        for (fields, count) in [
            (String::new(), 0),
            ("CDN-Loop: other, tollgate-1\r\n".to_owned(), 0),
            (format!("CDN-Loop: {own}\r\n"), 1),
            (
                format!(
                    "CDN-Loop: a;v=\"1\", {};b=c , {own}\r\nX: {own}\r\ncdn-loop: {own},\r\n",
                    own.to_uppercase()
                ),
                3,
            ),
            (format!("CDN-Loop: x{own}, {own}x\r\n"), 0),
        ] {
            assert_eq!(count_returns(&Sent::new(&fields).head), count, "{fields}");
        }
        let passed = forwarded_value(&Sent::new("CDN-Loop: a\r\nCDN-Loop: b\r\n").head);
        assert_eq!(String::from_utf8_lossy(&passed), format!("a, b, {own}"));
    }
}
