//! The request goes out, the response comes back, both stream.
//!
//! One exchange is one task: it is polled when anything happens on either connection, and then does what can be done
//! in both directions. Its parts: [`upstream_head`] and [`client_head`] write the heads, `sending` moves the request's
//! body, `receiving` the response.

mod client_head;
mod receiving;
mod resume;
mod sending;
pub(crate) mod upstream_head;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_http::h1::{BodyReader, Length, ResponseParser};
use tollgate_http::{Head, Name};
use tollgate_observe::Reason;
use tollgate_plan::{Route, Settings};
use tollgate_upstream::Outcome;

use crate::client_side::ClientSide;
use crate::connection::Client;
use crate::forward::{Again, Attempts};
use crate::pace::{Pace, Paces, is_stream};
use crate::scratch::Scratch;
use crate::total::Total;
use crate::upstream_side::UpstreamSide;
use crate::worker::Worker;

pub(crate) use self::receiving::MAX_INTERIM;
pub(crate) use self::resume::Underway;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The whole response has come; what the client has not taken of it is in its backlog.
    Complete {
        /// Whether the upstream connection may carry another request.
        reusable: bool,
    },
    /// The upstream has switched protocols, and the client has been told.
    Upgraded,
    /// The head of a response came of which the client is to see nothing: there is another attempt.
    HeldBack {
        /// Whether the upstream connection may carry another request once the rest of the response is read.
        reusable: bool,
    },
    /// The head of a response came of which the client is to see nothing: [a fallback](crate::forward::choose) takes its place.
    Replaced {
        /// As of [`HeldBack`](Self::HeldBack).
        reusable: bool,
        /// What it would mean to send the request again.
        again: Again,
    },
    /// It failed.
    Failed {
        /// Why.
        reason: Reason,
        /// Whether the client has got a part of the final response.
        begun: bool,
        /// What it would mean to send the request again.
        again: Again,
        /// Whether the request met a connection that the endpoint had closed meanwhile, and may be sent again.
        stale: bool,
        /// Whether bytes of the request's body have left the inbox.
        body_taken: bool,
        /// What the endpoint did; `None`: it was the client, or the gateway itself.
        blame: Option<Outcome>,
    },
}

impl End {
    /// Whether the request can be sent again as it was.
    fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::HeldBack { .. }
                | Self::Replaced { again: Again::Unsent | Again::Whole, .. }
                | Self::Failed { again: Again::Unsent | Again::Whole, .. }
        )
    }
}

/// What an exchange works with.
pub(crate) struct Parties<'a, 'r, S, U> {
    pub worker: &'a Worker,
    pub client: &'a mut Client<S>,
    pub scratch: &'a mut Scratch,
    pub upstream: &'a mut U,
    pub settings: &'a Settings,
    pub route: &'a Route,
    /// Whether the request asks for an upgrade that the route allows.
    pub upgrade: bool,
    /// Length of a request body that was collected before; it lies in the upstream's backlog, to be sent again at need.
    pub collected: Option<u64>,
    /// Whether another attempt may follow this one.
    pub attempts: &'a mut Attempts<'r>,
}

/// One attempt of one request at one endpoint.
pub(crate) struct Exchange<'a, 'r, S, U> {
    parties: Parties<'a, 'r, S, U>,
    total: Total,
    /// The bound of the response's head.
    head_due: Total,
    /// When anything last moved.
    now: Instant,
    stage: Stage,
    request: BodyReader,
    request_chunked: bool,
    /// The whole request has gone to the upstream.
    sent: bool,
    /// The upstream takes no more of the request; its answer may be there all the same.
    upstream_deaf: bool,
    /// It was reset, without an orderly end before.
    upstream_reset: bool,
    /// Bytes of the inbox that belong to the request and are kept in case it has to be sent again.
    held: usize,
    /// Something of the request was written.
    wrote: bool,
    /// The request can be sent again as it was.
    replayable: bool,
    parser: ResponseParser,
    interim: u32,
    /// Something of the response was read; an interim one was written to the client; some of the final one was.
    heard: bool,
    told: bool,
    begun: bool,
    /// Bytes came after the end of the response.
    extra: bool,
    /// The response's end is that of the client's connection.
    close_delimited: bool,
    /// Whether the client lets nothing of the response through for now.
    stalled: bool,
    /// The total time for which the response, and with it the endpoint, has waited for the client.
    held_up: Duration,
    /// Whether the client's connection can carry another request.
    pub keep_client: bool,
}

