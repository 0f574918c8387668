//! Policies: which ones a request meets, and in which order. One file a policy makes what runs of what was written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{PolicyKind, PolicySpec, Problem, Spanned};
use tollgate_policy::{Consumers, Planned, Plugins};
use tollgate_route::PathRules;

use crate::matches::path_rules;
use crate::memo::Memo;
use crate::policies::sets::Sets;
use crate::{Action, ListenAddress, Route};

mod aggregate;
mod any_of;
mod api_key;
mod authorize;
mod basic;
mod by;
mod canary;
mod client_certificate;
mod compression;
mod concurrency;
mod consumers;
mod cookies;
mod cors;
mod cost;
mod decompression;
mod ext_authz;
mod fault;
mod forward_auth;
mod headers;
mod hmac;
mod intercept;
mod ip;
mod jwt;
mod mirror;
mod plugins;
mod query;
mod quota;
mod rate_limit;
mod redis;
mod security_headers;
mod sets;
mod shared;
mod template;
mod trace;

/// Policies that say who may come.
const GUARDS: [&str; 10] = [
    "ip",
    "any_of",
    "api_key",
    "client_certificate",
    "basic",
    "ext_authz",
    "forward_auth",
    "hmac",
    "jwt",
    "authorize",
];

pub(crate) use trace::collector;

/// A policy at its place in the configuration.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The same from plan to plan for the policy of this kind at this place: `route/NAME/KIND` and the like, of a plugin
    /// `route/NAME/plugins/PLUGIN`. What it counts and keeps is found by it.
    pub key: String,
    /// The set of policies that it comes from; nothing: it is written at the place itself.
    pub set: Option<Arc<str>>,
    /// What it does.
    pub policy: Arc<dyn Planned>,
}

impl Attached {
    /// Its kind, and its place: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
    #[must_use]
    pub fn name(&self) -> (&'static str, &str) {
        let kind = self.policy.kind();
        (kind, self.key.strip_suffix(kind).map_or("", |place| place.trim_end_matches('/')))
    }
}

/// Which policies the requests of a route meet, by index into [`Plan::chains`](crate::Plan::chains).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChains {
    /// Wherever they come in; nothing: none, but its upstreams may have some.
    pub usual: Option<u32>,
    /// At listeners that have policies of their own, by their address as it is written in the file.
    pub listeners: Arc<[(ListenAddress, Option<u32>)]>,
}

impl RouteChains {
    /// The chain of requests that come in at this listener.
    #[must_use]
    pub fn at(&self, bind: &ListenAddress) -> Option<u32> {
        self.listeners
            .iter()
            .find(|(address, _)| address.is_same_place(bind))
            .map_or(self.usual, |(_, chain)| *chain)
    }
}

/// What a request meets at most one of: a kind of the gateway's own, or a plugin by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Own(PolicyKind),
    Plugin(usize),
}

/// Policies in the making.
#[derive(Debug)]
struct Chains {
    plugins: &'static Plugins,
    /// What there is, in the order in which a request meets it.
    order: Vec<Kind>,
    policies: Vec<Attached>,
    chains: Vec<Vec<u32>>,
    known: HashMap<Vec<u32>, u32>,
    consumers: Arc<Consumers>,
    sets: Sets,
    rules: PathRules,
    problems: Vec<config::Problem>,
}

