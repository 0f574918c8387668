//! Answers a request with a stored response, or with one that another request fetches.
//!
//! It decides what the client gets: the whole, a range, a 304 or a 416. [`send`](super::send) sends it.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::{
    CacheStatus, Follower, Forward, Moment, Stored, StoredHead, answer, answer_for, not_modified_lines,
};
use tollgate_http::{Answer, Version};
use tollgate_observe::Reason;
use tollgate_policy::CacheOutcome;

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
    /// Why the request was forwarded, and the status of the endpoint's response, if there was one; `None`: it was not, or the
    /// outcome says it.
    pub forwarded: Option<(Forward, Option<u16>)>,
    pub now: Moment,
}

/// The part of a stored response that a client gets.
pub(super) struct Part {
    pub status: u16,
    /// The field lines, if they differ from the stored ones.
    pub lines: Option<Vec<u8>>,
    pub range: Range<u64>,
    /// Whether the head states its length in `Content-Length`.
    pub has_length: bool,
    pub has_body: bool,
}

impl Part {
    /// Returns the value of `Content-Range`, if the response has one. `length`: the length of the whole response.
    pub fn content_range(&self, length: u64) -> Option<(Option<(u64, u64)>, u64)> {
        match self.status {
            206 => Some((Some((self.range.start, self.range.end)), length)),
            416 => Some((None, length)),
            _ => None,
        }
    }
}

/// Answers a request with a stored response, or with the part of it that the request asks for.
pub(super) async fn respond<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    Served { stored, outcome, forwarded, now }: Served<'_>,
) -> ConnectionFate {
    // Only the endpoint can evaluate the request's conditions.
    let Some(answer) = answer(stored, &state.request) else {
        return Box::pin(pass(client, worker, state, active, caching, Forward::Request)).await;
    };
    let part = part(stored.head(), stored.length(), answer);
    let close = skip_body(state, caching.close) || client.announces_close();
    let mut own = own_lines(stored.head(), caching, outcome, forwarded, now);
    own.content_range = part.content_range(stored.length());
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

/// Returns the part that an answer consists of. `length`: the length of the whole response.
pub(super) fn part(head: &StoredHead, length: u64, answer: Answer) -> Part {
    let status = head.status();
    let bodiless = matches!(status, 204 | 304);
    let whole = Part { status, lines: None, range: 0..length, has_length: !bodiless, has_body: !bodiless };
    match answer {
        Answer::Ranges(ranges) => match ranges[..] {
            [range] => {
                let lines = without_content_range(head);
                Part { status: 206, lines, range: range.start..range.end, ..whole }
            }
            // RFC 9110, 14.2: a server may ignore `Range`.
            _ => whole,
        },
        Answer::NotModified => {
            let mut lines = Vec::with_capacity(head.lines().len());
            not_modified_lines(head, &mut lines);
            Part { status: 304, lines: Some(lines), range: 0..0, has_length: false, has_body: false }
        }
        Answer::NotSatisfiable => {
            let date = tollgate_http::format_date(Moment::from(tollgate_net::wall_clock()).seconds());
            let lines = Some(format!("Date: {date}\r\n").into_bytes());
            Part { status: 416, lines, range: 0..0, has_length: true, has_body: false }
        }
        Answer::Whole | Answer::PreconditionFailed => whole,
    }
}

/// Returns the lines without `Content-Range`. In the stored 200 that field has no meaning (RFC 9110, 14.4), and in a
/// 206 it would contradict the gateway's own. `None`: the lines have no such field.
fn without_content_range(head: &StoredHead) -> Option<Vec<u8>> {
    head.get(b"content-range")?;
    let mut lines = Vec::with_capacity(head.lines().len());
    for (name, value) in head.fields().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-range")) {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    Some(lines)
}

/// Answers a request with a response that another request fetches, or with the part that the request asks for, as it
/// arrives.
pub(super) async fn follow<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    (head, length, mut follower): (Arc<StoredHead>, Option<u64>, Follower),
    forward: Forward,
) -> ConnectionFate {
    let outcome = CacheOutcome::Coalesced;
    // Without a length there are no ranges: an empty body has none.
    let whole_length = length.unwrap_or(0);
    let answer = answer_for(&head, whole_length, &state.request).unwrap_or(Answer::Whole);
    let part = part(&head, whole_length, answer);
    let is_open_ended = length.is_none() && state.request.version == Version::Http10;
    let close = skip_body(state, caching.close || is_open_ended) || client.announces_close();
    let now = Moment::from(tollgate_net::wall_clock());
    let mut own = own_lines(&head, caching, outcome, Some((forward, None)), now);
    own.content_range = part.content_range(whole_length);
    let Part { status, lines, range, has_length, has_body } = part;
    let outgoing = Outgoing {
        status,
        lines: lines.as_deref().unwrap_or(head.lines()),
        own,
        length: length.filter(|_| has_length).map(|_| range.end - range.start),
        has_body,
        close,
    };
    let place = Place { settings: &active.plan.settings, route: active.route(caching.routed.route) };
    let range = (status == 206).then_some(range);
    let sent = send_followed(client, worker, state, place, outgoing, &mut follower, range).await;
    note(state, caching.cache, outcome);
    ended(state, sent, close)
}

/// Records why a response was cut, if it was. Returns what happens to the connection.
pub(super) fn ended(state: &mut RequestState, sent: Result<(), Reason>, close: bool) -> ConnectionFate {
    match sent {
        Ok(()) if close => ConnectionFate::Linger,
        Ok(()) => ConnectionFate::KeepAlive,
        Err(reason) => {
            state.record.reason = reason;
            ConnectionFate::Reset
        }
    }
}

/// Returns the lines that the gateway adds to a stored response.
pub(super) fn own_lines<'a>(
    head: &StoredHead,
    caching: &Caching<'_>,
    outcome: CacheOutcome,
    forwarded: Option<(Forward, Option<u16>)>,
    now: Moment,
) -> OwnLines<'a> {
    let forward = match outcome {
        CacheOutcome::Hit | CacheOutcome::HitDisk | CacheOutcome::Stale => None,
        CacheOutcome::Revalidated | CacheOutcome::Expired => Some(Forward::Stale),
        CacheOutcome::Coalesced | CacheOutcome::Miss | CacheOutcome::Bypass => Some(Forward::UriMiss),
    };
    let forward_status = (outcome == CacheOutcome::Revalidated).then_some(304);
    let status = CacheStatus {
        forward: forwarded.map(|(forward, _)| forward).or(forward),
        is_stored: matches!(outcome, CacheOutcome::Miss | CacheOutcome::Expired),
        is_collapsed: outcome == CacheOutcome::Coalesced,
        forward_status: forwarded.and_then(|(_, status)| status).or(forward_status),
        ttl_seconds: Some(head.freshness().left_millis(now).div_euclid(1000)),
        ..CacheStatus::default()
    };
    let status = caching.cache.rules.status.then_some(status);
    OwnLines { age: head.age(now), status, content_range: None }
}
