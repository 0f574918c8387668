//! Notes what the cache did for a request: for the log, in the counters of the policy, and for `Cache-Status`.

use tollgate_cache::Forward;
use tollgate_policy::{ActiveCache, CacheOutcome};

use crate::state::request_state::RequestState;

/// Records the outcome of a request that was answered.
pub(super) fn note(state: &mut RequestState, cache: &ActiveCache, outcome: CacheOutcome) {
    cache.count(outcome, state.record.bytes_out);
    if let Some(used) = state.policy_context.as_mut().and_then(|context| context.cache.as_mut()) {
        used.outcome = Some(outcome);
        if used.has_sent_form {
            cache.count_compressed_hit();
        }
    }
}

/// Notes why a request is forwarded whose response the cache leaves alone.
pub(super) fn note_forward(state: &mut RequestState, forward: Forward) {
    if let Some(used) = state.policy_context.as_mut().and_then(|context| context.cache.as_mut()) {
        used.forwarded = Some(forward);
    }
}
