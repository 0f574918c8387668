//! The seam behind which endpoints are found.

use std::fmt;
use std::future::Future;

use tollgate_plan::Endpoint;

/// Where the endpoints of an upstream come from.
///
/// DNS and a file are here; a registry (etcd, Consul, Kubernetes) is one more implementation: its [`next`](Self::next)
/// waits for an event of its watch and gives all endpoints as they are then. What is done with an answer, that the last
/// good one is kept, counts and warnings are the same for all and not a source's business.
pub trait Source: Send + 'static {
    /// Waits until it is time to look, or until something has changed, and gives all endpoints of now. The first call
    /// looks at once. After a failure it is called again: how long to wait then is the source's own affair.
    ///
    /// # Errors
    /// Why there is no answer. An answer without endpoints is one of these too: an upstream is never emptied by what
    /// may be a mistake elsewhere.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Endpoint>, Failure>> + Send;
}

/// Why a look-up gave no endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The name exists and has no record of the kind asked for, or none that can be used.
    NoRecords,
    /// A name server answered with this error.
    Server(String),
    /// Nobody answered in time.
    Timeout,
    /// Anything else: a file with a mistake, no name server at all.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("there is no such name (NXDOMAIN)"),
            Self::NoRecords => f.write_str("the name has no address"),
            Self::Server(code) => write!(f, "the name server answered: {code}"),
            Self::Timeout => f.write_str("no name server answered in time"),
            Self::Other(text) => f.write_str(text),
        }
    }
}
