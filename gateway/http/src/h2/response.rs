//! Converts the heads of HTTP/2 responses. The proxy calls it with the decoded fields of a stream, and gets the
//! same [`ResponseHead`] as for HTTP/1.

use super::request::{push, push_known};
use crate::body_length::without_leading_zeros;
use crate::h1::{BodyLength, declared_length_in_response};
use crate::{HeadError, HeadLimits, Method, Name, Range, ResponseHead, Version};

/// Converts an HTTP/2 message to a response head with the same lines that HTTP/1 would have carried, and the
/// same checks. `request_method` is the method of the request. `has_no_body` means that no body follows.
/// `reason` is the reason phrase, which only HTTP/1 has; it may be empty. After an error, `response` has the
/// lines so far, for the log.
///
/// The [length](ResponseHead::length) is what the head declares. The stream determines where the body really
/// ends, and the reader of the body checks that the two agree (RFC 9113, 8.1.1).
///
/// # Errors
/// If the head is malformed (RFC 9113, 8.1.1), another reader could misinterpret it as HTTP/1, or it exceeds
/// a limit. The error concerns only this response; the connection goes on.
pub fn decode_response<'a>(
    response: &mut ResponseHead,
    (status, reason): (u16, &str),
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    has_no_body: bool,
    request_method: Method,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    // RFC 9113, 8.6: HTTP/2 has no switching of protocols.
    if !(100..1000).contains(&status) || status == 101 {
        response.clear();
        return Err(HeadError::StartLine);
    }
    push_lines(response, (status, reason), fields, limits)?;
    response.head.bytes.extend_from_slice(b"\r\n");
    evaluate_framing(response, request_method, has_no_body)
}

/// The same for a successful response to an extended CONNECT (RFC 8441, 5). Its HTTP/1 equivalent is a 101
/// with this `protocol` and, for a WebSocket, the [proof](crate::websocket::accept) that it understood the
/// key.
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
    push_lines(response, (101, "Switching Protocols"), fields, limits)?;
    push(&mut response.head, b"upgrade", protocol, limits)?;
    if let Some(accept) = accept {
        push(&mut response.head, b"sec-websocket-accept", accept, limits)?;
    }
    response.head.bytes.extend_from_slice(b"\r\n");
    Ok(())
}

fn push_lines<'a>(
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
            // RFC 9113, 8.2.2: HTTP/2 forbids connection-specific fields.
            Name::Connection
            | Name::KeepAlive
            | Name::ProxyConnection
            | Name::TransferEncoding
            | Name::Upgrade => return Err(HeadError::Field),
            id @ Name::ContentLength => {
                push_known(&mut response.head, id, name, without_leading_zeros(value), limits)?;
            }
            id => push_known(&mut response.head, id, name, value, limits)?,
        }
    }
    Ok(())
}

/// Evaluates the fields that determine the end of the message.
fn evaluate_framing(
    response: &mut ResponseHead,
    request_method: Method,
    has_no_body: bool,
) -> Result<(), HeadError> {
    let (declared_length, _) = declared_length_in_response(&response.head, Version::Http2)?;
    let bodiless = request_method == Method::Head
        || matches!(response.status, ..200 | 204 | 304)
        || (request_method == Method::Connect && response.status < 300);
    response.length = match (declared_length, has_no_body) {
        _ if bodiless => BodyLength::None,
        (Some(BodyLength::Exactly(1..)), true) => return Err(HeadError::Length),
        (Some(length), _) => length,
        // Even if the body is empty: an HTTP/1 client must still be shown where it ends.
        (None, _) => BodyLength::UntilClose,
    };
    Ok(())
}

#[cfg(test)]
mod tests;
