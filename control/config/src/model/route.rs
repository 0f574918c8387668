//! Routes: which requests they take, and what becomes of those.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{AccessLog, At, Policies, Priority, Retry, Spanned};

/// Tells a route that was read from all others: what was made of it once can be found again by it. A clone has the same, so
/// whoever changes a route gives it a new one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(u64);

/// Without its number, which says nothing of the route: what is read twice of one text is shown alike.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// One that no other has.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults would differ")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Which one it is.
    pub identity: Identity,
    /// Name in logs, metrics and `explain`; `None`: the match as text stands in.
    pub name: Option<Spanned<String>>,
    /// Where the route begins in its file.
    pub at: At,
    /// Which requests it takes.
    pub matches: Match,
    /// What it does with them.
    pub action: Action,
    /// What of the request is rewritten before it is forwarded.
    pub rewrite: Rewrite,
    /// Timeouts that differ from the gateway's.
    pub timeouts: RouteTimeouts,
    /// Largest request body in bytes; `None`: the gateway's.
    pub body_limit: Option<u64>,
    /// Rates that differ from the gateway's.
    pub rates: RouteRates,
    /// Whether bodies are collected before they are passed on, where that differs from the gateway's `buffer`.
    pub buffer: RouteBuffer,
    /// Protocols that may be asked for with `Upgrade`, lower case. Default `websocket`.
    pub upgrade: Vec<String>,
    /// What is tried again; `None`: as the upstream says.
    pub retry: Option<Retry>,
    /// How urgent its requests are.
    pub priority: Priority,
    /// Whether calls of gRPC-Web are translated to gRPC. Default false.
    pub grpc_web: bool,
    /// Its policies.
    pub policies: Policies,
    /// Its access logs, in place of the gateway's; `None`: the gateway's.
    pub access_log: Option<Vec<AccessLog>>,
    /// What takes the place of errors, in the order in which it is tried.
    pub fallback: Vec<Fallback>,
    /// How long its requests keep a client connection.
    pub stay: RouteStay,
}

impl Route {
    /// What it is called in logs, metrics and `explain`: its name, or its match.
    #[must_use]
    pub fn display_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.value.clone();
        }
        let host = self.matches.host.as_ref().map_or("", |host| host.value.as_str());
        let path = match self.matches.path.as_ref().map(|path| &path.value) {
            None => "/*".to_owned(),
            Some(PathMatch::Exact(path)) => path.clone(),
            Some(PathMatch::Prefix(path)) => format!("{path}/*"),
            Some(PathMatch::Regex(pattern)) => format!("~{pattern}"),
        };
        let methods = self.matches.methods.join(",");
        let space = if methods.is_empty() { "" } else { " " };
        format!("{methods}{space}{host}{path}")
    }
}

/// Which requests a route takes. An empty match takes everything.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// Where the match was written.
    pub at: At,
    /// Host, lower case: exact, or `*.example.com` for every host below; `None`: any. An IPv6 address is in
    /// brackets, as in `Host`, and in its shortest form (RFC 5952).
    pub host: Option<Spanned<String>>,
    /// Path; `None`: any, as is the prefix of the root (`/*`).
    pub path: Option<Spanned<PathMatch>>,
    /// Methods, upper case; empty: any.
    pub methods: Vec<String>,
    /// Whether it was written as a call of gRPC.
    pub grpc: bool,
    /// Header conditions, all of which must hold.
    pub headers: Vec<FieldMatch>,
    /// Query conditions, all of which must hold.
    pub query: Vec<FieldMatch>,
}

/// How a path is matched; texts are in normal form (RFC 3986, section 6.2.2: unreserved characters decoded, all
/// others that need it encoded, with upper case digits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// Exactly this path.
    Exact(String),
    /// This path and everything below it, by whole segments. Without a trailing slash; the root is the empty string.
    Prefix(String),
    /// A regular expression that must match the whole path.
    Regex(String),
}

/// A condition on a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// Its name; header names in lower case.
    pub name: String,
    /// What its value must be.
    pub value: ValueMatch,
    /// Where it was written.
    pub at: At,
}

/// What a value must be. Patterns were compiled once as `^(?:...)$` and are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatch {
    /// There, whatever its value (written `true` or `present`, or `{present: true}`).
    Present,
    /// Not there (`{present: false}`).
    Absent,
    /// Exactly this (a string, or `{exact: ...}`).
    Exact(String),
    /// A regular expression that must match the whole value (`{regex: ...}`).
    Regex(String),
}

/// What a route does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Forward to upstreams, chosen by weight.
    Forward(Vec<Target>),
    /// Answer with a redirect.
    Redirect(Redirect),
    /// Answer with a fixed response.
    Respond(Respond),
}

/// One place that requests may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// An endpoint or the name of an upstream.
    pub to: TargetKind,
    /// Share of the requests, relative to its neighbours'. Default 1; 0 takes none.
    pub weight: u32,
    /// Where it was written.
    pub at: At,
}

/// An endpoint or the name of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// An address of its own.
    Endpoint(EndpointAddress),
    /// An entry under `upstreams`.
    Upstream(String),
}

/// Where an endpoint is and what it speaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointAddress {
    /// What it speaks.
    pub scheme: Scheme,
    /// Where it is.
    pub address: Address,
}

