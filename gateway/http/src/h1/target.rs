//! Parses request targets and hosts (RFC 9112, section 3.2 and 3.3).
//!
//! The HTTP/1 parser and the HTTP/2 decoder call [`split`] for the target, and [`host`] after the fields are
//! read. Ambiguous hosts are refused, so that the router and the next server see the same host.

use std::net::Ipv6Addr;

use crate::chars::{has_empty_label, host_name_end, is_target, path_end};
use crate::request::Method;
use crate::{HeadError, Name, Range, RequestHead, TargetForm, Version};

/// Splits the target into its parts.
pub(crate) fn split(request: &mut RequestHead, bytes: &[u8]) -> Result<(), HeadError> {
    let (start, end) = (request.target.start as usize, request.target.end as usize);
    let target = &bytes[start..end];
    match target {
        // RFC 9112, 3.2.3: CONNECT allows only this form, and no other method allows it.
        _ if request.method == Method::Connect => {
            request.form = TargetForm::Authority;
            request.authority = request.target;
            request.host = host_of(bytes, request.target).map_err(|_| HeadError::StartLine)?;
        }
        [b'/', ..] => {
            request.form = TargetForm::Origin;
            path_and_query(request, bytes, start)?;
        }
        b"*" if request.method == Method::Options => {
            request.form = TargetForm::Asterisk;
            request.path = request.target;
        }
        _ => {
            let scheme = [&b"http://"[..], b"https://"]
                .into_iter()
                .find(|scheme| {
                    target.get(..scheme.len()).is_some_and(|have| have.eq_ignore_ascii_case(scheme))
                })
                .ok_or(HeadError::StartLine)?;
            let authority_start = start + scheme.len();
            let rest = &bytes[authority_start..end];
            let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            request.form = TargetForm::Absolute;
            request.authority = Range::new(authority_start, authority_start + length);
            path_and_query(request, bytes, authority_start + length)?;
        }
    }
    Ok(())
}

/// Sets the path and the query, which must consist of bytes that a target may contain. [`host`] finds errors
/// in an authority before them.
fn path_and_query(request: &mut RequestHead, bytes: &[u8], start: usize) -> Result<(), HeadError> {
    let end = request.target.end as usize;
    let path_end = path_end(bytes, start).min(end);
    request.path = Range::new(start, path_end);
    match &bytes[path_end..end] {
        [] => {}
        [b'?', query @ ..] if is_target(query) => request.query = Some(Range::new(path_end + 1, end)),
        _ => return Err(HeadError::StartLine),
    }
    Ok(())
}

/// Determines the host that a request is for. RFC 9112, 3.2: in HTTP/1.1 a missing host is a 400, as is a
/// repeated or malformed one. The host of an absolute target takes precedence (3.2.2). A `Host` that
/// disagrees with it is refused, because the next server may use the other one.
pub(crate) fn host(request: &mut RequestHead) -> Result<(), HeadError> {
    let head = &request.head;
    if head.is_repeated(Name::Host) {
        return Err(HeadError::Host);
    }
    let field = head.find(Name::Host);
    if field.is_none() && request.version != Version::Http10 {
        return Err(HeadError::Host);
    }
    match (request.form, field) {
        // Its target is the host, and was validated.
        (TargetForm::Authority, _) => return Ok(()),
        (TargetForm::Absolute, Some(field)) => {
            let scheme = head.slice(request.target).split(|byte| *byte == b':').next().unwrap_or_default();
            if !is_same_authority(head.slice(field), head.slice(request.authority), scheme) {
                return Err(HeadError::Host);
            }
        }
        (TargetForm::Absolute, None) => {}
        (TargetForm::Origin | TargetForm::Asterisk, Some(field)) => request.authority = field,
        (TargetForm::Origin | TargetForm::Asterisk, None) => return Ok(()),
    }
    request.host = host_of(head.bytes(), request.authority)?;
    Ok(())
}

/// Whether two authorities name the same host and port after normalisation by the scheme (RFC 9113, 8.3.1;
/// RFC 3986, 6.2.2 and 6.2.3). Case does not matter, and a missing or empty port is the scheme's default. As
/// in routing, a dot at the end of a name is ignored. A malformed authority equals only itself.
pub(crate) fn is_same_authority(one: &[u8], other: &[u8], scheme: &[u8]) -> bool {
    one.eq_ignore_ascii_case(other)
        || matches!((normalize_authority(one, scheme), normalize_authority(other, scheme)), (Some(one), Some(other)) if one == other)
}

/// Normalises an authority to its host and port. Without a scheme there is no default port.
fn normalize_authority(authority: &[u8], scheme: &[u8]) -> Option<(NormalizedHost, Option<u16>)> {
    let host = host_of(authority, Range::new(0, authority.len())).ok()?;
    let port = match &authority[host.end as usize..] {
        [] | [b':'] if scheme.eq_ignore_ascii_case(b"https") => Some(443),
        [] | [b':'] if scheme.eq_ignore_ascii_case(b"http") => Some(80),
        [] | [b':'] => None,
        // `host_of` has checked that these are the digits of a port.
        [_, digits @ ..] => Some(str::from_utf8(digits).ok()?.parse().ok()?),
    };
    let host = host.of(authority);
    let host = match str::from_utf8(host).ok()?.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => NormalizedHost::Address(address.parse().ok()?),
        None => NormalizedHost::Name(host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()),
    };
    Some((host, port))
}

/// A host in normal form.
#[derive(PartialEq, Eq)]
enum NormalizedHost {
    Name(Vec<u8>),
    Address(Ipv6Addr),
}

/// Returns the host of `host[:port]`, which must be well formed.
fn host_of(bytes: &[u8], at: Range) -> Result<Range, HeadError> {
    let text = at.of(bytes);
    let (length, port) = match text {
        [b'[', rest @ ..] => {
            let inside = rest.iter().position(|byte| *byte == b']').ok_or(HeadError::Host)?;
            let address = str::from_utf8(&rest[..inside]).map_err(|_| HeadError::Host)?;
            address.parse::<Ipv6Addr>().map_err(|_| HeadError::Host)?;
            (inside + 2, &rest[inside + 1..])
        }
        _ => {
            let start = at.start as usize;
            let length = host_name_end(bytes, start).min(at.end as usize) - start;
            // Some servers drop such dots, and would see another host than the router.
            if has_empty_label(bytes, start, start + length) {
                return Err(HeadError::Host);
            }
            (length, &text[length..])
        }
    };
    let is_port = match port {
        [] => true,
        // RFC 3986, 3.2.3 allows an empty port.
        [b':', digits @ ..] if digits.len() <= 5 => {
            let port = digits.iter().try_fold(0, |sum: u32, digit| {
                digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0'))
            });
            port.is_some_and(|port| port <= 0xffff)
        }
        _ => false,
    };
    if length == 0 || !is_port {
        return Err(HeadError::Host);
    }
    Ok(Range { start: at.start, end: at.start + length as u32 })
}

#[cfg(test)]
mod tests;
