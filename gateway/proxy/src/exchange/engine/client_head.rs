//! Writes the response head that goes to the client. Fields of the origin go on unchanged, except fields that
//! concern only its connection.

use tollgate_http::h1::write_status_line;
use tollgate_http::{Name, NameSet, ResponseHead, Version};
use tollgate_plan::GatewaySettings;

use crate::exchange::forwarded::write_via;
use crate::state::worker::Worker;

/// The parts of the head that the gateway decides: framing, connection, and its own lines.
pub(super) struct Framing<'a> {
    /// Whether the body is sent in chunks.
    pub chunked: bool,
    /// The status, if it differs from the origin's.
    pub status: Option<u16>,
    /// Whether the protocol is switched.
    pub switched: bool,
    /// Whether `Upgrade` names the protocols that the endpoint requires (RFC 9110, 15.5.22).
    pub names_upgrade: bool,
    /// Whether a length must be removed (RFC 9110, 8.6).
    pub drop_length: bool,
    /// Whether the connection is closed after the response.
    pub close: bool,
    /// Whether a `Connection: keep-alive` tells an HTTP/1.0 client that its connection stays open.
    pub keep_alive: bool,
    /// One more line of the gateway, with its CRLF; empty if there is none.
    pub line: &'a [u8],
    /// The line of `Strict-Transport-Security`, for responses without one; empty if there is none.
    pub strict_transport_security: &'a [u8],
}

impl Framing<'_> {
    /// Returns the framing of an interim response.
    pub(super) const fn interim() -> Self {
        Self {
            chunked: false,
            status: None,
            switched: false,
            names_upgrade: false,
            drop_length: true,
            close: false,
            keep_alive: false,
            line: b"",
            strict_transport_security: b"",
        }
    }
}

/// Names that must be checked before they go on. The lines of a head without any of them are copied in one
/// piece. Without `Connection`, no field is nominated.
const LOOKED_AT: NameSet = NameSet::of(&[
    Name::Connection,
    Name::KeepAlive,
    Name::ProxyConnection,
    Name::Te,
    Name::TransferEncoding,
    Name::Upgrade,
    Name::Via,
]);

/// Appends the head. Fields are copied as the origin wrote them and in its order, except fields that concern
/// only its connection.
pub(super) fn write(
    out: &mut Vec<u8>,
    response: &ResponseHead,
    framing: &Framing<'_>,
    settings: &GatewaySettings,
    worker: &Worker,
) {
    let head = &response.head;
    // RFC 9112, 2.3 and RFC 9110, 6.2: the gateway's own version, whatever the origin's.
    let as_is = response.version == Version::Http11 && framing.status.is_none();
    if let Some(status) = framing.status {
        write_status_line(out, status);
    } else if !as_is {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(head.slice(response.status_line));
        out.extend_from_slice(b"\r\n");
    }
    let via = settings.forwarded.via.as_deref();
    let drop_length = framing.drop_length || framing.chunked;
    let all_go = !head.has_any(LOOKED_AT) && (!drop_length || !head.has(Name::ContentLength));
    if all_go {
        out.extend_from_slice(head.lines(as_is));
    } else {
        // Of several `Upgrade` lines only the first counts. A switch has one protocol, so the client has
        // nothing to choose from.
        let mut upgrades = 0;
        head.copy_lines(out, as_is, |line| match line.id {
            name if name.can_be_nominated() => !response.is_nominated(line),
            Name::ContentLength => !drop_length,
            Name::Upgrade => {
                upgrades += 1;
                framing.names_upgrade || framing.switched && upgrades == 1
            }
            Name::AmbiguousSpelling => true,
            Name::Via => via.is_none(),
            name => !name.is_hop_by_hop(),
        });
    }
    // RFC 9110, 6.6.1: a recipient that forwards a response without `Date` adds one.
    if response.status >= 200 && !head.has(Name::Date) {
        out.extend_from_slice(b"Date: ");
        worker.write_date(out);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(pseudonym) = via {
        write_via(out, head, response.version, pseudonym);
    }
    out.extend_from_slice(framing.line);
    if !framing.strict_transport_security.is_empty()
        && head.get_by_text(b"strict-transport-security").is_none()
    {
        out.extend_from_slice(framing.strict_transport_security);
    }
    if framing.chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    let names_upgrade = framing.names_upgrade && head.has(Name::Upgrade);
    if framing.switched || names_upgrade && !framing.close {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
    } else if names_upgrade {
        out.extend_from_slice(b"Connection: Upgrade, close\r\n");
    } else if framing.close {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if framing.keep_alive {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
