//! The error of this crate.

use std::fmt;
use std::io;
use std::path::Path;

/// A reason in one sentence, for the person at the terminal.
#[derive(Debug)]
pub enum Error {
    /// The machine lacks something: a core, a port, a permission, a cgroup controller. The text says what to
    /// do about it.
    Lacking(String),
    /// The system refused an operation on the named object.
    System(String, io::Error),
    /// A signal is ending the run, so nothing new is started.
    Ending,
}

impl Error {
    /// Wraps an I/O error with the path of the file or folder.
    pub fn file(path: &Path, error: io::Error) -> Self {
        Self::System(path.display().to_string(), error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacking(what) => f.write_str(what),
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::Ending => f.write_str("a signal is ending the run; nothing more is started"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(_, error) => Some(error),
            Self::Lacking(_) | Self::Ending => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_and_keeps_its_cause() {
        let error = Error::file(Path::new("/proc/1/clear_refs"), io::ErrorKind::PermissionDenied.into());
        assert_eq!(error.to_string(), "/proc/1/clear_refs: permission denied");
        assert!(std::error::Error::source(&error).is_some());
        assert!(std::error::Error::source(&Error::Ending).is_none());
    }
}
