//! Timeouts of the gateway, and their overrides by listeners, upstreams and routes.

use std::time::Duration;

use crate::section::Section;

const IDLE_ALSO: &[&str] = &["keepalive", "keepalive_timeout", "keep_alive", "idle_timeout"];
const SEND_ALSO: &[&str] = &["proxy_send_timeout"];
const AGE_ALSO: &[&str] =
    &["max_age", "max_connection_age", "max_connection_duration", "keepalive_time", "max_lifetime"];

/// Timeouts.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct Timeouts {
    /// From the first byte of a request head to its end (408).
    #[key(default = "10s")]
    pub header: Option<Duration>,
    /// Between two reads of a request body (408).
    #[key(default = "60s")]
    pub body: Option<Duration>,
    /// Idle time of a client connection (closed).
    #[key(default = "75s", also = ["keepalive", "keepalive_timeout", "keep_alive"])]
    pub idle: Option<Duration>,
    /// Maximum age of a client connection; its next response is its last (`Connection: close`, GOAWAY).
    #[key(default = off, also = AGE_ALSO)]
    pub age: Option<Duration>,
    /// Time during which a client reads no byte of a response (reset).
    #[key(default = "60s", also = ["send_timeout"])]
    pub write: Option<Duration>,
    /// Time to open a connection to an endpoint (504).
    #[key(default = "5s")]
    pub connect: Option<Duration>,
    /// Time during which an endpoint takes no byte of a request (504).
    #[key(default = "60s", also = SEND_ALSO)]
    pub send: Option<Duration>,
    /// Time from the end of the request to the response head (504).
    #[key(default = "60s", also = ["read", "proxy_read_timeout"])]
    pub response_header: Option<Duration>,
    /// Time between two reads of a response body (504, or a truncated response).
    #[key(default = "60s")]
    pub response_body: Option<Duration>,
    /// The whole exchange (504, or a truncated response).
    #[key(default = off)]
    pub total: Option<Duration>,
    /// Idle time of an upgraded connection, in both directions (closed).
    #[key(default = "1h", also = ["websocket", "tunnel"])]
    pub upgraded: Option<Duration>,
    /// Time from SIGTERM, when readiness starts to fail, until the listening sockets close.
    #[key(default = off)]
    pub drain_delay: Option<Duration>,
    /// Time for in-flight requests after SIGTERM.
    #[key(default = "30s")]
    pub drain: Option<Duration>,
    /// At a binary upgrade: time within which the workers of the new process must start.
    #[key(default = "30s")]
    pub takeover: Option<Duration>,
    /// Time for a client's TLS handshake.
    #[key(default = "10s", also = ["tls_handshake", "ssl_handshake_timeout"])]
    pub handshake: Option<Duration>,
}

/// Timeouts that a listener overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(noun = "`timeouts` of a listener")]
pub struct ListenerTimeouts {
    /// Idle time of a client connection (closed).
    #[key(also = IDLE_ALSO)]
    pub idle: Option<Option<Duration>>,
    /// Maximum age of a client connection; its next response is its last (`Connection: close`, GOAWAY).
    #[key(also = AGE_ALSO)]
    pub age: Option<Option<Duration>>,
}

/// Timeouts that an upstream overrides.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "exchange_timeouts", noun = "`timeouts` of an upstream")]
pub struct RouteTimeouts {
    /// Time to open a connection to an endpoint (504).
    pub connect: Option<Option<Duration>>,
    /// Time during which an endpoint takes no byte of a request (504).
    #[key(also = SEND_ALSO)]
    pub send: Option<Option<Duration>>,
    /// Time from the end of the request to the response head (504).
    #[key(also = ["read", "proxy_read_timeout"])]
    pub response_header: Option<Option<Duration>>,
    /// Time between two reads of a response body (504, or a truncated response).
    pub response_body: Option<Option<Duration>>,
    /// The whole exchange (504, or a truncated response).
    pub total: Option<Option<Duration>>,
    /// Idle time of an upgraded connection, in both directions (closed).
    #[key(also = ["websocket", "tunnel", "tunnel_timeout", "websocket_timeout"])]
    pub upgraded: Option<Option<Duration>>,
}

/// Overrides of the time that a client connection is kept, after requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
pub struct RouteStay {
    /// Idle time of a client connection after a request of this route (closed).
    #[key(also = IDLE_ALSO)]
    pub idle: Option<Option<Duration>>,
    /// Maximum age of a client connection that has carried a request of this route; its next response is its
    /// last.
    #[key(also = AGE_ALSO)]
    pub age: Option<Duration>,
}

/// Timeouts that a route overrides.
#[derive(Clone, Debug, Section)]
#[section(name = "route_timeouts", noun = "`timeouts` of a route")]
pub(crate) struct RouteTimeoutKeys {
    /// Overrides of the exchange's timeouts.
    #[key(flatten)]
    pub exchange: RouteTimeouts,
    /// Overrides of the time that a client connection is kept.
    #[key(flatten)]
    pub stay: RouteStay,
}
