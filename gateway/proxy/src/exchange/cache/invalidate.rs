//! Removes what a successful request with an unsafe method makes out of date (RFC 9111, 4.4).

use tollgate_cache::{Invalidated, Purge, PurgeMode, invalidated};
use tollgate_policy::{ActiveCache, KEY_SEPARATOR};

use crate::state::request_state::RequestState;

/// Removes the stored responses of the request's URL, and of those that its response names on the same host.
pub(super) fn after(state: &RequestState, cache: &ActiveCache) {
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
            Invalidated::Target(target) => {
                cache.store.purge(Purge::Key(&with_target(key, &target)), PurgeMode::Remove)
            }
        };
    }
}

/// Returns a key with another path and query.
fn with_target(key: &[u8], target: &[u8]) -> Vec<u8> {
    let separator = key.iter().position(|byte| *byte == KEY_SEPARATOR).unwrap_or(key.len());
    let authority = key.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let path = key[authority..separator].iter().position(|byte| matches!(byte, b'/' | b'?'));
    let base = path.map_or(separator, |at| authority + at);
    [&key[..base], target, &key[separator..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_replaces_path_and_query() {
        let key = |url: &str| [url.as_bytes(), &[KEY_SEPARATOR], b"route/r"].concat();
        for (url, target, expected) in [
            ("http://a/x?y", "/z", "http://a/z"),
            ("https://a:8443/", "/z?q", "https://a:8443/z?q"),
            ("http:///x", "/z", "http:///z"),
        ] {
            assert_eq!(with_target(&key(url), target.as_bytes()), key(expected), "{url}");
        }
    }
}
