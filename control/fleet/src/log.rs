//! The controller's documents, ordered by the version that last changed each.
//!
//! The log has one entry for each document, and one for each recent removal. So the changes since a position are the
//! end of the log, and a document that changed twice is in it once. The log needs no queue per gateway, and does not
//! grow with the number of changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use tollgate_documents::{Compact, DocumentKey};

use crate::edit::edits;
use crate::message::{Position, ToGateway, line, put_line};

/// How many removals the log remembers. A gateway with an older position gets all documents.
const REMOVALS_MAX: usize = 10_000;
/// Documents below this size are always sent whole, in bytes.
const EDIT_MIN_BYTES: usize = 512;

/// The documents of a controller.
#[derive(Debug)]
pub struct DocumentLog {
    epoch: String,
    version: u64,
    entries: BTreeMap<u64, Entry>,
    by_key: HashMap<DocumentKey, u64>,
    /// The versions of the removals in `entries`.
    removals: BTreeSet<u64>,
    /// The version of the last removal that the log dropped. A gateway at an older position gets all documents.
    forgotten: u64,
    /// The sum of the digests of all documents, so that it does not depend on their order.
    digest: u128,
}

/// The last change of a document.
#[derive(Debug)]
struct Entry {
    key: DocumentKey,
    /// `None`: it was removed.
    value: Option<Compact>,
    line: Bytes,
    /// A shorter line for gateways that have the previous version of the document, and that version.
    edit: Option<(u64, Bytes)>,
    digest: u128,
}

/// The changes that bring a gateway's documents from its position to the present one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The lines of the changes.
    pub lines: Vec<Bytes>,
    /// The present position.
    pub position: Position,
}

impl DocumentLog {
    /// Makes a log without documents. `epoch` must differ from that of every other log.
    #[must_use]
    pub fn new(epoch: String) -> Self {
        Self {
            epoch,
            version: 0,
            entries: BTreeMap::new(),
            by_key: HashMap::new(),
            removals: BTreeSet::new(),
            forgotten: 0,
            digest: 0,
        }
    }

    /// Returns the present position.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch.clone(), version: self.version, digest: format!("{:032x}", self.digest) }
    }

    /// Returns the number of documents.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.entries.len() - self.removals.len()
    }

    /// Replaces all documents by these. An unchanged document keeps its version. Returns whether anything changed.
    pub fn replace(&mut self, all: impl IntoIterator<Item = (DocumentKey, Compact)>) -> bool {
        let before = self.version;
        let mut kept = HashSet::new();
        for (key, value) in all {
            self.put(&key, value);
            kept.insert(key);
        }
        let gone: BTreeSet<DocumentKey> =
            self.by_key.keys().filter(|key| !kept.contains(*key)).cloned().collect();
        gone.iter().for_each(|key| self.remove(key));
        self.version != before
    }

    /// Sets a document.
    pub fn put(&mut self, key: &DocumentKey, value: Compact) {
        let known = self.by_key.get(key).copied();
        let before = known.and_then(|version| Some((version, self.entries.get(&version)?)));
        let mut edit = None;
        if let Some((version, Entry { value: Some(old), .. })) = before {
            if *old == value {
                return;
            }
            edit = Some((version, old.clone()));
        }
        let line = Bytes::from(put_line(key.kind, &key.name, &value));
        let edit = edit.filter(|_| line.len() >= EDIT_MIN_BYTES).and_then(|(version, old)| {
            let edits = edits(&old.value(), &value.value());
            let (kind, name) = (key.kind.to_owned(), key.name.clone());
            let edit = crate::message::line(&ToGateway::Edit { kind, name, edits });
            (edit.len() < line.len() / 2).then(|| (version, Bytes::from(edit)))
        });
        let digest = digest(&line);
        self.digest = self.digest.wrapping_add(digest);
        self.change(Entry { key: key.clone(), value: Some(value), line, edit, digest });
    }

    /// Removes a document.
    pub fn remove(&mut self, key: &DocumentKey) {
        let Some(version) = self.by_key.get(key) else { return };
        if self.removals.contains(version) {
            return;
        }
        let gone = ToGateway::Remove { kind: key.kind.to_owned(), name: key.name.clone() };
        let line = Bytes::from(line(&gone));
        self.change(Entry { key: key.clone(), value: None, line, edit: None, digest: 0 });
        self.removals.insert(self.version);
        if self.removals.len() > REMOVALS_MAX
            && let Some(oldest) = self.removals.pop_first()
            && let Some(entry) = self.entries.remove(&oldest)
        {
            self.by_key.remove(&entry.key);
            self.forgotten = oldest;
        }
    }

    /// Adds an entry, which replaces the document's last one.
    fn change(&mut self, entry: Entry) {
        self.version += 1;
        if let Some(before) = self.by_key.insert(entry.key.clone(), self.version)
            && let Some(replaced) = self.entries.remove(&before)
        {
            self.removals.remove(&before);
            self.digest = self.digest.wrapping_sub(replaced.digest);
        }
        self.entries.insert(self.version, entry);
    }

    /// Returns the changes since a position; everything, if the position is unknown. A position of another run
    /// is known if it has the same documents.
    #[must_use]
    pub fn since(&self, known: Option<&Position>) -> Delta {
        let position = self.position();
        let lines = match known {
            Some(known)
                if known.epoch == self.epoch && (self.forgotten..=self.version).contains(&known.version) =>
            {
                let changed = self.entries.range(known.version + 1..).map(|(_, entry)| entry);
                changed.map(|entry| entry.line_for(known.version)).collect()
            }
            Some(known) if known.digest == position.digest => Vec::new(),
            _ => {
                let reset = Bytes::from(line(&ToGateway::Reset));
                let documents = self.entries.values().filter(|entry| entry.value.is_some());
                [reset].into_iter().chain(documents.map(|entry| entry.line.clone())).collect()
            }
        };
        Delta { lines, position }
    }
}

