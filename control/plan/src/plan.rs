//! The types of which a [`Plan`] consists.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config as config;
use tollgate_config::At;
use tollgate_files::Site;
use tollgate_http::HeadLimits;
use tollgate_net::{Address, ProxyVersion};
use tollgate_policy::Planned;
use tollgate_route::{PathRules, Routers};

use crate::listener_index::IndexedListener;
use crate::{
    Buffer, CacheStore, CertificatePart, Cidr, Discover, ErrorBodies, Forwarded, Http2, Limits,
    ListenAddress, ListenerIndex, ListenerProtocol, Location, Overload, PathRewrite, PlannedLog, Pool,
    Priority, RequestId, Retry, Rewrite, RouteStay, Rules, StreamTable, Timeouts,
};

/// Everything that a worker needs in order to serve: listeners, routes, upstreams and policies. Immutable.
#[derive(Debug)]
pub struct Plan {
    /// Settings that apply to every route.
    pub settings: GatewaySettings,
    /// Find the route of a request, by index into `routes`. The first one finds the routes that are attached to
    /// no listener by name; [`PlannedListener::router`] has the number of a listener's own.
    pub routers: Routers,
    /// The routes. A route that has not changed since the plan before is the same object.
    pub routes: Vec<Arc<Route>>,
    /// The upstreams, named ones first. An upstream that has not changed since the plan before is the same
    /// object.
    pub upstreams: Vec<Arc<Upstream>>,
    /// The listeners: the file's in its order, then those of documents by name. Several may share an address.
    pub listeners: Vec<Arc<PlannedListener>>,
    /// Finds them by address and host.
    pub listener_index: ListenerIndex,
    /// TLS of the admin listener; `None`: plain text.
    pub admin: Option<tollgate_tls::TlsServerConfig>,
    /// The policies of all places. `chains` refers to them by index.
    pub policies: Vec<AttachedPolicy>,
    /// Sequences of policies in the order in which a request passes them, as indices into `policies`.
    pub chains: Vec<Vec<u32>>,
    /// The chain of each entry of `upstreams`, by the same index. It applies once the upstream of a request
    /// is known.
    pub upstream_chains: Vec<Option<u32>>,
    /// The access logs of the gateway and of its routes.
    pub logs: Vec<PlannedLog>,
}

impl Plan {
    /// Returns the first listener at an address. The address is compared as it is written in the file.
    #[must_use]
    pub fn listener(&self, bind: &ListenAddress) -> Option<&Arc<PlannedListener>> {
        self.listeners.get(self.listener_index.at(bind)?)
    }

    /// Returns the listener for a host among listeners with hosts that share an address. The host may be in any case, and is
    /// empty if a request or a handshake names none.
    #[must_use]
    pub fn listener_for_host(&self, bind: &ListenAddress, host: &[u8]) -> Option<&Arc<PlannedListener>> {
        self.listeners.get(self.listener_index.for_host(bind, host)?)
    }

    /// Returns the names of the routes that another one shadows, each with the other one's.
    pub fn shadowed_routes(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = |route: u32| self.routes[route as usize].name.as_str();
        self.routers.shadows().iter().map(move |shadow| (name(shadow.route), name(shadow.by)))
    }

    /// Returns the number of the router for connections of a listener, which may be a listener of another plan:
    /// the router of the listener with its address, else of the listener with its name, else the first router.
    #[must_use]
    pub fn router_of(&self, listener: &PlannedListener) -> u32 {
        if self.routers.is_single() {
            return 0;
        }
        let is_named = |other: &&Arc<PlannedListener>| listener.name.is_some() && other.name == listener.name;
        let found = self.listener(&listener.bind).or_else(|| self.listeners.iter().find(is_named));
        found.map_or(0, |found| found.router)
    }
}

/// A certificate of a listener; log, metrics and status page report when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The path of its file as it is written; `certificates/NAME` if the configuration holds the PEM text.
    pub name: String,
    /// Position of the path or the PEM text in the configuration.
    pub at: At,
    /// When it expires, in seconds since 1970; `None` if that cannot be parsed.
    pub not_after: Option<i64>,
}

