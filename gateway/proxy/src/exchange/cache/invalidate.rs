//! Removes the stored responses that a successful request with an unsafe method makes invalid (RFC 9111, 4.4).
//!
//! If the disk tier has a response for the URL, its log records the removal before the request is forwarded. So a
//! process that is killed after the client has its response does not serve the old one after a restart.

use tollgate_cache::{AnnouncedRecord, AnnouncedRemoval, Invalidated, Purge, PurgeMode, invalidated};
use tollgate_policy::ActiveCache;
use tollgate_route::{Normalised, PathRules, normalise};

use super::on_disk::{DISK_WAIT, TooSlow, on_thread};
use super::slices::manifest_key;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_state::RequestState;

/// Announces the removal of the request's URL to the disk tier, if there is one.
pub(super) fn announce(state: &RequestState, cache: &ActiveCache) -> Option<AnnouncedRemoval> {
    cache.store.announce_removal(&state.policy_context.as_ref()?.cache_key)
}

/// Waits until the disk tier's log has the removal. If the disk does not answer in time, the request goes on without
/// it.
pub(super) async fn await_record<S: ClientSide>(
    client: &mut Client<S>,
    cache: &ActiveCache,
    record: AnnouncedRecord,
) {
    if let Err(TooSlow) | Ok(false) = on_thread(client, move || record.wait(DISK_WAIT)).await {
        cache.store.note_slow_disk();
    }
}

/// Removes the stored responses of the request's URL, and of the URLs on the same host that its response names.
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
            Invalidated::Own => remove(cache, key),
            Invalidated::Target(target) => {
                if let Some(key) = key_of(key, &target, cache, paths) {
                    remove(cache, &key);
                }
            }
        }
    }
}

/// Removes the whole response with a key, and the manifest without which no slice of it is used.
fn remove(cache: &ActiveCache, key: &[u8]) {
    cache.store.purge(Purge::Key(key), PurgeMode::Remove);
    cache.store.purge(Purge::Key(&manifest_key(key)), PurgeMode::Remove);
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
