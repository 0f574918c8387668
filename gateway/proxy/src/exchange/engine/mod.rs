//! One exchange: sends the request to an endpoint, receives the response, and streams both.
//!
//! [`forward`](crate::exchange::forward) creates an [`Exchange`] per attempt and polls it until it returns an
//! [`ExchangeEnd`]. An exchange runs in the task of its client. It is polled when anything happens on either
//! connection, and then does everything possible in both directions. Its parts: [`upstream_head`] and [`client_head`]
//! write the heads, `sending` moves the request's body, and `receiving` moves the response. `hedged` runs an exchange
//! up to the final head without a client, and `resume` continues the exchange that won the race. Both kinds share their
//! states (`progress`), the parsing of heads (`response_heads`) and the rules for failures (`failure`).
//!
//! Invariant: until the client has received a part of the response, a request whose body is still here can be
//! sent again.

mod client_head;
mod failure;
mod hedged;
mod progress;
mod receiving;
mod response_heads;
mod resume;
mod sending;
pub(crate) mod upstream_head;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::{Head, Name};
use tollgate_net::BulkTurn;
use tollgate_observe::Reason;
use tollgate_plan::{GatewaySettings, Route};
use tollgate_upstream::Outcome;

use crate::exchange::forward::{Replay, RequestAttempts};
use crate::exchange::upstream_side::{NoHead, UpstreamSide};
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::pace::{Pace, Paces, is_stream};
use crate::state::request_state::RequestState;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

pub(crate) use self::failure::is_client_slower;
use self::failure::{HeadFailure, by_endpoint, timeout_reason};
pub(crate) use self::hedged::{HedgedExchange, HedgedFailure, HedgedRequest, HedgedResponse};
pub(crate) use self::progress::ClientAfter;
use self::progress::{DownloadProgress, Repeatable, Upload};
use self::response_heads::ResponseHeads;
pub(crate) use self::resume::StartedResponse;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeEnd {
    /// The whole response has arrived. The backlog holds what the client has not taken.
    Complete {
        /// Whether the upstream connection can carry another request.
        reusable: bool,
    },
    /// The upstream has switched protocols, and the response to the client was sent.
    Upgraded,
    /// The response is held back from the client, because another attempt follows.
    HeldBack {
        /// Whether the upstream connection can carry another request once the rest of the response is read.
        reusable: bool,
    },
    /// The response is held back from the client, because [a fallback](crate::exchange::choose_fallback) replaces it.
    Replaced {
        /// As in [`HeldBack`](Self::HeldBack).
        reusable: bool,
        /// Whether the request can be sent again.
        again: Replay,
    },
    /// The exchange failed.
    Failed {
        /// The reason.
        reason: Reason,
        /// Whether the client has received a part of the final response.
        final_sent: bool,
        /// Whether the request can be sent again.
        again: Replay,
        /// Whether the endpoint closed the idle connection while the request was sent, so that the request
        /// may be sent again.
        stale: bool,
        /// Whether bytes of the request's body have left the inbox.
        body_taken: bool,
        /// The endpoint's share in the failure; `None` if the client or the gateway caused it.
        blame: Option<Outcome>,
    },
}

impl ExchangeEnd {
    /// Returns whether the request can be sent again unchanged.
    fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::HeldBack { .. }
                | Self::Replaced { again: Replay::Unsent | Replay::Whole, .. }
                | Self::Failed { again: Replay::Unsent | Replay::Whole, .. }
        )
    }
}

/// The participants of an exchange.
pub(crate) struct Parties<'a, 'r, S, U> {
    pub worker: &'a Worker,
    pub client: &'a mut Client<S>,
    pub state: &'a mut RequestState,
    pub upstream: &'a mut U,
    pub settings: &'a GatewaySettings,
    pub route: &'a Route,
    /// Whether the request asks for an upgrade that the route allows.
    pub upgrade: bool,
    /// The length of a request body that was collected before. It is in the upstream's backlog, and can be
    /// sent repeatedly.
    pub collected: Option<u64>,
    /// The attempts of the request, which decide whether another may follow.
    pub attempts: &'a mut RequestAttempts<'r>,
}

