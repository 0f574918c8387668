//! The plan's types.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::At;
use tollgate_http::HeadLimits;
use tollgate_net::{Address, ProxyVersion};
use tollgate_route::{PathRules, Router};

use crate::{
    Attached, Buffer, CertificatePart, Cidr, Discover, ErrorBodies, Forwarded, Http2, Limits, ListenAddress,
    Location, Overload, PathRewrite, PlannedLog, Pool, Priority, RequestId, Retry, Rewrite, RouteChains,
    RouteStay, Rules, Timeouts,
};

/// What a worker runs. Immutable.
#[derive(Debug)]
pub struct Plan {
    /// What holds for every route.
    pub settings: Settings,
    /// Finds the route of a request, by index into `routes`.
    pub router: Router,
    /// The routes; each behind a pointer that plans share while it is the same.
    pub routes: Vec<Arc<Route>>,
    /// The upstreams, named ones first; each behind a pointer that plans share while it is the same.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Where connections come in.
    pub listeners: Vec<Arc<Listener>>,
    /// TLS of the admin listener; `None`: plain text.
    pub admin: Option<tollgate_tls::Server>,
    /// Policies, each at its place.
    pub policies: Vec<Attached>,
    /// What requests meet of them, in that order, by index.
    pub chains: Vec<Vec<u32>>,
    /// The chain of each of `upstreams`: met when it is known that a request goes there.
    pub upstream_chains: Vec<Option<u32>>,
    /// Its access logs.
    pub logs: Vec<PlannedLog>,
}

impl Plan {
    /// What is said of the connections that come in at an address, as it is written in the file.
    #[must_use]
    pub fn listener(&self, bind: &ListenAddress) -> Option<&Arc<Listener>> {
        self.listeners.iter().find(|listener| listener.bind.is_same_place(bind))
    }
}

/// A certificate of a listener, for those who tell when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its file as it is written; where it is written itself, `certificates/NAME`.
    pub name: String,
    /// Where that is written.
    pub at: At,
    /// When it ends, in seconds since 1970; `None`: it does not tell.
    pub not_after: Option<i64>,
}

/// What is said of the connections that come in at an address.
#[derive(Debug)]
pub struct Listener {
    /// The address, as it is written in the file: its port can be 0.
    pub bind: ListenAddress,
    /// TLS; `None`: plain text.
    pub tls: Option<tollgate_tls::Server>,
    /// Its certificates, in the order of `tls`.
    pub certificates: Vec<Certificate>,
    /// Whether HTTP/2 is spoken.
    pub http2: Http2,
    /// Whether an HTTP/1 client that has ended its direction still gets its answers.
    pub half_close: bool,
    /// How long a connection may have no request.
    pub idle: Option<Duration>,
    /// How old a connection may become.
    pub age: Option<Duration>,
    /// Who begins connections with a header of the PROXY protocol.
    pub proxy_protocol: Vec<Cidr>,
    /// Where every request is sent; `None`: it is served.
    pub redirect: Option<Redirect>,
    /// The line of `Strict-Transport-Security`, with its CRLF; empty: none.
    pub strict_transport_security: Vec<u8>,
}

impl Listener {
    /// Whether something may come before a connection's first request.
    #[must_use]
    pub fn has_preamble(&self) -> bool {
        self.tls.is_some() || !self.proxy_protocol.is_empty()
    }
}

/// TLS to the endpoints of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whom to trust, and what to show.
    pub client: Arc<tollgate_tls::Client>,
    /// The name that the endpoints are asked for; `None`: each one's own.
    pub server_name: Option<String>,
    /// What those are called of which only an address is known.
    pub looked_up: Option<String>,
    /// The name that they are asked for, where it is not the one that their certificates must hold.
    pub sni: Option<String>,
}

