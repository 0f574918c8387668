//! Request heads in the form that all versions of HTTP share.
//!
//! The HTTP/1 parser and the HTTP/2 decoder fill a [`RequestHead`]. Routing, policies and forwarding read it,
//! and need not know which version carried the request.

use crate::body_length::BodyLength;
use crate::{Field, Head, Range};

/// A request method (RFC 9110, section 9; RFC 5789).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the method that it stands for")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Trace,
    Connect,
    Other,
}

impl Method {
    /// Looks up the method; methods are case-sensitive.
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Whether the method is safe: it requests no change (RFC 9110, 9.2.1).
    #[must_use]
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Whether the method is idempotent: repeating it has no further effect (RFC 9110, 9.2.2).
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }
}

/// The version of HTTP that carried a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2 (RFC 9113).
    Http2,
}

impl Version {
    /// The version as in a start line. HTTP/2 has none; it gets the minor version that RFC 9110, 2.5 implies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }

    /// The version as in `Via` (RFC 9110, 7.6.3).
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2.0",
        }
    }
}

/// The form of a request target (RFC 9112, 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `host:port`, only with CONNECT.
    Authority,
    /// `*`, only with OPTIONS.
    Asterisk,
}

/// A request head, with everything that the gateway understands of it. It is reused for each request, so that
/// its buffers are allocated once.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The bytes and fields as received.
    pub head: Head,
    /// The known method, or [`Method::Other`].
    pub method: Method,
    /// The method as written.
    pub method_text: Range,
    /// The version of HTTP that carried the request.
    pub version: Version,
    /// The whole target as written.
    pub target: Range,
    /// The form of the target.
    pub form: TargetForm,
    /// The target's path. Empty in an absolute target without one; `*` in the asterisk form.
    pub path: Range,
    /// The target's query, without the question mark.
    pub query: Option<Range>,
    /// Host and port that the request is for: from an absolute target, otherwise from `Host`. Empty for an
    /// HTTP/1.0 request without one.
    pub authority: Range,
    /// The host alone; an IPv6 address includes its brackets.
    pub host: Range,
    /// The end of the body.
    pub length: BodyLength,
    /// Whether the client wants to keep the connection.
    pub keep_alive: bool,
    /// The protocols in `Upgrade`, if `Connection` names it too and the version is HTTP/1.1.
    pub upgrade: Option<Range>,
    /// Whether the request arrived as extended CONNECT (RFC 8441), which upgrades its stream.
    pub extended: bool,
    /// Whether an HTTP/1.1 or HTTP/2 client sent `Expect: 100-continue` with a body.
    pub expect_continue: bool,
    /// Whether the client sent `TE: trailers` (RFC 9110, 10.1.4).
    pub wants_trailers: bool,
    /// Whether `Connection` nominates fields that must not be forwarded.
    pub nominates: bool,
    /// Whether the client's HPACK encoder marked a field, other than credentials, as never to be indexed by
    /// intermediaries (RFC 7541, 6.2.3).
    pub has_never_indexed: bool,
}

impl RequestHead {
    /// Whether the method is safe. Unlike [`Method::is_safe`], it knows all methods that IANA registers as safe: a WebDAV client
    /// that lists a folder changes nothing.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        let is_registered =
            || matches!(self.slice(self.method_text), b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY");
        self.method.is_safe() || self.method == Method::Other && is_registered()
    }

    /// Releases memory if an empty head has a capacity of more than `bytes`.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        self.head.shrink_to(bytes);
    }

    /// Empties the head and keeps its buffers.
    pub fn clear(&mut self) {
        let Self {
            head,
            method,
            method_text,
            version,
            target,
            form,
            path,
            query,
            authority,
            host,
            length,
            keep_alive,
            upgrade,
            extended,
            expect_continue,
            wants_trailers,
            nominates,
            has_never_indexed,
        } = self;
        head.clear();
        // Reset in place, rather than by copying a new head over the old one.
        (*method, *method_text, *version) = Default::default();
        (*target, *form, *path, *query) = Default::default();
        (*authority, *host, *length) = Default::default();
        (*keep_alive, *upgrade, *extended) = Default::default();
        (*expect_continue, *wants_trailers) = Default::default();
        (*nominates, *has_never_indexed) = Default::default();
    }

    /// The bytes of a range of the head.
    #[must_use]
    pub fn slice(&self, range: Range) -> &[u8] {
        self.head.slice(range)
    }

    /// Whether `Connection` nominates this field, so that it must not be forwarded. A client cannot remove
    /// fields that the gateway knows.
    #[must_use]
    pub const fn is_nominated(&self, field: &Field) -> bool {
        field.nominated
    }
}
