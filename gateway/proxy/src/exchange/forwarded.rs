//! The fields that describe the client to the upstream: `X-Forwarded-*`, `Forwarded` and `Via`.
//!
//! The exchange calls [`keeps`] for each field of the client's head and [`write`] for the gateway's own
//! lines. [`drop_claims`] removes fields by which an untrusted peer could pose as a proxy, before routes and
//! policies see the request. Invariant: the upstream receives such fields only from the gateway or from a
//! trusted proxy.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use tollgate_http::{Head, Name, NameSet, RequestHead, Version};
use tollgate_plan::{Forwarded, GatewaySettings};
use tollgate_policy::ForwardingRule;

use crate::state::announced::Announced;
use crate::state::client_certificate::ReservedFields;
use crate::state::trusted_proxies::is_trusted;

/// Returns whether a field of the client's head goes on unchanged. Fields that the gateway writes never do.
/// An untrusted client's claims about its address do not either, also under names that the gateway does not
/// write (`X-Real-IP`).
pub(crate) fn keeps(settings: &Forwarded, trusted: bool, name: Name) -> bool {
    match name {
        Name::XForwardedFor | Name::XForwardedHost | Name::XForwardedProto => !settings.x_forwarded,
        Name::XForwardedPort | Name::XRealIp => {
            trusted || !settings.x_forwarded || is_kept(settings, name.as_str().as_bytes())
        }
        Name::Forwarded => !settings.forwarded && (trusted || !settings.x_forwarded),
        Name::Via => settings.via.is_none(),
        // RFC 9440, 3.1: an endpoint must be able to trust these fields.
        Name::ClientCert | Name::ClientCertChain => trusted,
        _ => true,
    }
}

/// Fields that services trust a proxy to set, and that the gateway does not write itself.
pub(crate) const CLAIMS: NameSet = NameSet::of(&[Name::XForwardedOther, Name::ProxyClaim]);

/// Removes [`CLAIMS`] from the request of an untrusted peer. This happens before routes and policies look at
/// the request, so that they do not trust them either. Policies may set such fields later.
#[cold]
pub(crate) fn drop_claims(request: &mut RequestHead, settings: &Forwarded, peer: IpAddr) {
    if is_trusted(settings, peer) {
        return;
    }
    request.retain(|id, name| match id {
        // With `x_forwarded: off`, the gateway passes on all fields of this family.
        Name::XForwardedOther => !settings.x_forwarded || is_kept(settings, name),
        Name::ProxyClaim => is_kept(settings, name),
        _ => true,
    });
}

/// Returns whether `forwarded.keep` names a field.
fn is_kept(settings: &Forwarded, name: &[u8]) -> bool {
    settings.keep.iter().any(|kept| kept.value.as_bytes().eq_ignore_ascii_case(name))
}

/// Tells policies which of the client's fields an external service may see. The rules are the same as for
/// upstreams.
#[derive(Debug)]
pub(crate) struct ForwardedFields<'a>(pub &'a GatewaySettings);

impl ForwardingRule for ForwardedFields<'_> {
    fn passes(&self, peer: IpAddr, id: Name, name: &[u8]) -> bool {
        let trusted = is_trusted(&self.0.forwarded, peer);
        keeps(&self.0.forwarded, trusted, id) && !ReservedFields::new(self.0, trusted).is_certificates(name)
    }
}

