//! The start and the end of an attempt: picks the endpoint, creates the exchange, and reports the result to
//! health checks, breaker and statistics.

use std::rc::Rc;
use std::time::Instant;

use tollgate_observe::Reason;
use tollgate_plan::CdnLoop;
use tollgate_policy::loops;
use tollgate_upstream::{Outcome, PickHints, Pool};

use super::Forwarding;
use super::retry::AttemptFailure;
use crate::exchange::affinity::{self, RequestAffinity};
use crate::exchange::engine::{ClientAfter, Exchange, Parties};
use crate::exchange::tunnel::tunnel;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;

impl<'r, S: ClientSide, U: UpstreamSide> Forwarding<'r, S, U> {
    /// Starts an attempt and picks its endpoint.
    ///
    /// # Errors
    /// If no endpoint takes requests, the breaker is open, the adaptive limit is reached, or the request goes
    /// in a loop.
    pub(super) fn begin(&mut self, now: Instant) -> Result<Rc<Pool>, Reason> {
        self.attempts.begin(now)?;
        let affinity = RequestAffinity::new(self.state, &self.client.peer);
        let tried = self.attempts.tried();
        // After a failure, the endpoints that the request began with may all be gone.
        let newer = if tried.is_empty() { None } else { self.active.newer(self.upstream) };
        let upstream = newer.as_ref().unwrap_or(self.upstream);
        let wanted = PickHints { avoid: tried, ..affinity.pick_hints(upstream) };
        let pool = upstream.pick(&wanted).ok_or_else(|| match upstream.is_without_endpoints() {
            true => Reason::NoEndpoints,
            false => Reason::DestinationUnavailable,
        })?;
        affinity::keep(self.state, upstream, &pool);
        self.state.record.endpoint = Some(pool.clone());
        self.state.record.connect = None;
        let always = self.settings.forwarded.cdn_loop == CdnLoop::Always;
        if (pool.loops_back() || always) && self.is_loop(always) {
            return Err(Reason::LoopDetected);
        }
        Ok(pool)
    }

    /// Returns whether the request has looped too often to be sent to an endpoint that is this gateway, or
    /// that may lead back to it.
    #[cold]
    fn is_loop(&self, always: bool) -> bool {
        let returns = loops::count_returns(&self.state.request);
        // An endpoint that is the gateway itself will certainly bring it back.
        returns + usize::from(!always) > self.settings.limits.loops
    }

