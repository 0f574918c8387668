//! Bounds the memory of request heads that wait until the connection may start them.

use tollgate_http2::{ErrorCode, RequestStream, ServerConnection};

use crate::front::scheduler::frame_budget::ClientTrust;

/// Bytes of waiting heads that a connection may hold, as they are in memory: enough for some hundred browser
/// requests.
const WAITING_HEADS_MAX_BYTES: usize = 128 * 1024;
/// The same for a client that is not trusted yet, while all connections of the worker hold more than
/// `CROWDED_TOTAL_BYTES` bytes.
const CROWDED_MAX_BYTES: usize = 16 * 1024;
const CROWDED_TOTAL_BYTES: usize = 32 * 1024 * 1024;

/// Returns whether a connection holds more than its limit.
pub(super) fn exceeds_limit(connection: &ServerConnection) -> bool {
    connection.queued_bytes() > WAITING_HEADS_MAX_BYTES
}

/// While the waiting heads of all connections exceed `CROWDED_TOTAL_BYTES`, refuses waiting requests of an
/// untrusted client until it holds no more than `CROWDED_MAX_BYTES` bytes.
pub(super) fn refuse_excess(connection: &ServerConnection, client: ClientTrust) {
    while client != ClientTrust::Trusted
        && connection.queued_bytes_of_all() > CROWDED_TOTAL_BYTES
        && connection.queued_bytes() > CROWDED_MAX_BYTES
        && let Some(begun) = connection.next_request()
    {
        refuse(&begun.stream);
    }
}

/// Refuses a request that was never processed: the client may send it again, here or elsewhere (RFC 9113,
/// 8.7).
pub(super) fn refuse(stream: &RequestStream) {
    stream.reset(ErrorCode::REFUSED_STREAM);
}
