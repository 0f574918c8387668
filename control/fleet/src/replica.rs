//! A gateway's copy of the controller's documents.
//!
//! The [client](crate::client) calls it with the controller's messages. Changes are collected until the commit, and
//! take effect together. If the connection breaks before the commit, they are dropped: the next connection resumes at
//! the last commit.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_documents::{Compact, DocumentKey};

use crate::edit::apply_edits;
use crate::message::{Position, ToGateway};

/// Returns the kind of resource with a name; `None`: this program does not have it.
pub type KindNames = fn(&str) -> Option<&'static str>;

/// A gateway's copy of the documents.
#[derive(Debug)]
pub struct Replica {
    kinds: KindNames,
    documents: BTreeMap<DocumentKey, Compact>,
    position: Option<Position>,
    /// The changes since the last commit.
    batch: Changes,
    /// Documents of kinds that this program does not have.
    unknown: BTreeSet<(String, String)>,
}

type Changes = BTreeMap<DocumentKey, Option<Compact>>;

/// The changes of a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The documents that differ from before; `None`: the document is gone.
    pub changes: Changes,
    /// The position after it.
    pub position: Position,
}

impl Replica {
    /// Makes a copy of documents that are known from an earlier run.
    #[must_use]
    pub fn new(
        kinds: KindNames,
        documents: BTreeMap<DocumentKey, Compact>,
        position: Option<Position>,
    ) -> Self {
        Self { kinds, documents, position, batch: BTreeMap::new(), unknown: BTreeSet::new() }
    }

    /// Returns the documents as of the last commit.
    #[must_use]
    pub fn documents(&self) -> &BTreeMap<DocumentKey, Compact> {
        &self.documents
    }

    /// Returns the position of the last commit.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Returns the documents of kinds that this program does not have, as kind and name.
    pub fn unknown(&self) -> impl Iterator<Item = &(String, String)> {
        self.unknown.iter()
    }

    /// Drops the messages since the last commit: the connection is gone.
    pub fn disconnect(&mut self) {
        self.batch.clear();
    }

    /// Applies a message. Returns the changes if it is a commit.
    ///
    /// # Errors
    /// The message does not fit the documents. The caller must close the connection. The position is reset, so that the
    /// next connection gets all documents.
    pub fn take(&mut self, message: ToGateway) -> Result<Option<Commit>, String> {
        match message {
            ToGateway::Reset => {
                self.batch = self.documents.keys().map(|key| (key.clone(), None)).collect();
                self.unknown.clear();
            }
            ToGateway::Put { kind, name, value } => match (self.kinds)(&kind) {
                Some(kind) => drop(self.batch.insert(DocumentKey { kind, name }, Some(value))),
                None => drop(self.unknown.insert((kind, name))),
            },
            ToGateway::Edit { kind, name, edits } => {
                // A document of an unknown kind stays one.
                let Some(kind) = (self.kinds)(&kind) else { return Ok(None) };
                let key = DocumentKey { kind, name };
                let known = self.documents.get(&key).filter(|_| !self.batch.contains_key(&key));
                let edited = match known {
                    Some(known) => {
                        let mut value = known.value();
                        apply_edits(&mut value, edits).map(|()| value)
                    }
                    None => Err("an edit is for a document that is not here".to_owned()),
                };
                match edited {
                    Ok(value) => drop(self.batch.insert(key, Some(Compact::from(&value)))),
                    Err(why) => {
                        self.position = None;
                        return Err(format!("{}/{}: {why}", key.kind, key.name));
                    }
                }
            }
            ToGateway::Remove { kind, name } => match (self.kinds)(&kind) {
                Some(kind) => drop(self.batch.insert(DocumentKey { kind, name }, None)),
                None => drop(self.unknown.remove(&(kind, name))),
            },
            ToGateway::Commit(position) => return Ok(Some(self.commit(position))),
            // Purges are no documents: the client handles them itself.
            ToGateway::Alive | ToGateway::Purge { .. } | ToGateway::Purges { .. } => {}
            ToGateway::Rejected(why) => return Err(why),
        }
        Ok(None)
    }

    fn commit(&mut self, position: Position) -> Commit {
        let mut changes = std::mem::take(&mut self.batch);
        changes.retain(|key, value| self.documents.get(key) != value.as_ref());
        for (key, value) in &changes {
            match value {
                Some(value) => drop(self.documents.insert(key.clone(), value.clone())),
                None => drop(self.documents.remove(key)),
            }
        }
        self.position = Some(position.clone());
        Commit { changes, position }
    }
}
