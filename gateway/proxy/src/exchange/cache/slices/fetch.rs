//! Starts fetches of slices, each on a task of its own.
//!
//! [`manifest`](super::manifest) calls [`lead`] to fetch the manifest with a slice, [`obtain`](super::obtain) calls
//! [`start`] for a slice alone. The response brings both in either case;
//! [`admission`](crate::exchange::cache::admission) stores them.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::{Begin, Fill, Follower, Store, Stored};

use super::Slices;
use crate::exchange::cache::admission::slice::SliceFetch;
use crate::exchange::cache::admission::{Fetch, add_conditions, remove_conditions};
use crate::exchange::cache::background;
use crate::exchange::cache::caching::Caching;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// The followers of a fetch that this request started.
pub(super) struct Led {
    pub manifest: Option<Follower>,
    pub slice: Option<(u64, Follower)>,
}

/// Starts a fetch of the manifest by way of the slice `number`. Its request validates the manifest `stale`, if there is
/// one.
pub(super) fn lead<S: ClientSide>(
    client: &Client<S>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    slices: &Slices,
    (number, manifest, stale): (u64, Fill, Option<Arc<Stored>>),
) -> Led {
    let waits = manifest.follower();
    let fill = slice_fill(&caching.cache.store, state, caching, &slices.slice_key(number));
    let slice = fill.follower().map(|follower| (number, follower));
    start(client, worker, state, active, caching, slices, (number, fill, manifest, stale));
    Led { manifest: waits, slice }
}

/// Returns the fill of a slice, even if the slice is stored.
fn slice_fill(store: &Arc<Store>, state: &RequestState, caching: &Caching<'_>, key: &[u8]) -> Fill {
    // No other request may follow a request with an identity before the response permits it.
    if caching.is_identified {
        return store.begin_alone(key);
    }
    let mut old = None;
    for _ in 0..2 {
        match store.begin(key, &state.request.head, old.as_ref()) {
            Begin::Lead(fill) | Begin::Alone(fill) => return fill,
            Begin::Found(stored) => old = Some(stored),
            Begin::Follow(_) => break,
        }
    }
    store.begin_alone(key)
}

/// Starts the task that fetches a slice.
pub(super) fn start<S: ClientSide>(
    client: &Client<S>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    slices: &Slices,
    (number, fill, manifest, stale): (u64, Fill, Fill, Option<Arc<Stored>>),
) {
    let mut request = state.request.clone();
    remove_conditions(&mut request);
    let wanted = slices.wanted(number);
    request.append(b"Range", format!("bytes={}-{}", wanted.start, wanted.end - 1).as_bytes());
    if let Some(stale) = &stale {
        add_conditions(&mut request, stale);
    }
    background::fetch(client, worker, state, active, caching, request, move |caching| {
        let slice = SliceFetch { wanted, manifest, stale };
        (Fetch::of_slice(caching, fill.key(), slice), fill)
    });
}
