//! The request as policies see it.
//!
//! The proxy creates a [`Request`] for each call of a policy, from the parsed head, its [`Origin`] and its
//! [`Context`]. The methods of [`Request`] change fields, but never those about framing and the connection.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use tollgate_http::h1::BodyLength;
use tollgate_http::{Name, RequestHead, Version};

use crate::Context;

/// The source of a request, its route and the worker that handles it.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The remote address of the connection.
    pub peer: SocketAddr,
    /// The client's address: the peer, or the address that trusted proxies announce.
    pub client: IpAddr,
    /// The client's port; `None`: trusted proxies do not announce it.
    pub client_port: Option<u16>,
    /// Whether the client uses TLS, to the gateway or, as announced, to a trusted proxy.
    pub secure: bool,
    /// The verified client certificate as DER.
    pub certificate: Option<&'a [u8]>,
    /// The route's name.
    pub route: &'a str,
    /// The number of the worker that handles the request.
    pub worker: usize,
    /// The time at which the request was received.
    pub now: Instant,
    /// The rule for which of the client's statements about itself are passed on.
    pub forwarding: &'a dyn ForwardingRule,
}

/// Decides which statements of a client about itself, and about the clients behind it, are passed on.
/// Authorization services receive only the fields that the upstream receives, because both may take such a
/// field for the gateway's.
pub trait ForwardingRule: std::fmt::Debug {
    /// Whether a field from this peer is passed on unchanged.
    fn passes(&self, peer: IpAddr, id: Name, name: &[u8]) -> bool;
}

/// Passes everything on.
impl ForwardingRule for () {
    fn passes(&self, _: IpAddr, _: Name, _: &[u8]) -> bool {
        true
    }
}

/// The request as policies see it: its head, its origin and the state of its evaluation.
#[derive(Debug)]
pub struct Request<'a> {
    /// The head, which [`set`](Self::set), [`append`](Self::append) and [`remove`](Self::remove) change.
    /// Fields about framing and about the connection are written by codecs only.
    pub head: &'a mut RequestHead,
    /// The path in normal form; empty if the client sent it in normal form.
    normal_path: &'a [u8],
    /// The source of the request.
    pub origin: &'a Origin<'a>,
    /// The findings of earlier policies, and the actions registered for later.
    pub context: &'a mut Context,
    /// The request id; empty if there is none.
    pub request_id: &'a [u8],
    /// See [`with_announced_authority`](Self::with_announced_authority); empty: no proxy announces an
    /// authority.
    announced: &'a [u8],
}

impl<'a> Request<'a> {
    /// Creates a request. `normal_path` is the path in normal form, or empty if the client sent it so;
    /// `request_id` may be empty.
    pub fn new(
        head: &'a mut RequestHead,
        normal_path: &'a [u8],
        origin: &'a Origin<'a>,
        context: &'a mut Context,
        request_id: &'a [u8],
    ) -> Self {
        Self { head, normal_path, origin, context, request_id, announced: b"" }
    }

    /// Sets the authority (host and optional port) that a trusted proxy announces; empty: none is announced.
    #[must_use]
    pub fn with_announced_authority(self, announced: &'a [u8]) -> Self {
        Self { announced, ..self }
    }

    /// Returns the path in normal form, without the query. The route was matched by it, and it is sent
    /// upstream.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        if self.normal_path.is_empty() { self.head.slice(self.head.path) } else { self.normal_path }
    }

    /// Returns the query, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.head.query.map(|query| self.head.slice(query))
    }

    /// Returns the method as sent.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.head.slice(self.head.method_text)
    }

    /// Returns the host that the client requested, without its port.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        if self.announced.is_empty() {
            return self.head.slice(self.head.host);
        }
        let end = match self.announced.first() {
            Some(b'[') => self.announced.iter().position(|byte| *byte == b']').map(|end| end + 1),
            _ => self.announced.iter().position(|byte| *byte == b':'),
        };
        &self.announced[..end.unwrap_or(self.announced.len())]
    }

    /// Returns the host that the client requested, with its port if it has one.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        if self.announced.is_empty() { self.head.slice(self.head.authority) } else { self.announced }
    }

    /// Returns the value of the first field of this name; case is ignored.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.head.get_by_text(name.as_bytes())
    }

    /// Returns the value of the first cookie of this name.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.head.head.cookie(name.as_bytes())
    }

    /// Replaces all fields of this name by one.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.append(name, value);
    }

    /// Appends a field. An invalid value is left out, so that it cannot start another field.
    pub fn append(&mut self, name: &str, value: &[u8]) {
        if may_be_changed(name.as_bytes()) {
            self.head.append(name.as_bytes(), value);
        }
    }

    /// Removes every field whose name is one of these, or looks like one of them. Endpoints that do not
    /// distinguish `-` from other punctuation (CGI, WSGI, Rack) would confuse the names. Case is ignored.
    pub fn remove_reserved(&mut self, names: &crate::Reserved) {
        let goes = |name: &[u8]| names.has(name) && may_be_changed(name);
        if self.head.head.fields().iter().any(|field| goes(self.head.slice(field.name))) {
            self.head.remove_where(goes);
        }
    }

    /// Reserves these fields for the gateway: they are [removed](Self::remove_reserved) from the head and dropped from
    /// trailers.
    pub fn reserve(&mut self, names: &crate::Reserved) {
        self.remove_reserved(names);
        // A request without a body has no trailers, nor has one with `Content-Length` in HTTP/1.
        let ends = match self.head.length {
            BodyLength::None => true,
            BodyLength::Exactly(_) => self.head.version != Version::Http2,
            BodyLength::Chunked | BodyLength::UntilClose => false,
        };
        if !ends {
            self.context.reserve(names);
        }
    }

    /// Removes every field of this name; case is ignored.
    pub fn remove(&mut self, name: &str) {
        if may_be_changed(name.as_bytes()) {
            self.head.remove_all(name.as_bytes());
        }
    }
}

/// Whether policies may change a field. The parser has already used the others, and only codecs write them.
pub(crate) fn may_be_changed(name: &[u8]) -> bool {
    let id = Name::of(name);
    !id.is_hop_by_hop() && !matches!(id, Name::Host | Name::ContentLength | Name::Expect)
}
