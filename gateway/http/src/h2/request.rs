//! Converts the heads of HTTP/2 requests, and the trailers of both directions.
//!
//! The proxy calls [`decode_request`] with the decoded fields of a stream. The result is the same
//! [`RequestHead`] as for HTTP/1, checked as strictly, so that one code path serves both versions. Invariant:
//! the lines of the result parse as the same request in HTTP/1.

use crate::chars::is_token;
use crate::h1::{BodyLength, declared_length, expect, target, wants_trailers};
use crate::trailer::is_forbidden;
use crate::{
    Field, Head, HeadError, HeadLimits, Method, Name, Range, RequestHead, TargetForm, Version, is_http2_field,
};

/// In HTTP/1 this field lets the response prove that it belongs to the request (RFC 6455, 11.3.1). HTTP/2
/// needs no proof.
const WEBSOCKET_KEY: &[u8] = b"sec-websocket-key";

/// The pseudo-header fields of a request (RFC 9113, 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct Pseudo<'a> {
    /// The value of `:method`.
    pub method: &'a [u8],
    /// The value of `:authority`.
    pub authority: Option<&'a [u8]>,
    /// The value of `:scheme`.
    pub scheme: Option<&'a [u8]>,
    /// The value of `:path`; `None` for CONNECT.
    pub path: Option<&'a [u8]>,
    /// The value of `:protocol`; only an extended CONNECT has it.
    pub protocol: Option<UpgradeProtocol<'a>>,
}

/// The protocol to which a stream is switched (RFC 8441, 4).
#[derive(Clone, Copy, Debug)]
pub struct UpgradeProtocol<'a> {
    /// Its name, as in `Upgrade`.
    pub name: &'a [u8],
    /// A [key](crate::websocket::key) for a WebSocket to an HTTP/1 endpoint; an HTTP/2 client sends none.
    pub key: &'a [u8],
}

/// Converts an HTTP/2 message to a request head with the same lines that HTTP/1 would have carried. `fields`
/// returns an iterator over its fields, from the first on. `has_no_body` means that no body follows. After an
/// error, `request` has the lines so far, for the log.
///
/// An extended CONNECT becomes its HTTP/1 equivalent, a GET with `Upgrade` (RFC 8441, 5).
///
/// The lines of `Cookie`, which a client may split for better compression, are joined into one (RFC 9113,
/// 8.2.3).
///
/// # Errors
/// If the head is malformed (RFC 9113, 8.1.1), another reader could misinterpret it as HTTP/1, or it exceeds
/// a limit. The error concerns only this request; the connection goes on.
pub fn decode_request<'a, I: Iterator<Item = (&'a [u8], &'a [u8])>>(
    request: &mut RequestHead,
    pseudo: Pseudo<'_>,
    fields: impl Fn() -> I,
    has_no_body: bool,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    request.clear();
    request.version = Version::Http2;
    request.keep_alive = true;
    if let Err(error) = write_request_line(request, pseudo, limits) {
        request.clear();
        request.version = Version::Http2;
        return Err(error);
    }
    let mut host = pseudo.authority;
    if let Some(authority) = host {
        push(&mut request.head, b"host", authority, limits)?;
    }
    let mut cookies = false;
    for (name, value) in fields() {
        let id = Name::of(name);
        match id {
            // RFC 9113, 8.5: the bytes that follow are no body and have no length.
            Name::ContentLength if pseudo.protocol.is_some() => return Err(HeadError::Length),
            Name::Other if pseudo.protocol.is_some() && name == WEBSOCKET_KEY => check(name, value)?,
            // RFC 9113, 8.3.1: hosts that disagree are refused, because the next server may use the other
            // one.
            Name::Host if host.is_some() => {
                check(name, value)?;
                let scheme = pseudo.scheme.unwrap_or_default();
                if !host.is_some_and(|host| target::is_same_authority(host, value, scheme)) {
                    return Err(HeadError::Host);
                }
                // RFC 9112, 3.2 refuses more than one `Host` too.
                if pseudo.authority.is_none() {
                    return Err(HeadError::Host);
                }
            }
            Name::Host => {
                host = Some(value);
                push_known(&mut request.head, id, name, value, limits)?;
            }
            // RFC 9113, 8.2.2: connection-specific fields have no place in HTTP/2.
            Name::Connection
            | Name::KeepAlive
            | Name::ProxyConnection
            | Name::TransferEncoding
            | Name::Upgrade => return Err(HeadError::Field),
            Name::Te if value != b"trailers" => return Err(HeadError::Field),
            Name::Cookie => {
                check(name, value)?;
                cookies = true;
            }
            _ => push_known(&mut request.head, id, name, value, limits)?,
        }
    }
    if cookies {
        push_cookies(&mut request.head, fields(), limits)?;
    }
    if let Some(protocol) = pseudo.protocol {
        push_upgrade(request, protocol, limits)?;
    }
    request.head.bytes.extend_from_slice(b"\r\n");
    evaluate_framing(request, has_no_body)
}

/// Appends the lines with which HTTP/1 requests another protocol.
fn push_upgrade(
    request: &mut RequestHead,
    UpgradeProtocol { name, key }: UpgradeProtocol<'_>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    if !is_token(name) {
        return Err(HeadError::Field);
    }
    if name.eq_ignore_ascii_case(b"websocket") {
        push(&mut request.head, WEBSOCKET_KEY, key, limits)?;
    }
    push(&mut request.head, b"upgrade", name, limits)?;
    request.upgrade = request.head.find(Name::Upgrade);
    request.extended = true;
    Ok(())
}