/// The settings of the connections that a listening socket accepts.
#[derive(Debug)]
pub struct PlannedListener {
    /// The address as it is written in the file; its port may be 0.
    pub bind: ListenAddress,
    /// Position of the address in the configuration.
    pub at: At,
    /// The name by which routes refer to it.
    pub name: Option<String>,
    /// The protocol that its clients speak.
    pub protocol: ListenerProtocol,
    /// Its streams. A listener of HTTP has some if it passes TLS connections through; one of TCP or UDP always.
    pub streams: Option<Arc<StreamTable>>,
    /// The number of its router in [`Plan::routers`].
    pub router: u32,
    /// The hosts that it serves, exact or `*.` and a name; empty: every host that no other listener of its address has.
    pub hosts: Vec<String>,
    /// Whether the host of a request chooses among the listeners of this address. TLS, HTTP/2, timeouts and the PROXY
    /// protocol are the same at all of them.
    pub by_host: bool,
    /// TLS; `None`: plain text.
    pub tls: Option<tollgate_tls::TlsServerConfig>,
    /// Its own certificates.
    pub certificates: Vec<Certificate>,
    /// The indices of its own certificates among those of `tls`.
    pub own_certificates: Vec<usize>,
    /// Whether clients may, must or cannot use HTTP/2.
    pub http2: Http2,
    /// Whether an HTTP/1 client that has closed its sending direction still gets its responses.
    pub half_close: bool,
    /// How long a connection may stay without a request; `None`: without limit.
    pub idle: Option<Duration>,
    /// How long a connection may live; `None`: without limit.
    pub age: Option<Duration>,
    /// The peers whose connections must begin with a PROXY protocol header.
    pub proxy_protocol: Vec<Cidr>,
    /// The redirect that answers every request; `None`: requests are routed.
    pub redirect: Option<Redirect>,
    /// The whole `Strict-Transport-Security` line with its CRLF; empty if the listener sends none.
    pub strict_transport_security: Vec<u8>,
}

impl PlannedListener {
    pub(crate) fn indexed(&self) -> IndexedListener<'_> {
        IndexedListener { bind: &self.bind, hosts: &self.hosts, by_host: self.by_host }
    }

    /// Returns whether a connection may begin with bytes other than a request: a TLS handshake or a PROXY
    /// protocol header. A connection of layer 4 carries no request at all.
    #[must_use]
    pub fn has_preamble(&self) -> bool {
        self.tls.is_some() || !self.proxy_protocol.is_empty() || self.protocol != ListenerProtocol::Http
    }
}

/// Identifies a listener in any plan: by its address as it is written, and by its name if it has hosts, since others may
/// then share the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerKey {
    bind: ListenAddress,
    name: Option<String>,
}

impl ListenerKey {
    pub(crate) fn new(listener: &config::Listener) -> Self {
        let name = listener.name.as_ref().filter(|_| !listener.hosts.is_empty());
        Self { bind: listener.bind.value.clone(), name: name.map(|name| name.value.clone()) }
    }

    /// Returns the place of its policies in the configuration.
    pub(crate) fn place(&self) -> String {
        match &self.name {
            Some(name) => format!("listener/{}/{name}", self.bind),
            None => format!("listener/{}", self.bind),
        }
    }

    fn is_of(&self, listener: &PlannedListener) -> bool {
        let name = listener.name.as_ref().filter(|_| !listener.hosts.is_empty());
        self.bind.is_same_address(&listener.bind) && self.name.as_ref() == name
    }
}

/// A policy at the place in the configuration to which it is attached.
#[derive(Clone, Debug)]
pub struct AttachedPolicy {
    /// Identifies the policy of this kind at this place: `route/NAME/KIND` and the like; for a plugin
    /// `route/NAME/plugins/PLUGIN`. It stays the same from plan to plan, and run-time state such as counters
    /// is found by it.
    pub key: String,
    /// The policy set that brings it; `None` if it is written at the place itself.
    pub set: Option<Arc<str>>,
    /// The compiled policy.
    pub policy: Arc<dyn Planned>,
}

impl AttachedPolicy {
    /// Returns its kind and its place: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
    #[must_use]
    pub fn name(&self) -> (&'static str, &str) {
        let kind = self.policy.kind();
        (kind, self.key.strip_suffix(kind).map_or("", |place| place.trim_end_matches('/')))
    }
}

