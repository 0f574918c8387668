//! The special treatment of gRPC calls: HTTP/2 requests whose `content-type` is gRPC's.
//!
//! A call takes the same path as any other request. Three things differ: the client's deadline
//! (`grpc-timeout`), a result in its trailers (`grpc-status`), and errors of the gateway, which are sent as a
//! gRPC status. Calls of gRPC-Web, from browsers, are [translated](translate).

mod client_deadline;
pub(crate) mod translate;
mod web;

pub(crate) use self::client_deadline::ClientDeadline;

use std::time::Instant;

use tollgate_http::grpc::{GrpcStatus, encode_message, timeout};
use tollgate_observe::{Reason, Slot};
use tollgate_plan::ErrorBodies;

use crate::exchange::error_body::{Flavour, error_body};
use crate::state::grpc_call::GrpcCall;
use crate::state::record::RequestRecord;
use crate::state::request_path::upstream_path;
use crate::state::request_state::RequestState;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// Sets `grpc-timeout` for the endpoint to the time that is left, because the endpoint counts from when it
/// receives the call.
pub(crate) fn pass_deadline_on(state: &mut RequestState, total: TimeLimit, now: Instant) {
    let Some(GrpcCall { timeout: Some(_) }) = state.grpc else { return };
    if let Some(left) = total.within(now, None) {
        let mut value = Vec::with_capacity(9);
        timeout::write(&mut value, left);
        state.request.set_value(b"grpc-timeout", &value);
    }
}

/// Counts the call, if the request was one, when it ends.
pub(crate) fn count(worker: &Worker, state: &mut RequestState) {
    if state.grpc.take().is_some() {
        let route = state.record.route.as_ref();
        let slot = route.map_or(Slot::NONE, |(active, index)| active.claim_slot(*index));
        let status = state.record.grpc_status.map(GrpcStatus::number);
        // The path as the endpoint gets it: a client can write the same method in many ways, with
        // percent-encoding.
        let method = upstream_path(state);
        worker.stats.grpc_ended(slot, status, (method, state.record.reason == Reason::None));
    }
}

/// Returns the fields of an error response to a gRPC client. Such a response is a head without a body, which
/// holds the trailers' fields.
pub(crate) fn failure(reason: Reason, bodies: &ErrorBodies, record: &mut RequestRecord) -> Vec<u8> {
    [b"Content-Type: application/grpc\r\n".as_slice(), &failed_trailers(reason, bodies, record)].concat()
}

/// Returns the trailers that end a response with an error after its head was sent.
pub(crate) fn failed_trailers(reason: Reason, bodies: &ErrorBodies, record: &mut RequestRecord) -> Vec<u8> {
    let code = code(reason);
    record.grpc_status = Some(code);
    let text = error_body(Flavour::Text, bodies, reason.status(), reason, &record.request_id);
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

/// Returns the gRPC status of a reason. This is the status that a client derives from the HTTP status, unless
/// gRPC has a better one.
pub(crate) const fn code(reason: Reason) -> GrpcStatus {
    match reason {
        Reason::RequestTimeout => GrpcStatus::DeadlineExceeded,
        // A retry does not help.
        Reason::GrpcNeedsHttp2 => GrpcStatus::Unimplemented,
        // The status of gRPC's own implementations for metadata that is too large. A retry does not help.
        Reason::ResponseTrailersTooLarge | Reason::TrailersTooLarge => GrpcStatus::ResourceExhausted,
        reason => GrpcStatus::from_http(reason.status()),
    }
}
