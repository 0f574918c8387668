//! Response heads.

use super::request::{push, push_known};
use crate::h1::{Length, declared_by_endpoint, plain_length};
use crate::{HeadError, HeadLimits, Method, Name, Range, ResponseHead, Version};

/// Makes a response head of an HTTP/2 message: the same lines that HTTP/1 would have brought, and as strictly looked at.
/// `asked` is the method of the request; `ended`: no body follows. `reason` is the phrase that HTTP/1 has behind the
/// status and HTTP/2 has not; it may be empty. After an error, `response` has the lines so far, for the log.
///
/// The [length](ResponseHead::length) is what the head declares. Where the body really ends its stream says, and whoever
/// reads it sees that the two agree (RFC 9113, 8.1.1).
///
/// # Errors
/// A head that is malformed (RFC 9113, 8.1.1), that another reader could take for something else once it is HTTP/1, or
/// that is past a limit. It concerns this response alone; the connection goes on.
pub fn decode_response<'a>(
    response: &mut ResponseHead,
    (status, reason): (u16, &str),
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ended: bool,
    asked: Method,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    // RFC 9113, 8.6: there is no switching of protocols.
    if !(100..1000).contains(&status) || status == 101 {
        response.clear();
        return Err(HeadError::StartLine);
    }
    lines(response, (status, reason), fields, limits)?;
    response.head.bytes.extend_from_slice(b"\r\n");
    understand(response, asked, ended)
}

/// The same of an answer to extended CONNECT that says yes (RFC 8441, 5): what HTTP/1 has in its place is a 101 with this
/// `protocol`, and for a WebSocket that proves to have understood its [key](crate::websocket::accept).
///
/// # Errors
/// As [`decode_response`].
pub fn decode_switched<'a>(
    response: &mut ResponseHead,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    protocol: &[u8],
    accept: Option<&[u8]>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    const OURS: [&[u8]; 2] = [b"content-length", b"sec-websocket-accept"];
    let fields = fields.filter(|(name, _)| !OURS.contains(name));
    lines(response, (101, "Switching Protocols"), fields, limits)?;
    push(&mut response.head, b"upgrade", protocol, limits)?;
    if let Some(accept) = accept {
        push(&mut response.head, b"sec-websocket-accept", accept, limits)?;
    }
    response.head.bytes.extend_from_slice(b"\r\n");
    Ok(())
}

fn lines<'a>(
    response: &mut ResponseHead,
    (status, reason): (u16, &str),
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    response.clear();
    response.version = Version::Http2;
    response.keep_alive = true;
    response.status = status;
    let bytes = &mut response.head.bytes;
    bytes.extend_from_slice(b"HTTP/2.0 ");
    let digits = [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
    bytes.extend_from_slice(&digits);
    bytes.push(b' ');
    bytes.extend_from_slice(reason.as_bytes());
    response.status_line = Range::new(9, bytes.len());
    bytes.extend_from_slice(b"\r\n");
    response.head.fields_start = bytes.len() as u32;
    for (name, value) in fields {
        match Name::of(name) {
            // RFC 9113, 8.2.2: HTTP/2 forbids the fields that concern one connection.
            Name::Connection
            | Name::KeepAlive
            | Name::ProxyConnection
            | Name::TransferEncoding
            | Name::Upgrade => return Err(HeadError::Field),
            id @ Name::ContentLength => {
                push_known(&mut response.head, id, name, plain_length(value), limits)?;
            }
            id => push_known(&mut response.head, id, name, value, limits)?,
        }
    }
    Ok(())
}

/// Reads the fields that say where the message ends.
fn understand(response: &mut ResponseHead, asked: Method, ended: bool) -> Result<(), HeadError> {
    let (declared, _) = declared_by_endpoint(&response.head, Version::Http2)?;
    let bodiless = asked == Method::Head
        || matches!(response.status, ..200 | 204 | 304)
        || (asked == Method::Connect && response.status < 300);
    response.length = match (declared, ended) {
        _ if bodiless => Length::None,
        (Some(Length::Exactly(1..)), true) => return Err(HeadError::Length),
        (Some(length), _) => length,
        // Nothing is no more than an end at once: a client of HTTP/1 must still be told where that is.
        (None, _) => Length::UntilClose,
    };
    Ok(())
}

#[cfg(test)]
mod tests;