/// The policies that the requests of a route pass, as indices into [`Plan::chains`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChains {
    /// The chain at listeners without policies of their own; `None`: no policies, although the route's
    /// upstreams may have some.
    pub default: Option<u32>,
    /// The chain at each listener that has policies of its own.
    pub listeners: Arc<[(ListenerKey, Option<u32>)]>,
}

impl RouteChains {
    /// Returns the chain for requests that arrive at this listener.
    #[must_use]
    pub fn at(&self, listener: &PlannedListener) -> Option<u32> {
        let own = self.listeners.iter().find(|(key, _)| key.is_of(listener));
        own.map_or(self.default, |(_, chain)| *chain)
    }
}

/// TLS to the endpoints of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The trusted authorities, and the certificate that the gateway presents.
    pub client: Arc<tollgate_tls::TlsClientConfig>,
    /// The name that the endpoints' certificates must hold; `None`: each endpoint's own host name.
    pub server_name: Option<String>,
    /// The name that the certificate must hold if only the address of an endpoint is known: the name that was
    /// looked up.
    pub discovery_name: Option<String>,
    /// The name sent as SNI, if it differs from the name that is verified.
    pub sni: Option<String>,
}

/// Settings that apply to every route.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Sizes and counts that a peer may not exceed.
    pub limits: Limits,
    /// The part of `limits` that bounds a message head.
    pub head_limits: HeadLimits,
    /// The timeouts of routes that set none.
    pub timeouts: Timeouts,
    /// The fields in which the gateway tells the upstream who the client is.
    pub forwarded: Forwarded,
    /// Request fields that carry parts of the client's certificate. The pointer identifies the set, so caches
    /// compare it alone.
    pub client_certificate: Arc<[(String, CertificatePart)]>,
    /// How request ids are accepted and made.
    pub request_id: RequestId,
    /// How ambiguous bytes of a path are treated.
    pub paths: PathRules,
    /// Replacements for the bodies of the gateway's own error responses.
    pub errors: ErrorBodies,
    /// The zone that the gateway is in.
    pub zone: Option<String>,
    /// Protection of the process's memory and descriptors under overload.
    pub overload: Overload,
    /// The store of responses that all policies `cache` share.
    pub cache: CacheStore,
    /// Whether purges of it come from a source that other gateways share: etcd or a controller.
    pub shares_purges: bool,
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Name in logs, metrics and `explain`.
    pub name: String,
    /// How the route handles a request.
    pub action: Action,
    /// How path and host are rewritten before a request is forwarded.
    pub rewrite: Rewrite,
    /// Its timeouts, with the defaults filled in.
    pub timeouts: Timeouts,
    /// Largest request body in bytes.
    pub body_limit: Option<u64>,
    /// The least rates at which its clients must send and receive.
    pub rates: Rates,
    /// Whether bodies are collected before they are forwarded.
    pub buffer: Buffer,
    /// Protocols that a client may request with `Upgrade`, in lower case.
    pub upgrade: Vec<String>,
    /// When a failed request is retried; `None`: as the upstream configures.
    pub retry: Option<Retry>,
    /// How urgent its requests are.
    pub priority: Priority,
    /// Whether gRPC-Web calls are translated to gRPC.
    pub grpc_web: bool,
    /// The chains of policies of its requests; `None`: neither the route nor any of its upstreams has a
    /// policy.
    pub policies: Option<RouteChains>,
    /// Keys of the access logs that record its requests; empty: none. `None`: the gateway's logs do.
    pub logs: Option<Arc<[u64]>>,
    /// Replacements for error responses, in the order in which they are tried; `None`: there are none.
    pub fallback: Option<Arc<[Fallback]>>,
    /// Idle timeout and longest age of client connections that carry its requests; `None`: as the listener
    /// configures.
    pub stay: Option<Arc<RouteStay>>,
}

/// A replacement for error responses of some statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The statuses that it replaces, sorted.
    pub on: Vec<u16>,
    /// The replacement.
    pub action: FallbackAction,
}

