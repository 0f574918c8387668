//! The client as trusted proxies announce it: its address, and the scheme, host and port that it asked for.
//!
//! [`request`](crate::front::request::request) and [`dry_run`](crate::front::dry_run::dry_run) call [`Announced::read`] once for
//! each request, with the head as received. The log, policies, redirects, balancing and the fields for the
//! endpoint use the result. Invariant: no other code reads these fields, so those users cannot disagree.
//! Without `trusted_proxies` it costs one look at the settings.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tollgate_http::{Head, Name, RequestHead};
use tollgate_plan::Forwarded;

use crate::state::trusted_proxies::is_trusted;

/// Fields that name the scheme, in order. `X-Forwarded-Proto` and `Forwarded` come before them.
const SCHEMES: [&[u8]; 5] = [
    b"x-forwarded-scheme",
    b"x-forwarded-protocol",
    b"x-url-scheme",
    b"x-scheme",
    b"cloudfront-forwarded-proto",
];

/// Fields that are `on` if the client used TLS.
const SWITCHES: [&[u8]; 6] = [
    b"x-forwarded-ssl",
    b"front-end-https",
    b"x-forwarded-https",
    b"fastly-ssl",
    b"x-appengine-https",
    b"x-arr-ssl",
];

/// Cloudflare's field: a JSON object with the scheme.
const CF_VISITOR: &[u8] = b"cf-visitor";

/// The client of a request as trusted proxies announce it. If the peer is not trusted, the peer is the
/// client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    trusted: bool,
    /// Port 0 is an unknown port.
    client: Option<SocketAddr>,
    secure: Option<bool>,
    /// The host, with its port if it has one. Empty: the request's own.
    authority: Vec<u8>,
    /// The port that the client connected to, if the authority has none.
    port: Option<u16>,
    /// `Forwarded` names another client than `X-Forwarded-For`.
    contradicted: bool,
}

/// The client's place in a list of addresses to which each proxy has added its own peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AddressChain {
    /// The right-most address that is not a trusted proxy's; `None`: it is not an address.
    client: Option<SocketAddr>,
    /// The index of the client's element.
    at: usize,
    /// The number of elements.
    length: usize,
}

impl Announced {
    /// Forgets the announcements of the previous request.
    pub fn clear(&mut self) {
        self.trusted = false;
    }

    /// Reads the announcements of `peer`, if it is trusted. A `Forwarded` that contradicts `X-Forwarded-For`
    /// is removed from the head if it would go on unchanged, so that endpoints and the gateway believe the
    /// same.
    #[inline]
    pub fn read(&mut self, settings: &Forwarded, request: &mut RequestHead, peer: IpAddr) {
        self.trusted = false;
        if !settings.trusted_proxies.is_empty() && is_trusted(settings, peer) {
            self.read_trusted(settings, request);
        }
    }

    #[inline(never)]
    fn read_trusted(&mut self, settings: &Forwarded, request: &mut RequestHead) {
        self.trusted = true;
        (self.client, self.secure, self.port) = (None, None, None);
        self.authority.clear();
        let head = &request.head;
        let is_proxy = |address: &SocketAddr| is_trusted(settings, address.ip());
        let chain = AddressChain::of(head.list(Name::XForwardedFor).map(address), is_proxy);
        let mut forwarded = Vec::new();
        head.all(Name::Forwarded).for_each(|line| elements(line, &mut forwarded));
        let mut named =
            AddressChain::of(forwarded.iter().map(|element| address(parameter(element, b"for")?)), is_proxy);
        let names = forwarded.iter().any(|element| parameter(element, b"for").is_some());
        // Most proxies write one of the two and pass on the client's own line of the other. That is more
        // often `Forwarded`.
        let contradicts = names && chain.length > 0 && ip(chain.client) != ip(named.client);
        if contradicts {
            forwarded.clear();
            named = AddressChain::default();
        }
        self.client = match (chain.length, names && !contradicts) {
            (0, true) => named.client,
            (0, false) => head.get(Name::XRealIp).and_then(address),
            _ => chain.client,
        };
        // The client may have written every element before its own.
        let behind = forwarded.get(named.at..).unwrap_or_default();
        let parameter_of = |name: &[u8]| behind.iter().find_map(|element| parameter(element, name));
        self.secure = chain
            .pick(head, Name::XForwardedProto)
            .and_then(scheme)
            .or_else(|| parameter_of(b"proto").and_then(scheme))
            .or_else(|| other_scheme(head));
        let authority = chain.pick(head, Name::XForwardedHost).filter(|host| host_length(host).is_some());
        let authority =
            authority.or_else(|| parameter_of(b"host").filter(|host| host_length(host).is_some()));
        self.authority.extend_from_slice(authority.unwrap_or_default());
        self.port = chain.pick(head, Name::XForwardedPort).and_then(|port| {
            // A proxy behind the TLS terminator announces its own port of plain text.
            port_of(port).filter(|port| !matches!(port, 0 | 80 | 443))
        });
        self.contradicted = contradicts;
        if contradicts && settings.x_forwarded && !settings.forwarded {
            request.remove_all(b"forwarded");
        }
    }

