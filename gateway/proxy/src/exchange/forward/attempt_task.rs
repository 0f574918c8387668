//! One hedged attempt: gets a connection, sends the request and waits for the response head, without touching
//! the client.
//!
//! `hedge` polls several [`AttemptTask`]s for one request. A task shares nothing with the others. It keeps
//! every byte that it receives, so that the exchange of the winner can parse the response again
//! ([`StartedResponse`]).

use std::cell::Cell;
use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tollgate_http::h1::{BodyLength, BodyReader, Progress, ResponseParser};
use tollgate_http::{HeadError, HeadLimits, Method, ResponseHead};
use tollgate_net::{Deadline, ProxyHeader};
use tollgate_observe::Reason;
use tollgate_plan::Timeouts;
use tollgate_upstream::{Outcome, Pool};

use super::connect::{ConnectBounds, connected};
use super::retry::{AttemptFailure, Replay};
use crate::exchange::engine::{MAX_INTERIM, StartedResponse, by_endpoint, may_be_stale};
use crate::exchange::upstream_side::{NoHead, UpstreamSide};
use crate::state::backlog::Backlog;
use crate::state::peer_error::{PeerError, PeerStop};
use crate::state::spool::Spool;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// The inputs of an attempt, which it does not share with other attempts.
pub(super) struct AttemptTask<'a> {
    pub worker: Rc<Worker>,
    pub pool: Rc<Pool>,
    /// The PROXY header that names the client to the endpoint.
    pub client_header: ProxyHeader,
    pub timeouts: &'a Timeouts,
    pub limits: &'a HeadLimits,
    pub method: Method,
    /// Whether the endpoint may receive the request twice.
    pub may_repeat: bool,
    /// The request's head, followed in `data` by the part of the body that arrived with it.
    pub head: Vec<u8>,
    /// Whether no field may enter a compression table.
    pub secrets: bool,
    pub data: Vec<u8>,
    /// The rest of the body.
    pub body: Option<Spool>,
    pub began: Instant,
    /// The time limits of the response head and of the whole request.
    pub due: TimeLimit,
    pub total: TimeLimit,
    pub facts: Rc<AttemptFacts>,
}

/// The facts about an attempt that the log needs, even if the attempt is dropped.
#[derive(Debug, Default)]
pub(super) struct AttemptFacts {
    /// How often the request was sent.
    pub sent: Cell<u8>,
    /// When it was sent last.
    pub sent_at: Cell<Option<Instant>>,
    /// How long the opening of the connection took, if one was opened.
    pub connect: Cell<Option<Duration>>,
}

/// A response whose head has arrived.
#[derive(Debug)]
pub(super) struct AttemptResponse<U> {
    pub connection: U,
    pub status: u16,
    pub started: StartedResponse,
    pub now: Instant,
}

/// The result of an attempt on one connection.
enum ConnectionResult<U> {
    Answered(Box<AttemptResponse<U>>),
    Failed(AttemptFailure),
    /// The endpoint had closed the idle connection.
    Stale,
}

