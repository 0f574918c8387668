//! The error of an origin or a relay.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why an origin or a relay could not run. A failure of a single connection only ends that connection.
#[derive(Debug)]
pub enum Failure {
    /// The settings ask for something impossible.
    Settings(String),
    /// The address could not be bound.
    Listen(SocketAddr, io::Error),
    /// A system call failed; the text says which step.
    System(&'static str, io::Error),
}

impl Failure {
    /// Returns a function for `map_err` on a system call.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System(what, error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(what) => write!(f, "settings: {what}"),
            Self::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; is another server there?")
            }
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen(_, error) | Self::System(_, error) => Some(error),
            Self::Settings(_) => None,
        }
    }
}
