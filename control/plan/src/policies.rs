//! Decides which policies a request passes, in the order of the [registry](tollgate_policy::REGISTRY).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{PolicySettings, Problem, Spanned};
use tollgate_policy::{Compilation, Consumers, Planned, Plugins, REGISTRY, built_in};
use tollgate_route::PathRules;

use crate::compile_cache::CompileCache;
use crate::matches::path_rules;
use crate::policies::sets::Sets;
use crate::{Action, ListenAddress, PlannedListener, Route};

mod consumers;
mod plugins;
mod sets;

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

/// The policies that the requests of a route pass, as indices into [`Plan::chains`](crate::Plan::chains).
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

/// Identifies a listener in any plan: by its address as it is written, and by its name if it has hosts, since others may
/// then share the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerKey {
    bind: ListenAddress,
    name: Option<String>,
}

impl ListenerKey {
    fn new(listener: &config::Listener) -> Self {
        let name = listener.name.as_ref().filter(|_| !listener.hosts.is_empty());
        Self { bind: listener.bind.value.clone(), name: name.map(|name| name.value.clone()) }
    }

    fn is_of(&self, listener: &PlannedListener) -> bool {
        let name = listener.name.as_ref().filter(|_| !listener.hosts.is_empty());
        self.bind.is_same_address(&listener.bind) && self.name.as_ref() == name
    }
}

/// The unit of which a request passes at most one policy: a built-in kind, or a plugin by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyUnit {
    Own(&'static str),
    Plugin(usize),
}

/// The policies and chains of the plan that is being compiled.
#[derive(Debug)]
struct Chains {
    plugins: &'static Plugins,
    /// All kinds, in the order in which a request passes them.
    order: Vec<PolicyUnit>,
    policies: Vec<AttachedPolicy>,
    chains: Vec<Vec<u32>>,
    known: HashMap<Vec<u32>, u32>,
    consumers: Arc<Consumers>,
    sets: Sets,
    rules: PathRules,
    problems: Vec<config::Problem>,
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
            known: HashMap::new(),
            consumers: Arc::default(),
            sets: Sets::default(),
            rules: PathRules::default(),
            problems: Vec::new(),
        }
    }
}

/// A policy, or `None` if the configuration turns this kind off.
type CompiledPolicy = (PolicyUnit, Option<Arc<dyn Planned>>);

/// The policies of one place: for each kind that it mentions an index into `policies`, or `None` if it turns
/// the kind off.
type PlacePolicies = Vec<(PolicyUnit, Option<u32>)>;

impl Chains {
    /// Compiles the policies of a place: its own, then for every other kind the one from the sets that it
    /// uses. The last set in the list wins.
    fn place(&mut self, place: &str, policies: &config::Policies) -> PlacePolicies {
        let own = self.made(policies);
        let mut placed = PlacePolicies::new();
        for (kind, policy) in own {
            let index = policy.map(|policy| self.add(place, policy, None));
            placed.push((kind, index));
        }
        for used in policies.sets.iter().rev() {
            let Some(set) = self.sets.find(used, &mut self.problems) else { continue };
            for (kind, policy) in &set.policies {
                if placed.iter().any(|(other, _)| other == kind) {
                    continue;
                }
                let policy = policy.as_ref();
                let index = policy.map(|policy| self.add(place, policy.clone(), Some(set.name.clone())));
                placed.push((*kind, index));
            }
        }
        placed
    }

    /// Compiles the policies that are written at one place. A policy that is `off` becomes `None`.
    fn made(&mut self, policies: &config::Policies) -> Vec<CompiledPolicy> {
        let mut made = Vec::new();
        for attached in &policies.list {
            let spec = attached.spec.as_deref();
            if attached.kind == "plugins" {
                let all = plugins::planned(spec, self.plugins, &mut self.problems);
                made.extend(all.into_iter().map(|(plugin, policy)| (PolicyUnit::Plugin(plugin), policy)));
                continue;
            }
            let mut compilation =
                Compilation { consumers: &self.consumers, paths: &self.rules, problems: &mut self.problems };
            let policy =
                spec.zip(built_in(attached.kind)).map(|(spec, kind)| kind.compile(spec, &mut compilation));
            made.push((PolicyUnit::Own(attached.kind), policy));
        }
        made
    }

    /// Attaches a policy to this place, and returns its index.
    fn add(&mut self, place: &str, policy: Arc<dyn Planned>, set: Option<Arc<str>>) -> u32 {
        let key = format!("{place}/{}", policy.kind());
        self.policies.push(AttachedPolicy { key, set, policy });
        (self.policies.len() - 1) as u32
    }

