//! Hedged attempts: if the first attempt is slow, starts a second one at another endpoint. The response head
//! that arrives first wins.
//!
//! [`Forwarding::race`] runs the attempts as [tasks](super::attempt_task), away from the client, which
//! receives nothing of them. A task runs the part of an exchange that ends with the response head, and the
//! winner continues as an exchange with the client. The others are dropped together with their
//! connections, because a late response cannot be used.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tollgate_http::h1::BodyLength;
use tollgate_observe::Reason;
use tollgate_plan::Hedge;
use tollgate_upstream::{Outcome, PickHints, Pool};

use super::Forwarding;
use super::attempt_task::{AttemptFacts, AttemptTask};
use super::retry::{AttemptFailure, AttemptPermits, Replay};
use crate::exchange::affinity::{self, RequestAffinity};
use crate::exchange::engine::upstream_head::{self, Outgoing};
use crate::exchange::engine::{HedgedRequest, HedgedResponse, StartedResponse};
use crate::exchange::grpc;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::client_side::ClientSide;

/// The attempt that won.
#[derive(Debug)]
pub(super) struct Winner<U> {
    pub connection: U,
    pub started: StartedResponse,
    pub began: Instant,
    pub now: Instant,
}

/// The result of an attempt.
type AttemptOutcome<U> = Result<Box<HedgedResponse<U>>, AttemptFailure>;

/// A running attempt.
type AttemptFuture<'r, U> = Pin<Box<dyn Future<Output = AttemptOutcome<U>> + 'r>>;

/// An attempt in progress, with its permits.
struct HedgedAttempt<'r, U> {
    pool: Rc<Pool>,
    began: Instant,
    permits: AttemptPermits,
    facts: Rc<AttemptFacts>,
    /// Whether it is the second one.
    hedge: bool,
    run: AttemptFuture<'r, U>,
}

impl<U> HedgedAttempt<'_, U> {
    /// Takes its permits for the attempt that counts. Without a sent request, the adaptive limit learns
    /// nothing about the endpoint.
    fn take_permits(&mut self) -> AttemptPermits {
        let mut permits = std::mem::take(&mut self.permits);
        match (&mut permits.adaptive_permit, self.facts.sent_at.get()) {
            (Some(adaptive_permit), Some(sent_at)) => adaptive_permit.sending(sent_at),
            // The request was not sent, so this says nothing about the endpoint.
            (adaptive_permit, _) => *adaptive_permit = None,
        }
        permits
    }
}

