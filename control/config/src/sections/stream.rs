//! An item of `streams`: which connections or datagrams of layer 4 it takes, and the endpoints that they are
//! relayed to.

use std::time::Duration;

use crate::position::{At, Spanned};
use crate::scalar::host::{self, HostPattern};
use crate::scalar::name::{listener_name, name};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value, Word};

use super::target::{StreamRespond, StreamTarget, Target, stream_targets};
use super::texts::{LISTENER_NAME, NAME};

static TARGET: Shape = <StreamTarget as Value>::SHAPE;
/// The shape of `to`, here and at a listener.
pub(super) const TARGETS: Shape = Shape::OneOrMany(&TARGET);
static SERVER_NAME: Text = Text {
    expected: "a server name such as `db.example.com` or `*.example.com`",
    pattern: Some(r"^(\*\.)?[A-Za-z0-9.-]+$"),
    loose: false,
};

/// The protocol that the clients of a listener speak to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Word)]
pub enum ListenerProtocol {
    /// HTTP; `routes` apply.
    #[default]
    Http,
    /// Any protocol over TCP; `streams` apply.
    Tcp,
    /// Datagrams; `streams` apply.
    Udp,
}

impl ListenerProtocol {
    /// Returns the value of the key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A stream: the connections or datagrams that it takes, and what they are relayed to.
#[derive(Clone, Debug, Section)]
#[section(name = "stream", noun = "a stream", exactly_one = ["to", "respond"], check = check)]
pub struct Stream {
    /// Source position of the stream.
    #[key(skip)]
    pub at: At,
    /// Name in logs and metrics. Default: its server names, or its listeners.
    #[key(text = NAME, parse = name)]
    pub name: Option<Spanned<String>>,
    /// Names of the listeners that it is attached to. Default: all listeners with `protocol: tcp` or `udp`; for a
    /// stream with `server_names`, all with `tcp`, and all of HTTP with `tls`.
    #[key(
        text = LISTENER_NAME, each = listener_name, what = "a listener", nonempty, bounded,
        also = ["listener", "listen", "entrypoints", "entryPoints", "ports", "parentRefs", "gateways"]
    )]
    pub listeners: Vec<Spanned<String>>,
    /// The names that clients ask for in the TLS handshake (SNI): exact, or `*.` and a suffix. The most specific name
    /// wins. Default: connections that no other stream of the listener takes.
    #[key(
        text = SERVER_NAME, each = server_name, what = "a server name", nonempty, bounded,
        also = ["server_name", "sni", "hosts", "host", "hostnames", "domains", "match", "HostSNI"]
    )]
    pub server_names: Vec<Spanned<String>>,
    /// `on`: passes TLS through although the listener has `tls`, so the endpoint does the handshake. Only with
    /// `server_names`, at a listener with `protocol: tcp`; streams without this key get what the gateway has decrypted.
    #[key(default = off, also = ["tls_passthrough", "pass_through", "ssl_passthrough"])]
    pub passthrough: bool,
    /// Relays to endpoints or upstreams, chosen by weight.
    #[key(
        shape = TARGETS, read = stream_targets,
        also = [
            "proxy_pass", "upstream", "backend", "backends", "target", "targets", "forward", "service",
            "endpoints"
        ]
    )]
    pub to: Option<Vec<Target>>,
    /// Answers without an endpoint: closes the connection, or drops the datagram.
    #[key(also = ["return", "close", "deny", "reject"])]
    pub respond: Option<StreamRespond>,
    /// Timeouts of its connections or sessions.
    #[key(also = ["timeout"])]
    pub timeouts: StreamTimeouts,
    /// Bounds on its connections or sessions.
    pub limits: StreamLimits,
}

/// Timeouts of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(name = "stream_timeouts", noun = "`timeouts` of a stream")]
pub struct StreamTimeouts {
    /// Time to open a connection to an endpoint. Default: the upstream's.
    #[key(also = ["proxy_connect_timeout"])]
    pub connect: Option<Option<Duration>>,
    /// Time during which no byte moves in either direction. Default: `upgraded` of the upstream or the gateway; for UDP
    /// 60 seconds.
    #[key(also = ["proxy_timeout", "read", "client", "server", "session", "tunnel"])]
    pub idle: Option<Option<Duration>>,
    /// The whole connection or session.
    #[key(default = off, also = ["max_age", "age", "max_duration", "max_connection_duration"])]
    pub total: Option<Duration>,
}