/// One attempt to send one request to one endpoint.
pub(crate) struct Exchange<'a, 'r, S, U> {
    parties: Parties<'a, 'r, S, U>,
    total: TimeLimit,
    /// The time limit until the response's head.
    head_due: TimeLimit,
    /// The time of the last progress.
    now: Instant,
    stage: ResponseStage,
    request: BodyReader,
    request_chunked: bool,
    upload: Upload,
    /// Bytes of the inbox that belong to the request, and stay there in case it must be sent again.
    kept_in_inbox: usize,
    repeatable: Repeatable,
    heads: ResponseHeads,
    response: DownloadProgress,
    /// Whether bytes arrived after the end of the response.
    extra: bool,
    /// Whether the client currently takes nothing of the response.
    stalled: bool,
    /// How long the response, and with it the endpoint, has waited for the client in total.
    client_wait: Duration,
    /// The turns of the two bodies on their worker.
    request_turn: BulkTurn,
    response_turn: BulkTurn,
    pub client_after: ClientAfter,
}

/// If a response has waited for its client for this long, the endpoint may have cut it for that: endpoints
/// have send timeouts.
const CLIENT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Drops the trailers that the message's `Connection` names. It covers "any header or trailer field" (RFC
/// 9110, 7.6.1).
fn drop_nominated(reader: &mut BodyReader, head: &Head) {
    reader
        .retain_trailers(|name| !head.list(Name::Connection).any(|member| member.eq_ignore_ascii_case(name)));
}

/// The progress of the response.
enum ResponseStage {
    /// Nothing was sent yet.
    Start,
    /// The head of the response is awaited.
    Head,
    /// The body is being read. The flag says whether the client gets it in chunks.
    Body(BodyReader, bool),
}

impl<'a, 'r, S: ClientSide, U: UpstreamSide> Exchange<'a, 'r, S, U> {
    /// Creates the exchange. `began` is the start of the attempt, before it had a connection; `now` is the
    /// present.
    pub fn new(parties: Parties<'a, 'r, S, U>, began: Instant, now: Instant) -> Self {
        let length = parties.state.request.length;
        let is_page = parties.state.page().is_some();
        let body = if parties.collected.is_some() || is_page { BodyLength::None } else { length };
        parties.state.paces = Paces::default();
        Self {
            total: parties.attempts.total(),
            head_due: parties.attempts.head_due(began),
            now,
            stage: ResponseStage::Start,
            request: BodyReader::new(body).with_trailer_limits(&parties.settings.head_limits),
            request_chunked: matches!(body, BodyLength::Chunked | BodyLength::UntilClose),
            upload: Upload::Open,
            kept_in_inbox: 0,
            repeatable: Repeatable::Unwritten { whole: false },
            heads: ResponseHeads::default(),
            response: DownloadProgress::Nothing,
            extra: false,
            stalled: false,
            client_wait: Duration::ZERO,
            request_turn: BulkTurn::new(&parties.worker.bulk_queue),
            response_turn: BulkTurn::new(&parties.worker.bulk_queue),
            client_after: ClientAfter::Closes,
            parties,
        }
    }

