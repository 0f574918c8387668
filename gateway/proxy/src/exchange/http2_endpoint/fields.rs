//! Converts heads and trailers from HTTP/1 lines, as the exchange holds them, into the types of the `http`
//! and `h2` crates. `endpoint` calls it for requests to HTTP/2 endpoints.

use bytes::Bytes;
use h2::ext::Protocol;
use http::header::{
    self, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Request, Uri, Version};
use tollgate_http::Name;
use tollgate_http::h2::fields;
use tollgate_observe::Reason;

use crate::state::peer_error::PeerError;

/// Converts a request head into a request for an endpoint. An `Upgrade` becomes extended CONNECT, and is
/// returned as a [`Switch`].
///
/// With `secrets`, none of its fields enters an HPACK table, except pseudo-fields: the client forbade it for
/// one field, and the head no longer tells which.
///
/// # Errors
/// [`PeerError::Unrepresentable`] if the `h2` crate cannot carry it: it takes targets and field names of less
/// than 64 KiB.
pub(super) fn request(
    head: &[u8],
    secure: bool,
    secrets: bool,
) -> Result<(Request<()>, Option<Switch>), PeerError> {
    let invalid = || PeerError::Unrepresentable(Reason::BadHeader);
    let end = head.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    // `GET /path?query HTTP/1.1`
    let mut words = head[..end].split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = map(&head[end + 1..], secrets)?;
    let host = headers.remove(HOST).ok_or_else(invalid)?;
    // Fields that only HTTP/1 has (RFC 9113, 8.2.2).
    for name in [CONNECTION, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let switch =
        headers.remove(UPGRADE).map(|protocol| Switch { protocol, key: headers.remove(SEC_WEBSOCKET_KEY) });
    let uri = Uri::builder()
        .scheme(if secure { Scheme::HTTPS } else { Scheme::HTTP })
        .authority(host.as_bytes())
        .path_and_query(self::target(target)?);
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).map_err(|_| invalid())?;
    if let Some(switch) = &switch {
        let protocol = switch.protocol.to_str().map_err(|_| invalid())?;
        request.extensions_mut().insert(Protocol::from(protocol));
        *request.method_mut() = Method::CONNECT;
    }
    *request.uri_mut() = uri.build().map_err(|_| invalid())?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok((request, switch))
}

/// The protocol that a request asks its stream to switch to.
#[derive(Debug)]
pub(super) struct Switch {
    /// The value of `Upgrade`.
    pub protocol: HeaderValue,
    /// The key of a WebSocket client that expects it to be answered.
    pub key: Option<HeaderValue>,
}

/// Converts a request target. The gateway passes bytes that RFC 3986 does not allow if HTTP/1 can carry them.
/// The `http` crate accepts fewer; this function percent-encodes the bytes that it refuses.
fn target(bytes: &[u8]) -> Result<PathAndQuery, PeerError> {
    if let Ok(target) = PathAndQuery::try_from(bytes) {
        return Ok(target);
    }
    let mut escaped = Vec::with_capacity(bytes.len() + 16);
    for byte in bytes {
        match byte {
            b'!' | b'$'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => escaped.push(*byte),
            _ => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    // Now only its length can be refused.
    PathAndQuery::try_from(escaped).map_err(|_| PeerError::Unrepresentable(Reason::RequestLineTooLong))
}

/// Converts field lines. Credentials are always marked as secret; with `secrets`, all fields are.
///
/// # Errors
/// If a line does not have the form in which the gateway writes lines.
pub(super) fn map(lines: &[u8], secrets: bool) -> Result<HeaderMap, PeerError> {
    // Sized exactly: a larger map costs more to create, and a map that grows is rebuilt.
    let mut map = HeaderMap::with_capacity(lines.iter().filter(|byte| **byte == b'\n').count());
    // One shared buffer; each value is a slice of it.
    let values = Bytes::copy_from_slice(lines);
    for (name, value) in fields(&values) {
        let known_name = Name::of(name);
        let name = match known(known_name) {
            Some(name) => name,
            None => {
                HeaderName::from_bytes(name).map_err(|_| PeerError::Unrepresentable(Reason::BadHeader))?
            }
        };
        let value = HeaderValue::from_maybe_shared(values.slice_ref(value));
        let mut value = value.map_err(|_| PeerError::Unrepresentable(Reason::BadHeader))?;
        // The library sends sensitive values as never-indexed literals (RFC 7541, 6.2.3).
        value.set_sensitive(secrets || known_name.is_credential());
        map.append(name, value);
    }
    Ok(map)
}

/// Returns the library's constant for a name that nearly every message has. This costs 40 instructions;
/// parsing the name costs 200 (callgrind).
#[inline]
fn known(name: Name) -> Option<HeaderName> {
    Some(match name {
        Name::Accept => header::ACCEPT,
        Name::Authorization => header::AUTHORIZATION,
        Name::CacheControl => header::CACHE_CONTROL,
        Name::ContentEncoding => header::CONTENT_ENCODING,
        Name::ContentLength => header::CONTENT_LENGTH,
        Name::ContentType => header::CONTENT_TYPE,
        Name::Cookie => header::COOKIE,
        Name::Date => header::DATE,
        Name::Host => header::HOST,
        Name::Location => header::LOCATION,
        Name::Referer => header::REFERER,
        Name::Server => header::SERVER,
        Name::SetCookie => header::SET_COOKIE,
        Name::UserAgent => header::USER_AGENT,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_indexed() {
        let head = b"GET / HTTP/1.1\r\nhost: a\r\nauthorization: 1\r\nCookie: 2\r\nproxy-authorization: 3\r\nx-key: 4\r\n";
        let of = |secrets| {
            let (request, _) = request(head, false, secrets).unwrap();
            let secret =
                |(name, value): (&HeaderName, &HeaderValue)| value.is_sensitive().then(|| name.to_string());
            let mut names: Vec<_> = request.headers().iter().filter_map(secret).collect();
            names.sort_unstable();
            names
        };
        let credentials = ["authorization", "cookie", "proxy-authorization"];
        assert_eq!(of(false), credentials);
        assert_eq!(of(true), [&credentials[..], &["x-key"]].concat());
    }

    #[test]
    fn known_names_are_what_the_library_would_have_read() {
        let lines = b"accept: 1\r\nAuthorization: 1\r\ncache-control: 1\r\nContent-Encoding: 1\r\ncontent-length: 1\r\n\
            content-type: 1\r\ncookie: 1\r\nDATE: 1\r\nhost: 1\r\nlocation: 1\r\nreferer: 1\r\nserver: 1\r\n\
            set-cookie: 1\r\nUser-Agent: 1\r\nx-request-id: 1\r\nX-Other: 1\r\n";
        for (name, value) in &map(lines, false).unwrap() {
            assert_eq!(value, "1");
            assert_eq!(Some(name), HeaderName::from_bytes(name.as_str().as_bytes()).ok().as_ref());
        }
        let names: Vec<String> =
            fields(lines).map(|(name, _)| String::from_utf8_lossy(name).to_lowercase()).collect();
        let map = map(lines, false).unwrap();
        assert_eq!(map.len(), names.len());
        assert!(names.iter().all(|name| map.contains_key(name.as_str())), "{names:?}");
    }
}