    /// Returns whether the peer is a trusted proxy.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Returns the client's address. Port 0 means that the port is not known.
    #[inline]
    pub fn client(&self, peer: SocketAddr) -> SocketAddr {
        self.client.filter(|_| self.trusted).unwrap_or(peer)
    }

    /// Returns whether the client used TLS. `by_tls` says whether the peer did.
    #[inline]
    pub fn is_secure(&self, by_tls: bool) -> bool {
        self.secure.filter(|_| self.trusted).unwrap_or(by_tls)
    }

    /// Returns the announced host, with its port if it has one; empty if none was announced.
    #[inline]
    pub fn announced_authority(&self) -> &[u8] {
        if self.trusted { &self.authority } else { &[] }
    }

    /// Returns the host that the client asked for, with its port if it has one.
    #[inline]
    pub fn authority<'a>(&'a self, request: &'a RequestHead) -> &'a [u8] {
        match self.announced_authority() {
            [] => request.slice(request.authority),
            announced => announced,
        }
    }

    /// Splits the authority into the host, and the colon with the port if there is one.
    pub fn host_and_port<'a>(&'a self, request: &'a RequestHead) -> (&'a [u8], &'a [u8]) {
        let authority = self.authority(request);
        let length = match self.announced_authority() {
            [] => request.slice(request.host).len(),
            announced => host_length(announced).unwrap_or(announced.len()),
        };
        authority.split_at_checked(length).unwrap_or((authority, b""))
    }

    /// Returns whether `Forwarded` names another client than `X-Forwarded-For`.
    pub fn is_contradicted(&self) -> bool {
        self.trusted && self.contradicted
    }

    /// Returns the port that the client connected to, unless [`authority`](Self::authority) has one or it is
    /// a scheme's default.
    pub fn port(&self) -> Option<u16> {
        self.port.filter(|_| self.trusted)
    }
}

impl AddressChain {
    /// Reads the elements from left to right; `None` is an element that is not an address.
    fn of(
        elements: impl Iterator<Item = Option<SocketAddr>>,
        is_proxy: impl Fn(&SocketAddr) -> bool,
    ) -> Self {
        let mut chain = Self::default();
        for (at, element) in elements.enumerate() {
            chain.length = at + 1;
            let goes_on = chain.client.is_some() && element.as_ref().is_some_and(&is_proxy);
            if !goes_on {
                // Also with `None`: the elements before it do not come from a trusted proxy.
                (chain.client, chain.at) = (element, at);
            }
        }
        chain
    }

    /// Returns the client's element of another list: the one at the same index if both lists have the same
    /// length, else the first.
    fn pick<'a>(&self, head: &'a Head, list: Name) -> Option<&'a [u8]> {
        let at = if head.list(list).count() == self.length { self.at } else { 0 };
        head.list(list).nth(at)
    }
}

