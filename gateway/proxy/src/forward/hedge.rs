//! Hedged attempts: if the first attempt is slow, starts a second one at another endpoint. The response head
//! that arrives first wins.
//!
//! [`Forwarding::race`] runs the attempts as [runners](super::runner), away from the client, which receives
//! nothing of them. The winner continues as an exchange. The others are dropped together with their
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
use super::retry::{Again, Failure, Stake};
use super::runner::{Answer, Marks, Runner};
use crate::affinity::{self, Asker};
use crate::client_side::ClientSide;
use crate::exchange::Underway;
use crate::exchange::upstream_head::{self, Outgoing};
use crate::grpc;
use crate::upstream_side::UpstreamSide;

/// The attempt that won.
#[derive(Debug)]
pub(super) struct Won<U> {
    pub connection: U,
    pub underway: Underway,
    pub began: Instant,
    pub now: Instant,
}

/// The result of an attempt.
type Ended<U> = Result<Box<Answer<U>>, Failure>;

/// A running attempt.
type Run<'r, U> = Pin<Box<dyn Future<Output = Ended<U>> + 'r>>;

/// An attempt in progress, with its permits.
struct Racer<'r, U> {
    pool: Rc<Pool>,
    began: Instant,
    stake: Stake,
    marks: Rc<Marks>,
    /// Whether it is the second one.
    hedge: bool,
    run: Run<'r, U>,
}

impl<U> Racer<'_, U> {
    /// Takes its permits for the attempt that counts. Without a sent request, the adaptive limit learns
    /// nothing about the endpoint.
    fn take_stake(&mut self) -> Stake {
        let mut stake = std::mem::take(&mut self.stake);
        match (&mut stake.place, self.marks.asked.get()) {
            (Some(place), Some(asked)) => place.sending(asked),
            // The request was not sent, so this says nothing about the endpoint.
            (place, _) => *place = None,
        }
        stake
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
        let request = &self.scratch.request;
        let method = match hedge.methods.is_empty() {
            true => request.method.is_safe(),
            false => {
                let method = request.slice(request.method_text);
                hedge.methods.iter().any(|listed| listed.as_bytes() == method)
            }
        };
        let is_here = match request.length {
            BodyLength::Exactly(length) => length <= self.scratch.inbox.len() as u64,
            length => length.is_empty(),
        };
        // A sticky cookie ties the session to one endpoint.
        let asker = || Asker::new(self.scratch, &self.client.peer);
        let is_tied =
            || asker().sticky(self.upstream).is_some_and(|cookie| self.upstream.accepts_cookie(cookie));
        method
            && !self.upgrade
            && self.scratch.page().is_none()
            && !self.attempts.is_last()
            && (is_here || self.collected.is_some())
            && !is_tied()
    }

    /// Runs the attempt that was just [started](Self::begin) at `pool`, and a second one once its delay has
    /// passed. On return, `pool` is the endpoint of the attempt that won, or that failed last.
    ///
    /// # Errors
    /// If no attempt got a response: the failure of the last one.
    pub(super) async fn race(&mut self, pool: &mut Rc<Pool>, began: Instant) -> Result<Won<U>, Failure> {
        let after = self.upstream.rules().hedge.as_ref().map(|hedge| hedge.after);
        let stake = self.attempts.take_stake();
        if self.client.stream.may_be_grpc() {
            grpc::pass_deadline_on(self.scratch, self.attempts.total(), began);
        }
        let mut race = Race {
            sent: self.scratch.ledger.attempts,
            given_up: 0,
            may_hedge: true,
            racers: vec![self.racer(pool.clone(), began, stake, false)],
        };
        self.client.deadline.set(began, after);
        let end = poll_fn(|cx| race.poll(self, cx)).await;
        let now = tollgate_net::now();
        let (mut racer, end) = match end {
            Some(end) => end,
            None => {
                // The others are dropped with the race.
                let racer = race.racers.remove(0);
                let again = Again::Never;
                (racer, Err(Failure { reason: Reason::ClientClosed, again, body_taken: false, blame: None }))
            }
        };
        for mut loser in race.racers {
            let stake = loser.take_stake();
            self.scratch.ledger.begin_again(&loser.pool, (0, Reason::None), loser.began, now);
            drop(loser.run);
            if end.is_ok() {
                let Stake { permit, place, .. } = stake;
                if let Some(permit) = permit {
                    permit.superseded(now);
                }
                // Its time so far is a lower bound of its latency.
                if let Some(place) = place {
                    place.done(now);
                }
            }
        }
        self.attempts.put_stake(racer.take_stake());
        *pool = racer.pool;
        let ledger = &mut self.scratch.ledger;
        if ledger.has_earlier() {
            ledger.remarks().attempt_began = Some(racer.began);
        }
        ledger.endpoint = Some(pool.clone());
        ledger.connect = racer.marks.connect.get();
        let Answer { connection, underway, now, .. } = *end?;
        // The exchange counts the last attempt itself.
        ledger.attempts = ledger.attempts.saturating_sub(1);
        affinity::keep(self.scratch, self.upstream, pool);
        if racer.hedge {
            self.worker.stats.upstream_hedge_won(pool.slot());
        }
        Ok(Won { connection, underway, began: racer.began, now })
    }

    fn racer(&self, pool: Rc<Pool>, began: Instant, stake: Stake, hedge: bool) -> Racer<'r, U> {
        let mut head = Vec::new();
        let outgoing = Outgoing {
            scratch: self.scratch,
            peer: self.client.peer,
            secure: self.client.stream.tls().is_some(),
            identity: self.client.link.tls.as_ref().and_then(|tls| tls.identity.as_ref()),
            settings: self.settings,
            route: self.route,
            endpoint: pool.name(),
            upgrade: false,
            apart: U::APART,
            collected: self.collected,
            may_return: upstream_head::may_return(self.settings, &pool),
        };
        upstream_head::write(&mut head, &outgoing);
        let request = &self.scratch.request;
        let (mut body, mut data) = (None, Vec::new());
        if self.collected.is_some() {
            body = self.scratch.to_upstream.collected();
        } else if let BodyLength::Exactly(length) = request.length {
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(self.scratch.inbox.len());
            data.extend_from_slice(&self.scratch.inbox[..length]);
        }
        let marks = Rc::<Marks>::default();
        let runner = Runner {
            worker: self.worker.clone(),
            pool: pool.clone(),
            whose: self.client.named_to(&pool),
            timeouts: &self.route.timeouts,
            limits: &self.settings.head_limits,
            method: request.method,
            may_repeat: self.attempts.may_repeat(Again::Whole, request),
            head,
            secrets: request.has_never_indexed,
            data,
            body,
            began,
            due: self.attempts.head_due(began),
            total: self.attempts.total(),
            marks: marks.clone(),
        };
        Racer { pool, began, stake, marks, hedge, run: Box::pin(runner.run()) }
    }

    /// Starts a second attempt, if there is another endpoint and if all limits on attempts allow it.
    fn second(&mut self, first: &Rc<Pool>) -> Option<Racer<'r, U>> {
        let now = tollgate_net::now();
        let avoid: Vec<_> = self.attempts.tried().iter().chain([first]).cloned().collect();
        let asker = Asker::new(self.scratch, &self.client.peer);
        let pool = self.upstream.pick(&PickHints { avoid: &avoid, ..asker.wanted(self.upstream) })?;
        if avoid.iter().any(|avoided| Rc::ptr_eq(avoided, &pool)) {
            return None;
        }
        let stake = self.attempts.begin_beside(now)?;
        Some(self.racer(pool, now, stake, true))
    }

    /// Removes an attempt from the race while another one goes on.
    fn out(&mut self, mut racer: Racer<'r, U>, end: Ended<U>) {
        self.attempts.put_stake(racer.take_stake());
        let Racer { pool, began, .. } = racer;
        let told = match &end {
            Ok(answer) => (answer.status, Reason::None),
            Err(failure) => (0, failure.reason),
        };
        self.scratch.ledger.begin_again(&pool, told, began, tollgate_net::now());
        match end {
            Ok(answer) if self.is_clients_choice(answer.status) => self.attempts.failed(None),
            Ok(answer) => {
                self.attempts.answered(answer.status, answer.now);
                self.upstream.report(&pool, Outcome::Answered(answer.status));
            }
            Err(failure) => self.failed(&pool, &failure),
        }
        drop(self.attempts.take_stake());
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
    racers: Vec<Racer<'r, U>>,
}