impl Default for Chains {
    /// None, of a program with the plugins that this one has.
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

/// A policy, or that there is to be none of its kind.
type Made = (Kind, Option<Arc<dyn Planned>>);

/// The policies of one place: of each kind that is spoken of, which one it is, or that there is to be none.
type Placed = Vec<(Kind, Option<u32>)>;

impl Chains {
    /// The policies that are attached to a place: its own, and those of the sets that it uses of kinds that it does not speak
    /// of, the last set first.
    fn place(&mut self, place: &str, policies: &config::Policies) -> Placed {
        let own = self.made(policies);
        let mut placed = Placed::new();
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

    /// What is made of the policies that are written here; of those that are `off`, nothing.
    fn made(&mut self, policies: &config::Policies) -> Vec<Made> {
        let mut made = Vec::new();
        for attached in &policies.list {
            let spec = attached.spec.as_deref();
            if attached.kind == PolicyKind::Plugins {
                let all = plugins::planned(spec, self.plugins, &mut self.problems);
                made.extend(all.into_iter().map(|(plugin, policy)| (Kind::Plugin(plugin), policy)));
                continue;
            }
            let policy =
                spec.and_then(|spec| planned(spec, &self.consumers, &self.rules, &mut self.problems));
            made.push((Kind::Own(attached.kind), policy));
        }
        made
    }

    /// One more policy, at this place.
    fn add(&mut self, place: &str, policy: Arc<dyn Planned>, set: Option<Arc<str>>) -> u32 {
        let key = format!("{place}/{}", policy.kind());
        self.policies.push(Attached { key, set, policy });
        (self.policies.len() - 1) as u32
    }

    /// The chain of several places, the outermost first: of each kind the innermost counts. Nothing if it is empty.
    fn chain(&mut self, places: &[&Placed]) -> Option<u32> {
        let innermost = |kind: Kind| {
            let of = |placed: &&&Placed| placed.iter().find(|(other, _)| *other == kind).copied();
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

/// Which policies every route and upstream has.
pub(crate) struct Policing {
    chains: Chains,
    gateway: Placed,
    /// Those that have policies of their own.
    listeners: Vec<(ListenAddress, Placed)>,
    /// What is written of named upstreams, which come first in the plan too.
    upstreams: Vec<Option<u32>>,
    /// The names of all upstreams.
    names: HashSet<String>,
    /// What is wrong with names of upstreams.
    problems: Vec<Problem>,
    /// Of routes that have none of their own.
    usual: RouteChains,
    /// The route that was looked at last, and its policies: a list of matches is as many routes that share them.
    last: Option<(config::At, RouteChains)>,
}

impl Policing {
    pub fn new(parts: &config::Parts<'_>, memo: &mut Memo) -> Self {
        let config = parts.config;
        let mut problems = Vec::new();
        let consumers = memo.consumers(&parts.consumers).unwrap_or_else(|| {
            let consumers = Arc::new(consumers::consumers(&parts.consumers, &mut problems));
            // What is wrong with them is to be told the next time too.
            if problems.is_empty() {
                memo.note_consumers(&parts.consumers, &consumers);
            }
            consumers
        });
        let mut chains =
            Chains { consumers, problems, rules: path_rules(&config.paths), ..Chains::default() };
        chains.sets = Sets::new(parts, &mut chains);
        let gateway = chains.place("gateway", &config.policies);
        let own = config.listen.iter().filter(|listener| !listener.policies.is_empty());
        let listeners = own.map(|listener| {
            let bind = listener.bind.value.clone();
            let placed = chains.place(&format!("listener/{bind}"), &listener.policies);
            (bind, placed)
        });
        let listeners = listeners.collect();
        let mut problems = unknown_upstreams(parts);
        let upstreams = parts.upstreams.iter().map(|upstream| {
            problems.extend(behind_others(parts, &chains.sets, &upstream.policies));
            let placed = chains.place(&format!("upstream/{}", upstream.name.value), &upstream.policies);
            chains.chain(&[&placed])
        });
        let upstreams = upstreams.collect();
        let none = RouteChains { usual: None, listeners: Arc::default() };
        let names = parts.upstreams.iter().map(|upstream| upstream.name.value.clone()).collect();
        let mut policing =
            Self { chains, gateway, listeners, upstreams, names, problems, usual: none, last: None };
        policing.usual = policing.over_all(&Placed::new());
        policing
    }

    /// The chains of a route with these policies.
    fn over_all(&mut self, own: &Placed) -> RouteChains {
        let Self { chains, gateway, listeners, .. } = self;
        let usual = chains.chain(&[gateway, own]);
        let at = listeners.iter().map(|(bind, placed)| (bind.clone(), chains.chain(&[gateway, placed, own])));
        RouteChains { usual, listeners: at.collect() }
    }

    /// The chains of a route; nothing if it meets none.
    pub fn route(
        &mut self,
        parts: &config::Parts<'_>,
        written: &config::Route,
        planned: &Route,
    ) -> Option<RouteChains> {
        let chains = if written.policies.is_empty() {
            self.usual.clone()
        } else if let Some((_, same)) = self.last.as_ref().filter(|(at, _)| *at == written.at) {
            same.clone()
        } else {
            self.problems.extend(off_route(parts, &self.chains.sets, written, planned, &self.names));
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
        let mut problems = std::mem::take(&mut self.chains.problems);
        problems.append(&mut self.problems);
        problems
    }

    /// What is doubtful about them, once.
    pub fn warnings(&mut self) -> Vec<config::Problem> {
        self.chains.sets.warnings()
    }

    /// The kinds of the policies of a route that say who may come, wherever its requests come in.
    pub fn guards(&self, chains: &RouteChains) -> Vec<&'static str> {
        let chain = chains.usual.and_then(|chain| self.chains.chains.get(chain as usize));
        let policies =
            chain.into_iter().flatten().filter_map(|index| self.chains.policies.get(*index as usize));
        policies.map(|attached| attached.policy.kind()).filter(|kind| GUARDS.contains(kind)).collect()
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
    rules: &PathRules,
    problems: &mut Vec<config::Problem>,
) -> Option<Arc<dyn Planned>> {
    Some(match spec {
        PolicySpec::Trace(spec) => Arc::new(trace::trace(spec, problems)),
        PolicySpec::Ip(ip) => Arc::new(ip::ip(ip)),
        PolicySpec::ApiKey(spec) => Arc::new(api_key::api_key(spec, consumers)),
        PolicySpec::ClientCertificate(spec) => {
            Arc::new(client_certificate::client_certificate(spec, consumers))
        }
        PolicySpec::Basic(spec) => Arc::new(basic::basic(spec, consumers)),
        PolicySpec::ExtAuthz(spec) => Arc::new(ext_authz::ext_authz(spec, problems)),
        PolicySpec::ForwardAuth(spec) => Arc::new(forward_auth::forward_auth(spec, problems)),
        PolicySpec::Hmac(spec) => Arc::new(hmac::hmac(spec, consumers)),
        PolicySpec::Jwt(spec) => Arc::new(jwt::jwt(spec, problems)),
        PolicySpec::AnyOf(spec) => Arc::new(any_of::any_of(spec, consumers, problems)),
        PolicySpec::Authorize(spec) => Arc::new(authorize::authorize(spec)),
        PolicySpec::RateLimit(limits) => Arc::new(rate_limit::rate_limit(limits, problems)),
        PolicySpec::Quota(quotas) => Arc::new(quota::quota(quotas, problems)),
        PolicySpec::Concurrency(limits) => Arc::new(concurrency::concurrency(limits)),
        PolicySpec::Fault(fault) => Arc::new(fault::fault(fault)),
        PolicySpec::Intercept(spec) => Arc::new(intercept::intercept(spec, rules)),
        PolicySpec::Canary(canary) => Arc::new(canary::canary(canary)),
        PolicySpec::Cors(cors) => Arc::new(cors::cors(cors)),
        PolicySpec::Mirror(mirror) => Arc::new(mirror::mirror(mirror)),
        PolicySpec::SecurityHeaders(headers) => Arc::new(security_headers::security_headers(headers)),
        PolicySpec::Compression(compression) => Arc::new(compression::compression(compression)),
        PolicySpec::Aggregate(spec) => Arc::new(aggregate::aggregate(spec, rules, problems)),
        PolicySpec::Decompression(spec) => Arc::new(decompression::decompression(spec)),
        PolicySpec::Query(query) => Arc::new(query::query(query)),
        PolicySpec::Cookies(cookies) => Arc::new(cookies::cookies(cookies)),
        PolicySpec::Headers(headers) => Arc::new(headers::headers(headers)),
        // Each of them is one.
        PolicySpec::Plugins(_) => return None,
    })
}

/// The upstreams that a policy names.
fn named(spec: &PolicySpec) -> Vec<&Spanned<String>> {
    match spec {
        PolicySpec::Canary(canary) => canary.rules.iter().map(|rule| &rule.to).collect(),
        PolicySpec::Mirror(mirror) => vec![&mirror.to],
        PolicySpec::Aggregate(spec) => spec.parts.iter().map(|part| &part.to).collect(),
        _ => Vec::new(),
    }
}

/// A problem for each name of an upstream that there is not, in any policy of any source.
fn unknown_upstreams(parts: &config::Parts<'_>) -> Vec<Problem> {
    let config::Parts { config, routes, upstreams, policy_sets, .. } = parts;
    let names: HashSet<&str> = upstreams.iter().map(|upstream| upstream.name.value.as_str()).collect();
    let listeners = config.listen.iter().map(|listener| &listener.policies);
    let upstreams = upstreams.iter().map(|upstream| &upstream.policies);
    let routes = routes.iter().map(|route| &route.policies);
    let sets = policy_sets.iter().map(|set| &set.policies);
    let all = std::iter::once(&config.policies).chain(listeners).chain(upstreams).chain(routes).chain(sets);
    let specs = all.flat_map(|policies| &policies.list).filter_map(|attached| attached.spec.as_deref());
    let missing = specs.flat_map(named).filter(|name| !names.contains(name.value.as_str()));
    let mut told = HashSet::new();
    let problem = |name: &Spanned<String>| {
        let message = format!("there is no upstream `{}`", name.value);
        Problem::error(name.at, message).expected("a name under `upstreams`")
    };
    // A list of matches is as many routes with the same policies.
    missing.filter(|name| told.insert(name.at)).map(problem).collect()
}

/// A problem for an `aggregate` of an upstream: upstreams could ask each other in a circle.
fn behind_others(parts: &config::Parts<'_>, sets: &Sets, policies: &config::Policies) -> Option<Problem> {
    let (attached, by) = sets.written(parts, policies, PolicyKind::Aggregate)?;
    attached.spec.as_ref()?;
    Some(match by {
        None => Problem::error(attached.at, "an upstream has no `aggregate`")
            .help("write it at the route, a listener or the gateway"),
        Some(used) => Problem::error(used.name.at, "this set has an `aggregate`, and an upstream has none")
            .help(
                "write `aggregate: off` beside `use`, or use the set at the route, a listener or the gateway",
            )
            .see(attached.at, "it is here"),
    })
}

/// A problem for each upstream that a route's `canary` names and its `to` does not.
fn off_route(
    parts: &config::Parts<'_>,
    sets: &Sets,
    written: &config::Route,
    planned: &Route,
    known: &HashSet<String>,
) -> Vec<Problem> {
    let Some((attached, by)) = sets.written(parts, &written.policies, PolicyKind::Canary) else {
        return Vec::new();
    };
    let Some(spec) = attached.spec.as_deref() else { return Vec::new() };
    let shares = if let Action::Forward(shares) = &planned.action { shares.as_slice() } else { &[] };
    let is = |index: usize, name: &str| {
        parts.upstreams.get(index).is_some_and(|upstream| upstream.name.value == name)
    };
    let off = named(spec).into_iter().filter(|name| {
        !shares.iter().any(|share| is(share.upstream, &name.value)) && known.contains(&name.value)
    });
    let help = "name it in `to` as well, with `weight: 0` if nobody else is to come to it";
    let problem = |name: &Spanned<String>| {
        let message = format!("`{}` is none of the upstreams of this route", name.value);
        match by {
            None => Problem::error(name.at, message).help(help),
            Some(used) => {
                let message = format!("{message}, and the `canary` of this set names it");
                Problem::error(used.name.at, message).help(help).see(name.at, "it is named here")
            }
        }
    };
    off.map(problem).collect()
}