impl<'r, S: ClientSide, U: UpstreamSide + 'r> Forwarding<'r, S, U> {
    /// Returns whether a second attempt may run in parallel with the current one.
    #[inline]
    pub(super) fn is_hedged(&self) -> bool {
        self.upstream.rules().hedge.as_ref().is_some_and(|hedge| self.fits(hedge))
    }

    #[cold]
    fn fits(&self, hedge: &Hedge) -> bool {
        let request = &self.state.request;
        let method = match hedge.methods.is_empty() {
            true => request.method.is_safe(),
            false => {
                let method = request.slice(request.method_text);
                hedge.methods.iter().any(|listed| listed.as_bytes() == method)
            }
        };
        let is_here = match request.length {
            BodyLength::Exactly(length) => length <= self.state.inbox.len() as u64,
            length => length.is_empty(),
        };
        // A sticky cookie ties the session to one endpoint.
        let affinity = || RequestAffinity::new(self.state, &self.client.peer);
        let is_tied =
            || affinity().sticky(self.upstream).is_some_and(|cookie| self.upstream.accepts_cookie(cookie));
        method
            && !self.upgrade
            && self.state.page().is_none()
            && !self.attempts.is_last()
            && (is_here || self.collected.is_some())
            && !is_tied()
    }

    /// Runs the attempt that was just [started](Self::begin) at `pool`, and a second one once its delay has
    /// passed. On return, `pool` is the endpoint of the attempt that won, or that failed last.
    ///
    /// # Errors
    /// If no attempt got a response: the failure of the last one.
    pub(super) async fn race(
        &mut self,
        pool: &mut Rc<Pool>,
        began: Instant,
    ) -> Result<Winner<U>, AttemptFailure> {
        let after = self.upstream.rules().hedge.as_ref().map(|hedge| hedge.after);
        let permits = self.attempts.take_permits();
        if self.client.stream.may_be_grpc() {
            grpc::pass_deadline_on(self.state, self.attempts.total(), began);
        }
        let mut race = Race {
            sent: self.state.record.attempts,
            given_up: 0,
            may_hedge: true,
            attempts: vec![self.hedged_attempt(pool.clone(), began, permits, false)],
        };
        self.client.deadline.set(began, after);
        let end = poll_fn(|cx| race.poll(self, cx)).await;
        let now = tollgate_net::now();
        let (mut attempt, end) = match end {
            Some(end) => end,
            None => {
                // The others are dropped with the race.
                let attempt = race.attempts.remove(0);
                let again = Replay::Never;
                (
                    attempt,
                    Err(AttemptFailure {
                        reason: Reason::ClientClosed,
                        again,
                        body_taken: false,
                        blame: None,
                    }),
                )
            }
        };
        for mut loser in race.attempts {
            let permits = loser.take_permits();
            self.state.record.begin_again(&loser.pool, 0, Reason::None, loser.began, now);
            drop(loser.run);
            if end.is_ok() {
                let AttemptPermits { breaker_permit, adaptive_permit, .. } = permits;
                if let Some(breaker_permit) = breaker_permit {
                    breaker_permit.superseded(now);
                }
                // Its time so far is a lower bound of its latency.
                if let Some(adaptive_permit) = adaptive_permit {
                    adaptive_permit.done(now);
                }
            }
        }
        self.attempts.put_permits(attempt.take_permits());
        *pool = attempt.pool;
        let record = &mut self.state.record;
        if record.has_earlier() {
            record.remarks().attempt_began = Some(attempt.began);
        }
        record.endpoint = Some(pool.clone());
        record.connect = attempt.facts.connect.get();
        record.set_rejected_bytes(&attempt.facts.rejected_bytes.take());
        let HedgedResponse { connection, started, now, .. } = *end?;
        // The exchange counts the last attempt itself.
        record.attempts = record.attempts.saturating_sub(1);
        affinity::keep(self.state, self.upstream, pool);
        if attempt.hedge {
            self.worker.stats.upstream_hedge_won(pool.slot());
        }
        Ok(Winner { connection, started, began: attempt.began, now })
    }

    fn hedged_attempt(
        &self,
        pool: Rc<Pool>,
        began: Instant,
        permits: AttemptPermits,
        hedge: bool,
    ) -> HedgedAttempt<'r, U> {
        let mut head = Vec::new();
        let outgoing = Outgoing {
            state: self.state,
            peer: self.client.peer,
            secure: self.client.stream.tls().is_some(),
            identity: self.client.connection_context.tls.as_ref().and_then(|tls| tls.identity.as_ref()),
            settings: self.settings,
            route: self.route,
            endpoint: pool.name(),
            upgrade: false,
            separate_heads: U::SEPARATE_HEADS,
            collected: self.collected,
            may_return: upstream_head::may_return(self.settings, &pool),
        };
        upstream_head::write(&mut head, &outgoing);
        let request = &self.state.request;
        let (mut body, mut data) = (None, Vec::new());
        if self.collected.is_some() {
            body = self.state.to_upstream.collected();
        } else if let BodyLength::Exactly(length) = request.length {
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(self.state.inbox.len());
            data.extend_from_slice(&self.state.inbox[..length]);
        }
        let facts = Rc::<AttemptFacts>::default();
        let attempt_task = AttemptTask {
            worker: self.worker.clone(),
            pool: pool.clone(),
            client_header: self.client.proxy_header_for(&pool),
            request: HedgedRequest {
                timeouts: &self.route.timeouts,
                limits: &self.settings.head_limits,
                method: request.method,
                may_repeat: self.attempts.may_repeat(Replay::Whole, request),
                head,
                secrets: request.has_never_indexed,
                data,
                body,
                due: self.attempts.head_due(began),
                total: self.attempts.total(),
                is_deadline_clients: self
                    .state
                    .is_deadline_clients(&self.client.stream, self.route.timeouts.total),
            },
            started: self.state.record.started().unwrap_or(began),
            began,
            facts: facts.clone(),
        };
        HedgedAttempt { pool, began, permits, facts, hedge, run: Box::pin(attempt_task.run()) }
    }

    /// Starts a second attempt, if there is another endpoint and if all limits on attempts allow it.
    fn second(&mut self, first: &Rc<Pool>) -> Option<HedgedAttempt<'r, U>> {
        let now = tollgate_net::now();
        let avoid: Vec<_> = self.attempts.tried().iter().chain([first]).cloned().collect();
        let affinity = RequestAffinity::new(self.state, &self.client.peer);
        let pool = self.upstream.pick(&PickHints { avoid: &avoid, ..affinity.pick_hints(self.upstream) })?;
        if avoid.iter().any(|avoided| Rc::ptr_eq(avoided, &pool)) {
            return None;
        }
        let permits = self.attempts.begin_hedge(now)?;
        Some(self.hedged_attempt(pool, now, permits, true))
    }

    /// Removes an attempt from the race while another one goes on.
    fn drop_attempt(&mut self, mut attempt: HedgedAttempt<'r, U>, end: AttemptOutcome<U>) {
        self.attempts.put_permits(attempt.take_permits());
        let HedgedAttempt { pool, began, facts, .. } = attempt;
        let (status, reason) = match &end {
            Ok(answer) => (answer.status, Reason::None),
            Err(failure) => (0, failure.reason),
        };
        self.state.record.set_rejected_bytes(&facts.rejected_bytes.take());
        self.state.record.begin_again(&pool, status, reason, began, tollgate_net::now());
        match end {
            Ok(answer) if self.is_clients_choice(answer.status) => self.attempts.failed(None),
            Ok(answer) => {
                self.attempts.answered(answer.status, answer.now);
                self.upstream.report(&pool, Outcome::Answered(answer.status));
            }
            Err(failure) => self.failed(&pool, &failure),
        }
        drop(self.attempts.take_permits());
        self.attempts.avoid(pool);
    }
}

