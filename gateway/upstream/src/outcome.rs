//! What became of an attempt, as ejection, breakers and limits look at it.

/// What became of one attempt of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered with this status.
    Answered(u16),
    /// No connection could be opened.
    NoConnection,
    /// The connection broke, or what came over it was not HTTP.
    Broken,
    /// It did not answer in time.
    TimedOut,
}
