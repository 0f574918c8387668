//! The proxy cache: answers requests from the store of the policy `cache`, and stores responses.
//!
//! The front and the policy layer call [`serve`] when [`is_used`] returns true, after every policy of the request has
//! let it pass. The policy `cache` left its decision and the key in the request's
//! [`Context`](tollgate_policy::Context). The steps:
//!
//! 1. [`serve`] looks the key up, unless [`finds_form`] has found a compressed form before. A fresh response is
//!    [sent](respond) at once; no lock is taken and nothing is allocated. If memory has nothing, but the [disk
//!    tier](on_disk) may have it, a thread reads it first.
//! 2. Otherwise [`fetch`] coalesces requests: the request leads a fetch, or follows one that runs on any worker.
//! 3. A leader runs the usual [`dispatch`], with a [`tap`] between the exchange and the client. The tap copies the
//!    response to the store ([`admission`] decides whether). A client that asked for a range gets [that
//!    part](clients_part) alone. The tap withholds the response if the client gets its response from the store: after a
//!    304, or in place of an error.
//! 4. A stale response that may be served is [refreshed](refresh) by a task of its own.
//! 5. On a route whose policy has `slice`, [`slices`] answers from aligned parts of a response, and fetches those that are
//!    missing; what does not come in slices goes the way above.
//! 6. A request with an unsafe method removes what its success makes wrong, [as soon as](arrival) the head of the response
//!    arrives. The response to a HEAD [refreshes](head) what is stored, or ends its freshness.
//!
//! Invariant: a request without the policy `cache` never enters this module.

mod admission;
mod arrival;
mod background;
mod caching;
mod clients_part;
mod fetch;
mod find_form;
mod head;
mod invalidate;
mod on_disk;
mod outcome;
mod part;
mod pass;
mod refresh;
mod respond;
mod send;
mod slices;
mod tap;

use std::rc::Rc;

use tollgate_cache::{AnnouncedRemoval, Forward, Lookup, Moment, RequestControl, Reuse, reuse};
use tollgate_http::{Method, RequestHead};
use tollgate_observe::Reason;
use tollgate_plan::Action;
use tollgate_policy::{ActiveCache, CacheIntent, CacheOutcome, CacheUse, Context, KEY_SEPARATOR};

pub(crate) use self::arrival::head_arrives;
use self::caching::Caching;
use self::fetch::forward_of;
pub(crate) use self::find_form::finds_form;
use self::outcome::{note, note_forward};
use self::respond::{Served, respond};
use crate::exchange::dispatch::dispatch;
use crate::exchange::forward_target::RoutedRequest;
use crate::exchange::respond as own;
use crate::exchange::skip_body::skip_body;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Returns whether a policy `cache` has decided about this request, and its route forwards.
#[inline]
pub(crate) fn is_used(state: &RequestState, action: &Action) -> bool {
    state.policy_context.as_ref().is_some_and(|context| context.cache.is_some())
        && matches!(action, Action::Forward(_))
}

/// Adds the upstream to the key of a request, if its route has several, because a canary's responses differ.
fn name_upstream(context: &mut Context, active: &ActivePlan, routed: RoutedRequest) {
    let shares = active.route(routed.route).shares().filter(|shares| shares.len() > 1);
    let share = shares.zip(routed.share).and_then(|(shares, share)| shares.get(share));
    if let Some(share) = share {
        context.cache_key.push(KEY_SEPARATOR);
        context.cache_key.extend_from_slice(active.plan.upstreams[share.upstream].name.as_bytes());
    }
}

/// Returns the directives of a request that count.
fn control_of(cache: &ActiveCache, request: &RequestHead) -> RequestControl {
    match cache.rules.client_directives {
        true => RequestControl::read(&request.head),
        false => RequestControl::default(),
    }
}

