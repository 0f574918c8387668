//! Decides what the endpoint's response to a request for a slice means.
//!
//! [`Fetch::admit`](super::Fetch::admit) calls [`admit_for_slice`] if the fetch has a [`SliceFetch`]. Invariant:
//! each response ends the manifest's fill, so that no follower of the manifest waits forever.

use std::ops::Range;
use std::sync::Arc;

use tollgate_cache::{Fill, Moment, Purge, PurgeMode, Received, Store, Stored, StoredHead, admit_slice};
use tollgate_http::{RequestHead, ResponseHead};

use super::{Admitted, ERRORS, UNCACHEABLE_SECONDS};
use crate::exchange::cache::caching::Caching;

/// How long it is remembered that an endpoint answers a range of a response with the whole.
const WITHOUT_RANGES_SECONDS: u32 = 600;

/// The parts of a fetch of a slice besides its own fill.
pub(in super::super) struct SliceFetch {
    /// The range that the endpoint is asked for.
    pub wanted: Range<u64>,
    /// The manifest, which each slice brings again: its fields are newer.
    pub manifest: Fill,
    /// The manifest that the request validates.
    pub stale: Option<Arc<Stored>>,
}

/// Decides about the endpoint's response to a request for a slice.
pub(in super::super) fn admit_for_slice(
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
    // What is stored does not keep the endpoint's mark (RFC 7541, 6.2.3).
    let is_storable = !response.has_never_indexed;
    match (response.status, &stale) {
        (206, _) if is_storable => {
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
        (304, Some(stale)) if is_storable => {
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

/// Returns whether a request may share a response with this head.
pub(in super::super) fn may_share(caching: &Caching<'_>, head: &StoredHead) -> bool {
    !caching.is_identified || head.freshness().is_open()
}

/// Has requests answered in the usual way for a while.
pub(in super::super) fn do_without(store: &Arc<Store>, manifest_key: &[u8], now: Moment, seconds: u32) {
    store.purge(Purge::Key(manifest_key), PurgeMode::Remove);
    store.mark_uncacheable(manifest_key, now, seconds, None);
}
