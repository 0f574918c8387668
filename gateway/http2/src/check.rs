//! Whether fields make a message (RFC 9113, 8.1 to 8.3).

use tollgate_http::Name;
use tollgate_http::h2::{Protocol, Pseudo, is_field};

use crate::fields::{Fields, Iter};

/// Why fields make no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// There were more than a head may have.
    Cut,
    /// A pseudo-header field is missing, unknown or there twice, or they say what cannot be.
    Pseudo,
}

/// What a request's pseudo-header fields say, and the others, at which nobody has looked.
pub(crate) fn request(fields: &Fields) -> Result<(Pseudo<'_>, Iter<'_>), Malformed> {
    if fields.is_cut() {
        return Err(Malformed::Cut);
    }
    let mut others = fields.iter();
    let (mut method, mut scheme, mut authority, mut path, mut protocol) = (None, None, None, None, None);
    let mut ahead = others;
    while let Some((name, value)) = ahead.next().filter(|(name, _)| name.first() == Some(&b':')) {
        let place = match name {
            b":method" => &mut method,
            b":scheme" => &mut scheme,
            b":authority" => &mut authority,
            b":path" => &mut path,
            b":protocol" => &mut protocol,
            _ => return Err(Malformed::Pseudo),
        };
        if place.replace(value).is_some() {
            return Err(Malformed::Pseudo);
        }
        others = ahead;
    }
    let method = method.ok_or(Malformed::Pseudo)?;
    let is_plain_connect = method == b"CONNECT" && protocol.is_none();
    let is_whole = match (scheme, path) {
        (None, None) => is_plain_connect && authority.is_some(),
        (Some(_), Some(path)) => !is_plain_connect && !path.is_empty(),
        _ => false,
    };
    // RFC 8441, 4: a protocol is asked for by CONNECT.
    let is_protocol = protocol.is_none() || method == b"CONNECT";
    if is_whole && is_protocol {
        // Who goes on with it in HTTP/1 gives the key that a client of HTTP/2 sends none of.
        let protocol = protocol.map(|name| Protocol { name, key: b"" });
        Ok((Pseudo { method, scheme, authority, path, protocol }, others))
    } else {
        Err(Malformed::Pseudo)
    }
}

/// Whether fields that make no request break the protocol, and not just a limit.
pub(crate) fn breaks_the_protocol(fields: &Fields) -> bool {
    match request(fields) {
        Ok((_, others)) => !may_stand(others),
        Err(Malformed::Pseudo) => true,
        Err(Malformed::Cut) => false,
    }
}

/// Whether fields may all stand in a message, as a trailer section say.
pub(crate) fn may_stand<'a>(mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> bool {
    fields.all(|(name, value)| is_good(name, value))
}

/// Whether a field that is no pseudo-header field may stand in a message.
fn is_good(name: &[u8], value: &[u8]) -> bool {
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
