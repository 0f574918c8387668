//! The sections of an upstream, and the rules between them.

use std::net::IpAddr;

use crate::model::Policies;
use crate::position::Spanned;
use crate::scalar::address::{Address, Scheme};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text};

use super::timeouts::RouteTimeouts;
use super::tls::UpstreamTls;

mod balance;
mod capacity;
mod discover;
mod endpoint;
mod failure;
mod health;

pub use balance::*;
pub use capacity::*;
pub use discover::*;
pub use endpoint::*;
pub use failure::*;
pub use health::*;

static LOCAL_ADDRESS: Text = Text {
    expected: "an IP address of this machine such as `10.0.0.5`",
    pattern: Some(r"^[0-9A-Fa-f:.]+$"),
    loose: false,
};
pub(crate) static UPSTREAM_VALUE: Shape = Shape::AnyOf(&[
    Shape::Section(Upstream::SPEC),
    Shape::Text(&super::texts::ENDPOINT_TEXT),
    Shape::ListOf(&ENDPOINT_SHAPE),
]);

/// A named group of endpoints. The short form is the list of endpoints.
#[derive(Clone, Debug, Section)]
#[section(noun = "an upstream", check = check)]
pub struct Upstream {
    /// Unique name of the upstream.
    #[key(skip)]
    pub name: Spanned<String>,
    /// Its endpoints: one or a list. Required without `discover`; `[]` if it has none for now.
    #[key(
        shape = Shape::OneOrMany(&ENDPOINT_SHAPE), read = endpoints_of,
        also = ["endpoint", "servers", "server", "nodes", "targets", "address", "addresses", "to"]
    )]
    pub endpoints: Vec<Endpoint>,
    /// Source of additional endpoints, which the gateway looks up repeatedly.
    #[key(
        also = ["discovery", "service_discovery", "resolve", "resolver", "dns", "srv", "file"]
    )]
    pub discover: Option<Spanned<Discover>>,
    /// How it balances requests and handles failures.
    #[key(flatten)]
    pub rules: Rules,
    /// Overrides of the gateway's timeouts; a route's override wins.
    #[key(also = ["timeout"])]
    pub timeouts: RouteTimeouts,
    /// Whether its endpoints are reached by HTTP/2: over TLS by ALPN, in plain text by prior knowledge.
    /// Default: only endpoints written `h2c://`.
    #[key(
        also = [
            "h2", "h2c", "protocol", "protocols", "http_version", "proxy_http_version",
            "http2_protocol_options", "grpc",
        ]
    )]
    pub http2: Option<Spanned<bool>>,
    /// TLS settings for its `https://` endpoints.
    #[key(also = ["ssl", "transport_socket", "ca", "server_name"])]
    pub tls: Option<UpstreamTls>,
    /// Its connection pool.
    #[key(also = ["keepalive", "connections"])]
    pub pool: Pool,
    /// The local address of connections to its endpoints. Default: the system chooses.
    #[key(
        text = LOCAL_ADDRESS, parse = local_address,
        also = ["source", "bind", "proxy_bind", "local_address", "upstream_bind_config", "source_ip"]
    )]
    source_address: Option<IpAddr>,
    /// Whether connections to its endpoints start with a PROXY protocol header that names the client, and its
    /// version. Each connection then carries one request.
    #[key(
        shape = Shape::Word(&["off", "v1", "v2"]), read = proxy_version, default = off,
        also = ["send_proxy", "send-proxy", "send_proxy_protocol", "upstream_proxy_protocol", "proxy"]
    )]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Policies that apply to requests. The innermost policy of each kind applies; `off` disables an
    /// inherited one.
    pub policies: Policies,
}

impl Upstream {
    /// Makes an upstream with these endpoints and the default settings.
    pub(crate) fn of_endpoints(name: Spanned<String>, endpoints: Vec<Endpoint>) -> Self {
        Self { name, endpoints, ..Self::default() }
    }

    /// Returns whether its endpoints are reached by HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        let prior = |endpoint: &Endpoint| endpoint.address.value.scheme == Scheme::H2c;
        self.http2.as_ref().is_some_and(|http2| http2.value) || self.endpoints.iter().any(prior)
    }
}

