//! Removes what a successful request with an unsafe method makes out of date (RFC 9111, 4.4).

use tollgate_cache::{Invalidated, Purge, PurgeMode, invalidated};
use tollgate_policy::ActiveCache;
use tollgate_route::{Normalised, PathRules, normalise};

use crate::state::request_state::RequestState;

/// Removes the stored responses of the request's URL, and of those that its response names on the same host.
pub(super) fn after(state: &RequestState, cache: &ActiveCache, paths: &PathRules) {
    // A response of the gateway itself says nothing about the resource.
    if state.record.status != state.response.status || state.record.upstream.is_none() {
        return;
    }
    let Some(context) = &state.policy_context else { return };
    let key = &context.cache_key;
    let is_secure = key.starts_with(b"https:");
    for target in invalidated(&state.request, is_secure, &state.response) {
        match target {
            Invalidated::Own => cache.store.purge(Purge::Key(key), PurgeMode::Remove),
            Invalidated::Target(target) => match key_of(key, &target, cache, paths) {
                Some(key) => cache.store.purge(Purge::Key(&key), PurgeMode::Remove),
                None => 0,
            },
        };
    }
}

/// Returns the key of another target on the same host. `None`: no request could have such a path.
fn key_of(key: &[u8], target: &[u8], cache: &ActiveCache, paths: &PathRules) -> Option<Vec<u8>> {
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    };
    let mut normal = Vec::new();
    let path = match normalise(path, paths, &mut normal).ok()? {
        Normalised::Unchanged => path,
        Normalised::Changed => &normal,
    };
    Some(cache.rules.key_with_target(key, path, query))
}
