//! What can go wrong with a system while it is used.

use std::fmt;

/// Why a system could not be installed, prepared or started, said for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemError {
    system: String,
    message: String,
}

impl SystemError {
    /// An error of the system of that name.
    pub fn new(system: &str, message: impl Into<String>) -> Self {
        Self { system: system.to_owned(), message: message.into() }
    }

    /// The system it is about.
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
