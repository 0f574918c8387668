//! Decides what happens with the endpoint's response to a request for a slice.
//!
//! [`Fetch::admit`](super::Fetch::admit) calls [`admit_for_slice`] if the fetch has a [`SliceFetch`]. Invariant: every
//! response ends the manifest's fill, so that no follower of the manifest waits forever.

use std::ops::Range;
use std::sync::Arc;

use tollgate_cache::{Fill, Moment, Purge, PurgeMode, Received, Store, Stored, StoredHead, admit_slice};
use tollgate_http::{RequestHead, ResponseHead};

use super::{Admitted, ERRORS, UNCACHEABLE_SECONDS, Wanted};
use crate::exchange::cache::caching::Caching;

/// How long the store remembers that an endpoint answers a range request with the whole response.
const WITHOUT_RANGES_SECONDS: u32 = 600;

/// The parts of a fetch of a slice besides its own fill.
pub(in super::super) struct SliceFetch {
    /// The range that the endpoint is asked for.
    pub wanted: Range<u64>,
    /// The fill of the manifest: every slice brings the manifest again, with newer fields.
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
    // The lifetime of the whole response, a 200.
    let admission = caching.cache.rules.admission(200);
    let SliceFetch { wanted, manifest, stale } = slice;
    // The store does not keep the never-indexed mark of a field (RFC 7541, 6.2.3).
    let is_storable = !response.has_never_indexed;
    match (response.status, &stale) {
        (206, _) if is_storable => {
            let admitted = admit_slice(request, &caching.control, response, admission, times, &wanted);
            if let Ok((head, part)) = admitted
                && head.freshness().can_be_shared()
                && may_share(caching, &head)
            {
                // The manifest first: its followers then find the fetch of the slice running.
                manifest.finish_manifest(head.of_whole(), part.length);
                let length = Some(part.range.end - part.range.start);
                return Admitted::Stored { head, length, wanted: Wanted::Whole };
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
        // The range lies beyond the end. Other ranges may still exist.
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
    // The mark first, so that no follower starts another fetch.
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