/// Writes the gateway's own lines about a request that arrived from `peer`; `secure` says whether it came
/// over TLS.
pub(crate) fn write(
    out: &mut Vec<u8>,
    settings: &Forwarded,
    announced: &Announced,
    request: &RequestHead,
    peer: SocketAddr,
    secure: bool,
) {
    let head = &request.head;
    let host = announced.authority(request);
    if settings.x_forwarded {
        out.extend_from_slice(b"X-Forwarded-For: ");
        if announced.is_trusted() {
            append_chain(out, announced, head, Name::XForwardedFor, peer, |out, client| {
                write_address(out, client);
            });
        }
        write_address(out, peer.ip());
        out.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
        out.extend_from_slice(proto(announced.is_secure(secure)));
        if !host.is_empty() {
            out.extend_from_slice(b"\r\nX-Forwarded-Host: ");
            out.extend_from_slice(host);
        }
        out.extend_from_slice(b"\r\n");
    }
    if settings.forwarded {
        // RFC 7239, section 4; an IPv6 address is quoted and bracketed (section 6).
        out.extend_from_slice(b"Forwarded: ");
        if announced.is_trusted() {
            append_chain(out, announced, head, Name::Forwarded, peer, |out, client| {
                write_element(out, client, host, announced.is_secure(secure));
            });
        }
        write_element(out, peer.ip(), request.slice(request.authority), secure);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(pseudonym) = &settings.via {
        write_via(out, head, request.version, pseudonym);
    }
}

/// Writes the `Via` of a request or a response: first the entries that the message has, then the version that
/// it arrived in and the gateway's pseudonym (RFC 9110, 7.6.3).
pub(crate) fn write_via(out: &mut Vec<u8>, head: &Head, version: Version, pseudonym: &str) {
    out.extend_from_slice(b"Via: ");
    append_all(out, head, Name::Via);
    out.extend_from_slice(version.number().as_bytes());
    out.push(b' ');
    out.extend_from_slice(pseudonym.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the elements that trusted proxies have sent in a list of addresses, each followed by a comma. If
/// they named the client in another field, `write` writes its element.
fn append_chain(
    out: &mut Vec<u8>,
    announced: &Announced,
    head: &Head,
    name: Name,
    peer: SocketAddr,
    write: impl FnOnce(&mut Vec<u8>, IpAddr),
) {
    let client = announced.client(peer).ip();
    let named = head.has(name) && !(name == Name::Forwarded && announced.is_contradicted());
    append_all(out, head, name);
    if !named && client != peer.ip() {
        write(out, client);
        out.extend_from_slice(b", ");
    }
}

fn write_element(out: &mut Vec<u8>, address: IpAddr, host: &[u8], secure: bool) {
    out.extend_from_slice(b"for=");
    let quoted = address.is_ipv6();
    out.extend_from_slice(if quoted { b"\"[" } else { b"" });
    write_address(out, address);
    out.extend_from_slice(if quoted { b"]\"" } else { b"" });
    if !host.is_empty() {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host);
        out.extend_from_slice(b"\"");
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto(secure));
}

fn proto(secure: bool) -> &'static [u8] {
    if secure { b"https" } else { b"http" }
}

fn append_all(out: &mut Vec<u8>, head: &Head, name: Name) {
    for value in head.all(name).filter(|value| !value.is_empty()) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
}

/// The decimal digits of each octet followed by a dot, with their length.
static OCTETS: [([u8; 4], usize); 256] = octets();

const fn octets() -> [([u8; 4], usize); 256] {
    let mut table = [([b'.'; 4], 0); 256];
    let mut octet = 0;
    while octet < table.len() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let (text, length) = &mut table[octet];
        let mut at = (octet < 100) as usize + (octet < 10) as usize;
        while at < digits.len() {
            text[*length] = b'0' + digits[at] as u8;
            *length += 1;
            at += 1;
        }
        *length += 1;
        octet += 1;
    }
    table
}

fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        // Formatted by hand, because every request needs it.
        IpAddr::V4(address) => {
            let mut text = [0; 16];
            let mut length = 0;
            for octet in address.octets() {
                let (digits, count) = OCTETS[usize::from(octet)];
                text[length..length + digits.len()].copy_from_slice(&digits);
                length += count;
            }
            out.extend_from_slice(&text[..length - 1]);
        }
        // Writing to a Vec cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in ["0.0.0.0", "127.0.0.1", "255.10.9.200", "100.101.110.199", "2001:db8::1"] {
            let mut out = Vec::new();
            write_address(&mut out, text.parse().expect("an address"));
            assert_eq!(out, text.as_bytes());
        }
    }
}
