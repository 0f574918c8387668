//! Bounds the memory of request heads that wait until the connection may start them.

use tollgate_http2::{ErrorCode, RequestStream, ServerConnection};

use super::intake::Standing;

/// Bytes of waiting heads that a connection may hold, as they are in memory: enough for some hundred browser
/// requests.
const HELD: usize = 128 * 1024;
/// The same for a client that is not trusted yet, while all connections of the worker hold more than `CROWD`
/// bytes.
const FEW: usize = 16 * 1024;
const CROWD: usize = 32 * 1024 * 1024;

/// Returns whether a connection holds more than its limit.
pub(super) fn is_too_much(connection: &ServerConnection) -> bool {
    connection.queued_bytes() > HELD
}

/// While the waiting heads of all connections exceed `CROWD`, refuses waiting requests of an untrusted client
/// until it holds no more than `FEW` bytes.
pub(super) fn refuse_what_is_too_much(connection: &ServerConnection, client: Standing) {
    while client != Standing::Known
        && connection.queued_bytes_of_all() > CROWD
        && connection.queued_bytes() > FEW
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