impl<'r, U: UpstreamSide + 'r> Race<'r, U> {
    /// Ready with the attempt that won or was the last to fail; `None` if the client has left.
    fn poll<S: ClientSide>(
        &mut self,
        forwarding: &mut Forwarding<'r, S, U>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(Racer<'r, U>, Ended<U>)>> {
        if forwarding.client.poll_peer_closed(cx).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            let mut at = 0;
            while let Some(racer) = self.racers.get_mut(at) {
                let polled = racer.run.as_mut().poll(cx);
                self.note(forwarding);
                let Poll::Ready(end) = polled else {
                    at += 1;
                    continue;
                };
                let racer = self.racers.remove(at);
                // While another attempt is in progress, only a response that needs no retry wins.
                let ends = self.racers.is_empty()
                    || end.as_ref().is_ok_and(|answer| !forwarding.attempts.minds(answer.status));
                if ends {
                    return Poll::Ready(Some((racer, end)));
                }
                self.given_up = self.given_up.saturating_add(racer.marks.sent.get());
                forwarding.out(racer, end);
            }
            if !self.may_hedge || forwarding.client.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
            self.may_hedge = false;
            let Some(second) = forwarding.second(&self.racers[0].pool) else { return Poll::Pending };
            self.racers.push(second);
        }
    }

    /// Keeps the number of sent requests up to date in the ledger, because the race may be dropped at any
    /// time.
    fn note<S>(&self, forwarding: &mut Forwarding<'_, S, U>) {
        let sent = self.racers.iter().map(|racer| racer.marks.sent.get());
        let sent = sent.fold(self.sent.saturating_add(self.given_up), u8::saturating_add);
        forwarding.scratch.ledger.attempts = sent;
    }
}
