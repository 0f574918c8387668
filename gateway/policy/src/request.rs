//! A request as policies see it.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use tollgate_http::h1::Length;
use tollgate_http::{Name, RequestHead, Version};

use crate::Context;

/// Where a request comes from, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The client: the peer, or whom trusted proxies name.
    pub client: IpAddr,
    /// The client's port; `None`: trusted proxies do not say it.
    pub client_port: Option<u16>,
    /// Whether the client has used TLS, to the gateway or, as that says, to a trusted proxy.
    pub secure: bool,
    /// The certificate that the client has shown and that was verified, as DER.
    pub certificate: Option<&'a [u8]>,
    /// The route's name.
    pub route: &'a str,
    /// The number of the worker that has it.
    pub worker: usize,
    /// When it is.
    pub now: Instant,
    /// What of the client's own word on who it is goes on.
    pub word: &'a dyn Word,
}

/// What clients say of themselves, and of whom they speak for. Services that judge a request hear no more of it than the upstream
/// does: both may take such a field for the gateway's own.
pub trait Word: std::fmt::Debug {
    /// Whether a field goes on as it came from this peer.
    fn passes(&self, peer: IpAddr, id: Name, name: &[u8]) -> bool;
}

/// All of it is believed.
impl Word for () {
    fn passes(&self, _: IpAddr, _: Name, _: &[u8]) -> bool {
        true
    }
}

/// A request as policies see it: what it says, where it comes from, and what has become of it so far.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its head, which may be changed by [`set`](Self::set), [`append`](Self::append) and [`remove`](Self::remove). What says
    /// where it ends and what concerns one connection only, codecs alone write.
    pub head: &'a mut RequestHead,
    /// The path in normal form where that is not what was sent; empty: it is.
    changed: &'a [u8],
    /// Where it comes from.
    pub origin: &'a Origin<'a>,
    /// What policies before this one have found, and what is to be done later.
    pub context: &'a mut Context,
    /// Its id; empty: none.
    pub request_id: &'a [u8],
    /// See [`asked_at`](Self::asked_at).
    announced: &'a [u8],
}

impl<'a> Request<'a> {
    /// `changed` is its path in normal form, if that is not what was sent; `request_id` is empty if it has none.
    pub fn new(
        head: &'a mut RequestHead,
        changed: &'a [u8],
        origin: &'a Origin<'a>,
        context: &'a mut Context,
        request_id: &'a [u8],
    ) -> Self {
        Self { head, changed, origin, context, request_id, announced: b"" }
    }

    /// With the host that a trusted proxy says the client has asked for, and its port if it has one; empty: it says none.
    #[must_use]
    pub fn asked_at(self, announced: &'a [u8]) -> Self {
        Self { announced, ..self }
    }

    /// The path in normal form, which was matched and goes upstream; without the query.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        if self.changed.is_empty() { self.head.slice(self.head.path) } else { self.changed }
    }

    /// The query, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.head.query.map(|query| self.head.slice(query))
    }

    /// The method as sent.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.head.slice(self.head.method_text)
    }

    /// The host that the client has asked for, without its port.
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

    /// The same with its port, if it has one.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        if self.announced.is_empty() { self.head.slice(self.head.authority) } else { self.announced }
    }

    /// The value of the first field of this name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.head.get_by_text(name.as_bytes())
    }

    /// The value of the first cookie of this name.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.head.head.cookie(name.as_bytes())
    }

    /// Gives the request this field alone of its name.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.append(name, value);
    }

    /// Gives the request a further field. What cannot stand in a line is left out: nothing may begin another one.
    pub fn append(&mut self, name: &str, value: &[u8]) {
        if is_free(name.as_bytes()) {
            self.head.append(name.as_bytes(), value);
        }
    }

    /// Takes out every field whose name one of these is, in any case, or looks like: endpoints that know no difference between
    /// `-` and other punctuation (CGI, WSGI, Rack) would take it for one of these.
    pub fn strip(&mut self, names: &crate::Reserved) {
        let goes = |name: &[u8]| names.has(name) && is_free(name);
        if self.head.head.fields().iter().any(|field| goes(self.head.slice(field.name))) {
            self.head.remove_where(goes);
        }
    }

    /// Has these fields be what the gateway makes of them alone: they are [stripped](Self::strip), and none of them comes
    /// behind the body.
    pub fn claim(&mut self, names: &crate::Reserved) {
        self.strip(names);
        // What has no body has nothing behind it, and neither has one of a length that was told, in HTTP/1.
        let ends = match self.head.length {
            Length::None => true,
            Length::Exactly(_) => self.head.version != Version::Http2,
            Length::Chunked | Length::UntilClose => false,
        };
        if !ends {
            self.context.reserve(names);
        }
    }

    /// Takes out every field of this name, in any case.
    pub fn remove(&mut self, name: &str) {
        if is_free(name.as_bytes()) {
            self.head.remove_all(name.as_bytes());
        }
    }
}

/// Whether a field is one that policies may change: the others were understood already, and codecs alone write them.
pub(crate) fn is_free(name: &[u8]) -> bool {
    let id = Name::of(name);
    !id.is_hop_by_hop() && !matches!(id, Name::Host | Name::ContentLength | Name::Expect)
}
