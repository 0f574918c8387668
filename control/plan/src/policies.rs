//! Policies: which ones a request meets, and in which order. One file a policy makes what runs of what was written.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{PolicyKind, PolicySpec};
use tollgate_policy::{Consumers, Planned};

use crate::{Action, Route};

mod api_key;
mod authorize;
mod basic;
mod by;
mod client_certificate;
mod concurrency;
mod consumers;
mod ext_authz;
mod fault;
mod forward_auth;
mod headers;
mod ip;
mod jwt;
mod quota;
mod rate_limit;
mod redis;

/// A policy at its place in the configuration.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The same from plan to plan for the policy of this kind at this place: `route/NAME/KIND` and the like. What it counts
    /// and keeps is found by it.
    pub key: String,
    /// What it does.
    pub policy: Arc<dyn Planned>,
}

/// Which policies the requests of a route meet, by index into [`Plan::chains`](crate::Plan::chains).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChains {
    /// Wherever they come in; nothing: none, but its upstreams may have some.
    pub usual: Option<u32>,
    /// At listeners that have policies of their own, by their address as it is written in the file.
    pub listeners: Arc<[(SocketAddr, Option<u32>)]>,
}

impl RouteChains {
    /// The chain of requests that come in at this listener.
    #[must_use]
    pub fn at(&self, bind: SocketAddr) -> Option<u32> {
        self.listeners.iter().find(|(address, _)| *address == bind).map_or(self.usual, |(_, chain)| *chain)
    }
}

/// Policies in the making.
#[derive(Debug, Default)]
struct Chains {
    policies: Vec<Attached>,
    chains: Vec<Vec<u32>>,
    known: HashMap<Vec<u32>, u32>,
    consumers: Arc<Consumers>,
    problems: Vec<config::Problem>,
}

/// The policies of one place: of each kind that is spoken of, which one it is, or that there is to be none.
type Placed = Vec<(PolicyKind, Option<u32>)>;

impl Chains {
    /// The policies that are attached to a place.
    fn place(&mut self, place: &str, policies: &config::Policies) -> Placed {
        let mut one = |attached: &config::Attached| {
            let index = attached.spec.as_ref().map(|spec| {
                let key = format!("{place}/{}", attached.kind.as_str());
                self.policies
                    .push(Attached { key, policy: planned(spec, &self.consumers, &mut self.problems) });
                (self.policies.len() - 1) as u32
            });
            (attached.kind, index)
        };
        policies.list.iter().map(&mut one).collect()
    }

    /// The chain of several places, the outermost first: of each kind the innermost counts. Nothing if it is empty.
    fn chain(&mut self, places: &[&Placed]) -> Option<u32> {
        let innermost = |kind: PolicyKind| {
            let of = |placed: &&&Placed| placed.iter().find(|(other, _)| *other == kind).copied();
            places.iter().rev().find_map(|placed| of(&placed)).and_then(|(_, index)| index)
        };
        let chain: Vec<u32> = PolicyKind::ALL.into_iter().filter_map(innermost).collect();
        if chain.is_empty() {
            return None;
        }
        let next = self.chains.len() as u32;
        Some(*self.known.entry(chain).or_insert_with_key(|chain| {
            self.chains.push(chain.clone());
            next
        }))
    }
}

/// Which policies every route and upstream has.
pub(crate) struct Policing {
    chains: Chains,
    gateway: Placed,
    /// Those that have policies of their own.
    listeners: Vec<(SocketAddr, Placed)>,
    /// What is written of named upstreams, which come first in the plan too.
    upstreams: Vec<Option<u32>>,
    /// Of routes that have none of their own.
    usual: RouteChains,
    /// The route that was looked at last, and its policies: a list of matches is as many routes that share them.
    last: Option<(config::At, RouteChains)>,
}

