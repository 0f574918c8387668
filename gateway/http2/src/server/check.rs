//! Checks that decoded fields form a request (RFC 9113, 8.1 to 8.3), when the proxy asks for its
//! pseudo-header fields. The conversion to a head checks the other fields.

use tollgate_http::h2::{Pseudo, UpgradeProtocol};

use crate::shared::check::are_allowed;
use crate::shared::fields::{FieldIter, FieldSection};

/// The reason why fields form no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedRequest {
    /// The head exceeds the limit, so fields were dropped.
    Cut,
    /// A pseudo-header field is missing, unknown or repeated, or the combination is invalid.
    Pseudo,
}

impl FieldSection {
    /// Returns the request's pseudo-header fields and the other fields in order. The other fields are not
    /// checked here, because a caller that builds a head from them, as
    /// [`decode_request`](tollgate_http::h2::decode_request) does, checks them anyway.
    ///
    /// # Errors
    /// [`MalformedRequest`], if fields were dropped or the pseudo-header fields form no request.
    pub fn request(&self) -> Result<(Pseudo<'_>, FieldIter<'_>), MalformedRequest> {
        if self.is_cut() {
            return Err(MalformedRequest::Cut);
        }
        let mut others = self.iter();
        let (mut method, mut scheme, mut authority, mut path, mut protocol) = (None, None, None, None, None);
        let mut ahead = others;
        while let Some((name, value)) = ahead.next().filter(|(name, _)| name.first() == Some(&b':')) {
            let slot = match name {
                b":method" => &mut method,
                b":scheme" => &mut scheme,
                b":authority" => &mut authority,
                b":path" => &mut path,
                b":protocol" => &mut protocol,
                _ => return Err(MalformedRequest::Pseudo),
            };
            if slot.replace(value).is_some() {
                return Err(MalformedRequest::Pseudo);
            }
            others = ahead;
        }
        let method = method.ok_or(MalformedRequest::Pseudo)?;
        let is_plain_connect = method == b"CONNECT" && protocol.is_none();
        let is_whole = match (scheme, path) {
            (None, None) => is_plain_connect && authority.is_some(),
            (Some(_), Some(path)) => !is_plain_connect && !path.is_empty(),
            _ => false,
        };
        // RFC 8441, 4: only CONNECT may carry `:protocol`.
        let is_protocol = protocol.is_none() || method == b"CONNECT";
        if is_whole && is_protocol {
            // HTTP/2 has no `Sec-WebSocket-Key`; the code that forwards the request over HTTP/1 generates one.
            let protocol = protocol.map(|name| UpgradeProtocol { name, key: b"" });
            Ok((Pseudo { method, scheme, authority, path, protocol }, others))
        } else {
            Err(MalformedRequest::Pseudo)
        }
    }

    /// Whether fields that form no request break the protocol (RFC 9113, 8.1.1), rather than only exceed a
    /// limit of the reader.
    #[must_use]
    pub fn violates_protocol(&self) -> bool {
        match self.request() {
            Ok((_, others)) => !are_allowed(others),
            Err(MalformedRequest::Pseudo) => true,
            Err(MalformedRequest::Cut) => false,
        }
    }
}