/// If a response has waited for its client for this long, that may be why the endpoint cuts it: endpoints have send timeouts.
const HELD_UP: Duration = Duration::from_secs(1);

/// Whether a connection that was there before may be called stale, and not broken, by a request that was sent so often. In
/// HTTP/1 each takes its connection with it; a connection of HTTP/2 may be there still, so that it must not go on for ever.
pub(crate) fn may_be_stale<U: UpstreamSide>(sent: u8) -> bool {
    const MOST: u8 = 8;
    !U::APART || sent < MOST
}

/// Drops the trailers that the message's `Connection` names: they go no further, "any header or trailer field" (RFC 9110,
/// 7.6.1).
fn drop_nominated(reader: &mut BodyReader, head: &Head) {
    reader
        .retain_trailers(|name| !head.list(Name::Connection).any(|member| member.eq_ignore_ascii_case(name)));
}

/// Where the response stands.
enum Stage {
    /// Nothing was sent yet.
    Start,
    /// Its head is awaited.
    Head,
    /// Its body comes; the flag: the client gets it chunked.
    Body(BodyReader, bool),
}

impl<'a, 'r, S: ClientSide, U: UpstreamSide> Exchange<'a, 'r, S, U> {
    /// `began` is when the attempt did, with the connecting; `now` is now.
    pub fn new(parties: Parties<'a, 'r, S, U>, began: Instant, now: Instant) -> Self {
        let length = parties.scratch.request.length;
        let is_page = parties.scratch.page().is_some();
        let body = if parties.collected.is_some() || is_page { Length::None } else { length };
        parties.scratch.paces = Paces::default();
        Self {
            total: parties.attempts.total(),
            head_due: parties.attempts.head_due(began),
            now,
            stage: Stage::Start,
            request: BodyReader::new(body).within(&parties.settings.head_limits),
            request_chunked: matches!(body, Length::Chunked | Length::UntilClose),
            sent: false,
            upstream_deaf: false,
            upstream_reset: false,
            held: 0,
            wrote: false,
            replayable: false,
            parser: ResponseParser::default(),
            interim: 0,
            heard: false,
            told: false,
            begun: false,
            extra: false,
            close_delimited: false,
            stalled: false,
            held_up: Duration::ZERO,
            keep_client: false,
            parties,
        }
    }

