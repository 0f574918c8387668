//! Documents that sources send to the gateway.
//!
//! The threads of Kubernetes and of a controller send [`DocumentChanges`]. `sources` puts them in force, and answers
//! with the documents that it refused. [`StateFile`] keeps the documents in force, for a start without the source. Only
//! `config` reads what a document says.

mod compact;
mod state_file;

use std::collections::BTreeMap;

use tokio::sync::oneshot;

pub use compact::Compact;
pub use state_file::{StateFile, write_state};

/// The key of a document: its kind, such as `routes`, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The kind of resource.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}

/// The documents that the gateway refused, with the reasons.
pub type Refused = BTreeMap<DocumentKey, String>;

/// Documents that changed.
#[derive(Debug)]
pub struct DocumentChanges {
    /// The changed documents; `None`: the document is gone.
    pub changes: Vec<(DocumentKey, Option<Compact>)>,
    /// Receives all refused documents, changed or not, when the others are in force.
    pub answer: oneshot::Sender<Refused>,
}

/// A message of a source to the gateway.
#[derive(Debug)]
pub enum SourceEvent {
    /// Documents changed.
    Documents(DocumentChanges),
    /// Whether the source answers, with the reason if it does not.
    Connected(Result<(), String>),
}
