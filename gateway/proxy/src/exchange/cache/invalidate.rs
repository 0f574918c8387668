//! Removes the stored responses that a successful request with an unsafe method makes invalid (RFC 9111, 4.4).
//!
//! If the disk tier has a response for the URL, its log records the removal before the request is forwarded. So a
//! process that is killed after the client has its response does not serve the old one after a restart.

use std::sync::Arc;

use tollgate_cache::{AnnouncedRecord, AnnouncedRemoval, Invalidated, Purge, PurgeMode, invalidated};
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_policy::{ActiveCache, CacheUse, KEY_SEPARATOR};
use tollgate_route::{Normalised, PathRules, Request, normalise};

use super::on_disk::{DISK_WAIT, TooSlow, on_thread};
use super::slices::manifest_key;
use crate::exchange::forward_target::RoutedRequest;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_path::{Routed, normal_path};
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

/// The view of a request as a GET, for the router.
struct AsGet<'a>(Routed<'a>);

impl Request for AsGet<'_> {
    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn host(&self) -> &[u8] {
        self.0.host()
    }

    fn path(&self) -> &[u8] {
        self.0.path()
    }

    fn query(&self) -> Option<&[u8]> {
        self.0.query()
    }

    fn header(&self, lower_case_name: &str) -> Option<&[u8]> {
        self.0.header(lower_case_name)
    }
}

/// Finds the keys under which responses to a GET of the request's URL are stored, besides its own one: a GET may take
/// another route, and any upstream of that. Called before the key gets the name of the request's upstream.
pub(super) fn find_further<S: ClientSide>(
    client: &Client<S>,
    state: &RequestState,
    active: &ActivePlan,
    cache: &Arc<ActiveCache>,
    routed: RoutedRequest,
) -> Option<(Arc<ActiveCache>, Vec<Vec<u8>>)> {
    let own = &state.policy_context.as_ref()?.cache_key;
    let request = &state.request;
    let path = normal_path(request, &state.path);
    let router = active.plan.routers.get(state.router);
    let index = router.find(&AsGet(Routed { request, path })).unwrap_or(routed.route);
    let route = active.route(index);
    let shares = route.shares().filter(|shares| shares.len() > 1);
    let (cache, key) = if index == routed.route {
        shares?;
        (cache, own.clone())
    } else {
        let listener = &client.connection_context.listener;
        let chain = route.policies.as_ref().and_then(|chains| chains.at(listener));
        let policies = chain.map_or(&[][..], |chain| active.plan.chain(chain));
        // Without one, its upstream has the policy.
        let cache = policies.iter().find_map(|policy| policy.policy.cache()).unwrap_or(cache);
        let query = request.query.map(|query| request.slice(query));
        (cache, cache.rules.key_on_route(own, (path, query), &request.head, &route.name))
    };
    let keys = match shares {
        Some(shares) => {
            let names = shares.iter().map(|share| active.plan.upstreams[share.upstream].name.as_bytes());
            names.map(|name| [key.as_slice(), &[KEY_SEPARATOR], name].concat()).collect()
        }
        None => vec![key],
    };
    Some((cache.clone(), keys))
}

/// Notes what else the success of the request removes.
pub(super) fn prepare(state: &mut RequestState, further: Option<(Arc<ActiveCache>, Vec<Vec<u8>>)>) {
    if let Some(used) = state.policy_context.as_mut().and_then(|context| context.cache.as_mut()) {
        used.further = further;
    }
}

/// Removes the stored responses of the request's URL, and of those that its response names on the same host.
pub(super) fn remove_outdated(
    used: &CacheUse,
    own: &[u8],
    request: &RequestHead,
    response: &ResponseHead,
    paths: &PathRules,
) {
    let further =
        used.further.iter().flat_map(|(cache, keys)| keys.iter().map(move |key| (cache, key.as_slice())));
    let all: Vec<_> = std::iter::once((&used.cache, own)).chain(further).collect();
    for target in invalidated(request, own.starts_with(b"https:"), response) {
        for (cache, key) in &all {
            match &target {
                Invalidated::Own => remove(cache, key),
                Invalidated::Target(target) => {
                    if let Some(key) = key_of(key, target, cache, paths) {
                        remove(cache, &key);
                    }
                }
            }
        }
    }
}

/// Removes the whole response with a key, and the manifest without which no slice of it is used. Responses with other values
/// of the fields and cookies in the key follow soon.
fn remove(cache: &ActiveCache, key: &[u8]) {
    cache.store.purge(Purge::Key(key), PurgeMode::Remove);
    cache.store.purge(Purge::Key(&manifest_key(key)), PurgeMode::Remove);
    cache.remove_other_values(key);
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