fn ip(address: Option<SocketAddr>) -> Option<IpAddr> {
    address.map(|address| address.ip())
}

/// Appends the elements of one line of `Forwarded` (RFC 7239, section 4).
fn elements<'a>(line: &'a [u8], out: &mut Vec<&'a [u8]>) {
    // A quote that a client leaves open must not hide the elements that proxies add after it.
    let balanced = line.iter().filter(|byte| **byte == b'"').count() % 2 == 0;
    let (mut quoted, mut start) = (false, 0);
    for (at, byte) in line.iter().enumerate() {
        match byte {
            b'"' if balanced => quoted = !quoted,
            b',' if !quoted => {
                out.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&line[start..]);
    out.retain(|element| !element.trim_ascii().is_empty());
}

/// Returns the value of a parameter in an element of `Forwarded`.
fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    element.split(|byte| *byte == b';').find_map(|pair| {
        let (found, rest) = pair.trim_ascii().split_at_checked(name.len())?;
        let value = rest.strip_prefix(b"=").filter(|_| found.eq_ignore_ascii_case(name))?;
        Some(unquoted(value.trim_ascii()))
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

/// Parses an address as proxies write it. It may have a port, which may be obfuscated (RFC 7239, section 6).
/// IPv6 may have brackets and a zone.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = str::from_utf8(unquoted(text)).ok()?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None if text.bytes().filter(|byte| *byte == b':').count() == 1 => {
            text.split_at(text.find(':').unwrap_or(text.len()))
        }
        None => (text, ""),
    };
    let port = match port.strip_prefix(':') {
        Some(port) if port.starts_with('_') => 0,
        Some(port) => port_of(port.as_bytes())?,
        None if port.is_empty() => 0,
        None => return None,
    };
    let host = host.split_once('%').map_or(host, |(host, _)| host);
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Parses a port. Unlike the standard library, it refuses a plus sign.
fn port_of(digits: &[u8]) -> Option<u16> {
    let digits = str::from_utf8(digits).ok()?;
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

/// Returns whether a scheme uses TLS. WebSocket's schemes count as well.
fn scheme(text: &[u8]) -> Option<bool> {
    let is = |name: &str| unquoted(text).eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("https") || is("wss") => Some(true),
        () if is("http") || is("ws") => Some(false),
        () => None,
    }
}

/// Returns whether one of the less common scheme fields announces TLS.
#[cold]
fn other_scheme(head: &Head) -> Option<bool> {
    let first = |name: &[u8]| {
        let value = head.get_by_text(name)?;
        value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).find(|value| !value.is_empty())
    };
    let switch = |value: &[u8]| {
        let is = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
        // `X-ARR-SSL` describes the certificate.
        !is(&["off", "0", "false", "no", "http"])
    };
    let visitor = |value: &[u8]| {
        let text: Vec<u8> = value.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect();
        let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
        match () {
            () if has(br#""scheme":"https""#) => Some(true),
            () if has(br#""scheme":"http""#) => Some(false),
            () => None,
        }
    };
    SCHEMES
        .iter()
        .find_map(|name| first(name).and_then(scheme))
        .or_else(|| SWITCHES.iter().find_map(|name| first(name).map(switch)))
        .or_else(|| head.get_by_text(CF_VISITOR).and_then(visitor))
}

/// Returns the length of the host in `host[:port]`; `None` if that is malformed.
fn host_length(text: &[u8]) -> Option<usize> {
    let length = match text {
        [b'[', rest @ ..] => {
            let inside = rest.iter().position(|byte| *byte == b']')?;
            str::from_utf8(&rest[..inside]).ok()?.parse::<Ipv6Addr>().ok()?;
            inside + 2
        }
        _ => text.iter().position(|byte| *byte == b':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at_checked(length)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let is_host = host.starts_with(b"[") || (!host.is_empty() && host.iter().all(is_name));
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => digits.is_empty() || port_of(digits).is_some(),
        _ => false,
    };
    (is_host && is_port).then_some(length)
}

#[cfg(test)]
mod tests;