    /// Does everything that is possible now. When it is ready, a body that can be sent again is still in the
    /// inbox, or in the upstream's backlog if it was collected.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        let end = self.poll_all(cx);
        if let Poll::Ready(end) = &end {
            self.release_body(end);
        }
        end
    }

    /// Drops the body's bytes in the inbox, unless another attempt may need them.
    fn release_body(&mut self, end: &ExchangeEnd) {
        if !end.is_repeatable() && self.kept_in_inbox > 0 {
            self.parties.state.inbox.drain(..self.kept_in_inbox);
        }
        self.kept_in_inbox = 0;
        if let ExchangeEnd::Failed { body_taken: true, final_sent: false, .. }
        | ExchangeEnd::Replaced { again: Replay::Never, .. } = end
            && self.parties.collected.is_none()
        {
            self.leave_body();
        }
    }

    /// Leaves the reader of the body to the code that answers in the endpoint's place, which has to find the
    /// end of the body.
    #[cold]
    fn leave_body(&mut self) {
        let reader = std::mem::replace(&mut self.request, BodyReader::new(BodyLength::None));
        self.parties.state.unread = Some(Box::new(reader));
    }

    /// Takes the reader of a response that was held back; `None` if the rest of it cannot be read.
    pub fn take_body(&mut self) -> Option<BodyReader> {
        match std::mem::replace(&mut self.stage, ResponseStage::Head) {
            ResponseStage::Body(reader, _) => Some(reader),
            ResponseStage::Start | ResponseStage::Head => None,
        }
    }

    /// Returns the time of the last progress.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        if matches!(self.stage, ResponseStage::Start) {
            self.stage = ResponseStage::Head;
            if let Err(end) = self.start() {
                return Poll::Ready(end);
            }
        }
        if !self.upload.is_complete()
            && let Poll::Ready(Err(end)) = self.poll_send(cx)
        {
            return Poll::Ready(end);
        }
        if let Poll::Ready(end) = self.poll_receive(cx) {
            return Poll::Ready(end);
        }
        // Checked also before the request is sent: while the endpoint takes none of the body, nothing is read
        // from the client. If the client has left, the exchange is cancelled and the upstream connection
        // dropped.
        if self.parties.client.poll_peer_closed(cx).is_ready() {
            return Poll::Ready(self.failed(Reason::ClientClosed));
        }
        // Checked last: what arrived in time counts, however late this worker looks. It also registers the
        // waker with the deadline.
        match self.parties.client.deadline.poll_passed(cx) {
            Poll::Ready(()) if self.may_go_on() => {
                if let Some(pace) = &mut self.parties.state.paces.sending {
                    pace.excuse();
                }
                self.made_progress();
                self.parties.client.deadline.poll_passed(cx).map(|()| self.timed_out())
            }
            Poll::Ready(()) => Poll::Ready(self.timed_out()),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns the timeout of the current wait, and the reason if it expires.
    fn awaited(&self) -> (Option<Duration>, Reason) {
        let (timeouts, state) = (&self.parties.route.timeouts, &*self.parties.state);
        if self.stalled || !state.to_client.has_room() {
            (timeouts.write, Reason::ClientWriteTimeout)
        } else if self.is_final_sent() {
            (timeouts.response_body, Reason::ConnectionReadTimeout)
        } else if self.upload == Upload::Open && state.to_upstream.is_empty() {
            let is_asked =
                state.request.expect_continue && self.parties.collected.is_none() && !self.is_interim_sent();
            if is_asked && state.record.bytes_in == 0 {
                // The client waits for the endpoint's 100.
                return (timeouts.response_header, Reason::HttpResponseTimeout);
            }
            (timeouts.body, Reason::BodyTimeout)
        } else {
            self.upload.awaited(timeouts)
        }
    }

    /// Sets the deadline for the next progress.
    fn wait(&mut self) {
        let due = if self.is_final_sent() { self.total } else { self.head_due };
        let (own, reason) = self.awaited();
        let is_taking = self.parties.state.paces.taking.is_some();
        let counts = !self.upload.is_complete() || reason == Reason::ClientWriteTimeout || is_taking;
        let own = if counts { self.count_client_wait(own, reason) } else { own };
        let bound = due.within(self.now, own);
        self.parties.client.deadline.set(self.now, bound);
    }

    /// Counts the time for which the gateway has waited for the client. Returns the bound of the wait that
    /// starts.
    #[inline(never)]
    fn count_client_wait(&mut self, own: Option<Duration>, reason: Reason) -> Option<Duration> {
        let now = self.now;
        let (awaits_body, awaits_taking) = (self.awaits_body(), reason == Reason::ClientWriteTimeout);
        let Parties { client, state, route, .. } = &mut self.parties;
        let RequestState { request, record, to_client, paces: Paces { sending, taking }, .. } = &mut **state;
        let mut bound = own;
        let sent = record.bytes_in;
        if let Some(pace) = sending {
            pace.settle(now, sent);
        }
        // The client cannot send while other streams have used up the window of its connection.
        if awaits_body && client.stream.may_send() {
            let begin = || Pace::of_body(&route.rates, &route.timeouts, request, sent);
            bound = sending.get_or_insert_with(begin).wait(now, bound);
        }
        let taken = record.bytes_out.saturating_sub(to_client.len());
        if let Some(pace) = taking {
            pace.settle(now, taken);
        }
        if awaits_taking {
            let begin = || Pace::of_response(&route.rates, route.timeouts.write, is_stream(request), taken);
            bound = taking.get_or_insert_with(begin).wait(now, bound);
        }
        bound
    }

    /// Returns whether the request's body waits only for the client.
    fn awaits_body(&self) -> bool {
        let state = &*self.parties.state;
        let is_asked =
            state.request.expect_continue && self.parties.collected.is_none() && !self.is_interim_sent();
        self.upload == Upload::Open
            && state.to_upstream.is_empty()
            && !(is_asked && !self.is_final_sent() && state.record.bytes_in == 0)
    }

    /// Returns whether the expired time was counted against a client that could not send.
    fn may_go_on(&self) -> bool {
        self.is_sending_over(tollgate_net::now())
            && !self.parties.client.stream.may_send()
            && !self.total.is_over()
    }

    /// Returns the reason if the client was too slow.
    fn too_slow(&self) -> Option<Reason> {
        let now = tollgate_net::now();
        if self.parties.state.paces.taking.is_some_and(|pace| pace.is_over(now)) {
            Some(Reason::ClientTooSlow)
        } else if self.is_sending_over(now) {
            Some(Reason::BodyTooSlow)
        } else {
            None
        }
    }

    fn is_sending_over(&self, now: Instant) -> bool {
        !self.upload.is_complete() && self.parties.state.paces.sending.is_some_and(|pace| pace.is_over(now))
    }

    /// Records progress in either direction, and restarts the wait.
    fn made_progress(&mut self) {
        self.now = tollgate_net::now();
        self.wait();
    }

    /// Records that the client has taken a part of the response after a wait.
    fn client_made_progress(&mut self) {
        let before = self.now;
        self.made_progress();
        self.client_wait += self.now.saturating_duration_since(before);
    }

    fn timed_out(&self) -> ExchangeEnd {
        if let Some(reason) = self.too_slow().filter(|_| !self.total.is_over()) {
            return self.failed_by(reason, None);
        }
        let Parties { client, state, route, upstream, .. } = &self.parties;
        if !(self.total.is_over() && state.is_deadline_clients(&client.stream, route.timeouts.total)) {
            upstream.timed_out();
        }
        let awaited = self.awaited().1;
        // An endpoint that started to respond before the request was complete cannot end before the client
        // does.
        let is_clients = self.is_final_sent() && self.upload == Upload::Open && state.to_upstream.is_empty();
        let blame = by_endpoint(awaited).filter(|_| !is_clients && !self.is_clients_time());
        let head_due = (!self.is_final_sent()).then_some(self.head_due);
        self.failed_by(timeout_reason(self.total, head_due, awaited), blame)
    }

    /// Returns whether the request's time is over because the client took most of it to send its body.
    #[cold]
    fn is_clients_time(&self) -> bool {
        let Parties { state, collected, .. } = &self.parties;
        let is_body_awaited = state.paces.sending.is_some() || collected.is_some();
        self.total.is_over()
            && is_body_awaited
            && state.page().is_none()
            && state.record.started().is_some_and(|started| is_client_slower(started, self.now))
    }

    fn failed(&self, reason: Reason) -> ExchangeEnd {
        self.failed_by(reason, by_endpoint(reason))
    }

    fn is_interim_sent(&self) -> bool {
        self.response >= DownloadProgress::InterimSent
    }

    fn is_final_sent(&self) -> bool {
        self.response == DownloadProgress::FinalSent
    }

    /// Ends an exchange whose upstream connection broke before any response.
    fn terminated(&mut self) -> ExchangeEnd {
        self.without_head(NoHead::Broken)
    }

    /// Ends an exchange that gets no response head.
    #[cold]
    fn without_head(&mut self, no_head: NoHead) -> ExchangeEnd {
        let Parties { attempts, state, upstream, .. } = &self.parties;
        let failure = failure::without_head(
            no_head,
            &**upstream,
            self.response,
            &mut self.repeatable,
            state.record.attempts,
            |again| attempts.may_repeat(again, &state.request),
        );
        self.ended(failure)
    }

    /// Ends the exchange on a connection that was not stale. `blame` counts against the endpoint.
    fn failed_by(&self, reason: Reason, blame: Option<Outcome>) -> ExchangeEnd {
        self.ended(HeadFailure { reason, blame, stale: false })
    }

    fn ended(&self, HeadFailure { reason, blame, stale }: HeadFailure) -> ExchangeEnd {
        let again = self.again();
        // If there can be no other attempt, `release_body` removes the kept bytes of the body. They must not
        // be removed twice, or the next request would lose its beginning.
        let body_taken = again == Replay::Never;
        ExchangeEnd::Failed { reason, final_sent: self.is_final_sent(), again, stale, body_taken, blame }
    }

    /// Returns whether the request can be sent again.
    fn again(&self) -> Replay {
        self.response.replay(self.repeatable)
    }
}