    /// Returns the chain of nested places, the outermost first. For each kind the innermost place decides.
    /// `None` if the chain is empty.
    fn chain(&mut self, places: &[&PlacePolicies]) -> Option<u32> {
        let innermost = |kind: PolicyUnit| {
            let of = |placed: &&&PlacePolicies| placed.iter().find(|(other, _)| *other == kind).copied();
            places.iter().rev().find_map(|placed| of(&placed)).and_then(|(_, index)| index)
        };
        let chain: Vec<u32> = self.order.iter().copied().filter_map(innermost).collect();
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

/// Returns whether a kind of policies decides if a client is admitted.
fn is_guard(kind: &str) -> bool {
    let kinds = REGISTRY.iter().filter_map(|entry| entry.kind());
    kinds.filter(|other| other.is_guard()).any(|other| other.key().name == kind)
}

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
    pub fn new(parts: &config::CombinedResources<'_>, cache: &mut CompileCache) -> Self {
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
        chains.sets = Sets::new(parts, &mut chains);
        let gateway = chains.place("gateway", &config.policies);
        let own = parts.listeners.iter().filter(|listener| !listener.policies.is_empty());
        let listeners = own.map(|listener| {
            let key = ListenerKey::new(listener);
            let place = match &key.name {
                Some(name) => format!("listener/{}/{name}", key.bind),
                None => format!("listener/{}", key.bind),
            };
            (key, chains.place(&place, &listener.policies))
        });
        let listeners = listeners.collect();
        let mut problems = unknown_upstreams(parts);
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

    fn upstream(&self, index: usize) -> Option<u32> {
        self.upstreams.get(index).copied().flatten()
    }

    /// Takes the errors found so far.
    pub fn problems(&mut self) -> Vec<config::Problem> {
        let mut problems = std::mem::take(&mut self.chains.problems);
        problems.append(&mut self.problems);
        problems
    }

    /// Takes the warnings found so far.
    pub fn warnings(&mut self) -> Vec<config::Problem> {
        self.chains.sets.warnings()
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

/// Reports each name of an upstream that does not exist, in any policy of any source.
fn unknown_upstreams(parts: &config::CombinedResources<'_>) -> Vec<Problem> {
    let config::CombinedResources { config, listeners, routes, upstreams, policy_sets, .. } = parts;
    let names: HashSet<&str> = upstreams.iter().map(|upstream| upstream.name.value.as_str()).collect();
    let listeners = listeners.iter().map(|listener| &listener.policies);
    let upstreams = upstreams.iter().map(|upstream| &upstream.policies);
    let routes = routes.iter().map(|route| &route.policies);
    let sets = policy_sets.iter().map(|set| &set.policies);
    let all = std::iter::once(&config.policies).chain(listeners).chain(upstreams).chain(routes).chain(sets);
    let specs = all.flat_map(|policies| &policies.list).filter_map(|attached| attached.spec.as_deref());
    let missing =
        specs.flat_map(PolicySettings::upstreams).filter(|name| !names.contains(name.value.as_str()));
    let mut told = HashSet::new();
    let problem = |name: &Spanned<String>| {
        let message = format!("there is no upstream `{}`", name.value);
        Problem::error(name.at, message).expected("a name under `upstreams`")
    };
    // A list of matches becomes several routes with the same policies.
    missing.filter(|name| told.insert(name.at)).map(problem).collect()
}

/// Reports an `aggregate` at an upstream. Upstreams could otherwise call each other in a circle.
fn aggregate_at_upstream(
    parts: &config::CombinedResources<'_>,
    sets: &Sets,
    policies: &config::Policies,
) -> Option<Problem> {
    let (attached, by) = sets.written(parts, policies, "aggregate")?;
    attached.spec.as_ref()?;
    Some(match by {
        None => Problem::error(attached.at, "an upstream has no `aggregate`")
            .help("write it at the route, a listener or the gateway"),
        Some(used) => Problem::error(used.name.at, "this set has an `aggregate`, and an upstream has none")
            .help(
                "write `aggregate: off` beside `use`, or use the set at the route, a listener or the gateway",
            )
            .related(attached.at, "it is here"),
    })
}

/// Reports each upstream that a route's `canary` names and its `to` does not.
fn canary_off_route(
    parts: &config::CombinedResources<'_>,
    sets: &Sets,
    written: &config::Route,
    planned: &Route,
    known: &HashSet<String>,
) -> Vec<Problem> {
    let Some((attached, by)) = sets.written(parts, &written.policies, "canary") else {
        return Vec::new();
    };
    let Some(spec) = attached.spec.as_deref() else { return Vec::new() };
    let shares = planned.shares().unwrap_or_default();
    let is = |index: usize, name: &str| {
        parts.upstreams.get(index).is_some_and(|upstream| upstream.name.value == name)
    };
    let off = spec.upstreams().into_iter().filter(|name| {
        !shares.iter().any(|share| is(share.upstream, &name.value)) && known.contains(&name.value)
    });
    let help = "name it in `to` as well, with `weight: 0` if nobody else is to come to it";
    let problem = |name: &Spanned<String>| {
        let message = format!("`{}` is none of the upstreams of this route", name.value);
        match by {
            None => Problem::error(name.at, message).help(help),
            Some(used) => {
                let message = format!("{message}, and the `canary` of this set names it");
                Problem::error(used.name.at, message).help(help).related(name.at, "it is named here")
            }
        }
    };
    off.map(problem).collect()
}
