//! Why a run, or one target of it, could not go on.

use std::fmt;
use std::io;
use std::path::Path;

/// A reason in one sentence for the person at the terminal.
#[derive(Debug)]
pub enum Failure {
    /// Something that the machine lacks: a tool, a core, a free port, a right.
    Lacking(String),
    /// A server under test (or the origin) did not start, or gave a wrong answer.
    Target(String),
    /// The load generator failed, or printed what could not be understood.
    Generator(String),
    /// The system refused an operation.
    System(String, io::Error),
}

impl Failure {
    /// Wraps an I/O error with the file that it happened on.
    pub fn file(path: &Path, error: io::Error) -> Self {
        Self::System(path.display().to_string(), error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacking(what) | Self::Target(what) | Self::Generator(what) => f.write_str(what),
            Self::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Failure {}
