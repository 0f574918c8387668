//! Answers a request that the store cannot answer: leads a new fetch, or follows a running fetch of another request.
//!
//! [`serve`](super::serve) calls [`fetch`] after a look-up without a usable response. Invariant: among the requests
//! that may share a response, one at a time leads a fetch of it.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tollgate_cache::{Begin, Fill, Follower, Forward, Lookup, Moment, Start, Stored};
use tollgate_observe::Reason;
use tollgate_policy::CacheOutcome;

use super::admission::{Fetch, add_conditions, asks_for_part, is_for_endpoint, remove_conditions};
use super::caching::Caching;
use super::outcome::note;
use super::pass::pass;
use super::respond::{Served, follow, respond};
use super::tap::{Fetched, Tap};
use crate::exchange::dispatch::dispatch;
use crate::exchange::respond as own;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// How many fetches a follower joins whose responses turn out to be for requests with other fields. After the first one it is
/// known which fields count.
const OTHER_VARIANTS_MAX: u32 = 3;

/// Answers a request whose look-up found nothing that can be served as it is.
pub(super) async fn fetch<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    found: Lookup,
) -> ConnectionFate {
    let key = state.policy_context.as_ref().map(|context| context.cache_key.clone()).unwrap_or_default();
    let store = &caching.cache.store;
    let (stale, is_uncacheable) = match found {
        Lookup::Hit(stored) => (Some(stored), false),
        Lookup::Uncacheable => (None, true),
        Lookup::Miss => (None, false),
    };
    let is_stored = caching.may_store && caching.cache.is_used_enough(&key);
    let head = &state.request.head;
    // If the response is not stored, for example because it is too long, the endpoint answers the range request itself.
    let is_part_for_endpoint = is_uncacheable && asks_for_part(head);
    let forward = forward_of(stale.as_ref());
    if !is_stored && stale.is_none() || is_for_endpoint(head) || is_part_for_endpoint {
        return pass(client, worker, state, active, caching, forward).await;
    }
    if is_uncacheable || caching.is_identified || !is_stored {
        return lead(client, worker, state, active, caching, store.begin_alone(&key), stale).await;
    }
    let mut other_variants = 0;
    while other_variants < OTHER_VARIANTS_MAX {
        let mut follower = match store.begin(&key, &state.request.head, stale.as_ref()) {
            Begin::Lead(fill) | Begin::Alone(fill) => {
                return lead(client, worker, state, active, caching, fill, stale).await;
            }
            Begin::Found(stored) => {
                let outcome = (CacheOutcome::Coalesced, Some((forward, None)));
                return answer(client, worker, state, active, caching, &stored, outcome).await;
            }
            Begin::Follow(follower) => follower,
        };
        let Ok(start) = wait_for_start(client, state, &mut follower).await else {
            state.record.reason = Reason::ClientClosed;
            note(state, caching.cache, CacheOutcome::Coalesced);
            return ConnectionFate::Reset;
        };
        match start {
            Start::Stored(stored) => {
                let outcome = (CacheOutcome::Coalesced, Some((forward, None)));
                return answer(client, worker, state, active, caching, &stored, outcome).await;
            }
            Start::Streaming(head, length) => {
                let streams = (head, length, follower);
                return follow(client, worker, state, active, caching, streams, forward).await;
            }
            Start::Lead(fill) => return lead(client, worker, state, active, caching, fill, stale).await,
            Start::OtherVariant => other_variants += 1,
            Start::Fetch => break,
            Start::Failed => match &stale {
                Some(stale) if Fetch::may_serve(stale, caching) => {
                    let outcome = (CacheOutcome::Stale, Some((forward, None)));
                    return answer(client, worker, state, active, caching, stale, outcome).await;
                }
                _ => {
                    state.record.remarks().detail =
                        Some("other requests were fetching it, and failed".into());
                    let settings = &active.plan.settings;
                    let reason = Reason::DestinationUnavailable;
                    let next = own::error(client, worker, state, settings, reason, caching.close).await;
                    note(state, caching.cache, CacheOutcome::Coalesced);
                    return next;
                }
            },
        }
    }
    lead(client, worker, state, active, caching, store.begin_alone(&key), stale).await
}

