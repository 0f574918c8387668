//! Policy sets: each is compiled once, and attached wherever it is used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config as config;
use tollgate_config::{At, Problem, Severity, UsedSet, nearest};

use super::policy_unit::CompiledPolicy;

/// How many unknown names get a suggestion. Each suggestion compares the name with every known name.
const SUGGESTIONS: usize = 20;

/// The sets of all sources, by name.
#[derive(Debug, Default)]
pub(super) struct Sets {
    known: HashMap<Arc<str>, Arc<PolicySet>>,
    /// Positions of unknown names. Each is reported once, however many matches a route has.
    reported: HashSet<At>,
    /// How many of the sets come from the file, if the file may use no others.
    own: Option<usize>,
    /// Whether a store that has not been read may have more sets.
    store_not_read: bool,
    warnings: Vec<Problem>,
}

/// A compiled set.
#[derive(Debug)]
pub(super) struct PolicySet {
    pub name: Arc<str>,
    /// Its index among all sets that are written.
    index: usize,
    pub policies: Vec<CompiledPolicy>,
}

impl Sets {
    /// Compiles each set once. Its errors are reported once, and also if no place uses the set.
    pub fn new(
        parts: &config::CombinedResources<'_>,
        mut compile: impl FnMut(&config::Policies) -> Vec<CompiledPolicy>,
    ) -> Self {
        let compiled = parts.policy_sets.iter().enumerate().map(|(index, set)| {
            let name: Arc<str> = set.name.value.as_str().into();
            let policies = compile(&set.policies);
            (name.clone(), Arc::new(PolicySet { name, index, policies }))
        });
        // With etcd, a gateway starts with the file alone and contacts etcd afterwards.
        let own = parts.config.etcd.is_some().then_some(parts.config.policy_sets.len());
        Self { known: compiled.collect(), own, store_not_read: parts.store_not_read, ..Self::default() }
    }

    /// Takes the warnings found so far.
    pub fn warnings(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the set that is used. Reports an error if no set has the name.
    pub fn find(&mut self, used: &UsedSet, problems: &mut Vec<Problem>) -> Option<Arc<PolicySet>> {
        let in_file = !used.name.at.is_in_document();
        let found = self.known.get(used.name.value.as_str());
        let found = found.filter(|set| !in_file || self.own.is_none_or(|own| set.index < own)).cloned();
        if found.is_none() && self.reported.insert(used.name.at) {
            let mut problem = self.unknown(used);
            if in_file && self.store_not_read {
                problem.severity = Severity::Warning;
                self.warnings.push(problem.help("the store has to have it, which is not looked at here"));
                return None;
            }
            if in_file && self.own.is_some() {
                problem = problem.help("the file uses its own sets: it has to be good before etcd answers");
            }
            problems.push(problem);
        }
        found
    }

    fn unknown(&self, UsedSet { name, written }: &UsedSet) -> Problem {
        let shown = written.as_ref().unwrap_or(&name.value);
        let problem = Problem::error(name.at, format!("there is no policy set `{shown}`"))
            .expected("the name of a set under `policy_sets`");
        // A suggestion made from the name would reveal what a variable holds.
        if written.is_some() || self.reported.len() > SUGGESTIONS {
            return problem;
        }
        // Sorted, since the order of a hash map is random.
        let mut names: Vec<&str> = self.known.keys().map(|name| &**name).collect();
        names.sort_unstable();
        match nearest(&name.value, names.into_iter()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem,
        }
    }

    /// Returns what is written of a kind at a place or in a set that it uses, with that set. Searches as
    /// [`Chains::place`](super::chains::Chains::place) does.
    pub fn written<'a>(
        &self,
        parts: &config::CombinedResources<'a>,
        policies: &'a config::Policies,
        kind: &str,
    ) -> Option<(&'a config::Attached, Option<&'a UsedSet>)> {
        let of = |list: &'a [config::Attached]| list.iter().find(|attached| attached.kind == kind);
        if let Some(own) = of(&policies.list) {
            return Some((own, None));
        }
        policies.sets.iter().rev().find_map(|used| {
            let set = self.known.get(used.name.value.as_str())?;
            of(&parts.policy_sets.get(set.index)?.policies.list).map(|attached| (attached, Some(used)))
        })
    }
}

#[cfg(test)]
mod tests;
