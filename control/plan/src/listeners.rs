//! Compiles the listeners of all sources, and finds the mistakes that show only when the sources are combined.
//! [`listener_tls`] compiles their TLS.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{CombinedResources, Problem, StrictTransportSecurity};

use crate::compile_cache::CompileCache;
use crate::{PlannedListener, Redirect, StreamTable, listener_tls, streams, tls};

/// Returns the listeners, each with its TLS: first its own certificates, then the named ones that apply to
/// it. `routers` has the numbers of the routers of named listeners with routes of their own; `streams` has the streams of
/// each listener.
pub(crate) fn compile(
    parts: &config::CombinedResources<'_>,
    routers: &HashMap<&str, u32>,
    streams: &[Option<Arc<StreamTable>>],
    cache: &mut CompileCache,
    problems: &mut Vec<Problem>,
) -> Vec<Arc<PlannedListener>> {
    let config = parts.config;
    let mut file_problems = tls::named_certificate_problems(parts);
    let all_tls = listener_tls::all(parts, cache, &mut file_problems);
    let mut listeners: Vec<Arc<PlannedListener>> = Vec::new();
    for ((index, &listener), tls) in parts.listeners.iter().enumerate().zip(all_tls) {
        let bind = listener.bind.value.clone();
        // Listeners that share an address are compared with the configuration; only a free port may be written twice.
        let is_free_port = bind.tcp().is_some_and(|address| address.port() == 0);
        let before = if is_free_port && !tls.by_host { &parts.listeners[..index] } else { &[] };
        let differs = |other: &&config::Listener| {
            other.bind.value.is_same_address(&bind) && !has_same_settings(other, listener)
        };
        if before.iter().any(differs) {
            let message = "this address is written twice, with other settings";
            problems.push(Problem::error(listener.bind.at, message));
        }
        let sts = listener.tls.as_ref().and_then(|tls| tls.strict_transport_security.as_ref());
        let name = listener.name.as_ref().map(|name| name.value.clone());
        listeners.push(Arc::new(PlannedListener {
            bind,
            at: listener.bind.at,
            router: name.as_ref().and_then(|name| routers.get(name.as_str())).copied().unwrap_or(0),
            name,
            hosts: listener.hosts.iter().map(|host| host.value.clone()).collect(),
            by_host: tls.by_host,
            protocol: listener.protocol,
            streams: streams.get(index).cloned().flatten(),
            tls: tls.server,
            certificates: tls.certificates,
            own_certificates: tls.own,
            http2: listener.http2,
            half_close: listener.half_close,
            idle: listener.timeouts.idle.unwrap_or(config.timeouts.idle),
            age: listener.timeouts.age.unwrap_or(config.timeouts.age),
            proxy_protocol: listener.proxy_protocol.clone(),
            redirect: listener.redirect_to_https.map(|to| Redirect {
                status: to.status,
                to: None,
                scheme: Some("https".to_owned()),
                host: None,
                port: Some(to.port).filter(|port| *port != 443),
                path: None,
            }),
            strict_transport_security: sts.map(strict_transport_security).unwrap_or_default(),
        }));
    }
    // A certificate may apply to several listeners; its errors are reported once.
    for problem in file_problems {
        if !problems.iter().any(|known| known.at == problem.at && known.message == problem.message) {
            problems.push(problem);
        }
    }
    listeners
}

/// Returns whether two listeners with one address accept connections in the same way.
fn has_same_settings(one: &config::Listener, other: &config::Listener) -> bool {
    one.bind.value == other.bind.value
        && one.tls == other.tls
        && one.http2 == other.http2
        && one.redirect_to_https == other.redirect_to_https
        && one.proxy_protocol == other.proxy_protocol
        && one.timeouts == other.timeouts
        && one.half_close == other.half_close
        && one.protocol == other.protocol
}

/// Returns the line of the `Strict-Transport-Security` field (RFC 6797, 6.1).
fn strict_transport_security(hsts: &StrictTransportSecurity) -> Vec<u8> {
    let mut line = format!("Strict-Transport-Security: max-age={}", hsts.max_age.as_secs());
    if hsts.include_subdomains {
        line.push_str("; includeSubDomains");
    }
    if hsts.preload {
        line.push_str("; preload");
    }
    line.push_str("\r\n");
    line.into_bytes()
}

/// Returns the problems of the listeners of all sources.
pub(crate) fn problems(parts: &CombinedResources<'_>) -> Vec<Problem> {
    let mut problems = unknown_listeners(parts);
    problems.extend(streams::routes_without_requests(parts));
    // The reader has compared the listeners of the file.
    if parts.listeners.len() > parts.config.listen.len() {
        problems.extend(config::listener_conflicts(&parts.listeners, parts.config.admin.as_ref()));
    }
    problems
}

/// Reports the listeners that routes and streams name and that do not exist.
fn unknown_listeners(parts: &CombinedResources<'_>) -> Vec<Problem> {
    let names: HashSet<&str> =
        parts.listeners.iter().filter_map(|listener| Some(listener.name.as_ref()?.value.as_str())).collect();
    let mut problems: Vec<Problem> = Vec::new();
    let of_routes = parts.routes.iter().flat_map(|route| &route.listeners);
    let of_streams = parts.streams.iter().flat_map(|stream| &stream.listeners);
    let mut last = "";
    for name in of_routes.chain(of_streams) {
        // Thousands of routes have the same listener.
        if name.value == last {
            continue;
        }
        if names.contains(name.value.as_str()) {
            last = &name.value;
            continue;
        }
        // A route with several matches is several routes.
        if problems.last().is_some_and(|last| last.at == name.at) {
            continue;
        }
        let problem = Problem::error(name.at, format!("there is no listener named `{}`", name.value));
        let mut known: Vec<&str> = names.iter().copied().collect();
        known.sort_unstable();
        let near = config::nearest(&name.value, known.iter().copied());
        problems.push(match (near, known.is_empty()) {
            (Some(near), _) => problem.help(format!("did you mean `{near}`?")),
            (None, true) => problem
                .help(format!("no listener has a name: `listen: {{bind: \":8080\", name: {}}}`", name.value)),
            (None, false) => {
                let known: Vec<String> = known.iter().take(8).map(|name| format!("`{name}`")).collect();
                problem.help(format!("names of listeners: {}", known.join(", ")))
            }
        });
    }
    problems
}
