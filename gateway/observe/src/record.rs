//! The data of an ended exchange: a [`Tally`] for the counters and a [`Record`] for the access log.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::{Details, EndpointAttempt, Reason, Slot};

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The request line could not be read.
    Unknown,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// Every variant, in the order of the metric.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Http10, Self::Http11, Self::Http2];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "-",
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }
}

/// The method of a request, as a label: methods that clients make up share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the methods")]
pub enum RequestMethod {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Trace,
    Connect,
    /// Any other method.
    Other,
    /// The request line could not be read.
    Unknown,
}

impl RequestMethod {
    /// Every variant, in order.
    pub const ALL: [Self; 11] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Delete,
        Self::Options,
        Self::Patch,
        Self::Trace,
        Self::Connect,
        Self::Other,
        Self::Unknown,
    ];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Other => "other",
            Self::Unknown => "-",
        }
    }
}

/// The TLS connection on which a request arrived.
#[derive(Clone, Copy, Debug)]
pub struct TlsRecord<'a> {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// The cipher suite, as IANA names it.
    pub cipher: &'static str,
    /// The server name from the client's handshake (SNI).
    pub server_name: Option<&'a str>,
    /// Subject of the client's certificate; `None`: the client presented none.
    pub client_subject: Option<&'a str>,
    /// SHA-256 hash of the client's certificate; `None`: the client presented none.
    pub client_fingerprint: Option<&'a str>,
    /// Whether the client presented a certificate that is not valid, and was admitted nevertheless.
    pub client_unverified: bool,
}

/// The numbers that the counters take from one ended exchange.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Why the gateway answered, or ended, the exchange itself.
    pub reason: Reason,
    /// The status sent to the client; 0: nothing was sent.
    pub status: u16,
    /// The version of HTTP.
    pub protocol: Protocol,
    /// The method.
    pub method: RequestMethod,
    /// The route's slot, from [`RouteSlots::get`](crate::RouteSlots::get).
    pub route_slot: Slot,
    /// The upstream's label slot, from [`Registry::upstream_slot`](crate::Registry::upstream_slot).
    pub upstream_slot: Slot,
    /// Bytes of the request body received from the client.
    pub bytes_in: u64,
    /// Bytes of the response body sent to the client.
    pub bytes_out: u64,
    /// From the first byte of the request to the head of the upstream's response.
    pub header: Option<Duration>,
    /// From the first byte of the request to the end of the exchange.
    pub total: Duration,
}

/// Everything about one ended exchange, for its log line. It borrows all of it, so recording allocates
/// nothing.
///
/// Texts that a peer sent are raw bytes: each format of the log escapes them as it needs to.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Why the gateway answered, or ended, the exchange itself.
    pub reason: Reason,
    /// The status sent to the client; 0: nothing was sent.
    pub status: u16,
    /// The final `grpc-status` of a gRPC call; `None`: not a gRPC call, or cut off before its status.
    pub grpc_status: Option<u8>,
    /// A few words of detail on the reason.
    pub detail: Option<&'a str>,
    /// The client's address: the peer's, or the address that trusted proxies report. Port 0 means unknown;
    /// the peer of a Unix socket is `0.0.0.0:0`.
    pub client: SocketAddr,
    /// Address of the connection's other end, which may be a trusted proxy.
    pub peer: SocketAddr,
    /// Whether it is a connection or session of layer 4, which carries no request.
    pub is_stream: bool,
    /// Whether the client used TLS, to the gateway or to a trusted proxy.
    pub secure: bool,
    /// The method, or empty if the request line could not be read.
    pub method: &'a [u8],
    /// The request target as the client sent it.
    pub target: &'a [u8],
    /// `HTTP/1.1`, `HTTP/1.0`, or empty.
    pub version: &'a [u8],
    /// The TLS connection on which it arrived; `None`: plain text.
    pub tls: Option<TlsRecord<'a>>,
    /// The server name that a passed-through TLS connection asks for (SNI); `None`: it has none, or `tls` has it.
    pub sni: Option<&'a str>,
    /// The protocols of a TLS connection of layer 4 (ALPN), that the client offered, separated by commas.
    pub alpn: Option<&'a [u8]>,
    /// The JA4 fingerprint of that handshake.
    pub ja4: Option<&'a str>,
    /// The requested host: from the `Host` field, the authority of the target, or the report of a trusted
    /// proxy.
    pub host: Option<&'a [u8]>,
    /// The `Referer` field.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
    /// The request id: generated here, or taken over from the request.
    pub request_id: Option<&'a [u8]>,
    /// The outcome at the cache; `None`: the route has no cache.
    pub cache: Option<&'a str>,
    /// The consumer that a policy identified; `None`: no policy did.
    pub consumer: Option<&'a str>,
    /// The trace to which the request belongs, and its span within it.
    pub span: Option<(u128, u64)>,
    /// Name of the route; empty: none matched.
    pub route: &'a str,
    /// Name of the upstream; empty: none was picked.
    pub upstream: &'a str,
    /// Address of the endpoint of the last attempt; empty: there was no attempt.
    pub endpoint: &'a str,
    /// Bytes of the request body received from the client.
    pub bytes_in: u64,
    /// Bytes of the response body sent to the client.
    pub bytes_out: u64,
    /// How many times the request was sent to an endpoint.
    pub attempts: u8,
    /// Whether the last attempt went over a connection from the pool.
    pub reused: bool,
    /// Time at which the first byte of the request arrived, on the monotonic clock.
    pub started: Instant,
    /// Time to open the upstream connection; `None`: no connection was opened.
    pub connect: Option<Duration>,
    /// From `started` to the head of the upstream's response.
    pub header: Option<Duration>,
    /// From `started` to the end of the exchange.
    pub total: Duration,
    /// Number of attempts before the last one.
    pub earlier: usize,
    /// Duration of the last attempt.
    pub attempt: Duration,
    /// Source of further details, by name or by index.
    pub details: &'a dyn Details,
}

