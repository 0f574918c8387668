//! The trait of all discovery sources.

use std::fmt;
use std::future::Future;

use tollgate_plan::Endpoint;

/// A source of the endpoints of an upstream.
///
/// DNS and files implement it. A registry (etcd, Consul, Kubernetes) would be another implementation, whose
/// [`next`](Self::next) waits for an event of a watch and returns all endpoints of that moment. The caller
/// keeps the last good answer, counts and warns; a source does none of these.
pub trait EndpointSource: Send + 'static {
    /// Waits until it is time to look, or until something changed, and returns all current endpoints. The
    /// first call looks at once. After a failure the caller calls again at once; the source decides how long
    /// to wait.
    ///
    /// # Errors
    /// Returns why there is no answer. An answer without endpoints is also a failure: a mistake elsewhere
    /// must never empty an upstream.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Endpoint>, LookupError>> + Send;
}

/// Why a lookup returned no endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The name exists, but has no record of the requested type, or none that is usable.
    NoRecords,
    /// A name server answered with this error code.
    Server(String),
    /// No answer arrived in time.
    Timeout,
    /// Any other failure, such as a file with a mistake, or no known name server.
    Other(String),
}

impl fmt::Display for LookupError {
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
