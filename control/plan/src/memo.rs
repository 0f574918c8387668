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
