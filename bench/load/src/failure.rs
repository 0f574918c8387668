//! The error of a run.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a run could not take place. Failures of single requests are counted in the result instead.
#[derive(Debug)]
pub enum Failure {
    /// The plan asks for something impossible.
    Plan(String),
    /// No connection could be opened before the run.
    Unreachable(SocketAddr, io::Error),
    /// The first connection failed; the text says why and what to do.
    Greeting(String),
    /// The limit of open files is too low.
    OpenFiles {
        /// Connections that the plan asks for.
        connections: u32,
        /// Connections that the limit allows.
        most: u32,
    },
    /// A system call failed; the text says which step.
    System(&'static str, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(what) => write!(f, "load plan: {what}"),
            Self::Unreachable(target, error) => {
                write!(f, "cannot connect to {target}: {error}; is the server listening there?")
            }
            Self::Greeting(what) => f.write_str(what),
            Self::OpenFiles { connections, most } => write!(
                f,
                "{connections} connections need as many open files, but this process may have only about {most}; \
                 raise the hard limit (`ulimit -Hn`, LimitNOFILE) or ask for fewer connections"
            ),
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(_, error) | Self::System(_, error) => Some(error),
            Self::Plan(_) | Self::Greeting(_) | Self::OpenFiles { .. } => None,
        }
    }
}
