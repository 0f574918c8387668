//! The result of a peek at a connection.

/// The state of a stream's receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// At least one byte.
    Data,
    /// The peer closed its direction, and nothing is left to read.
    End,
    /// The peer reset the connection.
    Reset,
}