impl AttemptTask<'_> {
    /// Sends the request and waits for the response head.
    ///
    /// # Errors
    /// If there will be none.
    pub async fn run<U: UpstreamSide>(self) -> Result<Box<AttemptResponse<U>>, AttemptFailure> {
        let deadline = self.worker.timers.deadline();
        let mut kept = U::take(&self.pool, self.began);
        loop {
            let connection = match kept.take() {
                Some(kept) => kept,
                None => self.connect(&deadline).await?,
            };
            self.facts.sent.set(self.facts.sent.get().saturating_add(1));
            match self.ask(connection, &deadline).await {
                ConnectionResult::Answered(answer) => return Ok(answer),
                ConnectionResult::Failed(failure) => return Err(failure),
                // As in `forward`: no side is at fault, it is not a retry, and a fresh connection cannot have
                // this problem.
                ConnectionResult::Stale => self.worker.stats.upstream_stale(self.pool.slot()),
            }
        }
    }

    async fn connect<U: UpstreamSide>(&self, deadline: &Deadline) -> Result<U, AttemptFailure> {
        let bounds = ConnectBounds { due: self.due, total: self.total, connect: self.timeouts.connect };
        // The caller of this attempt checks whether the client is still there.
        let (connection, took) =
            connected(&self.pool, self.client_header, &bounds, deadline, |_| false).await?;
        self.facts.connect.set(took);
        Ok(connection)
    }

    async fn ask<U: UpstreamSide>(&self, connection: U, deadline: &Deadline) -> ConnectionResult<U> {
        let mut to_upstream = Backlog::default();
        if let Some(body) = &self.body {
            to_upstream.spool_into(body.reader());
        }
        let mut connection = connection;
        let mut wrote = false;
        if U::SEPARATE_HEADS {
            let (mut head, whole) = (self.head.clone(), BodyReader::new(BodyLength::None));
            let (spooled, secrets) = (self.body.is_some(), self.secrets);
            let begun =
                connection.send_head(&mut to_upstream, &mut head, &whole, &self.data, spooled, secrets);
            if let Err(PeerError::Unrepresentable(reason)) = begun {
                // As in `Exchange::unsendable`.
                self.facts.sent.set(self.facts.sent.get().saturating_sub(1));
                let again = Replay::Unsent;
                return ConnectionResult::Failed(AttemptFailure {
                    reason,
                    again,
                    body_taken: false,
                    blame: None,
                });
            }
            wrote = begun.unwrap_or(false);
        } else {
            to_upstream.append(&[IoSlice::new(&self.head), IoSlice::new(&self.data)]);
        }
        let mut in_flight = RequestInFlight {
            attempt_task: self,
            deadline,
            connection,
            to_upstream,
            wrote,
            stopped_reading: None,
            heads: Heads::default(),
        };
        let now = tollgate_net::now();
        self.facts.sent_at.set(Some(now));
        in_flight.wait(now);
        let end = poll_fn(|cx| in_flight.poll(cx)).await;
        match end {
            Ok((status, now)) => {
                let RequestInFlight { connection, to_upstream, stopped_reading, heads, .. } = in_flight;
                let started = StartedResponse { to_upstream, stopped_reading, received: heads.received };
                ConnectionResult::Answered(Box::new(AttemptResponse { connection, status, started, now }))
            }
            // As in `Exchange::unprocessed`.
            Err((Reason::ConnectionTerminated, Some(Outcome::NoConnection)))
                if in_flight.connection.is_reused() =>
            {
                ConnectionResult::Stale
            }
            Err((Reason::ConnectionTerminated, _))
                if in_flight.connection.is_reused()
                    && in_flight.heads.received.is_empty()
                    && may_be_stale::<U>(self.facts.sent.get())
                    && (self.may_repeat || !in_flight.wrote) =>
            {
                ConnectionResult::Stale
            }
            Err((reason, blame)) => {
                let unseen = !in_flight.wrote || blame == Some(Outcome::NoConnection);
                let again = if unseen { Replay::Unsent } else { Replay::Whole };
                ConnectionResult::Failed(AttemptFailure { reason, again, body_taken: false, blame })
            }
        }
    }
}

/// A request in progress on one connection.
struct RequestInFlight<'r, 'a, U> {
    attempt_task: &'r AttemptTask<'a>,
    deadline: &'r Deadline,
    connection: U,
    to_upstream: Backlog,
    wrote: bool,
    stopped_reading: Option<PeerStop>,
    heads: Heads,
}

type Failed = (Reason, Option<Outcome>);

