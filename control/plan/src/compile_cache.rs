//! Keeps the compiled form of each route, of the consumers, and of the listeners' TLS from plan to plan, so that a
//! change of one route among thousands costs little more than that route.
//!
//! The compiler starts with [`begin`](CompileCache::begin), takes unchanged parts over, stores the ones that it
//! compiles, and ends with [`commit`](CompileCache::commit) if the plan is valid. Invariant: a compilation with a cache
//! gives the same plan as one without, also after a compilation that failed.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config::{self as config, ConsumerSpec, Identity, RouteTimeouts, TargetKind};
use tollgate_policy::Consumers;
use tollgate_route::{PathRules, PreparedRoute};
use tollgate_tls::{ServerOptions, TlsServerConfig};

use crate::{Buffer, Rates, Route, RouteChains, Timeouts};

/// The results of the last compilation, by their source. The control thread keeps it from plan to plan. An empty cache
/// is always correct, only slower.
#[derive(Debug, Default)]
pub struct CompileCache {
    /// The path rules that the entries were compiled with.
    rules: Option<PathRules>,
    known: HashMap<Identity, CachedRoute>,
    /// The routes that the current compilation has added. They are removed if it fails.
    fresh: Vec<Identity>,
    /// The number of the current compilation.
    turn: u64,
    /// The surroundings that the entries of plain routes were compiled in; `None` during a compilation, and after one
    /// that failed, because its entries may differ from the others.
    surroundings: Option<Surroundings>,
    /// The consumers of the last configuration, and their compiled form.
    consumers: Option<(Vec<ConsumerSpec>, Arc<Consumers>)>,
    /// The TLS of listeners, and the files that it was made from.
    servers: Vec<(ServerOptions, TlsServerConfig)>,
}

/// Everything that a plain route depends on besides itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Surroundings {
    pub timeouts: Timeouts,
    pub body: Option<u64>,
    pub rates: Rates,
    pub buffer: Buffer,
    /// The named upstreams in order, with the timeouts that they set and their chains of policies.
    pub upstreams: Vec<(String, RouteTimeouts, Option<u32>)>,
    /// The chains of routes without policies of their own.
    pub chains: RouteChains,
}

/// Returns whether a route is plain: it has no policies, logs or fallbacks of its own, and names its upstreams. Its
/// compiled form then depends only on the route and its [`Surroundings`]. In large configurations, nearly all routes
/// are plain.
fn is_plain(route: &config::Route) -> bool {
    let names_upstreams = match &route.action {
        config::Action::Forward(targets) => {
            targets.iter().all(|target| matches!(target.to, TargetKind::Upstream(_)))
        }
        config::Action::Redirect(_) | config::Action::Respond(_) | config::Action::Files(_) => true,
    };
    names_upstreams && route.policies.is_empty() && route.access_log.is_none() && route.fallback.is_empty()
}

/// The compiled parts of a route.
#[derive(Clone, Debug)]
pub(crate) struct CachedRoute {
    /// Length of the path prefix that it matches, if it matches one.
    pub prefix: Option<usize>,
    /// Its match, ready for the router.
    pub matches: Arc<PreparedRoute>,
    /// The compiled route of the last plan; `None`: it is not compiled yet.
    pub route: Option<Arc<Route>>,
    /// Whether it inherits all policies, logs and fallbacks.
    pub is_plain: bool,
    /// The compilation that made the entry. Only later compilations may use it.
    made: u64,
    /// The last compilation that used the entry.
    turn: u64,
}

impl CachedRoute {
    /// Creates the entry of a route that is not compiled yet.
    pub(crate) fn new(route: &config::Route, prefix: Option<usize>, matches: Arc<PreparedRoute>) -> Self {
        Self { prefix, matches, route: None, is_plain: is_plain(route), made: 0, turn: 0 }
    }
}

impl CompileCache {
    /// Starts a compilation with these path rules. If they changed, drops all entries.
    pub(crate) fn begin(&mut self, rules: &PathRules) {
        for route in self.fresh.drain(..) {
            self.known.remove(&route);
        }
        self.turn += 1;
        if self.rules.as_ref() != Some(rules) {
            self.known.clear();
            self.rules = Some(*rules);
        }
    }

    /// Returns the last plan's entry for a route, and keeps it for this plan.
    pub(crate) fn take_over(&mut self, route: Identity) -> Option<&CachedRoute> {
        let known = self.known.get_mut(&route).filter(|known| known.made != self.turn)?;
        known.turn = self.turn;
        Some(known)
    }

