//! Chooses which target of a route takes a request: by its cookie or hash if the request has one, or else by
//! weight.

use std::rc::Rc;

use tollgate_plan::{Action, Respond, Targets, UpstreamShare};
use tollgate_upstream::Upstream;

use crate::exchange::affinity::RequestAffinity;
use crate::state::active::ActivePlan;
use crate::state::split::Split;

/// The target that takes a request.
#[derive(Debug)]
pub(crate) enum ChosenTarget<'a> {
    Upstream(&'a Rc<Upstream>),
    Answer(&'a Respond),
}

impl ActivePlan {
    /// Returns the target of the next request of a route; `None` if none takes requests.
    pub fn target(&self, route: u32, affinity: &RequestAffinity<'_>) -> Option<ChosenTarget<'_>> {
        let Action::Forward(targets) = &self.route(route).action else { return None };
        match (targets.shares.as_slice(), targets.answers.is_empty()) {
            ([only], true) if only.weight > 0 => Some(ChosenTarget::Upstream(self.get(only))),
            ([_], true) => None,
            _ => self.numbered_of(targets, self.choose(route, targets, affinity)?),
        }
    }

    /// Returns the target that has this number in a route.
    pub fn numbered(&self, route: u32, number: usize) -> Option<ChosenTarget<'_>> {
        let Action::Forward(targets) = &self.route(route).action else { return None };
        self.numbered_of(targets, number)
    }

    fn numbered_of<'a>(&'a self, targets: &'a Targets, number: usize) -> Option<ChosenTarget<'a>> {
        match targets.shares.get(number) {
            Some(share) => Some(ChosenTarget::Upstream(self.get(share))),
            None => {
                let answer = targets.answers.get(number - targets.shares.len())?;
                Some(ChosenTarget::Answer(&answer.respond))
            }
        }
    }

    /// Returns which of its targets takes the next request of a route, by number; `None` if none does.
    pub fn next_share(&self, route: u32, affinity: &RequestAffinity<'_>) -> Option<usize> {
        let Action::Forward(targets) = &self.route(route).action else { return None };
        match (targets.shares.as_slice(), targets.answers.is_empty()) {
            ([only], true) => (only.weight > 0).then_some(0),
            _ => self.choose(route, targets, affinity),
        }
    }

    /// Chooses the share that takes a request: by its cookie or hash if it has one, or else the next by
    /// weight.
    fn choose(&self, route: u32, targets: &Targets, affinity: &RequestAffinity<'_>) -> Option<usize> {
        let split = self.split(route, targets);
        let tied = if split.ties { self.tied(split, &targets.shares, affinity) } else { None };
        tied.or_else(|| split.turns.pick())
    }

    fn tied(&self, split: &Split, shares: &[UpstreamShare], affinity: &RequestAffinity<'_>) -> Option<usize> {
        let holds = |share: &UpstreamShare| {
            let upstream = self.get(share);
            share.weight > 0
                && affinity.sticky(upstream).is_some_and(|cookie| upstream.accepts_cookie(cookie))
        };
        shares.iter().position(holds).or_else(|| {
            let hash = shares.iter().find_map(|share| affinity.hash(self.get(share)))?;
            split.by_hash.by_hash(hash)
        })
    }
}
