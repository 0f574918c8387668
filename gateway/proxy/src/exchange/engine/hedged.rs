//! The first two parts of an exchange, without a client: sends the request, and awaits the final head.
//!
//! A hedged attempt runs a [`HedgedExchange`] on each connection that it tries. The exchange of the attempt
//! that wins [resumes](super::Exchange::resume) from its state and relays the body. The states and rules of
//! both are the same functions: only the client is missing here. A hedged exchange keeps every byte that it
//! receives, because the client gets the interim responses of the winner too.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::{HeadLimits, Method, ResponseHead};
use tollgate_net::Deadline;
use tollgate_observe::Reason;
use tollgate_plan::Timeouts;
use tollgate_upstream::Outcome;

use super::failure::{HeadFailure, by_endpoint, refused_by_tls, timeout_reason, without_head};
use super::progress::{DownloadProgress, Repeatable, Upload};
use super::response_heads::{HeadStep, ResponseHeads};
use super::resume::StartedResponse;
use super::sending::{Flushed, flush_request};
use crate::exchange::forward::Replay;
use crate::exchange::upstream_side::{NoHead, UpstreamSide};
use crate::state::backlog::Backlog;
use crate::state::peer_error::PeerError;
use crate::state::spool::Spool;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// A whole request, with the rules for it.
pub(crate) struct HedgedRequest<'a> {
    pub timeouts: &'a Timeouts,
    pub limits: &'a HeadLimits,
    pub method: Method,
    /// Whether the endpoint may receive the request twice.
    pub may_repeat: bool,
    pub head: Vec<u8>,
    /// Whether no field may enter a compression table.
    pub secrets: bool,
    /// The part of the body that arrived with the head.
    pub data: Vec<u8>,
    /// The body, if it was collected.
    pub body: Option<Spool>,
    /// The time limits of the response head and of the whole request.
    pub due: TimeLimit,
    pub total: TimeLimit,
    /// Whether `total` is a deadline that the client chose.
    pub is_deadline_clients: bool,
}

/// A response whose head has arrived.
#[derive(Debug)]
pub(crate) struct HedgedResponse<U> {
    pub connection: U,
    pub status: u16,
    pub started: StartedResponse,
    pub now: Instant,
}

/// Why there is no response on this connection.
#[derive(Debug)]
pub(crate) struct HedgedFailure {
    pub reason: Reason,
    pub again: Replay,
    /// Whether the endpoint closed the idle connection while the request was sent, so that the request may be
    /// sent on a fresh one.
    pub stale: bool,
    /// The endpoint's share in the failure; `None` if the gateway caused it.
    pub blame: Option<Outcome>,
    /// Whether the request could be expressed in the endpoint's version of HTTP. Otherwise it was not sent.
    pub is_sendable: bool,
    /// The bytes for which the response was rejected; empty if they are not known.
    pub rejected_bytes: Vec<u8>,
}

/// One request on one connection, up to the final head of its response.
pub(crate) struct HedgedExchange<'r, 'a, U> {
    request: &'r HedgedRequest<'a>,
    worker: &'r Worker,
    deadline: &'r Deadline,
    /// How often the attempt has sent the request, this time included.
    sent: u8,
    connection: U,
    to_upstream: Backlog,
    upload: Upload,
    repeatable: Repeatable,
    response: DownloadProgress,
    heads: ResponseHeads,
    /// The current head.
    head: ResponseHead,
    /// The bytes of all heads, and of what followed them.
    received: Vec<u8>,
    /// The start of the current head in `received`.
    at: usize,
    /// Heads that have arrived separately.
    separate_heads: Vec<ResponseHead>,
}