/// What an endpoint speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP/1.1 in plain text (`host:port` or `http://host:port`).
    #[default]
    Http,
    /// HTTP/1.1 over TLS (`https://host:port`), or HTTP/2 where the upstream says so.
    Https,
    /// HTTP/2 by prior knowledge, in plain text (`h2c://host:port`).
    H2c,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or address, and a port of at least 1.
    Tcp {
        /// Host name or IP address (an IPv6 address without brackets).
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix socket (`unix:/path`).
    Unix(PathBuf),
}

/// What of the request is rewritten before it is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The path.
    pub path: Option<Spanned<PathRewrite>>,
    /// The `Host` sent upstream; `None`: the client's is kept.
    pub host: Option<HostRewrite>,
}

/// A new path. The query is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRewrite {
    /// This path, whatever it was (`rewrite: {path: /x}`).
    Full(String),
    /// A path with groups of the route's own pattern, which [`path_replacement`](crate::path_replacement) splits
    /// (`rewrite: {path: '/x/$1'}`); only with a pattern as the route's path.
    Groups(String),
    /// The prefix that matched is replaced (`rewrite: {prefix: /x}`); only with a prefix match.
    Prefix(String),
    /// Every match of a pattern is replaced; `$1`, `${1}` and `${name}` are groups (`rewrite: {regex: ...,
    /// replace: ...}`), which [`path_replacement`](crate::path_replacement) splits. In a file `${name}` is written `$${name}`, since `${NAME}` is an environment variable there.
    Regex {
        /// The pattern.
        pattern: String,
        /// What replaces it.
        replace: String,
    },
}

/// The `Host` sent upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRewrite {
    /// This text (`rewrite: {host: name}`).
    To(String),
    /// The endpoint's own `host:port` (`rewrite: {host: endpoint}`).
    Endpoint,
}

/// A redirect: what is not given is kept from the request. A string is a whole `Location`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308. Default 302.
    pub status: u16,
    /// A whole `Location`, in which groups of the route's own pattern may stand:
    /// [`location_replacement`](crate::location_replacement) splits it. The parts below are then unused.
    pub to: Option<Spanned<String>>,
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Path.
    pub path: Option<Spanned<PathRewrite>>,
}

/// A fixed response. `respond: 204`, `respond: "text"`, or a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// Status, 200 to 599. Default 200.
    pub status: u16,
    /// Header fields, in order. When there is a body the reader has seen to it that `Content-Type` is among them
    /// (`text/plain; charset=utf-8`, or `application/json` for `json:`). Never one that frames the message.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// Timeouts that a route or an upstream changes: `Some(None)` is `off`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// As [`Timeouts::connect`](super::Timeouts::connect).
    pub connect: Option<Option<Duration>>,
    /// As [`Timeouts::response_header`](super::Timeouts::response_header).
    pub response_header: Option<Option<Duration>>,
    /// As [`Timeouts::response_body`](super::Timeouts::response_body).
    pub response_body: Option<Option<Duration>>,
    /// As [`Timeouts::total`](super::Timeouts::total).
    pub total: Option<Option<Duration>>,
}

/// How long a route's requests keep a client connection, where that differs from the listener's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteStay {
    /// As [`Timeouts::idle`](super::Timeouts::idle), after a request of the route; `Some(None)` is `off`.
    pub idle: Option<Option<Duration>>,
    /// As [`Timeouts::age`](super::Timeouts::age), once the connection has carried a request of the route.
    pub age: Option<Duration>,
}

/// What takes the place of an error: an endpoint's answer, or the gateway's own where no endpoint has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The statuses of such errors, 400 to 599, in order.
    pub on: Vec<u16>,
    /// What takes their place.
    pub instead: Instead,
    /// Where it was written.
    pub at: At,
}

/// What takes the place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The answer of another upstream to the same request (`to`).
    Request(Target),
    /// A page that another upstream has (`to` and `path`).
    Page {
        /// Where it is.
        to: Target,
        /// Its path and query, in which `{status}` stands for the status of the error.
        path: String,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
    /// A fixed response (`respond`).
    Respond {
        /// Its fields and body.
        respond: Respond,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
}

impl Instead {
    /// The upstream that it asks, if it asks one.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Request(to) | Self::Page { to, .. } => Some(to),
            Self::Respond { .. } => None,
        }
    }
}

/// Least rates that a route changes: `Some(None)` is `off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteRates {
    /// As [`Limits::body_rate`](super::Limits::body_rate).
    pub body: Option<Option<u32>>,
    /// As [`Limits::response_rate`](super::Limits::response_rate).
    pub response: Option<Option<u32>>,
}

/// Whether bodies are collected before they are passed on. `None`: streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The request's (`buffer: {request: true | 10MiB | {memory, file}}`).
    pub request: Option<BufferBounds>,
    /// The response's.
    pub response: Option<BufferBounds>,
}

/// What a route changes of [`Buffer`]: `Some(None)` is `off`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteBuffer {
    /// The request's.
    pub request: Option<Option<BufferBounds>>,
    /// The response's.
    pub response: Option<Option<BufferBounds>>,
}

impl RouteBuffer {
    /// What holds for the route, where the gateway's is this.
    #[must_use]
    pub fn over(&self, gateway: &Buffer) -> Buffer {
        Buffer {
            request: self.request.unwrap_or(gateway.request),
            response: self.response.unwrap_or(gateway.response),
        }
    }
}

/// How much is collected where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferBounds {
    /// Bytes kept in memory. Default 64 KiB.
    pub memory: u64,
    /// Further bytes, kept in a temporary file. Default 1 GiB. A request past both is a 413, a response streams on from there.
    pub file: u64,
}
