//! Answers a request with a stored response, or with one that another request fetches.
//!
//! It decides what the client gets: the whole, a range or several, a 304 or a 416. [`send`](super::send) sends it.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_cache::{CacheStatus, Follower, Forward, Moment, Stored, StoredHead, answer, answer_for};
use tollgate_http::{Answer, ByteRange, ContentParts, Part as ContentPart, Version};
use tollgate_observe::Reason;
use tollgate_policy::CacheOutcome;

use super::caching::Caching;
use super::outcome::note;
use super::part::{Part, is_content_range, part};
use super::pass::pass;
use super::send::{
    Outgoing, OwnLines, Place, deliver_rest, send_followed, send_range, send_stored, send_text,
};
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
    if let Answer::Ranges(ranges) = &answer
        && ranges.len() > 1
    {
        let served = Served { stored, outcome, forwarded, now };
        // In a box of its own, since it is rare.
        return Box::pin(respond_with_ranges(client, worker, state, active, caching, served, ranges)).await;
    }
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
    let place = place(active, caching);
    let sent = send_stored(client, worker, state, place, outgoing, stored, range).await;
    note(state, caching.cache, outcome);
    ended(state, sent, close)
}

/// Answers with several ranges of a stored response: `multipart/byteranges` (RFC 9110, 14.6 and 15.3.7). The parser of `Range`
/// bounds their number and their sum, for static files too: a request for more gets the whole.
async fn respond_with_ranges<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    caching: &Caching<'_>,
    Served { stored, outcome, forwarded, now }: Served<'_>,
    ranges: &[ByteRange],
) -> ConnectionFate {
    let (mut type_line, mut others) = (Vec::new(), Vec::new());
    let is_type = |name: &[u8]| name.eq_ignore_ascii_case(b"content-type");
    stored.head().write_lines(&mut type_line, is_type);
    stored.head().write_lines(&mut others, |name| !is_type(name) && !is_content_range(name));
    let boundary = format!("tollgate-{:08x}{:08x}", worker.random(), worker.random());
    let (lines, content) = ContentParts::ranges(&type_line, &others, stored.length(), ranges, &boundary);
    let close = skip_body(state, caching.close) || client.announces_close();
    let own = own_lines(stored.head(), caching, outcome, forwarded, now);
    let length = Some(content.length);
    let outgoing = Outgoing { status: 206, lines: &lines, own, length, has_body: true, close };
    let Place { settings, route, .. } = place(active, caching);
    let sent = async {
        outgoing.begin(client, worker, state, settings, b"", false)?;
        let last = content.parts.len().saturating_sub(1);
        for (number, part) in content.parts.iter().enumerate() {
            match part {
                ContentPart::Text(text) => send_text(client, state, route, text, number == last).await?,
                ContentPart::Content(ByteRange { start, end }) => {
                    send_range(client, state, route, stored, *start..*end, number == last).await?;
                }
            }
        }
        deliver_rest(client, state, route).await
    };
    let sent: Result<(), Reason> = sent.await;
    note(state, caching.cache, outcome);
    ended(state, sent, close)
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
    let place = place(active, caching);
    let range = (status == 206).then_some(range);
    let sent = send_followed(client, worker, state, place, outgoing, &mut follower, range).await;
    note(state, caching.cache, outcome);
    ended(state, sent, close)
}

/// Returns the settings that apply to a response.
fn place<'a>(active: &'a ActivePlan, caching: &'a Caching<'_>) -> Place<'a> {
    Place {
        store: &caching.cache.store,
        settings: &active.plan.settings,
        route: active.route(caching.routed.route),
    }
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