/// The attempts in progress: one, then two.
struct Race<'r, U> {
    /// How often the request was sent before the race.
    sent: u8,
    /// How often attempts that are out have sent the request.
    given_up: u8,
    may_hedge: bool,
    attempts: Vec<HedgedAttempt<'r, U>>,
}

impl<'r, U: UpstreamSide + 'r> Race<'r, U> {
    /// Ready with the attempt that won or was the last to fail; `None` if the client has left.
    fn poll<S: ClientSide>(
        &mut self,
        forwarding: &mut Forwarding<'r, S, U>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(HedgedAttempt<'r, U>, AttemptOutcome<U>)>> {
        if forwarding.client.poll_peer_closed(cx).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            let mut at = 0;
            while let Some(attempt) = self.attempts.get_mut(at) {
                let polled = attempt.run.as_mut().poll(cx);
                self.note(forwarding);
                let Poll::Ready(end) = polled else {
                    at += 1;
                    continue;
                };
                let attempt = self.attempts.remove(at);
                // While another attempt is in progress, only a response that needs no retry wins.
                let ends = self.attempts.is_empty()
                    || end.as_ref().is_ok_and(|answer| !forwarding.attempts.retries_status(answer.status));
                if ends {
                    return Poll::Ready(Some((attempt, end)));
                }
                self.given_up = self.given_up.saturating_add(attempt.facts.sent.get());
                forwarding.drop_attempt(attempt, end);
            }
            if !self.may_hedge || forwarding.client.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
            self.may_hedge = false;
            let Some(second) = forwarding.second(&self.attempts[0].pool) else { return Poll::Pending };
            self.attempts.push(second);
        }
    }

    /// Keeps the number of sent requests up to date in the record, because the race may be dropped at any
    /// time.
    fn note<S>(&self, forwarding: &mut Forwarding<'_, S, U>) {
        let sent = self.attempts.iter().map(|attempt| attempt.facts.sent.get());
        let sent = sent.fold(self.sent.saturating_add(self.given_up), u8::saturating_add);
        forwarding.state.record.attempts = sent;
    }
}
