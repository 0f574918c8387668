//! Sends a response that consists of slices: the head, then each slice as soon as it is obtained.
//!
//! [`serve`](super::serve) calls [`send`] with the first slice in hand, so an error before that slice can still be
//! answered in another way. After the head, an error cuts the response.

use std::ops::Range;
use std::rc::Rc;

use tollgate_cache::{Forward, Moment};
use tollgate_observe::Reason;
use tollgate_plan::Route;
use tollgate_policy::CacheOutcome;

use super::Slices;
use super::manifest::Manifest;
use super::obtain::{Missing, Slice, Source, obtain};
use crate::exchange::cache::admission::UNCACHEABLE_SECONDS;
use crate::exchange::cache::admission::slice::do_without;
use crate::exchange::cache::caching::Caching;
use crate::exchange::cache::outcome::note;
use crate::exchange::cache::part::Part;
use crate::exchange::cache::respond::{ended, own_lines};
use crate::exchange::cache::send::{Outgoing, deliver_rest, send_arriving, send_range};
use crate::exchange::skip_body::skip_body;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Sends `part` of the response. `first` is its first slice; `None`: it has no body.
pub(super) async fn send<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    (slices, mut manifest, part, first): (&Slices, Manifest, Part, Option<Slice>),
) -> ConnectionFate {
    // Its follower must not slow the fetch down if this response does not need the slice.
    manifest.own = None;
    let close = skip_body(state, caching.close) || client.announces_close();
    let first_outcome = first.as_ref().map_or(manifest.outcome, |slice| slice.outcome);
    let mut outcome = worse(manifest.outcome, first_outcome);
    let stored = manifest.stored.clone();
    let now = Moment::from(tollgate_net::wall_clock());
    let forwarded = manifest.replaces_error.then_some((Forward::Stale, None));
    let mut own = own_lines(stored.head(), caching, outcome, forwarded, now);
    own.content_range = part.content_range(manifest.length);
    if let Some(status) = &mut own.status
        && status.forward.is_some()
        && !manifest.replaces_error
    {
        // RFC 9211, 2.2 and 2.3: the manifest was stored, its slice was not.
        if manifest.outcome == CacheOutcome::Hit {
            status.forward = Some(Forward::Partial);
        }
        status.forward_status = status.forward_status.or((part.status != 206).then_some(206));
    }
    let Part { status, lines, range, has_length, has_body } = part;
    let outgoing = Outgoing {
        status,
        lines: lines.as_deref().unwrap_or(stored.head().lines()),
        own,
        length: has_length.then_some(range.end - range.start),
        has_body,
        close,
    };
    let begun = outgoing.begin(client, worker, state, &active.plan.settings, b"", first.is_none());
    let route = active.route(caching.routed.route);
    let sent = match (begun, first) {
        (Err(reason), _) => Err(reason),
        (Ok(()), None) => deliver_rest(client, state, route).await,
        (Ok(()), Some(first)) => {
            let body = (slices, &mut manifest, range, first, &mut outcome);
            send_body(client, worker, state, active, caching, body).await
        }
    };
    note(state, caching.cache, outcome);
    ended(state, sent, close)
}

/// Sends the bytes of a range, slice by slice.
async fn send_body<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    (slices, manifest, range, first, outcome): (&Slices, &mut Manifest, Range<u64>, Slice, &mut CacheOutcome),
) -> Result<(), Reason> {
    let route = active.route(caching.routed.route);
    let mut number = slices.number_of(range.start);
    let last = slices.number_of(range.end - 1);
    let mut slice = first;
    loop {
        let Range { start, end } = slices.range(number, manifest.length);
        let within = range.start.max(start) - start..range.end.min(end) - start;
        send_slice(client, state, route, slice.source, within, number == last).await?;
        if number == last {
            return deliver_rest(client, state, route).await;
        }
        number += 1;
        slice = match obtain(client, worker, state, active, caching, (slices, manifest, number)).await {
            Ok(slice) => slice,
            Err(missing) => return Err(cut(state, caching, slices, missing)),
        };
        *outcome = worse(*outcome, slice.outcome);
    }
}

async fn send_slice<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    source: Source,
    within: Range<u64>,
    is_last: bool,
) -> Result<(), Reason> {
    match source {
        Source::Stored(stored) => send_range(client, state, route, &stored, within, is_last).await,
        Source::Arriving(mut follower) => {
            send_arriving(client, state, route, &mut follower, within, is_last).await
        }
    }
}

/// Cuts a response, because its next slice is missing. Returns the reason.
fn cut(state: &mut RequestState, caching: &Caching<'_>, slices: &Slices, missing: Missing) -> Reason {
    let problem = match missing {
        Missing::ClientLeft => return Reason::ClientClosed,
        Missing::Failed => "a slice could not be fetched",
        Missing::OtherVersion => {
            // If endpoints disagree about the version, every response would be cut. So respond without slices for a
            // while.
            let now = Moment::from(tollgate_net::wall_clock());
            do_without(&caching.cache.store, &slices.manifest_key, now, UNCACHEABLE_SECONDS);
            "the endpoint has another version than the slices that were sent"
        }
    };
    state.record.remarks().detail = Some(problem.into());
    Reason::HttpResponseIncomplete
}

/// Returns the outcome that cost more.
fn worse(one: CacheOutcome, other: CacheOutcome) -> CacheOutcome {
    let rank = |outcome| match outcome {
        CacheOutcome::Hit | CacheOutcome::Bypass => 0,
        CacheOutcome::HitDisk => 1,
        CacheOutcome::Stale => 2,
        CacheOutcome::Revalidated => 3,
        CacheOutcome::Coalesced => 4,
        CacheOutcome::Expired => 5,
        CacheOutcome::Miss => 6,
    };
    if rank(other) > rank(one) { other } else { one }
}