/// Waits for the head of the response that another request fetches.
///
/// # Errors
/// If the client leaves first.
pub(super) async fn wait_for_start<S: ClientSide>(
    client: &mut Client<S>,
    state: &RequestState,
    follower: &mut Follower,
) -> Result<Start, ()> {
    poll_fn(|cx| match follower.poll_start(cx, &state.request.head) {
        Poll::Ready(start) => Poll::Ready(Ok(start)),
        Poll::Pending => client.poll_peer_closed(cx).map(|()| Err(())),
    })
    .await
}

/// Fetches the response for this client, and for all requests that follow.
async fn lead<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    fill: Fill,
    stale: Option<Arc<Stored>>,
) -> ConnectionFate {
    let wants_part = asks_for_part(&state.request.head);
    // The client's own head: the log shows it, and the client is answered by it.
    let own_head = (wants_part || stale.is_some()).then(|| state.request.clone());
    if wants_part {
        remove_conditions(&mut state.request);
    }
    if let Some(stale) = &stale {
        add_conditions(&mut state.request, stale);
    }
    let outcome = if stale.is_some() { CacheOutcome::Expired } else { CacheOutcome::Miss };
    let fetch = Fetch::new(caching, fill.key(), stale.clone(), own_head.as_ref().filter(|_| wants_part));
    let Client { stream, connection_context, peer, requests, .. } = &mut *client;
    let tap = Tap::new(stream, fetch, fill);
    let mut tapped = Client::of_stream(connection_context, tap, *peer, *requests);
    let next = dispatch(&mut tapped, worker, state, active, caching.routed, caching.close).await;
    let fetched = tapped.stream.end();
    if let Some(own_head) = own_head {
        state.request = own_head;
    }
    match fetched {
        Fetched::Delivered => {
            note(state, caching.cache, outcome);
            next
        }
        Fetched::Gone => {
            state.record.reason = Reason::ClientClosed;
            note(state, caching.cache, outcome);
            ConnectionFate::Reset
        }
        Fetched::Part(part) => {
            state.record.status = part.status;
            state.record.bytes_out = part.sent;
            note(state, caching.cache, outcome);
            if part.is_complete && next == ConnectionFate::Reset && state.to_client.is_empty() {
                // Only the rest, which is for the store, has failed.
                state.record.reason = Reason::None;
                return ConnectionFate::Linger;
            }
            next
        }
        Fetched::Stored(stored, validated) => {
            let outcome = validated.unwrap_or(outcome);
            let forwarded = Some((forward_of(stale.as_ref()), None));
            answer(client, worker, state, active, caching, &stored, (outcome, forwarded)).await
        }
        Fetched::Stale(status) => match &stale {
            Some(stored) => {
                let outcome = (CacheOutcome::Stale, Some((forward_of(stale.as_ref()), status)));
                answer(client, worker, state, active, caching, stored, outcome).await
            }
            None => nothing(client, worker, state, active, caching, outcome).await,
        },
        Fetched::Again => {
            state.to_client.clear();
            state.record.reason = Reason::None;
            state.record.bytes_out = 0;
            let forward = forward_of(stale.as_ref());
            Box::pin(pass(client, worker, state, active, caching, forward)).await
        }
        Fetched::Nothing => nothing(client, worker, state, active, caching, outcome).await,
    }
}

/// Answers from the store, after an exchange or a wait.
async fn answer<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    stored: &Arc<Stored>,
    (outcome, forwarded): (CacheOutcome, Option<(Forward, Option<u16>)>),
) -> ConnectionFate {
    state.to_client.clear();
    state.record.reason = Reason::None;
    state.record.bytes_out = 0;
    let now = Moment::from(tollgate_net::wall_clock());
    respond(client, worker, state, active, caching, Served { stored, outcome, forwarded, now }).await
}

/// Returns why a request is forwarded for which this is stored.
pub(super) fn forward_of(stale: Option<&Arc<Stored>>) -> Forward {
    match stale {
        // The request did not accept it.
        Some(stored) if stored.is_usable(Moment::from(tollgate_net::wall_clock())) => Forward::Request,
        Some(_) => Forward::Stale,
        None => Forward::UriMiss,
    }
}

/// Answers a client that got no byte of a response that was cut.
async fn nothing<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    outcome: CacheOutcome,
) -> ConnectionFate {
    state.to_client.clear();
    let reason = match state.record.reason {
        Reason::None => Reason::HttpResponseIncomplete,
        reason => reason,
    };
    let next = own::error(client, worker, state, &active.plan.settings, reason, caching.close).await;
    note(state, caching.cache, outcome);
    next
}
