//! Compiles `streams`, and the shorthand `to` of listeners, to the [`StreamTable`] of each listener. Finds streams that
//! exclude each other, or that a listener cannot have.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tollgate_config as config;
use tollgate_config::{At, ListenerProtocol, Problem, Spanned};
use tollgate_net::Address;

use crate::Upstream;
use crate::plan::UpstreamShare;
use crate::stream_table::{Stream, StreamShare, StreamTable};

/// The idle timeout of UDP sessions without their own. A session of DNS takes milliseconds, one of QUIC or WireGuard
/// sends keep-alives at least every 30 seconds.
const UDP_IDLE: Duration = Duration::from_secs(60);
/// The bound on UDP sessions without their own: a datagram with a forged address opens one.
const UDP_SESSIONS: u32 = 10_000;

/// A stream as written, with the listener that it belongs to if it is the shorthand of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenStream<'a> {
    pub stream: &'a config::Stream,
    listener: Option<&'a config::Listener>,
}

impl WrittenStream<'_> {
    /// Returns the name in logs and metrics. The shorthand of a listener is named like the listener.
    fn name(&self) -> String {
        match self.listener {
            Some(own) => {
                own.name.as_ref().map_or_else(|| own.bind.value.to_string(), |name| name.value.clone())
            }
            None => self.stream.display_name(),
        }
    }

    /// Whether the stream takes something of what arrives at a listener.
    pub fn is_attached_to(&self, listener: &config::Listener) -> bool {
        matches!(attaches(self, listener), Attachment::Yes)
    }
}

/// The compiled targets of a stream.
#[derive(Debug)]
pub(crate) struct StreamTargets {
    pub shares: Vec<UpstreamShare>,
    /// The weight of the targets that close.
    pub closing: Option<u32>,
    /// The only upstream among them, if it is a named one: its index among those of all sources. Its timeouts apply.
    pub only_named: Option<usize>,
}

/// Returns all streams: first the listeners' own, then the section `streams`.
pub(crate) fn written<'a>(parts: &config::CombinedResources<'a>) -> Vec<WrittenStream<'a>> {
    let own = parts.listeners.iter().copied();
    let own = own.filter_map(|listener| {
        Some(WrittenStream { stream: listener.to.as_ref()?, listener: Some(listener) })
    });
    own.chain(parts.streams.iter().map(|stream| WrittenStream { stream, listener: None })).collect()
}

/// Returns an error for each route that names a listener of layer 4, where no request arrives.
pub(crate) fn routes_without_requests(parts: &config::CombinedResources<'_>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    // Few gateways have any, and there may be thousands of routes.
    let mut listeners = parts.listeners.clone();
    listeners.retain(|listener| listener.protocol != ListenerProtocol::Http);
    if listeners.is_empty() {
        return problems;
    }
    for named in parts.routes.iter().flat_map(|route| &route.listeners) {
        let is_named = |listener: &&config::Listener| {
            listener.name.as_ref().is_some_and(|name| name.value == named.value)
        };
        let Some(listener) = listeners.iter().copied().find(is_named) else { continue };
        // A route with several matches is several routes.
        if problems.iter().any(|problem| problem.at == named.at) {
            continue;
        }
        let protocol = listener.protocol.as_str();
        let message =
            format!("no request arrives at listener `{}`: it has `protocol: {protocol}`", named.value);
        let problem = Problem::error(named.at, message).help("attach a stream instead, under `streams`");
        problems.push(problem.related(listener.bind.at, "the listener"));
    }
    problems
}

