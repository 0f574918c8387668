//! Chooses which upstream of a route takes a request: by its cookie or hash if the request has one, or else by
//! weight.

use std::rc::Rc;

use tollgate_plan::{Action, UpstreamShare};
use tollgate_upstream::Upstream;

use crate::exchange::affinity::RequestAffinity;
use crate::state::active::ActivePlan;
use crate::state::split::Split;

impl ActivePlan {
    /// Returns the upstream for the next request of a route; `None` if none takes requests.
    pub fn upstream(&self, route: u32, affinity: &RequestAffinity<'_>) -> Option<&Rc<Upstream>> {
        let Action::Forward(shares) = &self.route(route).action else { return None };
        let share = match shares.as_slice() {
            [only] => Some(only).filter(|share| share.weight > 0)?,
            _ => &shares[self.choose(route, shares, affinity)?],
        };
        Some(self.get(share))
    }

    /// Returns which of its upstreams takes the next request of a route, by number; `None` if none does.
    pub fn next_share(&self, route: u32, affinity: &RequestAffinity<'_>) -> Option<usize> {
        let Action::Forward(shares) = &self.route(route).action else { return None };
        match shares.as_slice() {
            [only] => (only.weight > 0).then_some(0),
            _ => self.choose(route, shares, affinity),
        }
    }

    /// Chooses the share that takes a request: by its cookie or hash if it has one, or else the next by
    /// weight.
    fn choose(&self, route: u32, shares: &[UpstreamShare], affinity: &RequestAffinity<'_>) -> Option<usize> {
        let split = self.split(route, shares);
        let tied = if split.ties { self.tied(split, shares, affinity) } else { None };
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