impl<'r, 'a, U: UpstreamSide> HedgedExchange<'r, 'a, U> {
    /// Creates the exchange. `sent` is how often the attempt has sent the request, this time included.
    pub fn new(
        connection: U,
        request: &'r HedgedRequest<'a>,
        worker: &'r Worker,
        deadline: &'r Deadline,
        sent: u8,
    ) -> Self {
        Self {
            request,
            worker,
            deadline,
            sent,
            connection,
            to_upstream: Backlog::default(),
            upload: Upload::Open,
            repeatable: Repeatable::Unwritten { whole: true },
            response: DownloadProgress::Nothing,
            heads: ResponseHeads::default(),
            head: ResponseHead::default(),
            received: Vec::new(),
            at: 0,
            separate_heads: Vec::new(),
        }
    }

    /// Sends the head, and the body as far as the endpoint takes it.
    ///
    /// # Errors
    /// If the request cannot be sent.
    pub fn start(&mut self, now: Instant) -> Result<(), HedgedFailure> {
        let HedgedRequest { head, data, body, secrets, .. } = self.request;
        if let Some(body) = body {
            self.to_upstream.spool_into(body.reader());
        }
        let whole = BodyReader::new(BodyLength::None);
        let sent = self.connection.send_head(
            &mut self.to_upstream,
            &mut head.clone(),
            &whole,
            data,
            body.is_some(),
            *secrets,
        );
        match sent {
            Ok(true) => self.repeatable.write(),
            Ok(false) => {}
            Err(PeerError::Unrepresentable(reason)) => {
                return Err(HedgedFailure { is_sendable: false, ..self.failed(reason) });
            }
            Err(_) => return Err(self.without_head(NoHead::Broken)),
        }
        if self.to_upstream.is_empty() {
            self.upload = Upload::Done;
        }
        self.wait(now);
        Ok(())
    }

    /// Sends the rest of the request, and waits for the final head.
    ///
    /// # Errors
    /// If there will be none.
    pub async fn finish(mut self) -> Result<Box<HedgedResponse<U>>, HedgedFailure> {
        let status = poll_fn(|cx| self.poll(cx)).await?;
        let Self { connection, to_upstream, upload, received, .. } = self;
        let started = StartedResponse { to_upstream, upload, received };
        Ok(Box::new(HedgedResponse { connection, status, started, now: tollgate_net::now() }))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<u16, HedgedFailure>> {
        if self.upload == Upload::Open {
            self.poll_send(cx)?;
        }
        if let Poll::Ready(end) = self.poll_receive(cx) {
            return Poll::Ready(end);
        }
        // Checked last: what arrived in time counts, however late this worker looks.
        self.deadline.poll_passed(cx).map(|()| Err(self.timed_out()))
    }

    /// Sends what the endpoint takes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), HedgedFailure> {
        let Self { connection, to_upstream, upload, repeatable, .. } = self;
        let flushed = flush_request(cx, connection, to_upstream, upload, repeatable);
        match flushed.map_err(|reason| self.failed(reason))? {
            Flushed::Nothing => return Ok(()),
            Flushed::Part => {}
            // The backlog holds the whole request.
            Flushed::End => self.upload.complete(),
        }
        self.wait(tollgate_net::now());
        Ok(())
    }

