//! Finds the manifest of a response in slices, or has one request fetch or validate it for all waiting requests.
//!
//! [`serve`](super::serve) calls [`find`] first. A manifest has no fetch of its own: the response to a request for any
//! slice brings it, so the fetch asks for the slice that the request needs.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::{Begin, Follower, Lookup, Moment, Reuse, Start, Store, Stored, reuse};
use tollgate_http::Method;
use tollgate_policy::CacheOutcome;

use super::fetch::{Led, lead};
use super::{Slices, look_up};
use crate::exchange::cache::admission::Fetch;
use crate::exchange::cache::admission::slice::may_share;
use crate::exchange::cache::caching::Caching;
use crate::exchange::cache::fetch::wait_for_start;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How many times a request asks for the manifest: first with the slice that it needs, then with slice 0.
const BEGINS_MAX: u32 = 3;

/// The manifest that a request is answered with.
pub(super) struct Manifest {
    pub stored: Arc<Stored>,
    /// The length of the whole response.
    pub length: u64,
    /// How it was found.
    pub outcome: CacheOutcome,
    /// Whether it is stale, and stands in for an error of the endpoint.
    pub replaces_error: bool,
    /// The slice that was asked for together with it, with its number.
    pub own: Option<(u64, Follower)>,
}

/// The result of a search.
pub(super) enum Found {
    Manifest(Manifest),
    /// The endpoint sends no slices, as far as is known.
    Nothing,
    /// Responses to this request are not stored.
    NotStored,
    ClientLeft,
}

/// Finds the manifest for a request whose first byte is in the slice `guess`.
pub(super) async fn find<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    slices: &Slices,
    guess: u64,
) -> Found {
    let store = &caching.cache.store;
    let (found, _) = look_up(client, store, &slices.manifest_key, &state.request.head).await;
    let is_get = state.request.method == Method::Get;
    let stale = match found {
        Lookup::Uncacheable => return Found::Nothing,
        Lookup::Hit(stored) if !may_share(caching, stored.head()) => return Found::Nothing,
        Lookup::Hit(stored) => {
            let now = Moment::from(tollgate_net::wall_clock());
            match reuse(&stored, &caching.control, &caching.allowances(), now) {
                Reuse::Fresh => return usable(stored, CacheOutcome::Hit, None),
                Reuse::Stale => return usable(stored, CacheOutcome::Stale, None),
                Reuse::StaleWhileRevalidate => {
                    if is_get && let Some(fill) = store.begin_refresh(&stored, &state.request.head) {
                        let fetch = (guess, fill, Some(stored.clone()));
                        drop(lead(client, worker, state, active, caching, slices, fetch));
                    }
                    return usable(stored, CacheOutcome::Stale, None);
                }
                Reuse::Validate => Some(stored),
            }
        }
        Lookup::Miss => None,
    };
    // The response to a HEAD has no slice.
    if !is_get {
        return Found::Nothing;
    }
    if stale.is_none() && is_stored_whole(store, slices, state) {
        return Found::Nothing;
    }
    if !caching.may_store || !caching.cache.is_used_enough(&slices.key) {
        return Found::NotStored;
    }
    for round in 0..BEGINS_MAX {
        let number = if round == 0 { guess } else { 0 };
        let begun = match caching.is_identified {
            true => Begin::Alone(store.begin_alone(&slices.manifest_key)),
            false => store.begin(&slices.manifest_key, &state.request.head, stale.as_ref()),
        };
        let (mut led, mut waits) = (None, None);
        match begun {
            Begin::Found(stored) => return usable(stored, CacheOutcome::Coalesced, None),
            Begin::Follow(follower) => waits = Some(follower),
            Begin::Lead(fill) | Begin::Alone(fill) => {
                let fetch = (number, fill, stale.clone());
                led = Some(lead(client, worker, state, active, caching, slices, fetch));
            }
        }
        loop {
            let Some(follower) = led.as_mut().and_then(|led| led.manifest.as_mut()).or(waits.as_mut()) else {
                return Found::Nothing;
            };
            match wait_for_start(client, state, follower).await {
                Err(()) => return Found::ClientLeft,
                Ok(Start::Stored(stored)) => {
                    let outcome = outcome(led.is_some(), stale.as_ref(), &stored);
                    return usable(stored, outcome, led.and_then(|Led { slice, .. }| slice));
                }
                Ok(Start::Lead(fill)) => {
                    let fetch = (number, fill, stale.clone());
                    led = Some(lead(client, worker, state, active, caching, slices, fetch));
                }
                Ok(Start::Failed) => {
                    let stale = stale.filter(|stale| Fetch::may_serve(stale, caching));
                    return match stale.map(|stale| usable(stale, CacheOutcome::Stale, None)) {
                        Some(Found::Manifest(found)) => {
                            Found::Manifest(Manifest { replaces_error: true, ..found })
                        }
                        _ => Found::Nothing,
                    };
                }
                Ok(Start::Fetch | Start::OtherVariant | Start::Streaming(..)) => break,
            }
        }
        let now = Moment::from(tollgate_net::wall_clock());
        if matches!(store.look_again(&slices.manifest_key, &state.request.head, now), Lookup::Uncacheable) {
            return Found::Nothing;
        }
    }
    Found::Nothing
}

/// Returns whether the whole response is stored and usable. A stale one does not count: the new version may be too long
/// to store whole.
fn is_stored_whole(store: &Store, slices: &Slices, state: &RequestState) -> bool {
    let now = Moment::from(tollgate_net::wall_clock());
    let head = &state.request.head;
    store.variants(&slices.key).iter().any(|whole| whole.is_usable(now) && whole.head().is_selected_by(head))
}

fn usable(stored: Arc<Stored>, outcome: CacheOutcome, own: Option<(u64, Follower)>) -> Found {
    match stored.manifest_length() {
        Some(length) => Found::Manifest(Manifest { stored, length, outcome, replaces_error: false, own }),
        None => Found::Nothing,
    }
}

/// Returns the outcome of a fetch of the manifest.
fn outcome(is_own: bool, stale: Option<&Arc<Stored>>, found: &Stored) -> CacheOutcome {
    match stale {
        _ if !is_own => CacheOutcome::Coalesced,
        None => CacheOutcome::Miss,
        Some(stale) if stale.head().has_same_content(found.head()) => CacheOutcome::Revalidated,
        Some(_) => CacheOutcome::Expired,
    }
}