/// Writes the request line that HTTP/1 would have had, and parses its target.
fn write_request_line(
    request: &mut RequestHead,
    pseudo: Pseudo<'_>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let Pseudo { method, authority, scheme, path, protocol } = pseudo;
    let is_http =
        |scheme: &[u8]| [&b"http"[..], b"https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !scheme.is_none_or(is_http) {
        return Err(HeadError::StartLine);
    }
    let method = match (protocol, method) {
        (None, method) => method,
        // RFC 8441, 4: it has a scheme and a path, as a GET does.
        (Some(_), b"CONNECT") if scheme.is_some() && path.is_some() && authority.is_some() => b"GET",
        (Some(_), _) => return Err(HeadError::StartLine),
    };
    let target = match path {
        Some(path) => path,
        None => authority.filter(|_| method == b"CONNECT").ok_or(HeadError::StartLine)?,
    };
    if !is_token(method) || target.is_empty() {
        return Err(HeadError::StartLine);
    }
    let bytes = &mut request.head.bytes;
    bytes.extend_from_slice(method);
    bytes.push(b' ');
    bytes.extend_from_slice(target);
    bytes.extend_from_slice(b" HTTP/1.1");
    if bytes.len() > limits.line {
        return Err(HeadError::LineTooLong);
    }
    let at = method.len() + 1;
    bytes.extend_from_slice(b"\r\n");
    request.method = Method::of(method);
    request.method_text = Range::new(0, method.len());
    request.target = Range::new(at, at + target.len());
    request.head.fields_start = bytes.len() as u32;
    let line = std::mem::take(&mut request.head.bytes);
    let split = target::split(request, &line);
    request.head.bytes = line;
    split?;
    // RFC 9113, 8.3.1: `:path` begins with a slash, or is the asterisk.
    if request.form == TargetForm::Absolute { Err(HeadError::StartLine) } else { Ok(()) }
}

/// Appends a field line.
pub(super) fn push(head: &mut Head, name: &[u8], value: &[u8], limits: &HeadLimits) -> Result<(), HeadError> {
    push_known(head, Name::of(name), name, value, limits)
}

/// Appends a field line whose name was looked up.
pub(super) fn push_known(
    head: &mut Head,
    id: Name,
    name: &[u8],
    value: &[u8],
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    check(name, value)?;
    if head.fields.len() >= limits.fields {
        return Err(HeadError::TooMany);
    }
    let start = head.bytes.len();
    // The line, and the empty line that ends the head.
    let end = start + name.len() + value.len() + 4;
    if !limits.allows_head(end + 2) {
        return Err(HeadError::TooLarge);
    }
    head.bytes.extend_from_slice(name);
    head.bytes.extend_from_slice(b": ");
    head.bytes.extend_from_slice(value);
    head.bytes.extend_from_slice(b"\r\n");
    head.push(Field {
        id,
        nominated: false,
        name: Range::new(start, start + name.len()),
        value: Range::new(end - 2 - value.len(), end - 2),
        line_end: end as u32,
    });
    Ok(())
}

fn check(name: &[u8], value: &[u8]) -> Result<(), HeadError> {
    if is_http2_field(name, value) { Ok(()) } else { Err(HeadError::Field) }
}

/// Appends one line with all pieces.
fn push_cookies<'a>(
    head: &mut Head,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let pieces: Vec<&[u8]> =
        fields.filter(|(name, _)| Name::of(name) == Name::Cookie).map(|(_, value)| value).collect();
    push(head, b"cookie", &pieces.join(&b"; "[..]), limits)
}

/// Evaluates the fields that determine the end of the message.
fn evaluate_framing(request: &mut RequestHead, has_no_body: bool) -> Result<(), HeadError> {
    // The bytes that follow an extended CONNECT are no body.
    let has_no_body = has_no_body || request.extended;
    request.length = match (declared_length(&request.head, Version::Http2)?, has_no_body) {
        // RFC 9113, 8.1.1: the declared length must equal the sum of the DATA frames.
        (Some(BodyLength::Exactly(1..)), true) => return Err(HeadError::Length),
        (Some(length), _) => length,
        (None, true) => BodyLength::None,
        (None, false) => BodyLength::UntilClose,
    };
    target::host(request)?;
    if request.head.has(Name::Expect) {
        expect(request)?;
    }
    request.wants_trailers = wants_trailers(&request.head);
    Ok(())
}

/// Converts a trailer section to the lines that may be forwarded, each with its CRLF. The limits of heads
/// apply, and dropped fields count.
///
/// # Errors
/// If the trailer section is malformed; [`HeadError::TooLarge`] if it is too long or has too many fields.
pub fn decode_trailers<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
) -> Result<Vec<u8>, HeadError> {
    let (mut lines, mut read) = (Vec::new(), 0);
    for (index, (name, value)) in fields.enumerate() {
        check(name, value)?;
        read += name.len() + value.len() + 4;
        if !limits.allow_trailers(read, index + 1) {
            return Err(HeadError::TooLarge);
        }
        if !is_forbidden(name) {
            lines.extend_from_slice(name);
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value);
            lines.extend_from_slice(b"\r\n");
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;