impl Policing {
    pub fn new(parts: &config::Parts<'_>) -> Self {
        let config = parts.config;
        let mut problems = Vec::new();
        let consumers = Arc::new(consumers::consumers(&config.consumers, &mut problems));
        let mut chains = Chains { consumers, problems, ..Chains::default() };
        let gateway = chains.place("gateway", &config.policies);
        let own = config.listen.iter().filter(|listener| !listener.policies.list.is_empty());
        let listeners = own.map(|listener| {
            let bind = listener.bind.value;
            (bind, chains.place(&format!("listener/{bind}"), &listener.policies))
        });
        let listeners = listeners.collect();
        let upstreams = parts.upstreams.iter().map(|upstream| {
            let placed = chains.place(&format!("upstream/{}", upstream.name.value), &upstream.policies);
            chains.chain(&[&placed])
        });
        let upstreams = upstreams.collect();
        let none = RouteChains { usual: None, listeners: Arc::default() };
        let mut policing = Self { chains, gateway, listeners, upstreams, usual: none, last: None };
        policing.usual = policing.over_all(&Placed::new());
        policing
    }

    /// The chains of a route with these policies.
    fn over_all(&mut self, own: &Placed) -> RouteChains {
        let Self { chains, gateway, listeners, .. } = self;
        let usual = chains.chain(&[gateway, own]);
        let at = listeners.iter().map(|(bind, placed)| (*bind, chains.chain(&[gateway, placed, own])));
        RouteChains { usual, listeners: at.collect() }
    }

    /// The chains of a route; nothing if it meets none.
    pub fn route(&mut self, written: &config::Route, planned: &Route) -> Option<RouteChains> {
        let chains = if written.policies.list.is_empty() {
            self.usual.clone()
        } else if let Some((_, same)) = self.last.as_ref().filter(|(at, _)| *at == written.at) {
            same.clone()
        } else {
            let placed = self.chains.place(&format!("route/{}", planned.name), &written.policies);
            let chains = self.over_all(&placed);
            self.last = Some((written.at, chains.clone()));
            chains
        };
        let further = match &planned.action {
            Action::Forward(shares) => shares.iter().any(|share| self.upstream(share.upstream).is_some()),
            Action::Redirect(_) | Action::Respond(_) => false,
        };
        let any =
            further || chains.usual.is_some() || chains.listeners.iter().any(|(_, chain)| chain.is_some());
        any.then_some(chains)
    }

    fn upstream(&self, index: usize) -> Option<u32> {
        self.upstreams.get(index).copied().flatten()
    }

    /// What is wrong with them, once.
    pub fn problems(&mut self) -> Vec<config::Problem> {
        std::mem::take(&mut self.chains.problems)
    }

    /// The policies, the chains, and the chain of each upstream.
    pub fn finish(mut self, upstreams: usize) -> (Vec<Attached>, Vec<Vec<u32>>, Vec<Option<u32>>) {
        self.upstreams.resize(upstreams, None);
        (self.chains.policies, self.chains.chains, self.upstreams)
    }
}

fn planned(
    spec: &PolicySpec,
    consumers: &Arc<Consumers>,
    problems: &mut Vec<config::Problem>,
) -> Arc<dyn Planned> {
    match spec {
        PolicySpec::Ip(ip) => Arc::new(ip::ip(ip)),
        PolicySpec::ApiKey(spec) => Arc::new(api_key::api_key(spec, consumers)),
        PolicySpec::ClientCertificate(spec) => {
            Arc::new(client_certificate::client_certificate(spec, consumers))
        }
        PolicySpec::Basic(spec) => Arc::new(basic::basic(spec, consumers)),
        PolicySpec::ExtAuthz(spec) => Arc::new(ext_authz::ext_authz(spec, problems)),
        PolicySpec::ForwardAuth(spec) => Arc::new(forward_auth::forward_auth(spec, problems)),
        PolicySpec::Jwt(spec) => Arc::new(jwt::jwt(spec, problems)),
        PolicySpec::Authorize(spec) => Arc::new(authorize::authorize(spec)),
        PolicySpec::RateLimit(limits) => Arc::new(rate_limit::rate_limit(limits)),
        PolicySpec::Quota(quotas) => Arc::new(quota::quota(quotas)),
        PolicySpec::Concurrency(limits) => Arc::new(concurrency::concurrency(limits)),
        PolicySpec::Fault(fault) => Arc::new(fault::fault(fault)),
        PolicySpec::Headers(headers) => Arc::new(headers::headers(headers)),
    }
}
