//! Why a server of the laboratory could not run.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why an origin or a relay could not run. What goes wrong with single connections ends these and nothing else.
#[derive(Debug)]
pub enum Failure {
    /// The settings ask for something that cannot be.
    Settings(String),
    /// No socket could listen there.
    Listen(SocketAddr, io::Error),
    /// A call to the kernel failed: what was tried.
    System(&'static str, io::Error),
}

impl Failure {
    /// For `map_err` on a call to the kernel.
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