    /// Reads heads up to the final one. Returns its status.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<u16, HedgedFailure>> {
        if U::SEPARATE_HEADS {
            return self.poll_separate_heads(cx);
        }
        loop {
            let mut buffer = self.worker.receive.borrow_mut();
            let count = match ready!(self.connection.poll_read(cx, &mut buffer)) {
                Ok(0) => return Poll::Ready(Err(self.without_head(NoHead::Broken))),
                Ok(count) => count,
                Err(error) => return Poll::Ready(Err(self.unread(&error))),
            };
            self.response.reach(DownloadProgress::Started);
            self.received.extend_from_slice(&buffer[..count]);
            if let Some(status) = self.parse()? {
                return Poll::Ready(Ok(status));
            }
        }
    }

    /// Reads heads that arrive separately. The exchange reads them again.
    fn poll_separate_heads(&mut self, cx: &mut Context<'_>) -> Poll<Result<u16, HedgedFailure>> {
        let HedgedRequest { method, limits, .. } = *self.request;
        loop {
            let mut head = ResponseHead::default();
            if let Err(no_head) = ready!(self.connection.poll_head(cx, &mut head, method, limits)) {
                return Poll::Ready(Err(self.without_head(no_head)));
            }
            self.response.reach(DownloadProgress::Started);
            let (status, is_interim) = (head.status, head.is_interim());
            self.separate_heads.push(head);
            if !is_interim {
                self.separate_heads.drain(..).for_each(|head| self.connection.put_back(head));
                return Poll::Ready(Ok(status));
            }
            self.heads.count_interim().map_err(|reason| self.failed(reason))?;
        }
    }

    /// Parses what has arrived. Returns the status of the final head, once that is complete.
    fn parse(&mut self) -> Result<Option<u16>, HedgedFailure> {
        let HedgedRequest { method, limits, .. } = *self.request;
        while self.at < self.received.len() {
            let rest = &self.received[self.at..];
            match self.heads.advance(rest, method, &mut self.head, limits) {
                Ok(HeadStep::Partial) => break,
                Ok(HeadStep::Interim(end)) => {
                    self.at += end;
                    self.heads.count_interim().map_err(|reason| self.failed(reason))?;
                }
                // A request that asks for another protocol is not hedged, so no switch was asked for.
                Ok(HeadStep::Final(_)) if self.head.status == 101 => {
                    return Err(self.failed(Reason::HttpProtocolError));
                }
                Ok(HeadStep::Final(_)) => return Ok(Some(self.head.status)),
                Err(error) => {
                    let (reason, rejected_bytes) = self.heads.rejection(rest, error, &self.head);
                    let rejected_bytes = rejected_bytes.unwrap_or_default();
                    return Err(HedgedFailure { rejected_bytes, ..self.failed(reason) });
                }
            }
        }
        Ok(None)
    }

    fn wait(&self, now: Instant) {
        let (own, _) = self.upload.awaited(self.request.timeouts);
        self.deadline.set(now, self.request.due.within(now, own));
    }

    fn timed_out(&self) -> HedgedFailure {
        let HedgedRequest { timeouts, due, total, is_deadline_clients, .. } = *self.request;
        // A deadline that the client chose does not show a problem of the connection.
        if !(is_deadline_clients && total.is_over()) {
            self.connection.timed_out();
        }
        let (_, awaited) = self.upload.awaited(timeouts);
        let reason = timeout_reason(total, Some(due), awaited);
        self.ended(HeadFailure { reason, blame: by_endpoint(awaited), stale: false })
    }

    /// Ends the attempt after a failed read from the endpoint.
    #[cold]
    fn unread(&mut self, error: &PeerError) -> HedgedFailure {
        let refused = match error {
            PeerError::Io(error) => {
                refused_by_tls(error, &self.connection, self.response, &mut self.repeatable)
            }
            _ => None,
        };
        match refused {
            Some(failure) => self.ended(failure),
            None => self.without_head(NoHead::Broken),
        }
    }

    fn without_head(&mut self, no_head: NoHead) -> HedgedFailure {
        let Self { connection, response, repeatable, sent, request, .. } = self;
        let may_repeat = |again| again == Replay::Unsent || request.may_repeat;
        let failure = without_head(no_head, connection, *response, repeatable, *sent, may_repeat);
        self.ended(failure)
    }

    fn failed(&self, reason: Reason) -> HedgedFailure {
        self.ended(HeadFailure { reason, blame: by_endpoint(reason), stale: false })
    }

    fn ended(&self, HeadFailure { reason, blame, stale }: HeadFailure) -> HedgedFailure {
        let again = self.response.replay(self.repeatable);
        HedgedFailure { reason, again, stale, blame, is_sendable: true, rejected_bytes: Vec::new() }
    }
}
