//! What was made of each route by itself, for the next plan: a change costs mostly what has changed.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config::Identity;
use tollgate_route::{PathRules, Prepared};

use crate::Route;

/// What compiling has found for each route by itself. Whoever compiles again and again keeps it; it is never wrong to begin
/// with an empty one.
#[derive(Debug, Default)]
pub struct Memo {
    /// The rules of paths that all of it holds under.
    rules: Option<PathRules>,
    known: Table,
    /// What is known so far of the routes that are being compiled.
    next: Table,
}

type Table = HashMap<Identity, Known>;

/// What is known of a route.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Length of the prefix that it matches, if it matches one.
    pub prefix: Option<usize>,
    /// Its match.
    pub matches: Arc<Prepared>,
    /// What became of it in the last plan.
    pub route: Option<Arc<Route>>,
}

impl Memo {
    /// Begins a plan under these rules.
    pub(crate) fn begin(&mut self, rules: &PathRules) {
        self.next.clear();
        if self.rules.as_ref() != Some(rules) {
            self.known.clear();
            self.rules = Some(*rules);
        }
    }

    /// What the last plan that was good says of a route.
    pub(crate) fn get(&self, route: Identity) -> Option<&Known> {
        self.known.get(&route)
    }

    /// Takes note of a route's match.
    pub(crate) fn note(&mut self, route: Identity, known: Known) {
        self.next.insert(route, known);
    }

    /// Takes note of what became of a route, if its match is good.
    pub(crate) fn became(&mut self, route: Identity, planned: &Arc<Route>) {
        if let Some(known) = self.next.get_mut(&route) {
            known.route = Some(planned.clone());
        }
    }

    /// The plan is good: what is not in it is forgotten.
    pub(crate) fn keep(&mut self) {
        std::mem::swap(&mut self.known, &mut self.next);
        self.next.clear();
    }
}

#[cfg(test)]
mod tests {
    use tollgate_config::{Config, Parts, from_text};

    use super::*;
    use crate::{Plan, compile_again};

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
        let loaded = from_text("t", text, &|_| None);
        loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)))
    }

    fn again(config: &Config, memo: &mut Memo) -> Plan {
        compile_again(&Parts::of(config), memo).unwrap_or_else(|problems| panic!("{problems:?}")).plan
    }

    /// Which routes the second plan has from the first.
    fn taken_over(before: &Plan, after: &Plan) -> Vec<bool> {
        before.routes.iter().zip(&after.routes).map(|(one, other)| Arc::ptr_eq(one, other)).collect()
    }

    #[test]
    fn a_route_that_is_the_same_is_the_same_object() {
        let (mut now, mut memo) = (config(TEXT), Memo::default());
        let first = again(&now, &mut memo);
        let other = config(&TEXT.replace("respond: one", "respond: two"));
        now.routes[0] = other.routes[0].clone();
        let second = again(&now, &mut memo);
        assert_eq!(taken_over(&first, &second), [false, true, true, true, true, true]);
        // What is gone is forgotten, what comes is new.
        let gone = now.routes.remove(2);
        assert_eq!(again(&now, &mut memo).routes.len(), 5);
        now.routes.insert(2, gone);
        let third = again(&now, &mut memo);
        assert_eq!(taken_over(&second, &third), [true, true, false, true, true, true]);
    }

    /// Whatever else of a config changes: with what is known the plan is what it is without.
    #[test]
    fn what_a_route_depends_on_counts() {
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
            let mut memo = Memo::default();
            let before = format!("{:?}", again(&written, &mut memo).routes);
            let mut other = config(&TEXT.replace(what, to));
            other.routes.clone_from(&written.routes);
            let known = format!("{:?}", again(&other, &mut memo).routes);
            let fresh = format!("{:?}", again(&other, &mut Memo::default()).routes);
            assert_eq!(known, fresh, "{what} became {to}");
            assert!(known != before || to.contains("paths"), "{what} became {to} and nothing changed");
        }
    }

    #[test]
    fn what_is_wrong_is_told_each_time() {
        let text = TEXT.replace("match: /a,", "match: /b/*,");
        let (bad, mut memo) = (config(&text), Memo::default());
        again(&config(TEXT), &mut memo);
        let told = |memo: &mut Memo| {
            let problems = compile_again(&Parts::of(&bad), memo).expect_err("two are the same");
            problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()
        };
        let first = told(&mut memo);
        assert!(first.len() == 1 && first[0].contains("identical"), "{first:?}");
        assert_eq!(told(&mut memo), first);
    }
}