/// Answers a request from the store, or forwards it. `close`: the client's connection closes after this request.
pub(crate) async fn serve<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    routed: RoutedRequest,
    close: bool,
) -> ConnectionFate {
    let decided = state.policy_context.as_ref().and_then(|context| context.cache.as_ref());
    let Some(CacheUse { cache, intent, .. }) = decided else {
        return dispatch(client, worker, state, active, routed, close).await;
    };
    let (cache, intent) = (cache.clone(), *intent);
    let is_call = client.stream.may_be_grpc() && state.grpc.is_some();
    let (may_store, is_identified) = match intent {
        CacheIntent::Lookup { may_store, is_identified } if !is_call => (may_store, is_identified),
        CacheIntent::Invalidate if !is_call => {
            let further = invalidate::find_further(client, state, active, &cache, routed);
            if let Some(context) = &mut state.policy_context {
                name_upstream(context, active, routed);
            }
            invalidate::prepare(state, further);
            // Until what the request removes is removed, nothing of it is written to disk.
            let mut announced = invalidate::announce(state, &cache);
            if let Some(record) = announced.as_mut().and_then(AnnouncedRemoval::take_record) {
                Box::pin(invalidate::await_record(client, &cache, record)).await;
            }
            note_forward(state, Forward::Method);
            let next = dispatch(client, worker, state, active, routed, close).await;
            drop(announced);
            note(state, &cache, CacheOutcome::Bypass);
            return next;
        }
        _ => {
            if !is_call {
                let is_read = matches!(state.request.method, Method::Get | Method::Head);
                note_forward(state, if is_read { Forward::Bypass } else { Forward::Method });
            }
            let next = dispatch(client, worker, state, active, routed, close).await;
            note(state, &cache, CacheOutcome::Bypass);
            return next;
        }
    };
    let control = control_of(&cache, &state.request);
    let mut known = None;
    if let Some(context) = &mut state.policy_context {
        name_upstream(context, active, routed);
        known = context.cache.as_mut().and_then(|used| used.found.take());
    }
    let caching = Caching { cache: &cache, control, may_store, is_identified, routed, close };
    // A client that forbids storing also wants no stored response, unless it asks for nothing else.
    if control.no_store && !control.only_if_cached {
        note_forward(state, Forward::Request);
        let next = dispatch(client, worker, state, active, routed, close).await;
        note(state, &cache, CacheOutcome::Bypass);
        return next;
    }
    if let Some(size) = cache.rules.slice {
        // In a box of its own, as below.
        let sliced = Box::pin(slices::serve(client, worker, state, active, &caching, size)).await;
        if let Some(next) = sliced {
            return next;
        }
    }
    let now = known.as_ref().map_or_else(|| Moment::from(tollgate_net::wall_clock()), |(_, now)| *now);
    let key = state.policy_context.as_ref().map_or(&[][..], |context| context.cache_key.as_slice());
    let found = match known {
        Some((stored, _)) => {
            cache.store.count_hit(&stored);
            Lookup::Hit(stored)
        }
        None => cache.store.lookup(key, &state.request.head, now),
    };
    let (found, is_from_disk) = match found {
        // In a box of its own, as below.
        Lookup::Miss if cache.store.may_be_on_disk(key) => {
            Box::pin(on_disk::look_up(client, &cache.store, key, &state.request.head, now)).await
        }
        found => (found, false),
    };
    let found = match found {
        Lookup::Hit(stored) if is_identified && !stored.head().freshness().is_open() => Lookup::Uncacheable,
        found => found,
    };
    if let Lookup::Hit(stored) = &found {
        let outcome = match reuse(stored, &control, &caching.allowances(), now) {
            Reuse::Fresh if is_from_disk => Some(CacheOutcome::HitDisk),
            Reuse::Fresh => Some(CacheOutcome::Hit),
            Reuse::Stale => Some(CacheOutcome::Stale),
            Reuse::StaleWhileRevalidate => {
                // A response to HEAD has no body that could be stored.
                if !control.only_if_cached && state.request.method == Method::Get {
                    refresh::start(client, worker, state, active, &caching, stored);
                }
                Some(CacheOutcome::Stale)
            }
            Reuse::Validate => None,
        };
        if let Some(outcome) = outcome {
            let served = Served { stored, outcome, forwarded: None, now };
            return respond(client, worker, state, active, &caching, served).await;
        }
    }
    if control.only_if_cached {
        let close = skip_body(state, close);
        let settings = &active.plan.settings;
        let next = own::error(client, worker, state, settings, Reason::NotCached, close).await;
        note(state, &cache, CacheOutcome::Miss);
        return next;
    }
    // A response to HEAD has no body that could be stored.
    if state.request.method == Method::Head {
        let stale = if let Lookup::Hit(stored) = &found { Some(stored) } else { None };
        note_forward(state, forward_of(stale));
        let next = dispatch(client, worker, state, active, routed, close).await;
        head::after(state, &caching, now);
        let outcome =
            if matches!(found, Lookup::Hit(_)) { CacheOutcome::Expired } else { CacheOutcome::Miss };
        note(state, &cache, outcome);
        return next;
    }
    // In a box of its own, so that it does not enlarge the future of every request.
    Box::pin(fetch::fetch(client, worker, state, active, &caching, found)).await
}
