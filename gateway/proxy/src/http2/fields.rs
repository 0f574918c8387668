//! Heads and trailers as the library wants them.

use std::io;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tollgate_http::h2::fields;

/// Of a response head in lines.
///
/// # Errors
/// When it is not what the gateway writes.
pub(super) fn response(head: &[u8]) -> io::Result<Response<()>> {
    let end = head.iter().position(|byte| *byte == b'\n').ok_or(io::ErrorKind::InvalidData)?;
    // `HTTP/1.1 200 OK`
    let status = head.get(9..12).and_then(|digits| StatusCode::from_bytes(digits).ok());
    let mut response = Response::new(());
    *response.status_mut() = status.ok_or(io::ErrorKind::InvalidData)?;
    *response.headers_mut() = map(&head[end + 1..])?;
    Ok(response)
}

/// Of field lines.
///
/// # Errors
/// As [`response`].
pub(super) fn map(lines: &[u8]) -> io::Result<HeaderMap> {
    let mut map = HeaderMap::with_capacity(16);
    // One buffer for all values, each a part of it.
    let values = Bytes::copy_from_slice(lines);
    for (name, value) in fields(&values) {
        let name = HeaderName::from_bytes(name).map_err(|_| io::ErrorKind::InvalidData)?;
        let value = HeaderValue::from_maybe_shared(values.slice_ref(value));
        map.append(name, value.map_err(|_| io::ErrorKind::InvalidData)?);
    }
    Ok(map)
}