/// What holds for every route.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sizes and counts that a peer may not exceed.
    pub limits: Limits,
    /// Those of them that bound a head.
    pub head_limits: HeadLimits,
    /// Timeouts where no route changes them.
    pub timeouts: Timeouts,
    /// What is said to the upstream about the client.
    pub forwarded: Forwarded,
    /// Fields that tell of the certificate that a client has shown; behind a pointer, by which one set is told from another.
    pub client_certificate: Arc<[(String, CertificatePart)]>,
    /// Request ids.
    pub request_id: RequestId,
    /// What the path's ambiguous bytes mean.
    pub paths: PathRules,
    /// Bodies of error answers, when replaced.
    pub errors: ErrorBodies,
    /// The zone that the gateway is in.
    pub zone: Option<String>,
    /// What of the process's own means is guarded.
    pub overload: Overload,
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Name in logs, metrics and `explain`.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// What of the request is rewritten.
    pub rewrite: Rewrite,
    /// Its timeouts, all filled in.
    pub timeouts: Timeouts,
    /// Largest request body in bytes.
    pub body_limit: Option<u64>,
    /// How slow its clients may be.
    pub rates: Rates,
    /// Whether bodies are collected before they are passed on.
    pub buffer: Buffer,
    /// Protocols that may be asked for with `Upgrade`, lower case.
    pub upgrade: Vec<String>,
    /// What is tried again; `None`: as the upstream says.
    pub retry: Option<Retry>,
    /// How urgent its requests are.
    pub priority: Priority,
    /// Whether calls of gRPC-Web are translated to gRPC.
    pub grpc_web: bool,
    /// The policies that its requests may meet; `None`: neither it nor its upstreams have any.
    pub policies: Option<RouteChains>,
    /// The keys of the access logs that have its requests; empty: none has. `None`: the gateway's have.
    pub logs: Option<Arc<[u64]>>,
    /// What takes the place of errors, in the order in which it is tried; `None`: nothing.
    pub fallback: Option<Arc<[Fallback]>>,
    /// How long its requests keep a client connection; `None`: as the listener says.
    pub stay: Option<Arc<RouteStay>>,
}

/// What takes the place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The statuses of such errors, in order.
    pub on: Vec<u16>,
    /// What takes their place.
    pub instead: Instead,
}

/// What takes the place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The answer of this upstream to the same request: an index into [`Plan::upstreams`].
    Request(usize),
    /// A page that an upstream has.
    Page {
        /// Index into [`Plan::upstreams`].
        upstream: usize,
        /// Path and query, in which `{status}` stands for the status of the error.
        path: String,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
    /// A fixed response.
    Respond {
        /// Its fields and body.
        respond: Respond,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
}

/// The least rates of a client, in bytes a second; `None`: any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// At which it sends a request's body.
    pub body: Option<u32>,
    /// At which it takes a response.
    pub response: Option<u32>,
    /// How long it may fall short of them at the start.
    pub grace: Duration,
}

impl Rates {
    /// The gateway's, for answers that belong to no route.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        Self { body: limits.body_rate, response: limits.response_rate, grace: limits.rate_grace }
    }
}

impl Route {
    /// The upstreams that it forwards to; nothing if it does not.
    #[must_use]
    pub fn shares(&self) -> Option<&[UpstreamShare]> {
        match &self.action {
            Action::Forward(shares) => Some(shares),
            Action::Redirect(_) | Action::Respond(_) => None,
        }
    }
}

/// What a route does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Forward to one of these, by weight.
    Forward(Vec<UpstreamShare>),
    /// Answer with a redirect.
    Redirect(Redirect),
    /// Answer with a fixed response.
    Respond(Respond),
}

/// An upstream's share of a route's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamShare {
    /// Index into [`Plan::upstreams`].
    pub upstream: usize,
    /// Weight relative to its neighbours'.
    pub weight: u32,
}

/// A redirect: what is not given is kept from the request.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// A whole `Location`; the parts below are then unused.
    pub to: Option<Location>,
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Path.
    pub path: Option<PathRewrite>,
}

/// A fixed response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// Status.
    pub status: u16,
    /// Header lines, each with its CRLF.
    pub headers: Vec<u8>,
    /// Body.
    pub body: Vec<u8>,
}

/// A set of endpoints that serve the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name; of one written in place, its endpoints as text.
    pub name: String,
    /// Its endpoints, as written.
    pub endpoints: Vec<Endpoint>,
    /// Where further endpoints are looked up.
    pub discover: Option<Discover>,
    /// The zone that the gateway is in: endpoints there are preferred.
    pub zone: Option<String>,
    /// Its connections.
    pub pool: Pool,
    /// TLS; `None`: plain text.
    pub tls: Option<Tls>,
    /// HTTP/2 to its endpoints; `None`: HTTP/1.1.
    pub http2: Option<EndpointHttp2>,
    /// The PROXY protocol header that connections to its endpoints begin with. None of them is kept then: each names a
    /// client.
    pub proxy_protocol: Option<ProxyVersion>,
    /// How it chooses among its endpoints and copes when they fail.
    pub rules: Rules,
}

/// HTTP/2 to the endpoints of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointHttp2 {
    /// Bytes of the heads that endpoints send, as HTTP/2 counts them (RFC 9113, 6.5.2).
    pub header_list: u32,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub address: Address,
    /// Share of the requests; 0 takes none.
    pub weight: u32,
    /// 0 is used first; a higher one when too few of the lower ones are healthy.
    pub priority: u8,
    /// The zone that it is in.
    pub zone: Option<String>,
}
