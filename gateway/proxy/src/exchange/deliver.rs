//! Writes to a client what is ready for it, and enforces its write timeout, its minimum rate and the
//! exchange's time limit. [`deliver`] does so for the rest of a response, [`wait_for_room`] between its pieces.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate_observe::Reason;
use tollgate_plan::{Rates, Route};

use crate::state::backlog::Backlog;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::pace::Pace;
use crate::state::request_state::RequestState;
use crate::state::time_limit::TimeLimit;

/// How slow a client may be when it takes its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance<'a> {
    /// The longest time without progress; `None` is without limit.
    pub bound: Option<Duration>,
    /// The least rates at which it must take the response.
    pub rates: &'a Rates,
    /// Whether no rate applies, because the response is a stream of messages.
    pub is_stream: bool,
    /// The time limit of the whole exchange.
    pub total: TimeLimit,
}

/// Waits until the client has taken its whole backlog.
///
/// # Errors
/// If the client makes no progress for too long, is too slow, or has left, or if the exchange exceeds its
/// time limit.
pub(crate) async fn deliver<S: ClientSide>(
    client: &mut Client<S>,
    backlog: &mut Backlog,
    now: Instant,
    Allowance { bound, rates, is_stream, total }: Allowance<'_>,
) -> Result<(), Reason> {
    client.deadline.set(now, total.within(now, bound));
    let whole = backlog.len();
    let mut pace: Option<Pace> = None;
    poll_fn(|cx| {
        let before = backlog.len();
        let flushed = backlog.poll_flush(cx, &mut client.stream);
        if let Poll::Ready(result) = flushed {
            return Poll::Ready(result.map_err(|error| error.write_reason()));
        }
        if client.stream.pacing_changed() || backlog.len() != before || pace.is_none() {
            let now = tollgate_net::now();
            let taken = whole.saturating_sub(backlog.len());
            let pace = pace.get_or_insert_with(|| Pace::of_response(rates, bound, is_stream, taken));
            pace.settle(now, taken);
            let own = if client.stream.is_response_paced() { None } else { pace.wait(now, bound) };
            client.deadline.set(now, total.within(now, own));
        }
        client.deadline.poll_passed(cx).map(|()| {
            let is_slow = pace.as_ref().is_some_and(|pace| pace.is_over(tollgate_net::now()));
            Err(match total.is_over() {
                true => Reason::RequestTimeout,
                false if is_slow => Reason::ClientTooSlow,
                false => Reason::ClientWriteTimeout,
            })
        })
    })
    .await
}

/// Waits until the client has taken what is kept for it. Returns how much to read next.
pub(crate) async fn wait_for_room<S: ClientSide>(
    client: &mut Client<S>,
    state: &mut RequestState,
    route: &Route,
    pace: &mut Pace,
) -> Result<usize, Reason> {
    let bound = route.timeouts.write;
    let backlog = &mut state.to_client;
    let sent = state.record.bytes_out;
    let mut left_before = None;
    poll_fn(|cx| {
        match backlog.poll_flush(cx, &mut client.stream) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.write_reason())),
            Poll::Ready(Ok(())) => {
                if let Poll::Ready(room) = client.stream.poll_room(cx) {
                    if left_before.is_some() {
                        pace.settle(tollgate_net::now(), sent);
                    }
                    return Poll::Ready(Ok(room));
                }
            }
            Poll::Pending => {}
        }
        let left = backlog.len();
        if client.stream.pacing_changed() || left_before != Some(left) {
            left_before = Some(left);
            let now = tollgate_net::now();
            pace.settle(now, sent.saturating_sub(left));
            let own = if client.stream.is_response_paced() { None } else { pace.wait(now, bound) };
            client.deadline.set(now, own);
        }
        client.deadline.poll_passed(cx).map(|()| Err(too_slow(pace)))
    })
    .await
}

/// Returns the reason for a client that did not take data within its time.
pub(crate) fn too_slow(pace: &Pace) -> Reason {
    match pace.is_over(tollgate_net::now()) {
        true => Reason::ClientTooSlow,
        false => Reason::ClientWriteTimeout,
    }
}