impl<U: UpstreamSide> RequestInFlight<'_, '_, U> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(u16, Instant), Failed>> {
        if let Err(failed) = self.poll_send(cx) {
            return Poll::Ready(Err(failed));
        }
        if U::SEPARATE_HEADS {
            if let Poll::Ready(end) = self.poll_heads(cx) {
                return Poll::Ready(end);
            }
            return self.deadline.poll_passed(cx).map(|()| Err((self.too_late(), Some(Outcome::TimedOut))));
        }
        loop {
            let mut buffer = self.attempt_task.worker.receive.borrow_mut();
            let count = match self.connection.poll_read(cx, &mut buffer) {
                Poll::Pending => break,
                Poll::Ready(Ok(count @ 1..)) => count,
                Poll::Ready(_) => {
                    return Poll::Ready(Err((Reason::ConnectionTerminated, Some(Outcome::Broken))));
                }
            };
            match self.heads.take(&buffer[..count], self.attempt_task.method, self.attempt_task.limits) {
                Ok(Some(status)) => return Poll::Ready(Ok((status, tollgate_net::now()))),
                Ok(None) => {}
                Err(reason) => return Poll::Ready(Err((reason, Some(Outcome::Broken)))),
            }
        }
        // Checked last: what arrived in time counts, however late this worker looks.
        self.deadline.poll_passed(cx).map(|()| Err((self.too_late(), Some(Outcome::TimedOut))))
    }

    /// Reads heads that arrive separately; the exchange reads them again.
    fn poll_heads(&mut self, cx: &mut Context<'_>) -> Poll<Result<(u16, Instant), Failed>> {
        loop {
            let mut head = ResponseHead::default();
            let came =
                self.connection.poll_head(cx, &mut head, self.attempt_task.method, self.attempt_task.limits);
            let failed = match ready!(came) {
                Ok(()) => {
                    let (status, interim) = (head.status, head.is_interim());
                    self.heads.separate_heads.push(head);
                    if !interim {
                        self.heads.separate_heads.drain(..).for_each(|head| self.connection.put_back(head));
                        return Poll::Ready(Ok((status, tollgate_net::now())));
                    }
                    self.heads.interim += 1;
                    if self.heads.interim <= MAX_INTERIM {
                        continue;
                    }
                    (Reason::HttpProtocolError, Some(Outcome::Broken))
                }
                Err(NoHead::Broken) => (Reason::ConnectionTerminated, Some(Outcome::Broken)),
                Err(NoHead::Bad(reason)) => (reason, by_endpoint(reason)),
                Err(NoHead::Unseen) => (Reason::ConnectionTerminated, Some(Outcome::NoConnection)),
                Err(NoHead::Refused) => (Reason::ConnectionRefused, Some(Outcome::NoConnection)),
            };
            return Poll::Ready(Err(failed));
        }
    }

    /// Sends what the endpoint takes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), Failed> {
        if self.is_sent() {
            return Ok(());
        }
        let before = self.to_upstream.len();
        let flushed = self.connection.poll_flush(cx, &mut self.to_upstream);
        let some = self.to_upstream.len() != before;
        match &flushed {
            Poll::Ready(Err(PeerError::OwnDisk)) => {
                return Err((Reason::ProxyInternalError, None));
            }
            // Its response may have arrived all the same.
            Poll::Ready(Err(error)) => self.stopped_reading = Some(error.stop()),
            _ => {}
        }
        self.wrote |= some;
        if some || flushed.is_ready() {
            self.wait(tollgate_net::now());
        }
        Ok(())
    }

    fn is_sent(&self) -> bool {
        self.stopped_reading.is_some() || self.to_upstream.is_empty()
    }

    /// Returns the timeout of the current wait, and the reason if it expires.
    fn awaited(&self) -> (Option<Duration>, Reason) {
        let timeouts = self.attempt_task.timeouts;
        match self.is_sent() {
            true => (timeouts.response_header, Reason::HttpResponseTimeout),
            false => (timeouts.response_body, Reason::ConnectionWriteTimeout),
        }
    }

    fn wait(&self, now: Instant) {
        self.deadline.set(now, self.attempt_task.due.within(now, self.awaited().0));
    }

    fn too_late(&self) -> Reason {
        if self.attempt_task.total.is_over() {
            Reason::RequestTimeout
        } else if self.attempt_task.due.is_over() {
            Reason::HttpResponseTimeout
        } else {
            self.awaited().1
        }
    }
}

/// The response heads, up to the final one. All bytes are kept, for the exchange to parse them again.
#[derive(Default)]
struct Heads {
    received: Vec<u8>,
    /// The start of the current head.
    at: usize,
    parser: ResponseParser,
    response: ResponseHead,
    interim: u32,
    /// Heads that arrive separately.
    separate_heads: Vec<ResponseHead>,
}

impl Heads {
    /// Takes more bytes. Returns the status once the final head is complete.
    fn take(
        &mut self,
        bytes: &[u8],
        request_method: Method,
        limits: &HeadLimits,
    ) -> Result<Option<u16>, Reason> {
        self.received.extend_from_slice(bytes);
        loop {
            let rest = &self.received[self.at..];
            if rest.is_empty() {
                return Ok(None);
            }
            match self.parser.advance(rest, request_method, &mut self.response, limits) {
                Ok(Progress::Partial) => return Ok(None),
                Ok(Progress::Complete(_)) if !self.response.is_interim() => {
                    // A request that asks for another protocol is not hedged, so no switch was asked for.
                    let switched = self.response.status == 101;
                    return if switched {
                        Err(Reason::HttpProtocolError)
                    } else {
                        Ok(Some(self.response.status))
                    };
                }
                Ok(Progress::Complete(end)) => {
                    self.at += end;
                    self.parser = ResponseParser::default();
                    self.interim += 1;
                    if self.interim > MAX_INTERIM {
                        return Err(Reason::HttpProtocolError);
                    }
                }
                Err(HeadError::TooLarge | HeadError::TooMany) => return Err(Reason::ResponseHeadersTooLarge),
                Err(_) => return Err(Reason::HttpProtocolError),
            }
        }
    }
}