impl Entry {
    /// Returns the line for a gateway with this version.
    fn line_for(&self, known: u64) -> Bytes {
        match &self.edit {
            // The document had no other version in between: each version of the log has one change.
            Some((before, edit)) if known >= *before => edit.clone(),
            _ => self.line.clone(),
        }
    }
}

/// Returns the digest of a document's line, which has its kind, name and value.
fn digest(line: &[u8]) -> u128 {
    let mut context = Context::new(&SHA256);
    context.update(line);
    let digest = context.finish();
    digest.as_ref().iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key(name: &str) -> DocumentKey {
        DocumentKey { kind: "routes", name: name.to_owned() }
    }

    fn text(delta: &Delta) -> String {
        delta.lines.iter().map(|line| String::from_utf8_lossy(line)).collect()
    }

    #[test]
    fn a_known_position_gets_what_changed_and_an_unknown_one_everything() {
        let mut log = DocumentLog::new("one".to_owned());
        log.put(&key("a"), Compact::from(&json!({ "n": 1 })));
        log.put(&key("b"), Compact::from(&json!({ "n": 1 })));
        let first = log.position();
        assert_eq!(log.since(Some(&first)).lines, Vec::<Bytes>::new());
        log.put(&key("a"), Compact::from(&json!({ "n": 2 })));
        log.put(&key("a"), Compact::from(&json!({ "n": 3 })));
        log.remove(&key("b"));
        let delta = log.since(Some(&first));
        assert_eq!(
            text(&delta),
            "{\"put\":{\"kind\":\"routes\",\"name\":\"a\",\"value\":{\"n\":3}}}\n{\"remove\":{\"kind\":\"routes\",\"name\":\"b\"}}\n"
        );
        let all = "\"reset\"\n{\"put\":{\"kind\":\"routes\",\"name\":\"a\",\"value\":{\"n\":3}}}\n";
        assert_eq!(text(&log.since(None)), all);
        let other = Position { epoch: "other".to_owned(), ..first.clone() };
        assert_eq!(text(&log.since(Some(&other))), all);
        let future = Position { version: 99, ..first };
        assert_eq!(text(&log.since(Some(&future))), all);
    }

    #[test]
    fn a_restarted_controller_with_the_same_documents_sends_none() {
        let (mut one, mut two) = (DocumentLog::new("one".to_owned()), DocumentLog::new("two".to_owned()));
        let document = |name: &str| (key(name), Compact::from(&json!({ "of": name })));
        one.replace([document("a"), document("b"), document("c")]);
        one.remove(&key("c"));
        two.replace([document("b"), document("a")]);
        assert_eq!(two.since(Some(&one.position())).lines, Vec::<Bytes>::new());
        one.put(&key("a"), Compact::from(&json!({ "of": "x" })));
        assert_eq!(two.since(Some(&one.position())).lines.len(), 3, "everything");
    }

    #[test]
    fn what_is_equal_keeps_its_version() {
        let mut log = DocumentLog::new("one".to_owned());
        assert!(log.replace([(key("a"), Compact::from(&json!({ "x": 1, "y": 2 })))]));
        let before = log.position();
        assert!(!log.replace([(key("a"), Compact::from(&json!({ "y": 2, "x": 1 })))]));
        assert_eq!(log.position(), before);
        assert!(log.replace([]));
        assert_eq!((log.documents(), log.digest), (0, 0));
    }

    #[test]
    fn forgotten_removals_are_not_needed_again() {
        let mut log = DocumentLog::new("one".to_owned());
        for number in 0..=REMOVALS_MAX {
            log.put(&key(&number.to_string()), Compact::from(&json!({})));
        }
        let start = log.position();
        for number in 0..=REMOVALS_MAX {
            log.remove(&key(&number.to_string()));
        }
        assert_eq!(log.entries.len(), REMOVALS_MAX);
        assert_eq!(text(&log.since(Some(&start))), "\"reset\"\n");
        assert_eq!(log.by_key.len(), REMOVALS_MAX);
    }

    #[test]
    fn only_a_changed_endpoint_is_sent_to_gateways_that_have_the_others() {
        let endpoints = |skipped: u32| -> Value {
            let all = (0..200).filter(|number| *number != skipped);
            json!({ "endpoints": all.map(|number| format!("10.0.0.{number}:80")).collect::<Vec<_>>() })
        };
        let upstream = DocumentKey { kind: "upstreams", name: "shop".to_owned() };
        let mut log = DocumentLog::new("one".to_owned());
        let start = log.position();
        log.put(&upstream, Compact::from(&endpoints(7)));
        let first = log.position();
        log.put(&key("other"), Compact::from(&json!({})));
        log.put(&upstream, Compact::from(&endpoints(9)));
        let small = text(&log.since(Some(&first)));
        assert!(small.len() < 400 && small.contains("splice"), "{small}");
        let whole = text(&log.since(Some(&start)));
        assert!(whole.len() > 3000 && !whole.contains("splice"), "{whole}");
        log.put(&upstream, Compact::from(&endpoints(11)));
        let whole = text(&log.since(Some(&first)));
        assert!(!whole.contains("splice"), "it does not have the version in between");
    }
}
