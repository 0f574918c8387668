//! Replaces an error by the response of another upstream, by a page, or by a fixed response.
//!
//! An error is an endpoint's response, or the gateway's own if no endpoint has responded. [`choose_fallback`]
//! picks the first of the route's fallbacks that fits, and [`forward`] then returns [`FallbackChosen`](crate::state::fallback_state::FallbackChosen). At that point the
//! failed upstream has its permits back. [`fall_back`] then carries out the choice. Each fallback of a route
//! is used at most once, and only later ones may follow it, so every request ends, however many of them fail.

use std::rc::Rc;

use tollgate_http::h1::write_decimal;
use tollgate_observe::Reason;
use tollgate_plan::FallbackAction;
use tollgate_upstream::Connection;

use super::retry::Replay;
use super::{Forwarding, forward};
use crate::exchange::choose_fallback::choose_fallback;
use crate::exchange::forward_target::ForwardTarget;
use crate::exchange::http2_endpoint::EndpointStream;
use crate::exchange::respond::{self, LocalError};
use crate::exchange::skip_body::skip_rest_of_body;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::fallback_state::ErrorPage;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

impl<S: ClientSide, U: UpstreamSide> Forwarding<'_, S, U> {
    /// Returns whether a fallback was chosen for an error of the gateway that the client has not received.
    #[inline]
    pub(super) fn falls_back(&mut self, reason: Reason, again: Replay) -> bool {
        self.route.fallback.is_some() && self.picks(reason, again)
    }

    #[cold]
    fn picks(&mut self, reason: Reason, again: Replay) -> bool {
        if self.client.stream.may_be_grpc() && self.state.grpc.is_some() {
            return false;
        }
        let may_repeat =
            self.attempts.may_repeat(again, &self.state.request) && !self.attempts.total().is_over();
        choose_fallback(self.state, reason.status(), reason, may_repeat) && self.leave()
    }

    /// Leaves the upstream in favour of the fallback: releases all permits, and restores the request.
    pub(super) fn leave(&mut self) -> bool {
        self.attempts.failed(None);
        self.make_ready_again();
        self.state.to_client.clear();
        if let Some(falling) = &mut self.state.fallback {
            falling.collected = falling.collected.or(self.collected);
        }
        true
    }

    /// If a page was requested and failed, returns the error that the page would have replaced.
    pub(super) fn without_page(&mut self, reason: Reason) -> Option<(Reason, u16, Vec<u8>, bool)> {
        let end = self.state.fallback.as_mut()?.without_page()?;
        let record = &mut self.state.record;
        if record.remarks().detail.is_none() {
            record.remarks().detail = Some(format!("no error page: {}", reason.as_str()).into());
        }
        Some(end)
    }
}

/// Carries out the chosen fallback, and any that follow it, until the client has a response.
pub(crate) async fn fall_back<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    index: u32,
) -> ConnectionFate {
    let settings = &active.plan.settings;
    loop {
        if let Some(failed) = &state.record.upstream {
            worker.stats.upstream_fallback_used(failed.slot);
        }
        let fallbacks = active.route(index).fallback.as_deref().unwrap_or_default();
        let fallback = state.fallback.as_ref().and_then(|falling| fallbacks.get(falling.taken));
        let Some(fallback) = fallback else {
            return respond::error(client, worker, state, settings, Reason::ProxyInternalError, true).await;
        };
        let upstream = match &fallback.action {
            FallbackAction::Request(upstream) => *upstream,
            FallbackAction::Page { upstream, path, status } => {
                leave_body(client, state, active);
                if let Some(falling) = &mut state.fallback {
                    let lines = falling.lines.clone();
                    falling.page = Some(ErrorPage {
                        target: filled(path, falling.status),
                        status: status.unwrap_or(falling.status),
                        lines: if status.is_none() { lines } else { Vec::new() },
                    });
                }
                *upstream
            }
            FallbackAction::Respond { respond, status } => {
                let closes = leave_body(client, state, active);
                let falling = state.fallback.take().unwrap_or_default();
                let lines = if status.is_none() { falling.lines } else { Vec::new() };
                let status = status.unwrap_or(falling.status);
                let answer = LocalError { reason: falling.reason, status: Some(status), lines: &lines };
                return respond::page(client, worker, state, settings, respond, answer, closes).await;
            }
        };
        let to = ForwardTarget { route: index, upstream: active.at(upstream) };
        let forwarded = if to.upstream.is_http2() {
            Box::pin(forward::<S, EndpointStream>(client, worker, state, active, to)).await
        } else {
            Box::pin(forward::<S, Connection>(client, worker, state, active, to)).await
        };
        if let Ok(next) = forwarded {
            return next;
        }
    }
}

/// Gives up the rest of the request's body. Returns whether the client's connection closes after the
/// response.
fn leave_body<S: ClientSide>(client: &Client<S>, state: &mut RequestState, active: &ActivePlan) -> bool {
    let (collected, known, reason) = match &state.fallback {
        Some(falling) => (falling.collected.is_some(), falling.closes, falling.reason),
        None => (false, None, Reason::None),
    };
    if let Some(closes) = known {
        return closes;
    }
    // A collected body was read, so the inbox holds the next request.
    let closes = client.closes_after(&active.plan.settings, &state.request);
    let closes = if collected { closes } else { skip_rest_of_body(state, reason, closes) };
    state.to_upstream.clear();
    if let Some(falling) = &mut state.fallback {
        falling.closes = Some(closes);
    }
    closes
}

/// Returns the path of a page for an error with this status.
fn filled(path: &str, status: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for (number, piece) in path.split("{status}").enumerate() {
        if number > 0 {
            write_decimal(&mut out, u64::from(status));
        }
        out.extend_from_slice(piece.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_stands_wherever_it_is_named() {
        assert_eq!(filled("/50x.html", 502), b"/50x.html");
        assert_eq!(filled("/{status}/{status}.html?code={status}", 404), b"/404/404.html?code=404");
    }
}
