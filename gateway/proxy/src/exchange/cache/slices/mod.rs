//! Answers requests from slices: aligned parts of a long response, each fetched and stored on its own.
//!
//! On a route whose policy has `slice`, [`serve`](super::serve) calls [`serve`] before its own look-up. The steps:
//!
//! 1. [`manifest`] finds the manifest: the head and the length of the whole response. If it is missing or stale, one
//!    request fetches it for all that wait: it asks the endpoint for a slice that it needs, and validates a stale
//!    manifest.
//! 2. The manifest answers the request's conditions and range, and so decides which slices are needed.
//! 3. [`obtain`] gets one slice at a time: from the store, from a running fetch, or from a fetch that it starts.
//! 4. [`send`] sends each slice, and then obtains the next one.
//!
//! Every fetch is a [task of its own](super::background). So a client that leaves ends no fetch that others wait for,
//! and costs the endpoint at most one slice. If the endpoint sends no slices, [`serve`] returns `None`, and the caller
//! continues with whole responses.
//!
//! Invariant: every slice of a response has the length and the strong validator of the manifest that made its head, or
//! the response is cut.

mod fetch;
mod manifest;
mod obtain;
mod send;

use std::ops::Range;
use std::rc::Rc;

use tollgate_cache::{Forward, Lookup, Moment, Store, answer_for};
use tollgate_http::{Answer, Conditions, Head, Method, RequestHead, Requested, parse_ranges};
use tollgate_observe::Reason;
use tollgate_policy::CacheOutcome;

use self::manifest::Found;
use self::obtain::Missing;
use super::admission::is_for_endpoint;
use super::caching::Caching;
use super::on_disk;
use super::outcome::note;
use super::part::part;
use super::pass::pass;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How many versions a request tries, if the endpoint changes the response before anything was sent.
const VERSIONS_MAX: u32 = 2;

/// Separates the key of the whole response from the rest. Neither a URL nor a field value contains it, because the
/// parser rejects control characters.
const SLICES_MARK: u8 = 0x1e;

/// Returns the key of a response's manifest. The keys of its slices extend it, so that a purge by prefix removes them
/// too. To invalidate a response, removing the manifest is enough: without it, no slice is used before the endpoint is
/// asked.
pub(super) fn manifest_key(key: &[u8]) -> Vec<u8> {
    [key, &[SLICES_MARK]].concat()
}

/// The keys and ranges of a response's slices.
struct Slices {
    /// The key of the whole response.
    key: Vec<u8>,
    manifest_key: Vec<u8>,
    size: u64,
}

impl Slices {
    fn new(key: &[u8], size: u64) -> Self {
        Self { key: key.to_vec(), manifest_key: manifest_key(key), size }
    }

    /// Returns the key of a slice. It contains the size, so that a configuration with another size does not find it.
    fn slice_key(&self, number: u64) -> Vec<u8> {
        [&self.manifest_key[..], format!("{}/{number}", self.size).as_bytes()].concat()
    }

    /// Returns the range of a slice if the length of the response is not known.
    fn wanted(&self, number: u64) -> Range<u64> {
        let start = number.saturating_mul(self.size);
        start..start.saturating_add(self.size)
    }

    /// Returns the range of a slice of a response with this length.
    fn range(&self, number: u64, length: u64) -> Range<u64> {
        let Range { start, end } = self.wanted(number);
        start..end.min(length)
    }

    /// Returns the number of the slice that contains a byte.
    fn number_of(&self, at: u64) -> u64 {
        at / self.size
    }
}

/// Answers a request from slices, and fetches the missing ones. `None`: the endpoint sends no slices, as far as is
/// known, or the request cannot be answered from slices.
pub(super) async fn serve<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    size: u64,
) -> Option<ConnectionFate> {
    if caching.control.only_if_cached || is_for_endpoint(&state.request.head) {
        return None;
    }
    let slices = Slices::new(
        state.policy_context.as_ref().map_or(&[][..], |context| context.cache_key.as_slice()),
        size,
    );
    let guess = slices.number_of(first_byte(&state.request));
    for _ in 0..VERSIONS_MAX {
        let mut manifest = match manifest::find(client, worker, state, active, caching, &slices, guess).await
        {
            Found::Manifest(manifest) => manifest,
            Found::Nothing => return None,
            Found::NotStored => {
                return Some(pass(client, worker, state, active, caching, Forward::UriMiss).await);
            }
            Found::ClientLeft => return Some(left(state, caching)),
        };
        let answer = answer_for(manifest.stored.head(), manifest.length, &state.request)?;
        // Several ranges may need all slices. The endpoint can answer them at less cost.
        if matches!(&answer, Answer::Ranges(ranges) if ranges.len() > 1) {
            return Some(pass(client, worker, state, active, caching, Forward::Request).await);
        }
        let part = part(manifest.stored.head(), manifest.length, answer);
        let has_body = part.has_body && !part.range.is_empty() && state.request.method != Method::Head;
        let mut first = None;
        if has_body {
            let wanted = (&slices, &mut manifest, slices.number_of(part.range.start));
            match obtain::obtain(client, worker, state, active, caching, wanted).await {
                Ok(slice) => first = Some(slice),
                Err(Missing::OtherVersion) => continue,
                Err(Missing::Failed) => return None,
                Err(Missing::ClientLeft) => return Some(left(state, caching)),
            }
        }
        let sent = (&slices, manifest, part, first);
        return Some(send::send(client, worker, state, active, caching, sent).await);
    }
    None
}

/// Looks a key up in memory, and then on disk. Returns the result, and whether it comes from disk.
async fn look_up<S: ClientSide>(
    client: &mut Client<S>,
    store: &Store,
    key: &[u8],
    request: &Head,
) -> (Lookup, bool) {
    let now = Moment::from(tollgate_net::wall_clock());
    match store.lookup(key, request, now) {
        Lookup::Miss if store.may_be_on_disk(key) => on_disk::look_up(client, store, key, request, now).await,
        found => (found, false),
    }
}

/// Returns the first byte that a request asks for, or 0 if that depends on the length of the response.
fn first_byte(request: &RequestHead) -> u64 {
    /// `parse_ranges` got the largest length, so a suffix range starts beyond this.
    const LENGTH_MAX: u64 = 1 << 62;
    let range = Conditions::read(request).range;
    match range.map(|range| parse_ranges(&range, u64::MAX)) {
        Some(Requested::Ranges(ranges)) => match ranges[..] {
            [range] if range.start < LENGTH_MAX => range.start,
            _ => 0,
        },
        _ => 0,
    }
}

/// Ends a request whose client left while it waited.
fn left(state: &mut RequestState, caching: &Caching<'_>) -> ConnectionFate {
    state.record.reason = Reason::ClientClosed;
    note(state, caching.cache, CacheOutcome::Miss);
    ConnectionFate::Reset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_aligned_and_the_last_one_ends_with_the_response() {
        let slices = Slices::new(b"http://h/\x1fr", 100);
        assert_eq!((slices.range(0, 250), slices.range(2, 250)), (0..100, 200..250));
        assert_eq!([0, 99, 100, 249].map(|at| slices.number_of(at)), [0, 0, 1, 2]);
        assert_eq!(slices.wanted(u64::MAX / 100).end, u64::MAX);
        assert_eq!(slices.slice_key(7), b"http://h/\x1fr\x1e100/7");
        assert!(slices.slice_key(7).starts_with(&manifest_key(&slices.key)));
    }
}
