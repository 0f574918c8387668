//! Finds endpoints that are addresses of the gateway itself, so that requests to them loop.
//! [`compile`](crate::compile) warns about them.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use tollgate_config::{self as config, Address, At, ListenAddress, Problem, TargetKind};

use crate::streams;

/// Returns a warning for each endpoint that a listener of the same configuration accepts connections for. `routes` are those
/// with endpoints or fallbacks of their own.
pub(crate) fn warnings(parts: &config::CombinedResources<'_>, routes: &[&config::Route]) -> Vec<Problem> {
    let named = parts.upstreams.iter().flat_map(|upstream| &upstream.endpoints);
    let named = named.map(|endpoint| (&endpoint.address.value, endpoint.address.at));
    let in_place = routes.iter().flat_map(|route| match &route.action {
        config::Action::Forward(targets) => targets.as_slice(),
        config::Action::Redirect(_) | config::Action::Respond(_) | config::Action::Files(_) => &[],
    });
    let fallbacks = routes.iter().flat_map(|route| &route.fallback);
    let in_place = in_place.chain(fallbacks.filter_map(|fallback| fallback.instead.target()));
    let in_place = in_place.filter_map(|target| match &target.to {
        TargetKind::Endpoint(endpoint) => Some((endpoint, target.at)),
        TargetKind::Upstream(_) | TargetKind::Respond(_) | TargetKind::Close => None,
    });
    let of_streams = looping_streams(parts);
    // Each of thousands of endpoints is compared with the listeners of its port alone; Unix sockets are under 0.
    let mut by_port: HashMap<u16, Vec<&config::Listener>> = HashMap::new();
    for listener in &parts.listeners {
        let port = listener.bind.value.tcp().map_or(0, |address| address.port());
        by_port.entry(port).or_default().push(listener);
    }
    let mut warned: HashSet<At> = HashSet::new();
    let warning = |(endpoint, at): (&config::EndpointAddress, At)| {
        let port = if let Address::Tcp { port, .. } = &endpoint.address { *port } else { 0 };
        let own = by_port.get(&port)?;
        let listener = own.iter().find(|listener| match (&listener.bind.value, &endpoint.address) {
            (ListenAddress::Tcp(own), Address::Tcp { host, port }) => accepts(*own, host, *port),
            (ListenAddress::Unix(own), Address::Unix(path)) => own.path == *path,
            _ => false,
        })?;
        // A list of matches becomes several routes with the same targets.
        warned.insert(at).then(|| {
            let message = "this endpoint is an address of the gateway itself: requests to it come back";
            let problem = Problem::warning(at, message);
            problem
                .help("a request that comes back more than `limits.loops` times is answered with 508")
                .related(listener.bind.at, "it listens here")
        })
    };
    named.chain(in_place).filter_map(warning).chain(of_streams).collect()
}

/// Returns a warning for each endpoint written in a stream that is the address of a listener of the stream itself. A stream
/// may well lead to another listener of the gateway.
fn looping_streams(parts: &config::CombinedResources<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for written in streams::written(parts) {
        for target in written.stream.to.iter().flatten() {
            let TargetKind::Endpoint(config::EndpointAddress {
                address: Address::Tcp { host, port }, ..
            }) = &target.to
            else {
                continue;
            };
            let is_reached = |listener: &&&config::Listener| {
                listener.bind.value.ip().is_some_and(|own| accepts(own, host, *port))
                    && written.is_attached_to(listener)
            };
            let Some(listener) = parts.listeners.iter().find(is_reached) else { continue };
            let message =
                "this endpoint is the address of the stream's own listener: what it sends comes back";
            problems.push(Problem::warning(target.at, message).related(listener.bind.at, "it listens here"));
        }
    }
    problems
}

/// Returns whether a listener accepts connections to a host and port, as far as can be decided without a DNS
/// lookup.
fn accepts(own: SocketAddr, host: &str, port: u16) -> bool {
    if own.port() != port {
        return false;
    }
    let own = own.ip().to_canonical();
    let by_name = host.eq_ignore_ascii_case("localhost");
    let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    let is_local = by_name || ip.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified());
    ip == Some(own)
        || own.is_unspecified() && is_local
        || own.is_loopback() && (by_name || ip.is_some_and(|ip| ip.is_unspecified()))
}
