//! A request head with what the gateway understands of it.

use crate::h1::Length;
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
    /// The method that a token spells; methods are case-sensitive.
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

    /// Whether it asks for nothing to be changed (RFC 9110, 9.2.1).
    #[must_use]
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Whether doing it twice is as doing it once (RFC 9110, 9.2.2).
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }
}

/// The version of a message.
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
    /// As written in a start line; for HTTP/2, which has none, with the minor version that RFC 9110, 2.5 implies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }

    /// As written in `Via` (RFC 9110, 7.6.3).
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
    /// `host:port`, of CONNECT.
    Authority,
    /// `*`, of OPTIONS.
    Asterisk,
}

/// A request head with what the gateway understands of it. Kept and filled anew for every request, so that its
/// buffers are allocated once.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The head as received.
    pub head: Head,
    /// The method.
    pub method: Method,
    /// The method as written.
    pub method_text: Range,
    /// The version.
    pub version: Version,
    /// The whole target as written.
    pub target: Range,
    /// Its form.
    pub form: TargetForm,
    /// The target's path; empty in an absolute target without one, `*` in the asterisk form.
    pub path: Range,
    /// The target's query, without the question mark.
    pub query: Option<Range>,
    /// Host and port that the request is for: of an absolute target, else of `Host`. Empty for HTTP/1.0 without one.
    pub authority: Range,
    /// The host alone; an IPv6 address has its brackets.
    pub host: Range,
    /// Where the body ends.
    pub length: Length,
    /// Whether the client wants the connection kept.
    pub keep_alive: bool,
    /// The protocols of `Upgrade`, when `Connection` names it too and the version is HTTP/1.1.
    pub upgrade: Option<Range>,
    /// The request came as extended CONNECT (RFC 8441): what is to be upgraded is its stream.
    pub extended: bool,
    /// `Expect: 100-continue`, from an HTTP/1.1 client with a body.
    pub expect_continue: bool,
    /// `TE: trailers` (RFC 9110, 10.1.4).
    pub wants_trailers: bool,
    /// Whether `Connection` names fields of its own that must not go further.
    pub nominates: bool,
    /// Whether nobody on the way may keep one of the fields in a table, credentials aside: the client's HPACK has told so
    /// (RFC 7541, 6.2.3).
    pub has_secrets: bool,
}

impl RequestHead {
    /// Releases memory if an empty head keeps more than so many bytes.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        self.head.shrink_to(bytes);
    }

    /// Makes it empty and keeps its buffers.
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
            has_secrets,
        } = self;
        head.clear();
        // Where each is, without a new head that is copied over the old one.
        (*method, *method_text, *version) = Default::default();
        (*target, *form, *path, *query) = Default::default();
        (*authority, *host, *length) = Default::default();
        (*keep_alive, *upgrade, *extended) = Default::default();
        (*expect_continue, *wants_trailers) = Default::default();
        (*nominates, *has_secrets) = Default::default();
    }

    /// The bytes of a part.
    #[must_use]
    pub fn slice(&self, range: Range) -> &[u8] {
        self.head.slice(range)
    }

    /// Whether `Connection` names this field, so that it must not go further. Fields that the gateway knows are
    /// not for a client to remove.
    #[must_use]
    pub const fn is_nominated(&self, field: &Field) -> bool {
        field.nominated
    }
}
