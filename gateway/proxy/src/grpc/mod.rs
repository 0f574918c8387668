//! What is different for a gRPC call: a request of HTTP/2 whose `content-type` says so.
//!
//! It goes the way of any other request. What it has beside: a deadline of its client's (`grpc-timeout`), an end that its
//! trailers tell (`grpc-status`), and errors of the gateway's that are told in the same words. What browsers send in its
//! place is [translated](translate).

mod patience;
pub(crate) mod translate;
mod web;

pub(crate) use self::patience::Patience;

use std::time::{Duration, Instant};

use tollgate_http::grpc::{Code, Kind, encode_message, timeout};
use tollgate_http::{Name, RequestHead};
use tollgate_observe::{Reason, Slot};
use tollgate_plan::ErrorBodies;

use crate::decide::upstream_path;
use crate::error_body::{Flavour, error_body};
use crate::ledger::Ledger;
use crate::scratch::Scratch;
use crate::total::Total;
use crate::worker::Worker;

/// A gRPC call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grpc {
    /// How long its client waits, from the begin of the request.
    pub timeout: Option<Duration>,
}

impl Grpc {
    /// The call that this request is; `None`: it is none.
    pub fn of(request: &RequestHead) -> Option<Self> {
        let kind = request.head.get(Name::ContentType).and_then(Kind::of);
        (kind == Some(Kind::Native)).then(|| Self::new(request))
    }

    /// A request that is known to be one.
    pub fn new(request: &RequestHead) -> Self {
        // One that is malformed goes on: to refuse it is the endpoint's business.
        Self { timeout: request.head.get_by_text(b"grpc-timeout").and_then(timeout::parse) }
    }
}

impl Grpc {
    /// Whether the client's patience ends before this bound of the gateway's own.
    pub fn is_sooner(&self, total: Option<Duration>) -> bool {
        self.timeout.is_some_and(|timeout| total.is_none_or(|total| timeout < total))
    }
}

/// Tells the endpoint what is left of the time that the client gave: whoever gets a call counts from then on.
pub(crate) fn pass_deadline_on(scratch: &mut Scratch, total: Total, now: Instant) {
    let Some(Grpc { timeout: Some(_) }) = scratch.grpc else { return };
    if let Some(left) = total.within(now, None) {
        let mut value = Vec::with_capacity(9);
        timeout::write(&mut value, left);
        scratch.request.set_value(b"grpc-timeout", &value);
    }
}

/// A call has ended, or a request that was none.
pub(crate) fn count(worker: &Worker, scratch: &mut Scratch) {
    if scratch.grpc.take().is_some() {
        let route = scratch.ledger.route.as_ref();
        let slot = route.map_or(Slot::NONE, |(active, index)| active.slot(*index));
        let status = scratch.ledger.grpc_status.map(Code::number);
        // As the endpoint knows it: a client can spell a method in many ways, with escapes.
        let method = upstream_path(scratch);
        worker.stats.grpc_ended(slot, status, (method, scratch.ledger.reason == Reason::None));
    }
}

/// The fields of a failure that the gateway tells a gRPC client: an answer that is nothing but a head, which has what
/// trailers would have.
pub(crate) fn failure(reason: Reason, bodies: &ErrorBodies, ledger: &mut Ledger) -> Vec<u8> {
    [b"Content-Type: application/grpc\r\n".as_slice(), &failed_trailers(reason, bodies, ledger)].concat()
}

/// The trailers of a failure after a response has begun.
pub(crate) fn failed_trailers(reason: Reason, bodies: &ErrorBodies, ledger: &mut Ledger) -> Vec<u8> {
    let code = code(reason);
    ledger.grpc_status = Some(code);
    let text = error_body(Flavour::Text, bodies, reason.status(), reason, &ledger.request_id);
    let mut lines = Vec::with_capacity(160);
    lines.extend_from_slice(b"grpc-status: ");
    lines.extend_from_slice(code.number().to_string().as_bytes());
    lines.extend_from_slice(b"\r\ngrpc-message: ");
    encode_message(&mut lines, text.trim_end());
    lines.extend_from_slice(b"\r\nTollgate-Reason: ");
    lines.extend_from_slice(reason.as_str().as_bytes());
    lines.extend_from_slice(b"\r\n");
    lines
}

/// What a reason is to a gRPC client: what it would make of the reason's HTTP status, but where gRPC has a word of its own.
pub(crate) const fn code(reason: Reason) -> Code {
    match reason {
        Reason::RequestTimeout => Code::DeadlineExceeded,
        // To try again does not help.
        Reason::GrpcNeedsHttp2 => Code::Unimplemented,
        // The status of gRPC's own implementations for metadata that is too large. A retry does not help.
        Reason::ResponseTrailersTooLarge | Reason::TrailersTooLarge => Code::ResourceExhausted,
        reason => Code::from_http(reason.status()),
    }
}
