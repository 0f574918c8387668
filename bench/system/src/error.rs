//! The error of this crate.

use std::fmt;

/// Why a system could not be installed, prepared or started, as a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemError {
    system: String,
    message: String,
}

impl SystemError {
    /// Creates an error about the system with this name.
    pub fn new(system: &str, message: impl Into<String>) -> Self {
        Self { system: system.to_owned(), message: message.into() }
    }

    /// Returns the name of the system.
    pub fn system(&self) -> &str {
        &self.system
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.system, self.message)
    }
}

impl std::error::Error for SystemError {}