/// Bounds on the connections or sessions of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(name = "stream_limits", noun = "`limits` of a stream")]
pub struct StreamLimits {
    /// Connections or sessions at once, over all workers. For UDP `off` means 10,000.
    #[key(count = 1..=100_000_000, off, default = off, also = ["sessions", "max_connections", "maxconn"])]
    pub connections: Option<u32>,
    /// Connections or sessions at once of one client address, over all workers.
    #[key(
        count = 1..=100_000_000, off, default = off,
        also = ["per_client", "per_ip", "limit_conn", "connections_per_address"]
    )]
    pub per_address: Option<u32>,
    /// UDP: bytes that a session sends to its endpoint before the endpoint answers. `off` is for protocols without
    /// answers, such as syslog.
    #[key(size = "1KiB"..="1GiB", off, default = "1MiB")]
    pub unanswered: Option<u64>,
    /// UDP: bytes that a session sends to its client before the client sends again after an answer. One datagram with
    /// a forged address causes no more.
    #[key(size = "1KiB"..="1GiB", off, default = "64KiB", also = ["amplification"])]
    pub unconfirmed: Option<u64>,
}

impl Stream {
    /// Returns a stream that takes everything that arrives at one listener.
    pub(super) fn of_listener(to: Vec<Target>, at: At) -> Self {
        Self {
            at,
            name: None,
            listeners: Vec::new(),
            server_names: Vec::new(),
            passthrough: false,
            to: Some(to),
            respond: None,
            timeouts: StreamTimeouts::default(),
            limits: StreamLimits::default(),
        }
    }

    /// Returns the name in logs and metrics: its own, or its server names and listeners.
    #[must_use]
    pub fn display_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.value.clone();
        }
        let join = |names: &[Spanned<String>]| {
            names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(",")
        };
        match (join(&self.server_names), join(&self.listeners)) {
            (names, listeners) if names.is_empty() && listeners.is_empty() => "*".to_owned(),
            (names, listeners) if names.is_empty() => format!("@{listeners}"),
            (names, listeners) if listeners.is_empty() => names,
            (names, listeners) => format!("{names} @{listeners}"),
        }
    }
}

/// Parses a name of the TLS handshake, which is never an address (RFC 6066, section 3).
fn server_name(text: &str) -> Result<String, ScalarError> {
    let name = match host::pattern(text)? {
        HostPattern::Name(name) => name,
        HostPattern::Any => {
            let fault = ScalarError::new("{} is no server name");
            return Err(fault.help("a stream without `server_names` takes every connection"));
        }
    };
    if name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok() {
        let fault = ScalarError::new("{} is an address, and clients send none as a server name");
        return Err(fault.help("a stream without `server_names` takes connections without a name"));
    }
    Ok(name)
}

fn check(reader: &mut Reader, fields: &Fields<'_>, stream: &mut Stream) {
    stream.at = fields.at;
    if stream.passthrough
        && stream.server_names.is_empty()
        && let Some(field) = fields.get("passthrough")
    {
        let problem = Problem::error(field.at, "`passthrough` needs `server_names`");
        reader.problems.push(problem.help("the server name decides which connections are not decrypted"));
    }
    if stream.respond.is_some() {
        for name in ["timeouts"] {
            if let Some(field) = fields.get(name) {
                let problem = Problem::warning(field.at, format!("`{name}` has no effect here"));
                reader.problems.push(problem.help("it applies only with `to`: this stream closes at once"));
            }
        }
    }
}

/// Reads the shorthand `to` of a listener.
pub(super) fn of_listener(reader: &mut Reader, field: Field<'_>) -> Option<Stream> {
    stream_targets(reader, field).map(|targets| Stream::of_listener(targets, field.at))
}
