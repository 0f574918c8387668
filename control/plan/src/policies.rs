//! Decides which policies a request passes, in the order of the [registry](tollgate_policy::REGISTRY).
//!
//! `compile` creates a [`PolicyCompiler`] for each plan, and asks it for the chains of every route and upstream.
//! [`chains`] collects them. The parts of a chain come from [`sets`] and [`plugins`], and [`consumers`] holds the
//! credentials that policies look up. [`upstream_names`] checks the upstreams that policies name.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{Problem, Severity, is_guard};
use tollgate_policy::Planned;

use crate::compile_cache::CompileCache;
use crate::matches::path_rules;
use crate::policies::chains::{Chains, PlacePolicies};
use crate::policies::sets::Sets;
use crate::policies::upstream_names::{aggregate_at_upstream, canary_off_route, unknown_upstreams};
use crate::{Action, AttachedPolicy, ListenerKey, Route, RouteChains};

mod chains;
mod consumers;
mod plugins;
mod policy_unit;
mod sets;
mod upstream_names;

/// Assigns chains of policies to routes and upstreams.
pub(crate) struct PolicyCompiler {
    chains: Chains,
    gateway: PlacePolicies,
    /// Listeners that have policies of their own.
    listeners: Vec<(ListenerKey, PlacePolicies)>,
    /// The chains of the named upstreams, which also come first in the plan.
    upstreams: Vec<Option<u32>>,
    /// The names of the named upstreams.
    names: HashSet<String>,
    /// Errors about upstreams that policies name.
    problems: Vec<Problem>,
    /// The chains of routes without policies of their own.
    default: RouteChains,
    /// The last route with policies of its own, and its chains. A list of matches becomes several routes that
    /// share them.
    last: Option<(config::At, RouteChains)>,
}

impl PolicyCompiler {
    /// `special` has the routes with policies of their own, among others.
    pub fn new(
        parts: &config::CombinedResources<'_>,
        special: &[&config::Route],
        cache: &mut CompileCache,
    ) -> Self {
        let config = parts.config;
        let mut problems = Vec::new();
        let consumers = cache.consumers(&parts.consumers).unwrap_or_else(|| {
            let consumers = Arc::new(consumers::consumers(&parts.consumers, &mut problems));
            // Do not remember faulty consumers: their errors must be reported again the next time.
            if problems.is_empty() {
                cache.store_consumers(&parts.consumers, &consumers);
            }
            consumers
        });
        let mut chains =
            Chains { consumers, problems, rules: path_rules(&config.paths), ..Chains::default() };
        chains.sets = Sets::new(parts, |policies| chains.compile(policies));
        let gateway = chains.place("gateway", &config.policies);
        let own = parts.listeners.iter().filter(|listener| !listener.policies.is_empty());
        let listeners = own.map(|listener| {
            let key = ListenerKey::new(listener);
            let placed = chains.place(&key.place(), &listener.policies);
            (key, placed)
        });
        let listeners = listeners.collect();
        let mut problems = unknown_upstreams(parts, special);
        let upstreams = parts.upstreams.iter().map(|upstream| {
            problems.extend(aggregate_at_upstream(parts, &chains.sets, &upstream.policies));
            let placed = chains.place(&format!("upstream/{}", upstream.name.value), &upstream.policies);
            chains.chain(&[&placed])
        });
        let upstreams = upstreams.collect();
        let none = RouteChains { default: None, listeners: Arc::default() };
        let names = parts.upstreams.iter().map(|upstream| upstream.name.value.clone()).collect();
        let mut policy_compiler =
            Self { chains, gateway, listeners, upstreams, names, problems, default: none, last: None };
        policy_compiler.default = policy_compiler.over_all(&PlacePolicies::new());
        policy_compiler
    }

    /// Returns the chains of a route that has these policies.
    fn over_all(&mut self, own: &PlacePolicies) -> RouteChains {
        let Self { chains, gateway, listeners, .. } = self;
        let default = chains.chain(&[gateway, own]);
        let at = listeners.iter().map(|(key, placed)| (key.clone(), chains.chain(&[gateway, placed, own])));
        RouteChains { default, listeners: at.collect() }
    }

