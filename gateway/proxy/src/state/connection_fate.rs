//! The fate of a client's connection after a request. Each function that answers a request returns one; the
//! front carries it out.

/// The fate of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
    /// It can carry another request.
    KeepAlive,
    /// It is closed at once.
    Close,
    /// It is reset: the client must not mistake a partial response for a complete one.
    Reset,
    /// It is closed in a way that delivers the response, though the client may still be sending.
    Linger,
}
