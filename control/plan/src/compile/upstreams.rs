//! Compiles upstreams, and the targets of routes. Endpoints that a route writes in place become an upstream without a
//! name of its own, which all routes with the same endpoints share.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, Http2, Problem, TargetKind};
use tollgate_net::{Address, ProxyVersion};

use super::{Compiler, fixed_response};
use crate::{AnswerShare, Endpoint, EndpointHttp2, Pool, Rules, Targets, Upstream, UpstreamShare};

/// The compiled targets of a route.
pub(super) struct CompiledTargets {
    pub targets: Targets,
    /// The weight of the targets that close. Only streams have them.
    pub closing: Option<u32>,
    /// The only upstream among them, if it is a named one: its index in `written`. Its timeouts apply.
    pub only_named: Option<usize>,
}

impl<'a> Compiler<'a> {
    pub(super) fn named_upstreams(&mut self) {
        for (index, upstream) in self.written.iter().enumerate() {
            let endpoints = upstream.endpoints.iter().map(endpoint).collect();
            let name = upstream.name.value.clone();
            let schemes = upstream
                .endpoints
                .iter()
                .map(|endpoint| (endpoint.address.value.scheme, endpoint.address.at));
            // If all endpoints are discovered, the presence of `tls` decides.
            let only_tls = upstream.tls.as_ref().filter(|_| upstream.endpoints.is_empty());
            let scheme = self.scheme(schemes);
            let http2 = upstream.is_http2();
            // The bytes of a stream may be of any protocol.
            let offer = match http2 {
                true => Some(Http2::Only),
                false if self.of_streams.contains(name.as_str()) => None,
                false => Some(Http2::Off),
            };
            let tls = match scheme.or(only_tls.map(|tls| (config::Scheme::Https, tls.at))) {
                Some((config::Scheme::Https, at)) => {
                    let tls = self.clients.get(upstream.tls.as_ref(), offer, at, &mut self.problems);
                    tls.map(|tls| tls.named(upstream.discover.as_ref().map(|discover| &discover.value)))
                }
                _ => None,
            };
            self.names.insert(name.clone(), (self.upstreams.len(), Some(index)));
            self.upstreams.push(Arc::new(Upstream {
                name,
                endpoints,
                discover: upstream.discover.as_ref().map(|discover| discover.value.clone()),
                zone: self.config.zone.clone(),
                pool: pool(upstream),
                tls,
                http2: http2.then(|| self.http2()),
                proxy_protocol: upstream.proxy_protocol.map(proxy_version),
                rules: upstream.rules.clone(),
            }));
        }
    }

    /// Compiles the targets of a route. All endpoints written in place form one upstream; each named upstream has a
    /// share of its own.
    pub(super) fn forward(&mut self, targets: &'a [config::Target]) -> CompiledTargets {
        let mut shares: Vec<UpstreamShare> = Vec::new();
        let mut answers = Vec::new();
        let mut closing: Option<u32> = None;
        let mut own = Vec::new();
        let mut named = Vec::new();
        for target in targets {
            match &target.to {
                TargetKind::Endpoint(endpoint) => own.push((endpoint, target.weight)),
                TargetKind::Respond(respond) => {
                    answers.push(AnswerShare { respond: fixed_response(respond), weight: target.weight });
                }
                TargetKind::Close => closing = Some(closing.unwrap_or(0).saturating_add(target.weight)),
                TargetKind::Upstream(name) => match self.names.get(name) {
                    Some((upstream, index)) => {
                        shares.push(UpstreamShare { upstream: *upstream, weight: target.weight });
                        named.extend(*index);
                    }
                    // The reader reports this with help; a config from another source can still have it.
                    None => {
                        let message = format!("there is no upstream `{name}`");
                        self.problems.push(Problem::error(target.at, message));
                    }
                },
            }
        }
        if !own.is_empty() {
            let weight = own.iter().map(|(_, weight)| *weight).fold(0, u32::saturating_add);
            let before = self.problems.len();
            let upstream =
                self.inline_upstreams.get(&own).copied().unwrap_or_else(|| self.inline_upstream(targets));
            // If there was an error, every route reports it.
            if self.problems.len() == before {
                self.inline_upstreams.insert(own, upstream);
            }
            shares.push(UpstreamShare { upstream, weight });
        }
        let only_named = (shares.len() == 1).then(|| named.first().copied()).flatten();
        CompiledTargets { targets: Targets { shares, answers }, closing, only_named }
    }

