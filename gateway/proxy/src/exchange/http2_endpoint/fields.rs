//! Converts request heads from HTTP/1 lines, as the exchange holds them, into the fields of HTTP/2.

use std::borrow::Cow;

use tollgate_http::find_field_line;
use tollgate_http::h2::fields;
use tollgate_observe::Reason;

use crate::state::peer_error::PeerError;

/// Most bytes of a request target in an HTTP/2 request. A longer one would fill the buffers and tables of most
/// servers, which refuse it with the whole connection.
const TARGET_MAX_BYTES: usize = 65_534;
const WEBSOCKET_KEY: &[u8] = b"sec-websocket-key";

/// A request as HTTP/2 carries it.
#[derive(Debug)]
pub(super) struct Http2Request<'a> {
    pub method: &'a [u8],
    pub target: Cow<'a, [u8]>,
    pub host: &'a [u8],
    lines: &'a [u8],
    /// An `Upgrade` becomes extended CONNECT.
    pub switch: Option<Switch>,
}

/// The protocol that a request asks its stream to switch to.
#[derive(Debug)]
pub(super) struct Switch {
    /// The value of `Upgrade`.
    pub protocol: Vec<u8>,
    /// The key of a WebSocket client that expects it to be answered.
    pub key: Option<Vec<u8>>,
}

impl<'a> Http2Request<'a> {
    /// Splits a request head.
    ///
    /// # Errors
    /// [`PeerError::Unrepresentable`] if it has no `Host`, or if its target is too long.
    pub fn of(head: &'a [u8]) -> Result<Self, PeerError> {
        let invalid = || PeerError::Unrepresentable(Reason::BadHeader);
        let end = head.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
        // `GET /path?query HTTP/1.1`
        let mut words = head[..end].split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let lines = &head[end + 1..];
        let value_of = |name: &[u8]| {
            let line = find_field_line(head, name, 0)?;
            fields(&head[line]).next().map(|(_, value)| value)
        };
        let host = value_of(b"host");
        let switch = value_of(b"upgrade").map(|protocol| Switch {
            protocol: protocol.to_vec(),
            key: value_of(WEBSOCKET_KEY).map(<[u8]>::to_vec),
        });
        let method = if switch.is_some() { b"CONNECT" } else { method };
        Ok(Self { method, target: escaped(target)?, host: host.ok_or_else(invalid)?, lines, switch })
    }

    /// Returns the fields that follow the pseudo-fields. `switches`: it has a [`Switch`].
    pub fn fields(&self, switches: bool) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        fields(self.lines).filter(move |(name, _)| {
            let is = |own: &[u8]| name.eq_ignore_ascii_case(own);
            // `Host` is `:authority`; the others are fields that only HTTP/1 has (RFC 9113, 8.2.2).
            !match name.len() {
                4 => is(b"host"),
                7 => is(b"upgrade"),
                10 => is(b"connection"),
                17 => is(b"transfer-encoding") || switches && is(WEBSOCKET_KEY),
                _ => false,
            }
        })
    }
}

/// Percent-encodes a request target that has bytes which RFC 3986 does not allow and which servers of HTTP/2
/// refuse. The gateway passes them on if HTTP/1 can carry them.
fn escaped(target: &[u8]) -> Result<Cow<'_, [u8]>, PeerError> {
    let is_refused = |byte: &u8| matches!(byte, 0..=b' ' | b'<' | b'>' | b'`' | 0x7f..);
    let escaped = match target.iter().any(is_refused) {
        false => Cow::Borrowed(target),
        true => {
            let mut escaped = Vec::with_capacity(target.len() + 16);
            for byte in target {
                match byte {
                    b'!' | b'$'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => {
                        escaped.push(*byte);
                    }
                    _ => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
                }
            }
            Cow::Owned(escaped)
        }
    };
    if escaped.len() > TARGET_MAX_BYTES {
        return Err(PeerError::Unrepresentable(Reason::RequestLineTooLong));
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_only_http_1_has_stay_behind() {
        let head = b"GET /a?b HTTP/1.1\r\nX-A: 1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
            Transfer-Encoding: chunked\r\nSec-WebSocket-Key: k\r\nte: trailers\r\n\r\n";
        let request = Http2Request::of(head).unwrap();
        assert_eq!(
            (request.method, &*request.target, request.host),
            (&b"CONNECT"[..], &b"/a?b"[..], &b"a.example"[..])
        );
        let switch = request.switch.as_ref().unwrap();
        assert_eq!((switch.protocol.as_slice(), switch.key.as_deref()), (&b"websocket"[..], Some(&b"k"[..])));
        let names: Vec<_> = request.fields(true).map(|(name, _)| name).collect();
        assert_eq!(names, [&b"X-A"[..], b"te"]);
        let plain = Http2Request::of(b"PUT / HTTP/1.1\r\nhost: a\r\nSec-WebSocket-Key: k\r\n\r\n").unwrap();
        assert_eq!(
            (plain.method, plain.fields(false).count()),
            (&b"PUT"[..], 1),
            "a key without a switch is a field"
        );
        assert!(matches!(
            Http2Request::of(b"GET / HTTP/1.1\r\na: b\r\n\r\n"),
            Err(PeerError::Unrepresentable(Reason::BadHeader))
        ));
    }

    #[test]
    fn targets_are_escaped_and_bounded() {
        assert_eq!(&*escaped(b"/a|b\"{}^?c").unwrap(), b"/a|b\"{}^?c");
        assert_eq!(&*escaped(b"/a`b?c=<d>&e=%41\xff").unwrap(), b"/a%60b?c=%3Cd%3E&e=%41%FF");
        assert!(escaped(&vec![b'a'; TARGET_MAX_BYTES]).is_ok());
        for long in [vec![b'a'; TARGET_MAX_BYTES + 1], vec![b'<'; TARGET_MAX_BYTES / 2]] {
            assert!(matches!(escaped(&long), Err(PeerError::Unrepresentable(Reason::RequestLineTooLong))));
        }
    }
}