/// How an upstream balances requests and handles failures. The plan takes these settings over unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct Rules {
    /// Load balancing.
    #[key(
        default = round_robin,
        also = [
            "lb", "lb_policy", "balancing", "balancer", "load_balancing", "load_balancer", "loadbalancer",
            "algorithm", "strategy", "policy", "sticky", "hash", "least_conn", "ip_hash", "slow_start",
        ]
    )]
    pub balance: Balance,
    /// Limits over all workers together.
    #[key(
        name = "limits",
        also = [
            "limit", "caps", "circuit_breakers", "thresholds", "max_conns", "max_connections", "maxconn",
            "max_requests", "max_retries",
        ]
    )]
    pub caps: Caps,
    /// The queue for requests that exceed a limit on connections.
    #[key(default = on, also = ["pending", "backlog", "max_pending_requests"])]
    pub queue: Queue,
    /// Circuit breaker: rejects requests for a while if too many failed or were slow.
    #[key(default = off, also = ["circuit_breaker", "circuitbreaker", "circuitBreaker"])]
    pub breaker: Option<Breaker>,
    /// Retry rules.
    #[key(default = on, also = RETRY_ALSO)]
    pub retry: Retry,
    /// Starts a second attempt alongside a slow first one: after this time.
    #[key(
        default = off,
        also = ["hedging", "hedge_policy", "speculative"]
    )]
    pub hedge: Option<Hedge>,
    /// Active health checks of every endpoint: a path, `tcp`, or a mapping.
    #[key(
        default = off,
        also = [
            "health_check", "health_checks", "healthcheck", "healthchecks", "healthCheck", "probe",
            "probes", "check", "checks", "active",
        ]
    )]
    pub health: Option<Health>,
    /// Ejection of endpoints that fail requests (passive health checks).
    #[key(
        default = on,
        also = ["outlier_detection", "outliers", "passive", "ejection", "max_fails", "fail_timeout"]
    )]
    pub outlier: Outlier,
    /// A limit of concurrent requests that adapts to the latency.
    #[key(default = off, also = ["adaptive_concurrency", "concurrency"])]
    pub adaptive: Option<Adaptive>,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// A line of text (`v1`).
    V1,
    /// Binary (`v2`).
    V2,
}

fn proxy_version(reader: &mut Reader, field: Field<'_>) -> Option<ProxyProtocol> {
    match reader.word(Some(field))? {
        "v1" => Some(ProxyProtocol::V1),
        "v2" => Some(ProxyProtocol::V2),
        _ => None,
    }
}

fn endpoints_of(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Endpoint>> {
    // Whether an empty list is an error depends on `discover`.
    Some(endpoints(reader, field.node, false))
}

fn local_address(text: &str) -> Result<IpAddr, ScalarError> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match text.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address),
        _ => Err(ScalarError::new("{} is not an IP address of a machine").help("write it without a port")),
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, upstream: &mut Upstream) {
    upstream.pool.source = upstream.source_address.take();
    if let (Some(http2), Some(field)) = (&mut upstream.http2, fields.get("http2")) {
        http2.at = field.at;
    }
    check_sources(reader, fields);
    check_schemes(reader, upstream);
    check_http2(reader, fields, upstream);
    check_proxy_protocol(reader, fields, upstream);
    // A conflict cannot be judged while one of the values is invalid.
    if !reader.has_errors_since(fields.start) {
        check_effects(reader, fields, upstream);
    }
}

/// Reports an upstream with neither endpoints nor discovery.
fn check_sources(reader: &mut Reader, fields: &Fields<'_>) {
    if fields.get("discover").is_some() || fields.is_meant("discover") && fields.get("endpoints").is_none() {
        return;
    }
    match fields.get("endpoints") {
        // An empty list is a service without instances for now, and intended. A key without a value is not.
        Some(field) => {
            if field.node.is_null() {
                let message = "`endpoints` has no value".to_owned();
                reader.missing(field.node.at, message, &ENDPOINT_SHAPE);
            }
        }
        None if fields.is_meant("endpoints") => {}
        None => {
            let Some(key) = fields.key("endpoints") else { return };
            reader.missing(fields.at, "an upstream has no `endpoints`".to_owned(), &key.shape);
        }
    }
}

/// Reports TLS settings of an upstream without TLS endpoints.
fn check_schemes(reader: &mut Reader, upstream: &Upstream) {
    let mut schemes = upstream.endpoints.iter().map(|endpoint| endpoint.address.value.scheme);
    let Some(tls) = &upstream.tls else { return };
    let discovered = matches!(
        upstream.discover.as_ref().map(|it| &it.value),
        Some(Discover::Dns { .. } | Discover::Srv { .. })
    );
    if !discovered && !schemes.any(|scheme| scheme == Scheme::Https) && !upstream.endpoints.is_empty() {
        let problem = Problem::error(tls.at, "no endpoint of this upstream uses TLS");
        reader.problems.push(problem.help("write their addresses as `https://host:port`"));
    }
}

fn check_http2(reader: &mut Reader, fields: &Fields<'_>, upstream: &Upstream) {
    let prior = upstream.endpoints.iter().find(|endpoint| endpoint.address.value.scheme == Scheme::H2c);
    let off = upstream.http2.as_ref().is_some_and(|http2| !http2.value);
    if let (Some(prior), Some(field), true) = (prior, fields.get("http2"), off) {
        let problem = Problem::error(field.at, "`http2: off` conflicts with an `h2c://` endpoint");
        let problem = problem.help("write its address without `h2c://`, or remove `http2`");
        reader.problems.push(problem.related(prior.address.at, "this endpoint uses only HTTP/2"));
    }
}

