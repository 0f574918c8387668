//! Records what the cache did for a request: for the access log, and in the counters of the policy.

use tollgate_policy::{ActiveCache, CacheOutcome};

use crate::state::request_state::RequestState;

/// Records the outcome of a request that was answered.
pub(super) fn note(state: &mut RequestState, cache: &ActiveCache, outcome: CacheOutcome) {
    cache.count(outcome, state.record.bytes_out);
    if let Some(used) = state.policy_context.as_mut().and_then(|context| context.cache.as_mut()) {
        used.outcome = Some(outcome);
    }
}