/// A substitute for an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FallbackAction {
    /// The response of this upstream to the same request: an index into [`Plan::upstreams`].
    Request(usize),
    /// A page that the gateway fetches from an upstream.
    Page {
        /// Index into [`Plan::upstreams`].
        upstream: usize,
        /// Path and query; `{status}` in it becomes the status of the error.
        path: String,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
    /// A fixed response.
    Respond {
        /// Its header fields and body.
        respond: Respond,
        /// The status that the client gets; `None`: the status of the error.
        status: Option<u16>,
    },
}

/// The least rates of a client, in bytes per second; `None`: no minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The least rate at which it sends a request's body.
    pub body: Option<u32>,
    /// The least rate at which it receives a response.
    pub response: Option<u32>,
    /// How long a client may stay below these rates at the start.
    pub grace: Duration,
}

impl Rates {
    /// Returns the gateway's rates. They hold for responses that belong to no route.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        Self { body: limits.body_rate, response: limits.response_rate, grace: limits.rate_grace }
    }
}

impl Route {
    /// Returns the upstreams to which it forwards; `None` if it answers itself.
    #[must_use]
    pub fn shares(&self) -> Option<&[UpstreamShare]> {
        match &self.action {
            Action::Forward(targets) => Some(&targets.shares),
            Action::Redirect(_) | Action::Respond(_) | Action::Files(_) => None,
        }
    }
}

/// How a route handles a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// Forwards to one of these upstreams, chosen by weight, or answers in the place of one.
    Forward(Targets),
    /// Answers with a redirect.
    Redirect(Redirect),
    /// Answers with a fixed response.
    Respond(Respond),
    /// Answers with files of a directory.
    Files(Files),
}

/// Files of a directory.
#[derive(Clone, Debug)]
pub struct Files {
    /// The directory, and how it is served.
    pub site: Arc<Site>,
    /// Length of the prefix that the route matches. The path after it is looked up, unless the route rewrites it.
    pub matched: usize,
}

/// The targets of a route. They are numbered from 0, the upstreams first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// The upstreams.
    pub shares: Vec<UpstreamShare>,
    /// The fixed responses.
    pub answers: Vec<AnswerShare>,
}

/// A fixed response's share of a route's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerShare {
    /// The response.
    pub respond: Respond,
    /// Weight relative to the other shares.
    pub weight: u32,
}

/// An upstream's share of a route's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamShare {
    /// Index into [`Plan::upstreams`].
    pub upstream: usize,
    /// Weight relative to the other shares.
    pub weight: u32,
}

/// A redirect. Parts that are `None` are taken from the request.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// A whole `Location`; the parts below are then unused.
    pub to: Option<Location>,
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// The new host.
    pub host: Option<String>,
    /// The new port.
    pub port: Option<u16>,
    /// The new path.
    pub path: Option<PathRewrite>,
}

/// A fixed response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// Status code.
    pub status: u16,
    /// Header lines, each with its CRLF.
    pub headers: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// A set of interchangeable endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name. An upstream written in place is named by its endpoints as text.
    pub name: String,
    /// The endpoints that the configuration lists.
    pub endpoints: Vec<Endpoint>,
    /// How further endpoints are discovered; `None`: there are only the listed ones.
    pub discover: Option<Discover>,
    /// The zone of the gateway. Endpoints in the same zone are preferred.
    pub zone: Option<String>,
    /// Limits and lifetimes of its connections.
    pub pool: Pool,
    /// TLS; `None`: plain text.
    pub tls: Option<Tls>,
    /// HTTP/2 to its endpoints; `None`: HTTP/1.1.
    pub http2: Option<EndpointHttp2>,
    /// The version of the PROXY protocol header that connections to its endpoints begin with. The pool keeps
    /// none of these connections: each names one client.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Balancing, health checks, retries and other rules for choosing an endpoint.
    pub rules: Rules,
}

/// HTTP/2 to the endpoints of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointHttp2 {
    /// The largest head that an endpoint may send, in bytes, as HTTP/2 counts them (RFC 9113, 6.5.2).
    pub header_list: u32,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and port, or path of a unix socket.
    pub address: Address,
    /// Its share of the requests, relative to the other endpoints; 0 takes none.
    pub weight: u32,
    /// Its tier: 0 is used first, a higher one if too few endpoints of the lower tiers are healthy.
    pub priority: u8,
    /// The zone in which it runs.
    pub zone: Option<String>,
}