    /// Returns whether plain routes have the same surroundings as in the last plan.
    pub(crate) fn has_same_surroundings(&mut self, surroundings: &Surroundings) -> bool {
        self.surroundings.take().as_ref() == Some(surroundings)
    }

    /// Returns the last plan's entry for a route.
    pub(crate) fn get(&self, route: Identity) -> Option<&CachedRoute> {
        self.known.get(&route).filter(|known| known.made != self.turn)
    }

    /// Stores the prepared match of a route.
    pub(crate) fn store_match(&mut self, route: Identity, known: CachedRoute) {
        self.known.insert(route, CachedRoute { made: self.turn, turn: self.turn, ..known });
        self.fresh.push(route);
    }

    /// Stores the compiled route, if its match is stored.
    pub(crate) fn store_route(&mut self, route: Identity, planned: &Arc<Route>) {
        if let Some(known) = self.known.get_mut(&route) {
            known.route = Some(planned.clone());
        }
    }

    /// Returns the compiled consumers, if they are unchanged.
    pub(crate) fn consumers(&self, written: &[&ConsumerSpec]) -> Option<Arc<Consumers>> {
        let (known, consumers) = self.consumers.as_ref()?;
        known.iter().eq(written.iter().copied()).then(|| consumers.clone())
    }

    /// Stores compiled consumers.
    pub(crate) fn store_consumers(&mut self, written: &[&ConsumerSpec], consumers: &Arc<Consumers>) {
        self.consumers = Some((written.iter().copied().cloned().collect(), consumers.clone()));
    }

    /// Returns the TLS that the last plan made from these files.
    pub(crate) fn server(&self, files: &ServerOptions) -> Option<TlsServerConfig> {
        self.servers.iter().find(|(known, _)| known == files).map(|(_, server)| server.clone())
    }

    /// Stores the TLS of all listeners.
    pub(crate) fn store_servers(&mut self, servers: Vec<(ServerOptions, TlsServerConfig)>) {
        self.servers = servers;
    }

