//! Whether fields make a message (RFC 9113, 8.1 to 8.3).

use tollgate_http::Name;
use tollgate_http::h2::is_field;

use crate::fields::Fields;

/// What the pseudo-header fields of a request say (RFC 9113, 8.3.1; 8441, 4).
#[derive(Clone, Copy, Debug, Default)]
pub struct Pseudo<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:scheme`.
    pub scheme: Option<&'a [u8]>,
    /// `:authority`.
    pub authority: Option<&'a [u8]>,
    /// `:path`.
    pub path: Option<&'a [u8]>,
    /// `:protocol`.
    pub protocol: Option<&'a [u8]>,
}

/// What a request's pseudo-header fields say, and how many they are; `None`: it is malformed.
pub(crate) fn request(fields: &Fields) -> Option<(Pseudo<'_>, usize)> {
    let mut all = fields.iter();
    let (mut method, mut scheme, mut authority, mut path, mut protocol) = (None, None, None, None, None);
    let mut count = 0;
    let mut next = all.next();
    while let Some((name, value)) = next.filter(|(name, _)| name.first() == Some(&b':')) {
        let place = match name {
            b":method" => &mut method,
            b":scheme" => &mut scheme,
            b":authority" => &mut authority,
            b":path" => &mut path,
            b":protocol" => &mut protocol,
            _ => return None,
        };
        if place.replace(value).is_some() {
            return None;
        }
        count += 1;
        next = all.next();
    }
    if !next.into_iter().chain(all).all(|(name, value)| may_stand(name, value)) {
        return None;
    }
    let method = method?;
    let is_plain_connect = method == b"CONNECT" && protocol.is_none();
    let is_whole = match (scheme, path) {
        (None, None) => is_plain_connect && authority.is_some(),
        (Some(_), Some(path)) => !is_plain_connect && !path.is_empty(),
        _ => false,
    };
    // RFC 8441, 4: a protocol is asked for by CONNECT.
    let is_protocol = protocol.is_none() || method == b"CONNECT";
    (is_whole && is_protocol).then_some((Pseudo { method, scheme, authority, path, protocol }, count))
}

/// Whether they make a trailer section.
pub(crate) fn is_trailers(fields: &Fields) -> bool {
    fields.iter().all(|(name, value)| may_stand(name, value))
}

/// Whether a field that is no pseudo-header field may stand in a message.
fn may_stand(name: &[u8], value: &[u8]) -> bool {
    if !is_field(name, value) {
        return false;
    }
    match Name::of(name) {
        // RFC 9113, 8.2.2: what concerns one connection.
        Name::Connection
        | Name::KeepAlive
        | Name::ProxyConnection
        | Name::TransferEncoding
        | Name::Upgrade => false,
        Name::Te => value == b"trailers",
        _ => true,
    }
}