impl<'a> Record<'a> {
    /// Returns an attempt. Index [`earlier`](Self::earlier) is the last one; `None`: there was no such
    /// attempt.
    #[must_use]
    pub fn attempt(&self, index: usize) -> Option<EndpointAttempt<'a>> {
        if index < self.earlier {
            return self.details.earlier(index);
        }
        let last = EndpointAttempt {
            endpoint: self.endpoint,
            status: if self.header.is_some() { self.status } else { 0 },
            reason: self.reason,
            took: self.attempt,
        };
        (index == self.earlier && !self.endpoint.is_empty()).then_some(last)
    }

    /// Returns when the exchange ended. Log lines carry this time, as nginx's do.
    #[must_use]
    pub fn ended(&self) -> Instant {
        self.started.checked_add(self.total).unwrap_or(self.started)
    }

    /// Returns the time from the head of the response to the end of the exchange.
    #[must_use]
    pub fn body(&self) -> Option<Duration> {
        self.header.map(|header| self.total.saturating_sub(header))
    }

    /// Returns the target's path without the query. A target in absolute form (RFC 9112, section 3.2.2) loses
    /// scheme and authority.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        let target = self.target;
        let path = match target.iter().position(|&byte| byte == b'?') {
            Some(query) => &target[..query],
            None => target,
        };
        if path.first() == Some(&b'/') {
            return path;
        }
        match path.windows(3).position(|part| part == b"://") {
            Some(scheme) => {
                let rest = &path[scheme + 3..];
                rest.iter().position(|&byte| byte == b'/').map_or(b"/", |slash| &rest[slash..])
            }
            None => path,
        }
    }

    /// Returns the part of the target after the first `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        let mark = self.target.iter().position(|&byte| byte == b'?')?;
        Some(&self.target[mark + 1..])
    }
}

/// Records and tallies for the tests of this crate.
#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    pub(crate) fn tally() -> Tally {
        Tally {
            reason: Reason::None,
            status: 200,
            protocol: Protocol::Http11,
            method: RequestMethod::Get,
            route_slot: Slot::NONE,
            upstream_slot: Slot::NONE,
            bytes_in: 0,
            bytes_out: 1234,
            header: Some(Duration::from_micros(1_250)),
            total: Duration::from_micros(2_500),
        }
    }

    pub(crate) fn record() -> Record<'static> {
        Record {
            reason: Reason::None,
            status: 200,
            grpc_status: None,
            detail: None,
            client: SocketAddr::from(([192, 0, 2, 7], 40_312)),
            peer: SocketAddr::from(([192, 0, 2, 7], 40_312)),
            is_stream: false,
            secure: true,
            method: b"GET",
            target: b"/v1/items?page=2",
            version: b"HTTP/1.1",
            tls: Some(TlsRecord {
                version: "1.3",
                cipher: "TLS_AES_128_GCM_SHA256",
                server_name: Some("api.example.com"),
                client_subject: None,
                client_fingerprint: None,
                client_unverified: false,
            }),
            sni: None,
            alpn: None,
            ja4: None,
            host: Some(b"api.example.com"),
            referer: None,
            user_agent: Some(b"curl/8.5.0"),
            request_id: Some(b"0123456789abcdef0123456789abcdef"),
            cache: None,
            consumer: None,
            span: None,
            route: "items",
            upstream: "shop",
            endpoint: "10.0.0.1:8080",
            bytes_in: 0,
            bytes_out: 1234,
            attempts: 1,
            reused: true,
            started: Instant::now(),
            connect: None,
            header: Some(Duration::from_micros(1_250)),
            total: Duration::from_micros(2_500),
            earlier: 0,
            attempt: Duration::from_micros(2_500),
            details: &(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_splits_into_path_and_query() {
        let cases = [
            ("/a/b?c=d?e", "/a/b", Some("c=d?e")),
            ("/a", "/a", None),
            ("/?", "/", Some("")),
            ("/a://b/c", "/a://b/c", None),
            ("http://h:80/a?b", "/a", Some("b")),
            ("http://h?b", "/", Some("b")),
            ("*", "*", None),
            ("", "", None),
        ];
        for (target, path, query) in cases {
            let record = Record { target: target.as_bytes(), ..sample::record() };
            assert_eq!(record.path(), path.as_bytes(), "{target}");
            assert_eq!(record.query(), query.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn the_body_takes_what_is_left() {
        let record = sample::record();
        assert_eq!(record.body(), Some(Duration::from_micros(1_250)));
        assert_eq!(Record { header: None, ..record }.body(), None);
    }
}