    /// Does all that can be done now. When it has ended, a body that can be sent again is in the inbox still, or in the
    /// upstream's backlog if it was collected.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let end = self.poll_all(cx);
        if let Poll::Ready(end) = &end {
            self.let_go(end);
        }
        end
    }

    /// It has ended: the body's bytes in the inbox are kept for another attempt only.
    fn let_go(&mut self, end: &End) {
        if !end.is_repeatable() && self.held > 0 {
            self.parties.scratch.inbox.drain(..self.held);
        }
        self.held = 0;
        if let End::Failed { body_taken: true, begun: false, .. } | End::Replaced { again: Again::Never, .. } =
            end
            && self.parties.collected.is_none()
        {
            self.leave_body();
        }
    }

    /// Leaves the reader of the body to the code that answers in the endpoint's place, which has to find the end of the body.
    #[cold]
    fn leave_body(&mut self) {
        let reader = std::mem::replace(&mut self.request, BodyReader::new(Length::None));
        self.parties.scratch.unread = Some(Box::new(reader));
    }

    /// What is still to be read of a response that was held back; `None`: nothing can be made of it.
    pub fn take_body(&mut self) -> Option<BodyReader> {
        match std::mem::replace(&mut self.stage, Stage::Head) {
            Stage::Body(reader, _) => Some(reader),
            Stage::Start | Stage::Head => None,
        }
    }

    /// When anything last moved.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if matches!(self.stage, Stage::Start) {
            self.stage = Stage::Head;
            if let Err(end) = self.start() {
                return Poll::Ready(end);
            }
        }
        if !self.sent
            && let Poll::Ready(Err(end)) = self.poll_send(cx)
        {
            return Poll::Ready(end);
        }
        if let Poll::Ready(end) = self.poll_receive(cx) {
            return Poll::Ready(end);
        }
        // Also before the request is sent: while the endpoint takes none of the body, nothing is read from the client. If it has
        // left, the exchange is cancelled and the upstream connection dropped.
        if self.parties.client.poll_gone(cx).is_ready() {
            return Poll::Ready(self.failed(Reason::ClientClosed));
        }
        // Last: what has come in time counts, however late this worker looks. Leaves the waker with the deadline.
        match self.parties.client.deadline.poll_passed(cx) {
            Poll::Ready(()) if self.may_go_on() => {
                if let Some(pace) = &mut self.parties.scratch.paces.sending {
                    pace.excuse();
                }
                self.moved();
                self.parties.client.deadline.poll_passed(cx).map(|()| self.timed_out())
            }
            Poll::Ready(()) => Poll::Ready(self.timed_out()),
            Poll::Pending => Poll::Pending,
        }
    }

    /// What the exchange waits for, for how long at most, and what it is called when that was too long.
    fn awaited(&self) -> (Option<Duration>, Reason) {
        let (timeouts, scratch) = (&self.parties.route.timeouts, &*self.parties.scratch);
        if self.stalled || !scratch.to_client.has_room() {
            (timeouts.write, Reason::ClientWriteTimeout)
        } else if self.begun {
            (timeouts.response_body, Reason::ConnectionReadTimeout)
        } else if self.sent || self.upstream_deaf {
            (timeouts.response_header, Reason::HttpResponseTimeout)
        } else if scratch.to_upstream.is_empty() {
            let is_asked = scratch.request.expect_continue && self.parties.collected.is_none() && !self.told;
            if is_asked && scratch.ledger.bytes_in == 0 {
                // The client waits for the endpoint to say that it may go on.
                return (timeouts.response_header, Reason::HttpResponseTimeout);
            }
            (timeouts.body, Reason::BodyTimeout)
        } else {
            (timeouts.response_body, Reason::ConnectionWriteTimeout)
        }
    }

    /// The wait for what comes next begins.
    fn wait(&mut self) {
        let due = if self.begun { self.total } else { self.head_due };
        let (own, reason) = self.awaited();
        let is_taking = self.parties.scratch.paces.taking.is_some();
        let counts = !self.sent || reason == Reason::ClientWriteTimeout || is_taking;
        let own = if counts { self.paced(own, reason) } else { own };
        let bound = due.within(self.now, own);
        self.parties.client.deadline.set(self.now, bound);
    }

    /// Counts the time for which the gateway has waited for the client. Returns the bound of the wait that begins.
    #[inline(never)]
    fn paced(&mut self, own: Option<Duration>, reason: Reason) -> Option<Duration> {
        let now = self.now;
        let (awaits_body, awaits_taking) = (self.awaits_body(), reason == Reason::ClientWriteTimeout);
        let Parties { client, scratch, route, .. } = &mut self.parties;
        let Scratch { request, ledger, to_client, paces: Paces { sending, taking }, .. } = &mut **scratch;
        let mut bound = own;
        let sent = ledger.bytes_in;
        if let Some(pace) = sending {
            pace.settle(now, sent);
        }
        // The client cannot send while other streams have used up the window of its connection.
        if awaits_body && client.stream.may_send() {
            let begin = || Pace::of_body(&route.rates, &route.timeouts, request, sent);
            bound = sending.get_or_insert_with(begin).wait(now, bound);
        }
        let taken = ledger.bytes_out.saturating_sub(to_client.len());
        if let Some(pace) = taking {
            pace.settle(now, taken);
        }
        if awaits_taking {
            let begin = || Pace::of_response(&route.rates, route.timeouts.write, is_stream(request), taken);
            bound = taking.get_or_insert_with(begin).wait(now, bound);
        }
        bound
    }

    /// Whether the request's body waits for the client alone.
    fn awaits_body(&self) -> bool {
        let scratch = &*self.parties.scratch;
        let is_asked = scratch.request.expect_continue && self.parties.collected.is_none() && !self.told;
        !(self.sent || self.upstream_deaf)
            && scratch.to_upstream.is_empty()
            && !(is_asked && !self.begun && scratch.ledger.bytes_in == 0)
    }

    /// Whether the time that is over was counted against a client that could not send.
    fn may_go_on(&self) -> bool {
        self.is_sending_over(tollgate_net::now())
            && !self.parties.client.stream.may_send()
            && !self.total.is_over()
    }

    /// The reason if the client was too slow.
    fn too_slow(&self) -> Option<Reason> {
        let now = tollgate_net::now();
        if self.parties.scratch.paces.taking.is_some_and(|pace| pace.is_over(now)) {
            Some(Reason::ClientTooSlow)
        } else if self.is_sending_over(now) {
            Some(Reason::BodyTooSlow)
        } else {
            None
        }
    }

    fn is_sending_over(&self, now: Instant) -> bool {
        !self.sent && self.parties.scratch.paces.sending.is_some_and(|pace| pace.is_over(now))
    }

    /// Something moved, in whatever direction: the wait begins anew.
    fn moved(&mut self) {
        self.now = tollgate_net::now();
        self.wait();
    }

    /// The client has taken some of the response after a wait.
    fn client_moved(&mut self) {
        let before = self.now;
        self.moved();
        self.held_up += self.now.saturating_duration_since(before);
    }

    fn timed_out(&self) -> End {
        if let Some(reason) = self.too_slow().filter(|_| !self.total.is_over()) {
            return self.ended(reason, None, false);
        }
        let Parties { client, scratch, route, upstream, .. } = &self.parties;
        // A client's own deadline says nothing about the connection.
        let own = client.stream.may_be_grpc()
            && self.total.is_over()
            && scratch.grpc.is_some_and(|grpc| grpc.is_sooner(route.timeouts.total));
        if !own {
            upstream.timed_out();
        }
        let awaited = self.awaited().1;
        // An endpoint that has begun to answer before the request was whole can't end before the client does.
        let is_clients = self.begun && !self.sent && !self.upstream_deaf && scratch.to_upstream.is_empty();
        let blame = by_endpoint(awaited).filter(|_| !is_clients);
        if self.total.is_over() {
            return self.ended(Reason::RequestTimeout, blame, false);
        }
        if !self.begun && self.head_due.is_over() {
            return self.ended(Reason::HttpResponseTimeout, blame, false);
        }
        self.ended(awaited, blame, false)
    }

    fn failed(&self, reason: Reason) -> End {
        self.ended(reason, by_endpoint(reason), false)
    }

    /// The endpoint has not looked at the request: it is as if nothing of it had gone out. `free`: the next attempt is no
    /// retry and costs no budget, if this one took a connection with it that was there before.
    pub(super) fn unseen(&mut self, reason: Reason, free: bool) -> End {
        if !self.request_is_whole() {
            // The part of the body that was sent cannot be sent again, so the reason stays.
            return if reason == Reason::ConnectionTerminated {
                self.terminated()
            } else {
                self.ended(reason, Some(Outcome::NoConnection), false)
            };
        }
        self.wrote = false;
        // An endpoint that says so on every new connection must not keep a request going for ever.
        let free = free && self.parties.upstream.is_reused() && self.again() == Again::Unsent;
        self.ended(reason, Some(Outcome::NoConnection), free)
    }

    /// Whether no byte of its body is gone, so that it can be sent again as it was.
    fn request_is_whole(&self) -> bool {
        self.replayable || !self.wrote
    }

    /// The upstream connection broke before a word of the response.
    fn terminated(&self) -> End {
        let Parties { attempts, scratch, upstream, .. } = &self.parties;
        let may_repeat = attempts.may_repeat(self.again(), &scratch.request);
        let may_be_stale = upstream.is_reused() && may_be_stale::<U>(scratch.ledger.attempts);
        let stale = may_be_stale && !self.heard && may_repeat;
        self.ended(Reason::ConnectionTerminated, Some(Outcome::Broken), stale)
    }

    fn ended(&self, reason: Reason, blame: Option<Outcome>, stale: bool) -> End {
        let again = self.again();
        // A body that was kept for another attempt goes when there can be none (`let_go`): not twice, or the next
        // request would lose its beginning.
        let body_taken = again == Again::Never;
        End::Failed { reason, begun: self.begun, again, stale, body_taken, blame }
    }

    /// What it would mean to send the request again.
    fn again(&self) -> Again {
        // An interim response that went to the client was a part of this attempt's answer.
        if self.begun || self.told {
            Again::Never
        } else if !self.wrote {
            Again::Unsent
        } else if self.replayable {
            Again::Whole
        } else {
            Again::Never
        }
    }

    /// Whether a client that reads to the end of the stream would take a cut response for a whole one: only a reset
    /// tells it.
    pub fn must_reset(&self) -> bool {
        self.close_delimited
    }
}

/// What the endpoint did, if it is to blame for this.
pub(crate) fn by_endpoint(reason: Reason) -> Option<Outcome> {
    match reason {
        Reason::ConnectionTerminated
        | Reason::HttpProtocolError
        | Reason::ResponseHeadersTooLarge
        | Reason::HttpResponseIncomplete => Some(Outcome::Broken),
        Reason::HttpResponseTimeout | Reason::ConnectionReadTimeout | Reason::ConnectionWriteTimeout => {
            Some(Outcome::TimedOut)
        }
        _ => None,
    }
}