/// Reports settings that conflict with `proxy_protocol`: a connection then identifies one client and carries a
/// single request.
fn check_proxy_protocol(reader: &mut Reader, fields: &Fields<'_>, upstream: &Upstream) {
    let (Some(field), Some(_)) = (fields.get("proxy_protocol"), upstream.proxy_protocol) else { return };
    let prior = upstream.endpoints.iter().find(|endpoint| endpoint.address.value.scheme == Scheme::H2c);
    let http2 = upstream.http2.as_ref().filter(|http2| http2.value).map(|http2| http2.at);
    if let Some(at) = http2.or(prior.map(|endpoint| endpoint.address.at)) {
        let problem = Problem::error(field.at, "`proxy_protocol` conflicts with HTTP/2 endpoints");
        let problem = problem.help(
            "an HTTP/2 connection carries requests of many clients, but the header names one: use \
            `X-Forwarded-For`",
        );
        reader.problems.push(problem.related(at, "HTTP/2 is set here"));
    }
    if let Some(pool) = fields.get("pool") {
        match pool.node.entry("warm").filter(|_| upstream.pool.warm > 0) {
            Some(warm) => {
                let problem = Problem::error(warm.at, "`warm` conflicts with `proxy_protocol`");
                let problem = problem.help("the header names a client, and a warm connection has none");
                reader.problems.push(problem.related(field.at, "`proxy_protocol` is here"));
            }
            None => {
                let problem = Problem::warning(pool.at, "`pool` has no effect with `proxy_protocol`");
                let problem =
                    problem.help("a connection with the header carries one request and is then closed");
                reader.problems.push(problem.related(field.at, "`proxy_protocol` is here"));
            }
        }
    }
}

/// Warns of keys of one upstream that cancel each other out.
fn check_effects(reader: &mut Reader, fields: &Fields<'_>, upstream: &Upstream) {
    let rules = &upstream.rules;
    let alone = upstream.endpoints.len() == 1 && fields.get("discover").is_none();
    let capped = rules.caps.connections.is_some() || rules.caps.endpoint_connections.is_some();
    if let Some(queue) = fields.get("queue").filter(|_| !capped && rules.queue.size > 0) {
        let problem = Problem::warning(queue.at, "`queue` has no effect without a limit on connections");
        reader.problems.push(
            problem.help(
                "requests queue only for `limits: {connections: ...}` or `{endpoint_connections: ...}`",
            ),
        );
    }
    if let (Some(limits), Some(warm)) = (fields.get("limits"), fields.get("pool"))
        && let (Some(cap), Some(warm)) = (limits.node.entry("endpoint_connections"), warm.node.entry("warm"))
        && rules.caps.endpoint_connections.is_some_and(|cap| upstream.pool.warm > cap)
    {
        let problem = Problem::warning(warm.at, "`warm` is above the limit of connections per endpoint");
        let problem = problem.help("`warm` is for each worker, the limit for all workers together");
        reader.problems.push(problem.related(cap.at, "the limit is here"));
    }
    if let (Some(hedge), Some(field)) = (&rules.hedge, fields.get("hedge")) {
        if let Some(retry) = fields.get("retry").filter(|_| rules.retry.attempts == 1) {
            let problem = Problem::warning(field.at, "`hedge` has no effect with one attempt");
            let help = "a hedge counts as an attempt: `retry: {attempts: 2}` allows it";
            reader.problems.push(problem.help(help).related(retry.at, "one attempt"));
        }
        if rules.retry.per_try.is_some_and(|per_try| per_try <= hedge.after)
            && let Some(per_try) = fields.get("retry").and_then(|retry| retry.node.entry("per_try"))
        {
            let problem =
                Problem::warning(field.at, "`hedge` starts too late: the first attempt has ended by then");
            let problem = problem.help("make it shorter than `retry.per_try`");
            reader.problems.push(problem.related(per_try.at, "`per_try` is here"));
        }
        if alone {
            let problem = Problem::warning(field.at, "`hedge` has no effect with one endpoint");
            reader.problems.push(problem.help("the second attempt goes to another endpoint"));
        }
    }
    if let Some(field) = fields.get("limits").and_then(|limits| limits.node.entry("retries"))
        && rules.caps.retries.is_some()
        && rules.retry.attempts == 1
        && let Some(retry) = fields.get("retry")
    {
        let problem = Problem::warning(field.at, "`retries` has no effect with one attempt");
        reader.problems.push(problem.related(retry.at, "one attempt"));
    }
    let sockets = || upstream.endpoints.iter().all(|at| matches!(at.address.value.address, Address::Unix(_)));
    if let Some(field) = fields.get("health").and_then(|health| health.node.entry("port"))
        && !upstream.endpoints.is_empty()
        && fields.get("discover").is_none()
        && sockets()
    {
        let problem = Problem::warning(field.at, "`port` has no effect: a Unix socket has none");
        reader.problems.push(problem.help("the probe goes to the socket itself"));
    }
}
