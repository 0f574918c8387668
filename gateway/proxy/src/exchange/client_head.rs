//! The response head as it goes to the client.

use tollgate_http::h1::write_decimal;
use tollgate_http::{Name, Names, ResponseHead, Version, title};
use tollgate_plan::Settings;

use crate::forwarded::write_via;
use crate::worker::Worker;

/// What the gateway says about the message's end and the connection.
pub(super) struct Framing<'a> {
    /// The body goes chunked.
    pub chunked: bool,
    /// The status, where it is not the origin's own.
    pub status: Option<u16>,
    /// The protocols are switched.
    pub switched: bool,
    /// `Upgrade` names the protocols that the endpoint requires (RFC 9110, 15.5.22).
    pub names_upgrade: bool,
    /// A length must not be there (RFC 9110, 8.6).
    pub drop_length: bool,
    /// The connection is closed after it.
    pub close: bool,
    /// An HTTP/1.0 client is told that it is kept.
    pub keep_alive: bool,
    /// A further line of the gateway's own, with its CRLF; empty: none.
    pub line: &'a [u8],
    /// The line of `Strict-Transport-Security`, for answers that have none; empty: none.
    pub strict_transport_security: &'a [u8],
}

impl Framing<'_> {
    /// Of an interim response.
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

/// Names that need a look before they go on; where a head has none of them, its lines go in one piece. Without
/// `Connection`, none is nominated.
const LOOKED_AT: Names = Names::of(&[
    Name::Connection,
    Name::KeepAlive,
    Name::ProxyConnection,
    Name::Te,
    Name::TransferEncoding,
    Name::Upgrade,
    Name::Via,
]);

/// Appends the head. Fields go as the origin wrote them and in its order, less those that concern its connection only.
pub(super) fn write(
    out: &mut Vec<u8>,
    response: &ResponseHead,
    framing: &Framing<'_>,
    settings: &Settings,
    worker: &Worker,
) {
    let head = &response.head;
    // RFC 9112, 2.3 and RFC 9110, 6.2: the gateway's own version, whatever the origin's.
    let as_is = response.version == Version::Http11 && framing.status.is_none();
    if let Some(status) = framing.status {
        out.extend_from_slice(b"HTTP/1.1 ");
        write_decimal(out, u64::from(status));
        out.push(b' ');
        out.extend_from_slice(title(status).as_bytes());
        out.extend_from_slice(b"\r\n");
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
        // A second line of it is not one that a client could be meant to choose from.
        let mut upgrades = 0;
        head.copy_lines(out, as_is, |line| match line.id {
            name if name.is_free() => !response.is_nominated(line),
            Name::ContentLength => !drop_length,
            Name::Upgrade => {
                upgrades += 1;
                framing.names_upgrade || framing.switched && upgrades == 1
            }
            Name::Alias => true,
            Name::Via => via.is_none(),
            name => !name.is_hop_by_hop(),
        });
    }
    // RFC 9110, 6.6.1: whoever passes a response on that has none adds the time that it came.
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