/// Returns the names of the upstreams that streams use. Connections to them offer no protocol of HTTP (ALPN), since
/// the bytes may be of any protocol.
pub(crate) fn upstreams<'a>(parts: &config::CombinedResources<'a>) -> HashSet<&'a str> {
    let targets = written(parts).into_iter().flat_map(|written| written.stream.to.iter().flatten());
    targets
        .filter_map(|target| match &target.to {
            config::TargetKind::Upstream(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

/// An address, which several listeners may share; a free port is another one each time.
type SharedAddress = (String, usize);
/// The streams of an address, by server name.
type NamedStreams<'a> = HashMap<Option<&'a str>, Arc<Stream>>;

/// Returns the streams of each listener, in the order of all listeners; `None` for a listener without any.
pub(crate) fn tables(
    parts: &config::CombinedResources<'_>,
    streams: &[(WrittenStream<'_>, StreamTargets)],
    upstreams: &[Arc<Upstream>],
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Vec<Option<Arc<StreamTable>>> {
    let listeners = &parts.listeners;
    let addresses: Vec<SharedAddress> = (0..)
        .zip(listeners)
        .map(|(index, listener)| match listener.bind.value.ip().is_some_and(|address| address.port() == 0) {
            true => (String::new(), index),
            false => (listener.bind.value.to_string(), 0),
        })
        .collect();
    let mut places: HashMap<&SharedAddress, NamedStreams<'_>> = HashMap::new();
    let mut names: HashMap<String, At> = HashMap::new();
    for (written, targets) in streams {
        problems.extend(same_name(written, &mut names));
        let mut compiled: HashMap<ListenerProtocol, Arc<Stream>> = HashMap::new();
        let mut attached = false;
        for (&listener, address) in listeners.iter().zip(&addresses) {
            match attaches(written, listener) {
                Attachment::No => continue,
                Attachment::Yes => attached = true,
                Attachment::Wrong(problem) => {
                    attached = true;
                    problems.push(problem);
                    continue;
                }
            }
            let stream = compiled.entry(listener.protocol).or_insert_with(|| {
                if listener.protocol == ListenerProtocol::Udp {
                    for share in &targets.shares {
                        without_datagrams(written.stream, &upstreams[share.upstream], problems, warnings);
                    }
                }
                Arc::new(plan(parts, written, targets, upstreams, listener))
            });
            let names = written.stream.server_names.iter().map(Some);
            let names = names.chain(written.stream.server_names.is_empty().then_some(None));
            let place = places.entry(address).or_default();
            for name in names {
                let first =
                    place.entry(name.map(|name| name.value.as_str())).or_insert_with(|| stream.clone());
                if !Arc::ptr_eq(first, stream) {
                    problems.push(taken(name, stream, first, listener));
                }
                warnings.extend(name.and_then(|name| host_without_requests(name, listener)));
            }
        }
        if !attached && written.stream.listeners.is_empty() {
            let problem = Problem::warning(written.stream.at, "no listener uses this stream");
            warnings.push(
                problem
                    .help("write `protocol: tcp` at a listener: `listen: {bind: \":5432\", protocol: tcp}`"),
            );
        }
    }
    build(parts, &addresses, &places, warnings)
}

/// Builds the table of each address, and returns it for each listener there.
fn build<'a>(
    parts: &config::CombinedResources<'_>,
    addresses: &'a [SharedAddress],
    places: &HashMap<&'a SharedAddress, NamedStreams<'_>>,
    warnings: &mut Vec<Problem>,
) -> Vec<Option<Arc<StreamTable>>> {
    let listeners = &parts.listeners;
    let config = &parts.config;
    let may_come = config.store.is_some() || config.etcd.is_some() || config.kubernetes.is_some();
    let mut tables: HashMap<&SharedAddress, Arc<StreamTable>> = HashMap::new();
    let mut out = Vec::new();
    for (&listener, address) in listeners.iter().zip(addresses) {
        let is_layer4 = listener.protocol != ListenerProtocol::Http;
        let place = places.get(address);
        if place.is_none() && is_layer4 && !may_come {
            let protocol = listener.protocol.as_str();
            let message = format!("no stream takes what arrives at this `{protocol}` listener");
            let problem = Problem::warning(listener.bind.at, message);
            warnings.push(problem.help("write `to: UPSTREAM` here, or an entry under `streams`"));
        }
        let table = tables.entry(address).or_insert_with(|| {
            let mut table = StreamTable::default();
            place.into_iter().flatten().for_each(|(name, stream)| table.insert(*name, stream));
            if place.is_some() && !is_layer4 {
                let sharing = listeners.iter().zip(addresses).filter(|(_, other)| *other == address);
                sharing.flat_map(|(other, _)| &other.hosts).for_each(|host| table.leave(&host.value));
            }
            Arc::new(table)
        });
        out.push((is_layer4 || place.is_some()).then(|| table.clone()));
    }
    out
}

/// Whether a stream belongs to a listener.
enum Attachment {
    Yes,
    No,
    Wrong(Problem),
}

fn attaches(written: &WrittenStream<'_>, listener: &config::Listener) -> Attachment {
    let stream = written.stream;
    if let Some(own) = written.listener {
        return if std::ptr::eq(own, listener) { Attachment::Yes } else { Attachment::No };
    }
    let has_names = !stream.server_names.is_empty();
    let fits = match listener.protocol {
        ListenerProtocol::Tcp => true,
        ListenerProtocol::Udp => !has_names,
        ListenerProtocol::Http => has_names && listener.tls.is_some(),
    };
    let name = listener.name.as_ref().map(|name| name.value.as_str());
    let Some(named) = stream.listeners.iter().find(|named| Some(named.value.as_str()) == name) else {
        // A listener with its own stream takes no other one for everything.
        let is_free = has_names || listener.to.is_none();
        return if stream.listeners.is_empty() && fits && is_free { Attachment::Yes } else { Attachment::No };
    };
    if fits {
        return Attachment::Yes;
    }
    let (message, help) = match listener.protocol {
        ListenerProtocol::Udp => (
            format!("listener `{}` receives datagrams, which have no server name", named.value),
            "remove `server_names`",
        ),
        _ if has_names => (
            format!("listener `{}` has no `tls`, so clients ask it for no server name", named.value),
            "write `protocol: tcp` at the listener to pass TLS through",
        ),
        _ => (
            format!(
                "listener `{}` is one of HTTP: it passes only connections with server names on",
                named.value
            ),
            "write `server_names`, or `protocol: tcp` at the listener",
        ),
    };
    let problem = Problem::error(named.at, message).help(help);
    Attachment::Wrong(problem.related(listener.bind.at, "the listener"))
}

/// Returns an error if an earlier stream has the name: limits, metrics and the log go by it.
fn same_name(written: &WrittenStream<'_>, names: &mut HashMap<String, At>) -> Option<Problem> {
    if written.listener.is_some_and(|own| own.name.is_none()) {
        // Its name is an address, which no other stream has. Free ports look alike.
        return None;
    }
    let at = written.stream.name.as_ref().map_or(written.stream.at, |name| name.at);
    match names.entry(written.name()) {
        Entry::Vacant(free) => {
            free.insert(at);
            None
        }
        Entry::Occupied(first) => {
            let problem = Problem::error(at, format!("two streams are named `{}`", first.key()));
            let help = "the stream that `to` of a listener makes has the name of the listener";
            Some(problem.help(help).related(*first.get(), "the other stream"))
        }
    }
}

/// Reports settings of an upstream that a stream of UDP cannot keep.
fn without_datagrams(
    stream: &config::Stream,
    upstream: &Upstream,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) {
    let name = &upstream.name;
    if upstream.tls.is_some() {
        let message = format!("datagrams to upstream `{name}` would be plain text, although it has TLS");
        problems
            .push(Problem::error(stream.at, message).help("TLS needs TCP: name another upstream for UDP"));
    }
    if upstream.endpoints.iter().any(|endpoint| matches!(endpoint.address, Address::Unix(_))) {
        let message = format!("upstream `{name}` has a Unix socket, which takes no datagrams of UDP");
        problems.push(Problem::error(stream.at, message).help("write endpoints with a host and a port"));
    }
    if upstream.proxy_protocol.is_some() {
        let message = format!("datagrams to upstream `{name}` have no PROXY protocol header");
        warnings.push(Problem::warning(stream.at, message).help("the endpoint sees the gateway's address"));
    }
}

/// Returns a warning if a listener of HTTP has a host that is the server name of a stream: the stream takes its connections.
fn host_without_requests(name: &Spanned<String>, listener: &config::Listener) -> Option<Problem> {
    let is_http = listener.protocol == ListenerProtocol::Http;
    let host = listener.hosts.iter().find(|host| is_http && host.value == name.value)?;
    let message = format!("clients that ask for `{}` by TLS reach this stream, not the listener", name.value);
    let problem = Problem::warning(name.at, message).help("remove the name from one of them");
    Some(problem.related(host.at, "a listener of the same address has the host"))
}

fn taken(
    name: Option<&Spanned<String>>,
    stream: &Stream,
    first: &Stream,
    listener: &config::Listener,
) -> Problem {
    let bind = &listener.bind.value;
    let problem = match name {
        Some(name) => {
            Problem::error(name.at, format!("another stream of listener {bind} has `{}`", name.value))
        }
        None => {
            let message = format!("another stream takes everything that arrives at listener {bind}");
            Problem::error(stream.at, message)
                .help("give one of them `server_names`, or name its `listeners`")
        }
    };
    problem.related(first.at, "the other stream")
}

fn plan(
    parts: &config::CombinedResources<'_>,
    written: &WrittenStream<'_>,
    targets: &StreamTargets,
    upstreams: &[Arc<Upstream>],
    listener: &config::Listener,
) -> Stream {
    let WrittenStream { stream, .. } = written;
    let upstream = targets.only_named.map(|index| &parts.upstreams[index].timeouts);
    let gateway = &parts.config.timeouts;
    let is_udp = listener.protocol == ListenerProtocol::Udp;
    let upgraded = upstream.and_then(|it| it.upgraded).unwrap_or(gateway.upgraded);
    let shares = targets.shares.iter().map(|share| StreamShare {
        upstream: Some(upstreams[share.upstream].name.clone()),
        weight: share.weight,
    });
    // A stream whose targets all close has none.
    let closing = targets.closing.filter(|_| !targets.shares.is_empty());
    let closing = closing.map(|weight| StreamShare { upstream: None, weight });
    Stream {
        name: written.name(),
        at: stream.at,
        passthrough: stream.passthrough,
        shares: shares.chain(closing).collect(),
        connect: stream
            .timeouts
            .connect
            .or_else(|| upstream.and_then(|it| it.connect))
            .unwrap_or(gateway.connect),
        idle: stream.timeouts.idle.unwrap_or(if is_udp { Some(UDP_IDLE) } else { upgraded }),
        total: stream.timeouts.total,
        connections: stream.limits.connections.or(is_udp.then_some(UDP_SESSIONS)),
        per_address: stream.limits.per_address,
        unanswered: stream.limits.unanswered,
        unconfirmed: stream.limits.unconfirmed,
    }
}
