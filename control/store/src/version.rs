//! A version: the author, the time and the changes.

use serde::{Deserialize, Serialize};

/// A version before it has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVersion {
    /// Time of the change, in milliseconds since 1970.
    pub at: u64,
    /// Author: the name of a token, or the source of the request.
    pub who: String,
    /// Summary of the request, in a few words.
    pub what: String,
    /// The changes; each document appears once.
    pub changes: Vec<DocumentChange>,
}

/// A version of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    /// Number of the version, from 1.
    pub version: u64,
    /// Author, time and changes.
    pub content: NewVersion,
}

/// A change of one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentChange {
    /// Kind of the document.
    pub kind: String,
    /// Name of the document.
    pub name: String,
    /// Text before the change; `None`: the document is new.
    pub before: Option<String>,
    /// Text after the change; `None`: the document was deleted.
    pub after: Option<String>,
}

impl DocumentChange {
    /// Returns the change that undoes this one.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { before: self.after, after: self.before, ..self }
    }
}
