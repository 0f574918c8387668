//! Replaces an error by the response of another upstream, by a page, or by a fixed response.
//!
//! An error is an endpoint's response, or the gateway's own if no endpoint has responded. [`choose`] picks
//! the first of the route's fallbacks that fits, and [`forward`] then returns [`FallBack`]. At that point the
//! failed upstream has its permits back. [`fall_back`] then carries out the choice. Each fallback of a route
//! is used at most once, and only later ones may follow it, so every request ends, however many of them fail.

use std::rc::Rc;

use tollgate_http::h1::write_decimal;
use tollgate_observe::Reason;
use tollgate_plan::FallbackAction;
use tollgate_upstream::Connection;

use super::retry::Replay;
use super::{Forwarding, forward};
use crate::active::ActivePlan;
use crate::client_side::ClientSide;
use crate::connection::Client;
use crate::http2::EndpointStream;
use crate::request::{ConnectionFate, closes_after};
use crate::request_state::RequestState;
use crate::respond;
use crate::skip_body::skip_rest_of_body;
use crate::upstream_side::UpstreamSide;
use crate::worker::Worker;

/// A fallback was chosen, and the client has received nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FallBack;

/// The state of a request whose error a fallback replaces.
#[derive(Debug, Default)]
pub(crate) struct FallingBack {
    /// The index of the fallback in its route's list.
    taken: usize,
    /// The status of the error.
    status: u16,
    /// The gateway's reason; [`Reason::None`]: the error is an endpoint's.
    reason: Reason,
    /// Fields of the endpoint's response that the client needs to react to the error.
    lines: Vec<u8>,
    /// The length of a request body that was collected, to be sent again.
    collected: Option<u64>,
    /// Whether the client's connection closes after the response. `None`: the request's body is still needed.
    closes: Option<bool>,
    /// The page that is requested.
    page: Option<ErrorPage>,
}

/// A page that replaces an error.
#[derive(Debug)]
pub(crate) struct ErrorPage {
    /// Its path and query.
    pub target: Vec<u8>,
    /// The status that the client gets.
    pub status: u16,
    /// Additional lines of the response, each with its CRLF.
    pub lines: Vec<u8>,
}

impl FallingBack {
    pub fn page(&self) -> Option<&ErrorPage> {
        self.page.as_ref()
    }

    /// Returns whether the client's connection closes after the response that replaces the error.
    pub fn closes(&self) -> bool {
        self.closes == Some(true)
    }

    pub fn collected(&self) -> Option<u64> {
        self.collected.filter(|_| self.page.is_none())
    }

    /// If a page was requested and failed, returns the error that the gateway sends instead: its reason,
    /// status and lines, and whether the connection closes.
    pub fn without_page(&mut self) -> Option<(Reason, u16, Vec<u8>, bool)> {
        self.page.take()?;
        let reason = if self.reason == Reason::None { Reason::ErrorPageUnavailable } else { self.reason };
        Some((reason, self.status, std::mem::take(&mut self.lines), self.closes()))
    }
}

/// Fields that tell the client how to react to a status (RFC 9110, 11.6.1, 10.2.1 and 10.2.3). The page
/// carries them.
const KEPT: [&str; 3] = ["WWW-Authenticate", "Allow", "Retry-After"];

/// Returns whether the upstream caused an error of the gateway, and not the client or the gateway itself.
fn is_of_upstream(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::DestinationUnavailable
            | Reason::ConnectionLimitReached
            | Reason::QueueTimeout
            | Reason::RequestLimit
            | Reason::AdaptiveLimit
            | Reason::CircuitOpen
            | Reason::DnsError
            | Reason::ConnectionRefused
            | Reason::TlsProtocolError
            | Reason::TlsCertificateError
            | Reason::TlsAlertReceived
            | Reason::ConnectionTimeout
            | Reason::ConnectionTerminated
            | Reason::HttpResponseTimeout
            | Reason::ConnectionWriteTimeout
            | Reason::HttpProtocolError
            | Reason::UpgradeFailed
            | Reason::ResponseHeadersTooLarge
            | Reason::RequestTimeout
            | Reason::ErrorPageUnavailable
    )
}

/// Chooses a fallback for an error: for an endpoint's response with this status, or, with a reason, for the
/// gateway's own error. `may_repeat`: the request may be sent again. Returns whether one fits.
#[cold]
pub(crate) fn choose(state: &mut RequestState, status: u16, reason: Reason, may_repeat: bool) -> bool {
    let RequestState { record, response, fallback: falling, .. } = state;
    let Some((active, index)) = &record.route else { return false };
    let Some(fallbacks) = &active.route(*index).fallback else { return false };
    if reason != Reason::None && !is_of_upstream(reason) {
        return false;
    }
    // If a page fails, its status is no error of its own: the request still has the error that the page
    // replaces.
    let page_of = falling.as_ref().filter(|falling| falling.page.is_some()).map(|falling| falling.status);
    let status = page_of.unwrap_or(status);
    let came_from = record.upstream.as_ref().map(|upstream| upstream.name.as_str());
    let fits = |instead: &FallbackAction| match instead {
        FallbackAction::Request(upstream) => {
            may_repeat
                && page_of.is_none()
                && came_from != Some(active.plan.upstreams[*upstream].name.as_str())
        }
        FallbackAction::Page { .. } | FallbackAction::Respond { .. } => true,
    };
    let first = falling.as_ref().map_or(0, |falling| falling.taken + 1);
    let found = fallbacks
        .iter()
        .enumerate()
        .skip(first)
        .find(|(_, fallback)| fallback.on.binary_search(&status).is_ok() && fits(&fallback.action));
    let Some((taken, _)) = found else { return false };
    let falling = falling.get_or_insert_default();
    falling.taken = taken;
    falling.page = None;
    if page_of.is_none() {
        (falling.status, falling.reason) = (status, reason);
        falling.lines.clear();
        if reason == Reason::None {
            for name in KEPT {
                for value in response.head.all_by_text(name.as_bytes()) {
                    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                        falling.lines.extend_from_slice(part);
                    }
                }
            }
        }
    }
    // The request has not just arrived any more, so `forward` must read the clock.
    record.mark_partial();
    true
}

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
        choose(self.state, reason.status(), reason, may_repeat) && self.leave()
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
                let answer = (status, falling.reason, lines.as_slice());
                return respond::page(client, worker, state, respond, answer, closes).await;
            }
        };
        let to = (index, active.at(upstream));
        let forwarded = if to.1.is_http2() {
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
    let is_over = collected || skip_rest_of_body(state, reason);
    state.to_upstream.clear();
    let closes = !is_over || closes_after(&active.plan.settings, client, state);
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
