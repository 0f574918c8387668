//! Answers the client and decides what happens to its connection when no more attempts follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_http::RequestHead;
use tollgate_observe::Reason;
use tollgate_plan::RouteStay;

use super::Forwarding;
use super::retry::AttemptFailure;
use crate::exchange::deliver::{Allowance, deliver};
use crate::exchange::respond::{self, LocalError};
use crate::exchange::skip_body::skip_rest_of_body;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::pace::is_stream;
use crate::state::request_state::RequestState;

impl<S: ClientSide, U: UpstreamSide> Forwarding<'_, S, U> {
    /// Writes the rest of the response at the client's pace, after the upstream has finished. `keep`: the
    /// client's connection can carry another request.
    pub(super) async fn deliver_rest(&mut self, now: Instant, keep: bool) -> ConnectionFate {
        let RequestState { request, to_client, record, .. } = &mut *self.state;
        let allowance = Allowance {
            bound: self.route.timeouts.write,
            rates: &self.route.rates,
            is_stream: is_stream(request),
            total: self.attempts.total(),
        };
        if let Err(reason) = deliver(self.client, to_client, now, allowance).await {
            record.reason = reason;
            return ConnectionFate::Reset;
        }
        after_whole(request, keep)
    }

    /// Answers with the reason of the last attempt.
    pub(super) async fn give_up(&mut self, failure: &AttemptFailure) -> ConnectionFate {
        let record = &mut self.state.record;
        if matches!(
            failure.reason,
            Reason::TlsProtocolError | Reason::TlsCertificateError | Reason::TlsAlertReceived
        ) && let Some(pool) = &record.endpoint
        {
            record.remarks().detail = pool.state().tls_failure().map(Into::into);
        }
        if failure.body_taken && self.collected.is_none() {
            let close = skip_rest_of_body(self.state, failure.reason, false);
            self.answer(failure.reason, close).await
        } else {
            self.refuse(failure.reason).await
        }
    }

    /// Answers with a reason, while no byte of the request's body was taken from the inbox.
    pub(super) async fn refuse(&mut self, reason: Reason) -> ConnectionFate {
        // A collected body was read, so the inbox holds the next request.
        let was_read = self.collected.is_some() || self.state.page().is_some();
        let close = !was_read && skip_rest_of_body(self.state, reason, false);
        self.answer(reason, close).await
    }

    async fn answer(&mut self, reason: Reason, close: bool) -> ConnectionFate {
        // Permits are released now, however long the client takes for the response: no attempt is in
        // progress.
        self.attempts.failed(None);
        self.state.to_upstream.clear();
        self.state.to_client.clear();
        if reason == Reason::Overload && self.client.requests <= 1 {
            self.give_descriptor_back();
        }
        let close = close || self.client.closes_after(self.settings, &self.state.request);
        if let Some((reason, status, lines, closes)) = self.without_page(reason) {
            let refusal = LocalError { reason, status: Some(status), lines: &lines };
            return respond::refusal(
                self.client,
                self.worker,
                self.state,
                self.settings,
                refusal,
                close || closes,
            )
            .await;
        }
        respond::error(self.client, self.worker, self.state, self.settings, reason, close).await
    }

    /// Closes the client's connection with this response. The process has no file descriptor for a connection
    /// to an endpoint, and this client's first request has failed for that. Otherwise new connections could
    /// occupy all descriptors, and leave none for the requests that they carry.
    #[cold]
    fn give_descriptor_back(&mut self) {
        let now = RouteStay { idle: None, age: Some(Duration::ZERO) };
        self.client.connection_context.apply_route_timeouts(&now);
        self.client.stream.limit_connection_age(&Arc::new(now));
    }
}

/// Returns what happens to the client's connection after a complete response.
pub(super) fn after_whole(request: &RequestHead, keep: bool) -> ConnectionFate {
    match (keep, request.length.is_empty() && !request.keep_alive) {
        (true, _) => ConnectionFate::KeepAlive,
        // The client asked for that, and has sent everything.
        (false, true) => ConnectionFate::Close,
        // The rest of the request, or the next one, may be on its way.
        (false, false) => ConnectionFate::Linger,
    }
}
