//! Request heads and trailers.

use crate::chars::{is_lower_token, is_token, is_value};
use crate::h1::{Length, declared, expect, target, wants_trailers};
use crate::trailer::is_barred;
use crate::{Field, Head, HeadError, HeadLimits, Method, Name, Range, RequestHead, TargetForm, Version};

/// Proves in HTTP/1 that the answer is to this request (RFC 6455, 11.3.1). HTTP/2 needs no proof.
const KEY: &[u8] = b"sec-websocket-key";

/// What the pseudo-header fields of a request say (RFC 9113, 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct Pseudo<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:authority`.
    pub authority: Option<&'a [u8]>,
    /// `:scheme`.
    pub scheme: Option<&'a [u8]>,
    /// `:path`; none for CONNECT.
    pub path: Option<&'a [u8]>,
    /// `:protocol`, of extended CONNECT.
    pub protocol: Option<Protocol<'a>>,
}

/// What a stream is to be switched to (RFC 8441, 4).
#[derive(Clone, Copy, Debug)]
pub struct Protocol<'a> {
    /// Its name, as `Upgrade` has it.
    pub name: &'a [u8],
    /// A [key](crate::websocket::key) for a WebSocket to an endpoint that speaks HTTP/1: in HTTP/2 a client sends none.
    pub key: &'a [u8],
}

/// Makes a request head of an HTTP/2 message: the same lines that HTTP/1 would have brought. `fields` gives its fields from
/// the first on; `ended`: no body follows.
/// After an error, `request` has the lines so far, for the log.
///
/// Extended CONNECT becomes what HTTP/1 has in its place, a GET with `Upgrade` (RFC 8441, 5).
///
/// The lines of `Cookie`, which a client may split for better compression, become one again (RFC 9113, 8.2.3).
///
/// # Errors
/// A head that is malformed (RFC 9113, 8.1.1), that another reader could take for something else once it is HTTP/1, or
/// that is past a limit. It concerns this request alone; the connection goes on.
pub fn decode_request<'a, I: Iterator<Item = (&'a [u8], &'a [u8])>>(
    request: &mut RequestHead,
    pseudo: Pseudo<'_>,
    fields: impl Fn() -> I,
    ended: bool,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    request.clear();
    request.version = Version::Http2;
    request.keep_alive = true;
    if let Err(error) = request_line(request, pseudo, limits) {
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
            // RFC 9113, 8.5: what follows is no body, and has no length.
            Name::ContentLength if pseudo.protocol.is_some() => return Err(HeadError::Length),
            Name::Other if pseudo.protocol.is_some() && name == KEY => check(name, value)?,
            // RFC 9113, 8.3.1: two that disagree are refused, since whoever is next may believe the other.
            Name::Host if host.is_some() => {
                check(name, value)?;
                let scheme = pseudo.scheme.unwrap_or_default();
                if !host.is_some_and(|host| target::is_same_authority(host, value, scheme)) {
                    return Err(HeadError::Host);
                }
                // Of more than one, RFC 9112, 3.2 says the same.
                if pseudo.authority.is_none() {
                    return Err(HeadError::Host);
                }
            }
            Name::Host => {
                host = Some(value);
                push_known(&mut request.head, id, name, value, limits)?;
            }
            // RFC 9113, 8.2.2: what concerns one connection has no place in HTTP/2.
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
        cookie(&mut request.head, fields(), limits)?;
    }
    if let Some(protocol) = pseudo.protocol {
        upgrade(request, protocol, limits)?;
    }
    request.head.bytes.extend_from_slice(b"\r\n");
    understand(request, ended)
}

/// Appends the lines with which HTTP/1 asks for another protocol.
fn upgrade(
    request: &mut RequestHead,
    Protocol { name, key }: Protocol<'_>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    if !is_token(name) {
        return Err(HeadError::Field);
    }
    if name.eq_ignore_ascii_case(b"websocket") {
        push(&mut request.head, KEY, key, limits)?;
    }
    push(&mut request.head, b"upgrade", name, limits)?;
    request.upgrade = request.head.find(Name::Upgrade);
    request.extended = true;
    Ok(())
}

/// The line that HTTP/1 would have begun with.
fn request_line(request: &mut RequestHead, pseudo: Pseudo<'_>, limits: &HeadLimits) -> Result<(), HeadError> {
    let Pseudo { method, authority, scheme, path, protocol } = pseudo;
    let is_http =
        |scheme: &[u8]| [&b"http"[..], b"https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !scheme.is_none_or(is_http) {
        return Err(HeadError::StartLine);
    }
    let method = match (protocol, method) {
        (None, method) => method,
        // RFC 8441, 4: with the scheme and the path that a GET has.
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

/// Appends a line.
pub(super) fn push(head: &mut Head, name: &[u8], value: &[u8], limits: &HeadLimits) -> Result<(), HeadError> {
    push_known(head, Name::of(name), name, value, limits)
}

/// Appends the line of a field whose name is known.
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
    // The line, and the empty one that ends the head.
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
    if is_field(name, value) { Ok(()) } else { Err(HeadError::Field) }
}

/// Whether these can be a field: a name is a token without upper-case letters; a value has no control bytes and no white
/// space around it (RFC 9113, 8.2.1).
#[must_use]
pub fn is_field(name: &[u8], value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_lower_token(name) && is_value(value) && !is_blank(value.first()) && !is_blank(value.last())
}

/// Appends one line of all the pieces.
fn cookie<'a>(
    head: &mut Head,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let pieces: Vec<&[u8]> =
        fields.filter(|(name, _)| Name::of(name) == Name::Cookie).map(|(_, value)| value).collect();
    push(head, b"cookie", &pieces.join(&b"; "[..]), limits)
}

/// Reads the fields that say where the message ends.
fn understand(request: &mut RequestHead, ended: bool) -> Result<(), HeadError> {
    // What follows extended CONNECT is no body.
    let ended = ended || request.extended;
    request.length = match (declared(&request.head, Version::Http2)?, ended) {
        // RFC 9113, 8.1.1: the length must be the sum of the DATA.
        (Some(Length::Exactly(1..)), true) => return Err(HeadError::Length),
        (Some(length), _) => length,
        (None, true) => Length::None,
        (None, false) => Length::UntilClose,
    };
    target::host(request)?;
    if request.head.has(Name::Expect) {
        expect(request)?;
    }
    request.wants_trailers = wants_trailers(&request.head);
    Ok(())
}

/// The lines of a trailer section that may be passed on, each with its CRLF. The limits of heads apply, and count the fields
/// that are dropped too.
///
/// # Errors
/// A malformed trailer section; [`HeadError::TooLarge`] if it is too long or has too many fields.
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
        if !is_barred(name) {
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
