//! Collects the policies of a plan and the chains that requests pass. Nested places (gateway, listener, route) form a
//! chain: for each kind the innermost place decides, and equal chains are stored once.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{Compilation, Consumers, Planned, Plugins, built_in};
use tollgate_route::PathRules;

use super::plugins;
use super::policy_unit::{CompiledPolicy, PolicyUnit};
use super::sets::Sets;
use crate::AttachedPolicy;

/// The policies and chains of the plan that is being compiled.
#[derive(Debug)]
pub(super) struct Chains {
    pub plugins: &'static Plugins,
    /// All kinds, in the order in which a request passes them.
    pub order: Vec<PolicyUnit>,
    pub policies: Vec<AttachedPolicy>,
    pub chains: Vec<Vec<u32>>,
    /// Finds a chain of `chains`.
    pub indices: HashMap<Vec<u32>, u32>,
    pub consumers: Arc<Consumers>,
    pub sets: Sets,
    pub rules: PathRules,
    pub problems: Vec<config::Problem>,
}

impl Default for Chains {
    /// Returns an empty collection for the plugins of this program.
    fn default() -> Self {
        let plugins = Plugins::installed();
        Self {
            plugins,
            order: plugins::order(plugins),
            policies: Vec::new(),
            chains: Vec::new(),
            indices: HashMap::new(),
            consumers: Arc::default(),
            sets: Sets::default(),
            rules: PathRules::default(),
            problems: Vec::new(),
        }
    }
}

/// The policies of one place: for each kind that it mentions an index into `policies`, or `None` if it turns
/// the kind off.
pub(super) type PlacePolicies = Vec<(PolicyUnit, Option<u32>)>;

impl Chains {
    /// Compiles the policies of a place: its own, then for every other kind the one from the sets that it
    /// uses. The last set in the list wins.
    pub fn place(&mut self, place: &str, policies: &config::Policies) -> PlacePolicies {
        let mut placed = PlacePolicies::new();
        for (kind, policy) in self.compile(policies) {
            let index = policy.map(|policy| self.attach(place, policy, None));
            placed.push((kind, index));
        }
        for used in policies.sets.iter().rev() {
            let Some(set) = self.sets.find(used, &mut self.problems) else { continue };
            for (kind, policy) in &set.policies {
                if placed.iter().any(|(other, _)| other == kind) {
                    continue;
                }
                let policy = policy.as_ref();
                let index = policy.map(|policy| self.attach(place, policy.clone(), Some(set.name.clone())));
                placed.push((*kind, index));
            }
        }
        placed
    }

    /// Compiles the policies that are written at one place. A policy that is `off` becomes `None`.
    pub fn compile(&mut self, policies: &config::Policies) -> Vec<CompiledPolicy> {
        let mut compiled = Vec::new();
        for attached in &policies.list {
            let spec = attached.spec.as_deref();
            if attached.kind == "plugins" {
                let all = plugins::planned(spec, self.plugins, &mut self.problems);
                compiled.extend(all.into_iter().map(|(plugin, policy)| (PolicyUnit::Plugin(plugin), policy)));
                continue;
            }
            let mut compilation =
                Compilation { consumers: &self.consumers, paths: &self.rules, problems: &mut self.problems };
            let policy =
                spec.zip(built_in(attached.kind)).map(|(spec, kind)| kind.compile(spec, &mut compilation));
            compiled.push((PolicyUnit::BuiltIn(attached.kind), policy));
        }
        compiled
    }

    /// Attaches a policy to this place, and returns its index.
    fn attach(&mut self, place: &str, policy: Arc<dyn Planned>, set: Option<Arc<str>>) -> u32 {
        let key = format!("{place}/{}", policy.kind());
        self.policies.push(AttachedPolicy { key, set, policy });
        (self.policies.len() - 1) as u32
    }

    /// Returns the chain of nested places, the outermost first. For each kind the innermost place decides.
    /// `None` if the chain is empty.
    pub fn chain(&mut self, places: &[&PlacePolicies]) -> Option<u32> {
        let innermost = |kind: PolicyUnit| {
            let of = |placed: &&&PlacePolicies| placed.iter().find(|(other, _)| *other == kind).copied();
            places.iter().rev().find_map(|placed| of(&placed)).and_then(|(_, index)| index)
        };
        let chain: Vec<u32> = self.order.iter().copied().filter_map(innermost).collect();
        if chain.is_empty() {
            return None;
        }
        let next = self.chains.len() as u32;
        Some(*self.indices.entry(chain).or_insert_with_key(|chain| {
            self.chains.push(chain.clone());
            next
        }))
    }
}
