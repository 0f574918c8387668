//! The error of this crate: a sentence for the person who runs the laboratory.

use std::fmt;
use tollgate_lab_record::SystemUsed;

/// A sentence that says what failed and, if known, what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Formats as `what: error`.
    pub fn of(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self(format!("{what}: {error}"))
    }
}

/// Why a system did not start.
impl From<Box<SystemUsed>> for Failure {
    fn from(used: Box<SystemUsed>) -> Self {
        Self(used.missing.map(|missing| missing.reason).unwrap_or_default())
    }
}

macro_rules! from {
    ($($type:ty),*) => { $(impl From<$type> for Failure {
        fn from(error: $type) -> Self {
            Self(error.to_string())
        }
    })* };
}

from!(tollgate_lab_meter::Error, tollgate_lab_system::SystemError, tollgate_lab_tools::RunError);
