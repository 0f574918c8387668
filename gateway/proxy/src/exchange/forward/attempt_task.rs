//! One hedged attempt: gets a connection and runs a [`HedgedExchange`] on it, without touching the client.
//!
//! `hedge` polls several [`AttemptTask`]s for one request. A task shares nothing with the others. As
//! [`forward`](super::forward) does, it takes a fresh connection if a pooled one turns out to be stale.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_net::{Deadline, ProxyHeader};
use tollgate_observe::Reason;
use tollgate_upstream::Pool;

use super::connect::{ConnectBounds, connected};
use super::retry::AttemptFailure;
use crate::exchange::engine::{
    HedgedExchange, HedgedFailure, HedgedRequest, HedgedResponse, is_client_slower,
};
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::worker::Worker;

/// The inputs of an attempt, which it does not share with other attempts.
pub(super) struct AttemptTask<'a> {
    pub worker: Rc<Worker>,
    pub pool: Rc<Pool>,
    /// The PROXY header that names the client to the endpoint.
    pub client_header: ProxyHeader,
    pub request: HedgedRequest<'a>,
    /// The start of the request.
    pub started: Instant,
    /// The start of this attempt.
    pub began: Instant,
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
    /// The bytes for which the response was rejected; empty if they are not known.
    pub rejected_bytes: RefCell<Vec<u8>>,
}

impl AttemptTask<'_> {
    /// Sends the request and waits for the response head.
    ///
    /// # Errors
    /// If there will be none.
    pub async fn run<U: UpstreamSide>(self) -> Result<Box<HedgedResponse<U>>, AttemptFailure> {
        let deadline = self.worker.timers.deadline();
        let mut kept = U::take(&self.pool, self.began);
        loop {
            let connection = match kept.take() {
                Some(kept) => kept,
                None => self.connect(&deadline).await?,
            };
            let failure = match self.ask(connection, &deadline).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if failure.stale {
                // As in `forward`: no side is at fault, it is not a retry, and a fresh connection cannot have
                // this problem.
                self.worker.stats.upstream_stale(self.pool.slot());
                continue;
            }
            let HedgedFailure { reason, again, blame, rejected_bytes, .. } = failure;
            let is_clients_time = reason == Reason::RequestTimeout
                && self.request.body.is_some()
                && is_client_slower(self.started, self.began);
            let blame = blame.filter(|_| !is_clients_time);
            self.facts.rejected_bytes.replace(rejected_bytes);
            return Err(AttemptFailure { reason, again, body_taken: false, blame });
        }
    }

    async fn connect<U: UpstreamSide>(&self, deadline: &Deadline) -> Result<U, AttemptFailure> {
        let HedgedRequest { due, total, timeouts, .. } = self.request;
        let bounds = ConnectBounds { due, total, connect: timeouts.connect };
        // The caller of this attempt checks whether the client is still there.
        let (connection, took) =
            connected(&self.pool, self.client_header, &bounds, deadline, |_| false).await?;
        self.facts.connect.set(took);
        Ok(connection)
    }

    async fn ask<U: UpstreamSide>(
        &self,
        connection: U,
        deadline: &Deadline,
    ) -> Result<Box<HedgedResponse<U>>, HedgedFailure> {
        let before = self.facts.sent.get();
        let sent = before.saturating_add(1);
        self.facts.sent.set(sent);
        let mut exchange = HedgedExchange::new(connection, &self.request, &self.worker, deadline, sent);
        let now = tollgate_net::now();
        if let Err(failure) = exchange.start(now) {
            if !failure.is_sendable {
                self.facts.sent.set(before);
            }
            return Err(failure);
        }
        self.facts.sent_at.set(Some(now));
        exchange.finish().await
    }
}
