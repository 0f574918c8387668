//! Heads that wait to be begun: how much of them a connection may hold.

use tollgate_http2::{Connection, Reason, Stream};

use super::intake::Standing;

/// Bytes of heads that may wait, as they are in memory: those of some hundred requests of browsers.
const HELD: usize = 128 * 1024;
/// The same of who is not known yet, where those of all connections of a worker together are more than `CROWD`.
const FEW: usize = 16 * 1024;
const CROWD: usize = 32 * 1024 * 1024;

/// Whether a connection holds more than it may.
pub(super) fn is_too_much(connection: &Connection) -> bool {
    connection.held() > HELD
}

/// What waits is bounded further for who is not known, where all that wait hold much: so much of it is refused.
pub(super) fn refuse_what_is_too_much(connection: &Connection, client: Standing) {
    while client != Standing::Known
        && connection.held_by_all() > CROWD
        && connection.held() > FEW
        && let Some(begun) = connection.next()
    {
        refuse(&begun.stream);
    }
}

/// Nothing was done for it: the client may send it again, here or elsewhere (RFC 9113, 8.7).
pub(super) fn refuse(stream: &Stream) {
    stream.reset(Reason::REFUSED_STREAM);
}