    /// Returns the settings of HTTP/2 to endpoints, which follow from the gateway's limits.
    fn http2(&self) -> EndpointHttp2 {
        let limits = &self.config.limits;
        // HTTP/2 counts 32 bytes for each field (RFC 9113, 6.5.2), pseudo-fields included. A head between the
        // configured limit and this one gets an error of its own, distinct from a protocol error.
        let list = limits.headers.saturating_add(limits.header_count.saturating_mul(32)).saturating_add(1024);
        EndpointHttp2 { header_list: u32::try_from(list).unwrap_or(u32::MAX) }
    }

    /// Returns the upstream made of the endpoints among the targets. Routes with the same endpoints share one
    /// upstream and its pool.
    fn inline_upstream(&mut self, targets: &[config::Target]) -> usize {
        let mut endpoints = Vec::new();
        let mut texts = Vec::new();
        let own = targets.iter().filter_map(|target| match &target.to {
            TargetKind::Endpoint(endpoint) => Some((endpoint, target)),
            TargetKind::Upstream(_) | TargetKind::Respond(_) | TargetKind::Close => None,
        });
        let scheme = self.scheme(own.clone().map(|(endpoint, target)| (endpoint.scheme, target.at)));
        for (endpoint, target) in own {
            let address = address(endpoint);
            let scheme = match endpoint.scheme {
                config::Scheme::Http => "",
                config::Scheme::Https => "https://",
                config::Scheme::H2c => "h2c://",
            };
            texts.push(match target.weight {
                1 => format!("{scheme}{address}"),
                weight => format!("{scheme}{address}*{weight}"),
            });
            endpoints.push(Endpoint { address, weight: target.weight, priority: 0, zone: None });
        }
        let name = texts.join(",");
        if let Some((upstream, _)) = self.names.get(&name) {
            return *upstream;
        }
        let tls = match scheme {
            Some((config::Scheme::Https, at)) => {
                self.clients.get(None, Some(Http2::Off), at, &mut self.problems)
            }
            _ => None,
        };
        let prior = matches!(scheme, Some((config::Scheme::H2c, _)));
        self.names.insert(name.clone(), (self.upstreams.len(), None));
        self.upstreams.push(Arc::new(Upstream {
            name,
            endpoints,
            discover: None,
            zone: None,
            pool: Pool::default(),
            tls,
            http2: prior.then(|| self.http2()),
            proxy_protocol: None,
            rules: Rules::default(),
        }));
        self.upstreams.len() - 1
    }

    /// Returns the protocol of an upstream's endpoints, and where the first one is written. They must not
    /// differ: pool, balancing and retries span all endpoints.
    fn scheme(
        &mut self,
        mut schemes: impl Iterator<Item = (config::Scheme, At)>,
    ) -> Option<(config::Scheme, At)> {
        let first = schemes.next()?;
        if let Some((_, at)) = schemes.find(|(scheme, _)| *scheme != first.0) {
            let problem = Problem::error(at, "this endpoint speaks another protocol than the first one");
            let problem =
                problem.help("the endpoints of an upstream speak one protocol: make two upstreams of them");
            self.problems.push(problem.related(first.1, "the first one"));
        }
        Some(first)
    }
}

/// Converts an endpoint to the form that the plan has.
pub(crate) fn endpoint(endpoint: &config::Endpoint) -> Endpoint {
    Endpoint {
        address: address(&endpoint.address.value),
        weight: endpoint.share(),
        priority: endpoint.priority,
        zone: endpoint.zone.clone(),
    }
}

/// Returns the pool settings of an upstream. A connection whose PROXY protocol header names a client serves
/// one request and is not kept.
fn pool(upstream: &config::Upstream) -> Pool {
    let pool = upstream.pool.clone();
    match upstream.proxy_protocol {
        None => pool,
        Some(_) => Pool { max_idle: 0, warm: 0, ..pool },
    }
}

fn proxy_version(version: config::ProxyProtocol) -> ProxyVersion {
    match version {
        config::ProxyProtocol::V1 => ProxyVersion::V1,
        config::ProxyProtocol::V2 => ProxyVersion::V2,
    }
}

fn address(endpoint: &config::EndpointAddress) -> Address {
    match &endpoint.address {
        config::Address::Tcp { host, port } => Address::tcp(host, *port),
        config::Address::Unix(path) => Address::Unix(path.clone()),
    }
}
