//! Gets one slice of the manifest's version: from the store, from a running fetch, or from a fetch that it starts.
//!
//! [`serve`](super::serve) calls [`obtain`] for the first slice, before it sends the head, and [`send`](super::send)
//! for each later one.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::{Begin, Follower, Lookup, Start, Stored, StoredHead};
use tollgate_policy::CacheOutcome;

use super::fetch::start;
use super::manifest::Manifest;
use super::{Slices, look_up};
use crate::exchange::cache::caching::Caching;
use crate::exchange::cache::fetch::wait_for_start;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How many times a request tries again, if a fetch ends without the slice.
const BEGINS_MAX: u32 = 2;

/// A slice of the manifest's version.
pub(super) struct Slice {
    pub source: Source,
    pub outcome: CacheOutcome,
}

/// The source of a slice's bytes.
pub(super) enum Source {
    Stored(Arc<Stored>),
    /// A task is fetching them.
    Arriving(Follower),
}

/// Why a slice cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The endpoint now has another version of the response.
    OtherVersion,
    /// It could not be fetched.
    Failed,
    ClientLeft,
}

/// Gets the slice `number`.
pub(super) async fn obtain<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    (slices, manifest, number): (&Slices, &mut Manifest, u64),
) -> Result<Slice, Missing> {
    let range = slices.range(number, manifest.length);
    let (whole, length) = (manifest.stored.clone(), manifest.length);
    let is_it = |head: &StoredHead| head.is_slice_of(whole.head(), length, &range);
    let is_stored = |stored: &Stored| is_it(stored.head()) && stored.length() == range.end - range.start;
    let store = &caching.cache.store;
    let key = slices.slice_key(number);
    let mut waits = manifest.own.take_if(|(own, _)| *own == number);
    let mut outcome = CacheOutcome::Miss;
    let mut other = None;
    if waits.is_none() {
        let (found, is_from_disk) = look_up(client, store, &key, &state.request.head).await;
        if let Lookup::Hit(stored) = found {
            if is_stored(&stored) {
                let outcome = if is_from_disk { CacheOutcome::HitDisk } else { CacheOutcome::Hit };
                return Ok(Slice { source: Source::Stored(stored), outcome });
            }
            other = Some(stored);
        }
    }
    for _ in 0..=BEGINS_MAX {
        let mut follower = match waits.take() {
            Some((_, follower)) => follower,
            None => {
                let begun = match caching.is_identified {
                    true => Begin::Alone(store.begin_alone(&key)),
                    false => store.begin(&key, &state.request.head, other.as_ref()),
                };
                match begun {
                    Begin::Found(stored) if is_stored(&stored) => {
                        let outcome = CacheOutcome::Coalesced;
                        return Ok(Slice { source: Source::Stored(stored), outcome });
                    }
                    Begin::Found(stored) => {
                        other = Some(stored);
                        continue;
                    }
                    Begin::Follow(follower) => {
                        outcome = CacheOutcome::Coalesced;
                        follower
                    }
                    Begin::Lead(fill) | Begin::Alone(fill) => {
                        outcome = CacheOutcome::Miss;
                        let follower = fill.follower().ok_or(Missing::Failed)?;
                        let fetch = (number, fill, store.begin_alone(&slices.manifest_key), None);
                        start(client, worker, state, active, caching, slices, fetch);
                        follower
                    }
                }
            }
        };
        match wait_for_start(client, state, &mut follower).await {
            Err(()) => return Err(Missing::ClientLeft),
            Ok(Start::Stored(stored)) if is_stored(&stored) => {
                return Ok(Slice { source: Source::Stored(stored), outcome });
            }
            Ok(Start::Streaming(head, _)) if is_it(&head) => {
                return Ok(Slice { source: Source::Arriving(follower), outcome });
            }
            Ok(Start::Stored(_) | Start::Streaming(..)) => return Err(Missing::OtherVersion),
            Ok(Start::Failed) => return Err(Missing::Failed),
            // The leader's task ended without a response: this request leads now.
            Ok(Start::Lead(fill)) => {
                waits = fill.follower().map(|follower| (number, follower));
                let fetch = (number, fill, store.begin_alone(&slices.manifest_key), None);
                start(client, worker, state, active, caching, slices, fetch);
            }
            // It was a validation, and this slice is stored still; or it was refused, or cut.
            Ok(Start::Fetch | Start::OtherVariant) => {
                let (found, _) = look_up(client, store, &key, &state.request.head).await;
                if let Lookup::Hit(stored) = found {
                    if is_stored(&stored) {
                        return Ok(Slice { source: Source::Stored(stored), outcome: CacheOutcome::Hit });
                    }
                    other = Some(stored);
                }
            }
        }
    }
    Err(Missing::Failed)
}