    /// Ends the compilation of a valid plan. Drops the entries that the plan does not use.
    pub(crate) fn commit(&mut self, surroundings: Surroundings) {
        let turn = self.turn;
        self.surroundings = Some(surroundings);
        self.fresh.clear();
        self.known.retain(|_, known| known.turn == turn);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_config::{At, CombinedResources, Config, from_text};

    use super::*;
    use crate::{Plan, compile_with_cache};

    const TEXT: &str = "listen: 127.0.0.1:0\n\
        timeouts: {total: 9s}\n\
        upstreams: {shop: [\"h:1\"], late: {endpoints: [\"h:2\"], timeouts: {total: 3s}}}\n\
        routes:\n\
        - {match: /a, respond: one}\n\
        - {match: /b/*, to: shop, rewrite: {prefix: /c}}\n\
        - {match: /c, to: [\"h:3\", \"h:4\"]}\n\
        - {match: /d, to: late}\n\
        - {match: a.example/e//f/*, redirect: {path: /g}}\n\
        - {match: {path: {regex: '/r/[0-9]+'}}, to: shop, policies: {cors: {origins: [\"https://a.example\"]}}}\n";

    fn config(text: &str) -> Config {
        tollgate_policy::register();
        let loaded = from_text("t", text, &|_| None);
        loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)))
    }

    fn again(config: &Config, cache: &mut CompileCache) -> Plan {
        compile_with_cache(&CombinedResources::of(config), cache)
            .unwrap_or_else(|problems| panic!("{problems:?}"))
            .plan
    }

    /// Returns for each route whether the second plan took it over from the first.
    fn taken_over(before: &Plan, after: &Plan) -> Vec<bool> {
        before.routes.iter().zip(&after.routes).map(|(one, other)| Arc::ptr_eq(one, other)).collect()
    }

    #[test]
    fn a_route_that_is_the_same_is_the_same_object() {
        let (mut now, mut cache) = (config(TEXT), CompileCache::default());
        let first = again(&now, &mut cache);
        let other = config(&TEXT.replace("respond: one", "respond: two"));
        now.routes[0] = other.routes[0].clone();
        let second = again(&now, &mut cache);
        assert_eq!(taken_over(&first, &second), [false, true, true, true, true, true]);
        // A route that is removed is forgotten; the same route added later is compiled.
        let gone = now.routes.remove(2);
        assert_eq!(again(&now, &mut cache).routes.len(), 5);
        now.routes.insert(2, gone);
        let third = again(&now, &mut cache);
        assert_eq!(taken_over(&second, &third), [true, true, false, true, true, true]);
    }

    /// Whatever changes in a config, a compilation with a cache gives the same plan as one without.
    #[test]
    fn every_dependency_of_a_route_counts() {
        let written = config(TEXT);
        for (what, to) in [
            ("total: 9s", "total: 8s"),
            ("total: 3s", "total: 4s"),
            ("{shop:", "{first: [\"h:9\"], shop:"),
            ("listen:", "limits: {body: 1KiB}\nlisten:"),
            ("listen:", "paths: {merge_slashes: off}\nlisten:"),
            ("listen:", "policies: {security_headers: on}\nlisten:"),
            ("shop: [\"h:1\"]", "shop: {endpoints: [\"h:1\"], policies: {security_headers: on}}"),
        ] {
            let mut cache = CompileCache::default();
            let before = format!("{:?}", again(&written, &mut cache).routes);
            let mut other = config(&TEXT.replace(what, to));
            other.routes.clone_from(&written.routes);
            let known = format!("{:?}", again(&other, &mut cache).routes);
            let fresh = format!("{:?}", again(&other, &mut CompileCache::default()).routes);
            assert_eq!(known, fresh, "{what} became {to}");
            assert!(known != before || to.contains("paths"), "{what} became {to} and nothing changed");
        }
    }

    /// A plan that fails has compiled its routes with settings that never come into force.
    #[test]
    fn a_plan_that_fails_leaves_no_routes_of_other_settings() {
        let (written, mut cache) = (config(TEXT), CompileCache::default());
        let first = format!("{:?}", again(&written, &mut cache).routes);
        let mut bad = config(&TEXT.replace("total: 9s", "total: 8s"));
        bad.routes.clone_from(&written.routes);
        bad.routes.extend(config(TEXT).routes);
        compile_with_cache(&CombinedResources::of(&bad), &mut cache).expect_err("each route is there twice");
        assert_eq!(format!("{:?}", again(&written, &mut cache).routes), first);
    }

    #[test]
    fn a_consumer_that_changes_leaves_the_routes_as_they_are() {
        let text =
            format!("consumers: {{a: {{groups: x}}, b: {{}}}}\npolicies: {{client_certificate: on}}\n{TEXT}");
        let (mut now, mut cache) = (config(&text), CompileCache::default());
        let first = again(&now, &mut cache);
        let known =
            |cache: &CompileCache| cache.consumers.as_ref().map(|(_, consumers)| Arc::as_ptr(consumers));
        let before = known(&cache);
        let second = again(&now, &mut cache);
        assert!(before.is_some() && before == known(&cache), "made once");
        now.consumers[0].groups = vec!["y".to_owned()];
        let third = again(&now, &mut cache);
        assert_ne!(before, known(&cache), "compiled again");
        assert!(taken_over(&first, &second).iter().chain(&taken_over(&second, &third)).all(|same| *same));
        // Errors are reported each time.
        now.consumers[0].groups.clear();
        let key = |line| (config::Digest([7; 32]), At { line, ..At::default() });
        (now.consumers[0].api_keys, now.consumers[1].api_keys) = (vec![key(1)], vec![key(2)]);
        for _ in 0..2 {
            let problems =
                compile_with_cache(&CombinedResources::of(&now), &mut cache).expect_err("one key of two");
            assert_eq!(problems[0].message, "two consumers have the same key");
            assert_eq!((problems[0].at.line, problems[0].related[0].0.line), (2, 1));
        }
    }

    #[test]
    fn errors_are_reported_each_time() {
        let text = TEXT.replace("match: /a,", "match: /b/*,");
        let (bad, mut cache) = (config(&text), CompileCache::default());
        again(&config(TEXT), &mut cache);
        let messages = |cache: &mut CompileCache| {
            let problems =
                compile_with_cache(&CombinedResources::of(&bad), cache).expect_err("two are the same");
            problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()
        };
        let first = messages(&mut cache);
        assert!(first.len() == 1 && first[0].contains("identical"), "{first:?}");
        assert_eq!(messages(&mut cache), first);
    }
}
