//! How an attempt begins, and what comes of it.

use std::rc::Rc;
use std::time::Instant;

use tollgate_observe::Reason;
use tollgate_plan::CdnLoop;
use tollgate_policy::loops;
use tollgate_upstream::{Outcome, Pool, Wanted};

use super::Forwarding;
use super::retry::Failure;
use crate::affinity::{self, Asker};
use crate::client_side::ClientSide;
use crate::exchange::{Exchange, Parties};
use crate::request::Next;
use crate::scratch::Scratch;
use crate::tunnel::tunnel;
use crate::upstream_side::UpstreamSide;

impl<'r, S: ClientSide, U: UpstreamSide> Forwarding<'r, S, U> {
    /// An attempt begins: who is to answer it.
    ///
    /// # Errors
    /// When no endpoint takes requests, the breaker is open, the adaptive limit is reached, or the request goes in a loop.
    pub(super) fn begin(&mut self, now: Instant) -> Result<Rc<Pool>, Reason> {
        self.attempts.begin(now)?;
        let asker = Asker::new(self.scratch, &self.client.peer);
        let wanted = Wanted { avoid: self.attempts.tried(), ..asker.wanted(self.upstream) };
        let pool = self.upstream.pick(&wanted).ok_or(Reason::DestinationUnavailable)?;
        affinity::keep(self.scratch, self.upstream, &pool);
        self.scratch.ledger.endpoint = Some(pool.clone());
        self.scratch.ledger.connect = None;
        let always = self.settings.forwarded.cdn_loop == CdnLoop::Always;
        if (pool.leads_to_itself() || always) && self.is_loop(always) {
            return Err(Reason::LoopDetected);
        }
        Ok(pool)
    }

    /// Whether the request has come back too often to be sent to an endpoint that is this gateway, or that may lead back to it.
    #[cold]
    fn is_loop(&self, always: bool) -> bool {
        let returns = loops::returns(&self.scratch.request);
        // An endpoint that is the gateway itself brings it back for certain.
        returns + usize::from(!always) > self.settings.limits.loops
    }

    /// The request goes out on this connection. The attempt began when its connection was asked for.
    pub(super) fn exchange<'a>(
        &'a mut self,
        upstream: &'a mut U,
        began: Instant,
        now: Instant,
    ) -> Exchange<'a, 'r, S, U> {
        let ledger = &mut self.scratch.ledger;
        ledger.attempts = ledger.attempts.saturating_add(1);
        ledger.reused = upstream.is_reused();
        let parties = Parties {
            worker: self.worker,
            client: self.client,
            scratch: self.scratch,
            upstream,
            settings: self.settings,
            route: self.route,
            upgrade: self.upgrade,
            collected: self.collected,
            attempts: &mut self.attempts,
        };
        Exchange::new(parties, began, now)
    }

    /// The endpoint has switched protocols.
    pub(super) async fn tunnel(&mut self, connection: U) -> Next {
        self.upstream.report(connection.pool(), Outcome::Answered(self.scratch.ledger.status));
        tunnel(self.client, self.worker, self.scratch, connection, self.route.timeouts.upgraded).await;
        // The client may be speaking still, while the endpoint's last bytes are on their way to it.
        Next::Linger
    }

    /// The response broke off when the client had got a part of it.
    pub(super) fn cut(&mut self, pool: &Pool, failure: Failure, reset: bool) -> Next {
        self.failed(pool, &failure);
        self.scratch.ledger.reason = failure.reason;
        if reset || matches!(failure.reason, Reason::ClientWriteTimeout | Reason::ClientTooSlow) {
            Next::Reset
        } else {
            Next::Close
        }
    }

    /// The client knows of nothing yet: whether there is another attempt.
    pub(super) fn has_another(&mut self, pool: &Pool, failure: &Failure) -> bool {
        self.failed(pool, failure);
        self.attempts.another(failure, &self.scratch.request)
    }

    /// The status that says what the endpoint has done: of a gRPC call that of how it ended.
    #[inline]
    pub(super) fn answered(&self) -> u16 {
        let ledger = &self.scratch.ledger;
        match ledger.grpc_status.filter(|_| self.client.stream.may_be_grpc()) {
            Some(code) => code.as_http(),
            None => ledger.status,
        }
    }

    /// Whether the [client's deadline](super::Attempts::is_clients_choice) explains the outcome of the call.
    #[inline]
    pub(super) fn is_clients_choice(&self, status: u16) -> bool {
        self.client.stream.may_be_grpc() && self.attempts.is_clients_choice(status)
    }

    /// Tells everyone whom it concerns that the attempt failed.
    pub(super) fn failed(&mut self, pool: &Pool, failure: &Failure) {
        // The client chose the deadline, and must not have endpoints ejected by it. The deadline also explains other failures
        // after it, such as a stream that the endpoint resets.
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

    /// Notes an attempt that another one follows. Without a failure, its answer was held back.
    #[cold]
    pub(super) fn note_attempt(&mut self, pool: &Rc<Pool>, failure: Option<&Failure>, began: Instant) {
        let end = match failure {
            Some(failure) => (0, failure.reason),
            None => (self.scratch.response.status, Reason::None),
        };
        self.scratch.ledger.begin_again(pool, end, began, tollgate_net::now());
    }

    /// Takes back what an attempt left behind, so that the next one begins as the first did.
    pub(super) fn make_ready_again(&mut self) {
        let Scratch { to_upstream, partial, .. } = &mut *self.scratch;
        match self.collected {
            Some(_) => to_upstream.rewind(),
            None => to_upstream.clear(),
        }
        partial.clear();
    }
}

/// Whether the client caused the failure, so that it does not count as one of the upstream.
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
