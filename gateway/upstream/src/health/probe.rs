//! One probe, bounded in time and bytes.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::Poll;

use tollgate_net::{Address, Deadline, ProxyHeader, ProxyVersion, Stream, is_shortage};
use tollgate_plan::{Health, Probe, Tls};

use super::http::{Expected, probe_http1};
use super::io::FaultCell;
use super::{ProbeFailure, grpc};
use crate::proxy_protocol::write_header;
use crate::tls::connect_tls;

/// How an upstream's endpoints are probed.
#[derive(Debug, PartialEq)]
pub(super) struct ProbeRules {
    pub(super) health: Health,
    /// The TLS settings of its requests; `None` without TLS.
    pub(super) tls: Option<Tls>,
    /// Whether its requests use HTTP/2.
    pub(super) http2: bool,
    /// The local address of its connections.
    pub(super) source: Option<IpAddr>,
    /// The PROXY protocol version of its connections.
    pub(super) proxy_protocol: Option<ProxyVersion>,
}

/// Returns the address that is probed.
pub(super) fn probe_address(endpoint: &Address, rules: &Health) -> Address {
    match (endpoint, rules.port) {
        (Address::Socket(address), Some(port)) => Address::Socket(SocketAddr::new(address.ip(), port)),
        (Address::Name { host, .. }, Some(port)) => Address::Name { host: host.clone(), port },
        // A unix socket has no port.
        (address, _) => address.clone(),
    }
}

/// Probes an endpoint once. Returns `None` if the process has no descriptor or memory for it, which says
/// nothing about the endpoint. The probe sets `deadline` to its timeout. A caller that sets it earlier ends
/// the probe.
pub(super) async fn probe(
    endpoint: &Address,
    rules: &ProbeRules,
    deadline: &Deadline,
) -> Option<Result<(), ProbeFailure>> {
    deadline.set(tollgate_net::now(), Some(rules.health.timeout));
    let mut attempt = pin!(attempt(endpoint, rules));
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => deadline.poll_passed(cx).map(|()| Some(Err(ProbeFailure::Timeout))),
    })
    .await
}

async fn attempt(endpoint: &Address, rules: &ProbeRules) -> Option<Result<(), ProbeFailure>> {
    let place = probe_address(endpoint, &rules.health);
    let mut stream = match Stream::connect_from(&place, rules.source).await {
        Ok(stream) => stream,
        Err(error) if is_shortage(&error) => return None,
        Err(error) => {
            let is_name = matches!(place, Address::Name { .. });
            let unknown = is_name && error.kind() == ErrorKind::NotFound;
            return Some(Err(if unknown { ProbeFailure::Dns } else { ProbeFailure::Refused }));
        }
    };
    // Another port than the endpoint's own is assumed to speak HTTP/1 in plain text.
    let own_port = rules.health.port.is_none();
    let http2 = rules.http2 && own_port;
    if let Some(version) = rules.proxy_protocol.filter(|_| own_port)
        && write_header(&mut stream, ProxyHeader::Local, version).await.is_err()
    {
        return Some(Err(ProbeFailure::Closed));
    }
    let stream = match rules.tls.as_ref().filter(|_| own_port) {
        None => stream,
        Some(tls) => match connect_tls(stream, tls, &place).await {
            Ok(stream) => stream,
            Err(fault) => return Some(Err(ProbeFailure::Tls(fault))),
        },
    };
    // In TLS 1.3 an endpoint may reject the gateway only after the handshake.
    let fault = FaultCell::default();
    let asked = probe_over(stream, rules, &place, http2, &fault).await;
    Some(match (asked, fault.get()) {
        (Err(_), Some(fault)) => Err(ProbeFailure::Tls(fault.clone())),
        (asked, _) => asked,
    })
}

/// Probes over an open connection. A TLS failure is stored in `fault`.
async fn probe_over(
    stream: Stream,
    rules: &ProbeRules,
    place: &Address,
    http2: bool,
    fault: &FaultCell,
) -> Result<(), ProbeFailure> {
    match &rules.health.probe {
        Probe::Tcp => Ok(()),
        Probe::Grpc { service, host } => {
            grpc::check(stream, host.as_deref().unwrap_or(&default_host(place)), service, fault).await
        }
        Probe::Http { path, host, headers, statuses, body } => {
            let own = default_host(place);
            let host = host.as_ref().unwrap_or(&own);
            let expected = Expected { statuses, body: body.as_deref() };
            match http2 {
                false => probe_http1(stream, (host, path), headers, expected, fault).await,
                true => super::http2::probe_http2(stream, (host, path), headers, expected, fault).await,
            }
        }
    }
}

/// Returns the default `Host` of an endpoint; a unix socket has no name.
fn default_host(place: &Address) -> String {
    match place {
        Address::Unix(_) => "localhost".to_owned(),
        place => place.to_string(),
    }
}

#[cfg(test)]
mod tests;
