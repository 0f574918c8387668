//! Fetches slices, each on a task of its own, and decides what the endpoint's response means.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::{Begin, Fill, Follower, Moment, Purge, PurgeMode, Received, Store, Stored, admit_slice};
use tollgate_http::{RequestHead, ResponseHead};

use super::{Slices, may_share};
use crate::exchange::cache::admission::{
    Admitted, ERRORS, Fetch, UNCACHEABLE_SECONDS, add_conditions, remove_conditions,
};
use crate::exchange::cache::background;
use crate::exchange::cache::caching::Caching;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How long it is remembered that an endpoint answers a range of a response with the whole.
const WITHOUT_RANGES_SECONDS: u32 = 600;

/// The parts of a fetch of a slice besides its own fill.
pub(in crate::exchange::cache) struct SliceFetch {
    /// The range that the endpoint is asked for.
    pub wanted: Range<u64>,
    /// The manifest, which each slice brings again: its fields are newer.
    pub manifest: Fill,
    /// The manifest that the request validates.
    pub stale: Option<Arc<Stored>>,
}

/// The followers of a fetch that this request has caused.
pub(super) struct Led {
    pub manifest: Option<Follower>,
    pub slice: Option<(u64, Follower)>,
}

/// Fetches a slice for the followers of the manifest. The request validates `stale`, if there is one.
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

/// Begins the fetch of a slice, whether it is stored or not.
fn slice_fill(store: &Arc<Store>, state: &RequestState, caching: &Caching<'_>, key: &[u8]) -> Fill {
    // Others must not follow a request with an identity before its response allows it.
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

/// Decides about the endpoint's response to a request for a slice.
pub(in crate::exchange::cache) fn admit_for_slice(
    slice: SliceFetch,
    caching: &Caching<'_>,
    requested: Moment,
    request: &RequestHead,
    response: &ResponseHead,
) -> Admitted {
    let now = Moment::from(tollgate_net::wall_clock());
    let times = Received { requested, received: now };
    // The lifetimes of the whole.
    let admission = caching.cache.rules.admission(200);
    let SliceFetch { wanted, manifest, stale } = slice;
    match (response.status, &stale) {
        (206, _) => {
            let admitted = admit_slice(request, &caching.control, response, admission, times, &wanted);
            if let Ok((head, part)) = admitted
                && head.freshness().can_be_shared()
                && may_share(caching, &head)
            {
                // First the manifest: its followers then find the slice on its way.
                manifest.finish_manifest(head.of_whole(), part.length);
                let length = Some(part.range.end - part.range.start);
                return Admitted::Stored { head, length, is_part_wanted: false };
            }
        }
        (304, Some(stale)) => {
            let updated = stale.head().updated_by(request, response, admission, times);
            if let Some(updated) = updated
                && updated.may_be_stored
                && updated.head.freshness().can_be_shared()
                && may_share(caching, &updated.head)
            {
                manifest.freshen(stale, updated.head);
                return Admitted::AskAgain;
            }
        }
        // The range lies beyond the end. That says nothing about other ranges.
        (416, _) => {
            manifest.refuse();
            return Admitted::AskAgain;
        }
        (status, _) if ERRORS.contains(&status) => {
            manifest.fail();
            return Admitted::StaleOnError;
        }
        _ => {}
    }
    let seconds = if response.status == 200 { WITHOUT_RANGES_SECONDS } else { UNCACHEABLE_SECONDS };
    // First the mark, so that no follower begins again.
    do_without(&caching.cache.store, manifest.key(), now, seconds);
    manifest.refuse();
    Admitted::AskAgain
}

/// Has requests answered in the usual way for a while.
pub(super) fn do_without(store: &Arc<Store>, manifest_key: &[u8], now: Moment, seconds: u32) {
    store.purge(Purge::Key(manifest_key), PurgeMode::Remove);
    store.mark_uncacheable(manifest_key, now, seconds);
}
