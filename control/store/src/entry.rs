//! One version: who changed what, and when.

use serde::{Deserialize, Serialize};

/// What is to become a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEntry {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Who: the name of a token, or where it came from.
    pub who: String,
    /// What was asked for, in a few words.
    pub what: String,
    /// What it changes; each document once.
    pub changes: Vec<Change>,
}

/// A version of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1.
    pub version: u64,
    /// What made it.
    pub entry: NewEntry,
}

/// What becomes of one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its text before; none: it is new.
    pub before: Option<String>,
    /// Its text from now on; none: it is gone.
    pub after: Option<String>,
}

impl Change {
    /// What takes it back.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { before: self.after, after: self.before, ..self }
    }
}