    /// Returns the chains of a route; `None` if its requests pass no policy.
    pub fn route(
        &mut self,
        parts: &config::CombinedResources<'_>,
        written: &config::Route,
        planned: &Route,
    ) -> Option<RouteChains> {
        let chains = if written.policies.is_empty() {
            self.default.clone()
        } else if let Some((_, same)) = self.last.as_ref().filter(|(at, _)| *at == written.at) {
            same.clone()
        } else {
            self.problems.extend(canary_off_route(parts, &self.chains.sets, written, planned, &self.names));
            let placed = self.chains.place(&format!("route/{}", planned.name), &written.policies);
            let chains = self.over_all(&placed);
            self.last = Some((written.at, chains.clone()));
            chains
        };
        let further = match &planned.action {
            Action::Forward(targets) => {
                targets.shares.iter().any(|share| self.upstream(share.upstream).is_some())
            }
            Action::Redirect(_) | Action::Respond(_) | Action::Files(_) => false,
        };
        let any =
            further || chains.default.is_some() || chains.listeners.iter().any(|(_, chain)| chain.is_some());
        any.then_some(chains)
    }

    /// Returns the chain of a named upstream.
    pub fn upstream(&self, index: usize) -> Option<u32> {
        self.upstreams.get(index).copied().flatten()
    }

    /// Returns the chains of routes without policies of their own.
    pub fn default_chains(&self) -> &RouteChains {
        &self.default
    }

    /// Returns whether any policy decides if a client is admitted.
    pub fn has_guards(&self) -> bool {
        self.chains.policies.iter().any(|attached| is_guard(attached.policy.kind()))
    }

    /// Returns whether any policy stores responses.
    pub fn has_caches(&self) -> bool {
        self.chains.policies.iter().any(|attached| attached.policy.cache_rules().is_some())
    }

    /// Takes the errors found so far.
    pub fn problems(&mut self) -> Vec<config::Problem> {
        let is_error = |problem: &mut config::Problem| problem.severity == Severity::Error;
        let mut problems: Vec<_> = self.chains.problems.extract_if(.., is_error).collect();
        problems.append(&mut self.problems);
        problems
    }

    /// Takes the warnings found so far. Call it after [`problems`](Self::problems).
    pub fn warnings(&mut self) -> Vec<config::Problem> {
        let mut warnings = self.chains.sets.warnings();
        warnings.append(&mut self.chains.problems);
        warnings
    }

    /// Returns the policies that a route's requests pass at a listener without policies of its own.
    pub fn of_route(&self, chains: &RouteChains) -> impl Iterator<Item = &dyn Planned> {
        let chain = chains.default.and_then(|chain| self.chains.chains.get(chain as usize));
        let policies =
            chain.into_iter().flatten().filter_map(|index| self.chains.policies.get(*index as usize));
        policies.map(|attached| &*attached.policy)
    }

    /// Returns where the policy of a kind that a route's requests pass is written: at the route, in a set that it uses, or
    /// at the gateway.
    pub fn position(
        &self,
        parts: &config::CombinedResources<'_>,
        route: &config::Route,
        kind: &str,
    ) -> Option<config::At> {
        let places = [&route.policies, &parts.config.policies];
        places
            .into_iter()
            .find_map(|policies| self.chains.sets.written(parts, policies, kind))
            .map(|(attached, _)| attached.at)
    }

    /// Returns the kinds of a route's policies that decide whether a client is admitted, at any listener.
    pub fn guards(&self, chains: &RouteChains) -> Vec<&'static str> {
        self.of_route(chains).map(Planned::kind).filter(|kind| is_guard(kind)).collect()
    }

    /// Returns the policies, the chains, and the chain of each upstream.
    pub fn finish(mut self, upstreams: usize) -> (Vec<AttachedPolicy>, Vec<Vec<u32>>, Vec<Option<u32>>) {
        self.upstreams.resize(upstreams, None);
        (self.chains.policies, self.chains.chains, self.upstreams)
    }
}
