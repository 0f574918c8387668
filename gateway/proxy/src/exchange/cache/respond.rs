//! Answers a request with a stored response, or with the response of another request's fetch.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tollgate_cache::{
    CacheStatus, Chunk, Follower, Forward, Moment, Stored, StoredHead, answer, not_modified_lines,
};
use tollgate_http::{Answer, Version};
use tollgate_observe::Reason;
use tollgate_policy::CacheOutcome;

use super::admission::asks_for_part;
use super::caching::Caching;
use super::outcome::note;
use super::pass::pass;
use super::send::{Outgoing, OwnLines, Place, send_followed, send_stored};
use crate::exchange::skip_body::skip_body;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// A stored response that a request is answered with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served<'a> {
    pub stored: &'a Arc<Stored>,
    pub outcome: CacheOutcome,
    pub now: Moment,
}

/// The part of a stored response that the client receives.
struct Part {
    status: u16,
    /// The field lines, if they differ from the stored ones.
    lines: Option<Vec<u8>>,
    range: Range<u64>,
    /// Whether a `Content-Length` says how long it is.
    has_length: bool,
    has_body: bool,
}

/// Answers a request with a stored response, or with the part of it that the request asks for.
pub(super) async fn respond<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    Served { stored, outcome, now }: Served<'_>,
) -> ConnectionFate {
    let Some(part) = part(stored, state) else {
        return Box::pin(pass(client, worker, state, active, caching)).await;
    };
    let close = skip_body(state, caching.close) || client.announces_close();
    let mut own = own_lines(stored.head(), caching, outcome, now);
    own.content_range = match part.status {
        206 => Some((Some((part.range.start, part.range.end)), stored.length())),
        416 => Some((None, stored.length())),
        _ => None,
    };
    let Part { status, lines, range, has_length, has_body } = part;
    let outgoing = Outgoing {
        status,
        lines: lines.as_deref().unwrap_or(stored.head().lines()),
        own,
        length: has_length.then_some(range.end - range.start),
        has_body,
        close,
    };
    let place = Place { settings: &active.plan.settings, route: active.route(caching.routed.route) };
    let sent = send_stored(client, worker, state, place, outgoing, stored, range).await;
    note(state, caching.cache, outcome);
    ended(state, sent, close)
}

/// Returns what the request asks for; `None`: only the endpoint can tell.
fn part(stored: &Stored, state: &RequestState) -> Option<Part> {
    let whole = |stored: &Stored| {
        let status = stored.head().status();
        let bodiless = matches!(status, 204 | 304);
        Part { status, lines: None, range: 0..stored.length(), has_length: !bodiless, has_body: !bodiless }
    };
    Some(match answer(stored, &state.request)? {
        Answer::Ranges(ranges) => match ranges[..] {
            [range] => Part { status: 206, range: range.start..range.end, ..whole(stored) },
            // RFC 9110, 14.2: a server may ignore `Range`.
            _ => whole(stored),
        },
        Answer::NotModified => {
            let mut lines = Vec::with_capacity(stored.head().lines().len());
            not_modified_lines(stored.head(), &mut lines);
            Part { status: 304, lines: Some(lines), range: 0..0, has_length: false, has_body: false }
        }
        Answer::NotSatisfiable => {
            Part { status: 416, lines: Some(Vec::new()), range: 0..0, has_length: true, has_body: false }
        }
        Answer::Whole | Answer::PreconditionFailed => whole(stored),
    })
}

/// Answers a request with the response of another request's fetch, as it arrives. `None`: the client asked for a part,
/// and the whole response is now in the store.
pub(super) async fn follow<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    (head, length, mut follower): (Arc<StoredHead>, Option<u64>, Follower),
) -> Option<ConnectionFate> {
    let outcome = CacheOutcome::Coalesced;
    if asks_for_part(&state.request.head) {
        let waited = wait_for_end(client, &mut follower).await;
        if waited.is_ok() {
            return None;
        }
        state.record.reason = Reason::ClientClosed;
        note(state, caching.cache, outcome);
        return Some(ConnectionFate::Reset);
    }
    let bodiless = matches!(head.status(), 204 | 304);
    let is_open_ended = length.is_none() && state.request.version == Version::Http10;
    let close = skip_body(state, caching.close || is_open_ended) || client.announces_close();
    let own = own_lines(&head, caching, outcome, Moment::from(tollgate_net::wall_clock()));
    let outgoing = Outgoing {
        status: head.status(),
        lines: head.lines(),
        own,
        length: length.filter(|_| !bodiless),
        has_body: !bodiless,
        close,
    };
    let place = Place { settings: &active.plan.settings, route: active.route(caching.routed.route) };
    let sent = send_followed(client, worker, state, place, outgoing, &mut follower).await;
    note(state, caching.cache, outcome);
    Some(ended(state, sent, close))
}

/// Waits until the response has been fetched.
///
/// # Errors
/// If the client leaves first.
async fn wait_for_end<S: ClientSide>(client: &mut Client<S>, follower: &mut Follower) -> Result<(), ()> {
    poll_fn(|cx| {
        loop {
            match follower.poll_chunk(cx) {
                Poll::Ready(Chunk::Data(_)) => {}
                Poll::Ready(Chunk::End | Chunk::Cut) => return Poll::Ready(Ok(())),
                Poll::Pending => return client.poll_peer_closed(cx).map(|()| Err(())),
            }
        }
    })
    .await
}

fn ended(state: &mut RequestState, sent: Result<(), Reason>, close: bool) -> ConnectionFate {
    match sent {
        Ok(()) if close => ConnectionFate::Linger,
        Ok(()) => ConnectionFate::KeepAlive,
        Err(reason) => {
            state.record.reason = reason;
            ConnectionFate::Reset
        }
    }
}

/// Returns the lines that a response with this head gets for itself.
fn own_lines<'a>(
    head: &StoredHead,
    caching: &Caching<'_>,
    outcome: CacheOutcome,
    now: Moment,
) -> OwnLines<'a> {
    let forward = match outcome {
        CacheOutcome::Hit | CacheOutcome::HitDisk | CacheOutcome::Stale => None,
        CacheOutcome::Revalidated | CacheOutcome::Expired => Some(Forward::Stale),
        CacheOutcome::Coalesced | CacheOutcome::Miss | CacheOutcome::Bypass => Some(Forward::UriMiss),
    };
    let status = CacheStatus {
        forward,
        is_stored: matches!(outcome, CacheOutcome::Miss | CacheOutcome::Expired),
        is_collapsed: outcome == CacheOutcome::Coalesced,
        forward_status: (outcome == CacheOutcome::Revalidated).then_some(304),
        ttl_seconds: Some(head.freshness().left_millis(now).div_euclid(1000)),
        ..CacheStatus::default()
    };
    let status = caching.cache.rules.status.then_some(status);
    OwnLines { age: head.age(now), status, content_range: None }
}