    /// Creates the exchange on this connection. `began` is when the attempt started to wait for the
    /// connection.
    pub(super) fn exchange<'a>(
        &'a mut self,
        upstream: &'a mut U,
        began: Instant,
        now: Instant,
    ) -> Exchange<'a, 'r, S, U> {
        let record = &mut self.state.record;
        record.attempts = record.attempts.saturating_add(1);
        record.reused = upstream.is_reused();
        let parties = Parties {
            worker: self.worker,
            client: self.client,
            state: self.state,
            upstream,
            settings: self.settings,
            route: self.route,
            upgrade: self.upgrade,
            collected: self.collected,
            attempts: &mut self.attempts,
        };
        Exchange::new(parties, began, now)
    }

    /// Relays the bytes of the new protocol after the endpoint has switched.
    pub(super) async fn tunnel(&mut self, connection: U) -> ConnectionFate {
        self.upstream.report(connection.pool(), Outcome::Answered(self.state.record.status));
        tunnel(self.client, self.worker, self.state, connection, self.route.timeouts.upgraded).await
    }

    /// Handles a response that broke off after the client had received a part of it.
    pub(super) fn cut(
        &mut self,
        pool: &Pool,
        failure: AttemptFailure,
        client_after: ClientAfter,
    ) -> ConnectionFate {
        self.failed(pool, &failure);
        self.state.record.reason = failure.reason;
        let ends_response = client_after == ClientAfter::EndsResponse;
        if ends_response || matches!(failure.reason, Reason::ClientWriteTimeout | Reason::ClientTooSlow) {
            ConnectionFate::Reset
        } else {
            ConnectionFate::Close
        }
    }

    /// Returns whether another attempt follows this failure. The client has received nothing so far.
    pub(super) fn has_another(&mut self, pool: &Pool, failure: &AttemptFailure) -> bool {
        self.failed(pool, failure);
        self.moves_on(pool, failure) || self.attempts.another(failure, &self.state.request)
    }

    /// Returns whether the request goes to another endpoint because this one refused the connection.
    fn moves_on(&mut self, pool: &Pool, failure: &AttemptFailure) -> bool {
        // An endpoint that refuses a stream of HTTP/2 is there, and perhaps overloaded.
        if (failure.reason, failure.blame) != (Reason::ConnectionRefused, Some(Outcome::NoConnection)) {
            return false;
        }
        let newer = self.active.newer(self.upstream);
        let failed: Vec<&Pool> = self.attempts.tried().iter().map(|tried| &**tried).chain([pool]).collect();
        let has_other = newer.as_ref().unwrap_or(self.upstream).has_other(&failed);
        has_other && self.attempts.move_on()
    }

    /// Returns the status that describes what the endpoint did. For a gRPC call it is derived from the call's
    /// own status.
    #[inline]
    pub(super) fn answered(&self) -> u16 {
        let record = &self.state.record;
        match record.grpc_status.filter(|_| self.client.stream.may_be_grpc()) {
            Some(code) => code.as_http(),
            None => record.status,
        }
    }

    /// Returns whether the [client's deadline](super::RequestAttempts::is_clients_choice) explains the
    /// outcome of the call.
    #[inline]
    pub(super) fn is_clients_choice(&self, status: u16) -> bool {
        self.client.stream.may_be_grpc() && self.attempts.is_clients_choice(status)
    }

    /// Reports a failed attempt to the statistics, the breaker, the limits and the health of the endpoint.
    pub(super) fn failed(&mut self, pool: &Pool, failure: &AttemptFailure) {
        // The client chose the deadline, which must not eject endpoints. The deadline also explains other
        // failures after it, such as a stream that the endpoint resets.
        let own = self.client.stream.may_be_grpc() && self.attempts.has_client_given_up();
        if !own && !is_clients_doing(failure.reason) {
            self.worker.stats.upstream_failed(pool.slot(), failure.reason);
        }
        let blame = failure.blame.filter(|_| !own);
        self.attempts.failed(blame);
        if let Some(outcome) = blame {
            self.upstream.report(pool, outcome);
        }
    }

    /// Records an attempt that is followed by another. Without a failure, its response was held back.
    #[cold]
    pub(super) fn note_attempt(&mut self, pool: &Rc<Pool>, failure: Option<&AttemptFailure>, began: Instant) {
        let (status, reason) = match failure {
            Some(failure) => (0, failure.reason),
            None => (self.state.response.status, Reason::None),
        };
        self.state.record.begin_again(pool, status, reason, began, tollgate_net::now());
    }

    /// Removes the traces of an attempt, so that the next one starts like the first.
    pub(super) fn make_ready_again(&mut self) {
        let RequestState { to_upstream, partial, .. } = &mut *self.state;
        match self.collected {
            Some(_) => to_upstream.rewind(),
            None => to_upstream.clear(),
        }
        partial.clear();
    }
}

/// Returns whether the client caused the failure, so that it does not count as a failure of the upstream.
fn is_clients_doing(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ClientClosed
            | Reason::ClientWriteTimeout
            | Reason::ClientTooSlow
            | Reason::IncompleteRequest
            | Reason::BodyTimeout
            | Reason::BodyTooSlow
            | Reason::BodyTooLarge
            | Reason::BadChunk
            | Reason::BadContentCoding
            | Reason::TrailersTooLarge
    )
}
