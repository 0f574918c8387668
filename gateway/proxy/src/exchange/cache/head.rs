//! What the response to a HEAD says about stored responses to GET (RFC 9111, 4.3.5).
//!
//! [`serve`](super::serve) forwards a HEAD that the store cannot answer, and calls [`after`] with what the endpoint said.
//! A stored response whose length and validators agree gets the new fields and a new lifetime; another one is stale from
//! now on. Invariant: the body of a stored response never changes here.

use tollgate_cache::{Moment, Received};

use super::caching::Caching;
use super::slices::manifest_key;
use crate::state::request_state::RequestState;

/// Refreshes the stored responses that the request selects, or marks them as stale. `requested`: when it was forwarded.
pub(super) fn after(state: &RequestState, caching: &Caching<'_>, requested: Moment) {
    let (response, request) = (&state.response, &state.request);
    // A response of the gateway itself says nothing about the resource.
    if response.status != 200 || state.record.status != 200 || state.record.upstream.is_none() {
        return;
    }
    let Some(context) = &state.policy_context else { return };
    let (store, key) = (&caching.cache.store, &context.cache_key);
    let times = Received { requested, received: Moment::from(tollgate_net::wall_clock()) };
    let admission = caching.cache.rules.admission(response.status);
    let mut known: Vec<_> = store.variants(key).into_iter().map(|stored| (stored.length(), stored)).collect();
    if caching.cache.rules.slice.is_some() {
        let manifests = store.variants(&manifest_key(key));
        known.extend(manifests.into_iter().filter_map(|stored| Some((stored.manifest_length()?, stored))));
    }
    for (length, stored) in known {
        let head = stored.head();
        if head.status() != response.status || !head.is_selected_by(&request.head) {
            continue;
        }
        if head.is_contradicted_by(length, response) {
            stored.mark_stale();
        } else if caching.may_store
            && let Some(updated) = head.updated_by(request, response, admission, times)
            && updated.may_be_stored
            && (!caching.is_identified || updated.head.freshness().is_open())
        {
            store.begin_alone(stored.key()).freshen(&stored, updated.head);
        }
    }
}
