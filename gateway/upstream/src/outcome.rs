//! The result of an attempt, as outlier detection sees it.

/// The result of one attempt of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint answered with this status.
    Answered(u16),
    /// No connection to the endpoint could be opened.
    NoConnection,
    /// The connection broke, or the endpoint did not answer in valid HTTP.
    Broken,
    /// The endpoint did not answer in time.
    TimedOut,
}
