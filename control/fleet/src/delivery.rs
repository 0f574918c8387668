//! Hands changes to the gateway, one batch at a time, and tracks what is in force.
//!
//! The [client](crate::client) calls it with commits. Changes that arrive while a batch is in flight are merged into
//! the next one. So the gateway is never behind by more than one compilation, and memory is bounded by the number of
//! documents.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tollgate_documents::{Compact, DocumentChanges, DocumentKey, Refused, SourceEvent};

use crate::message::Position;
use crate::replica::{Commit, KindNames};

/// How often refused documents are tried again: an address that was in use may be free.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Version of the format of [`SavedState`].
const FORMAT_VERSION: u64 = 1;

/// The last good state of a gateway, as its file keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedState {
    format: u64,
    /// The position; `None`: some documents of the last one were refused, so all are needed again.
    position: Option<Position>,
    documents: Vec<SavedDocument>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedDocument {
    kind: String,
    name: String,
    value: Compact,
}

/// Documents by key.
pub(crate) type Documents = BTreeMap<DocumentKey, Compact>;

impl SavedState {
    /// Reads a state from the contents of its file.
    ///
    /// # Errors
    /// The contents are not a state of this format.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let state: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no such file: {error}"))?;
        match state.format {
            FORMAT_VERSION => Ok(state),
            other => Err(format!("its format is {other}, not {FORMAT_VERSION}")),
        }
    }

    /// Returns the documents and the position. The position is `None` if a document's kind is not known to this
    /// program, because the state then lacks that document.
    pub(crate) fn into_parts(self, kinds: KindNames) -> (Documents, Option<Position>) {
        let all = self.documents.len();
        let known = self.documents.into_iter().filter_map(|document| {
            let key = DocumentKey { kind: kinds(&document.kind)?, name: document.name };
            Some((key, document.value))
        });
        let documents: Documents = known.collect();
        let position = self.position.filter(|_| documents.len() == all);
        (documents, position)
    }
}

/// The state that the gateway serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InForce {
    /// The position; `None`: nothing has been in force, or the file had no position.
    pub position: Option<Position>,
    /// The refused documents.
    pub refused: Refused,
}

type Changes = BTreeMap<DocumentKey, Option<Compact>>;

/// Hands changes to the gateway.
#[derive(Debug)]
pub(crate) struct Delivery {
    events: mpsc::Sender<SourceEvent>,
    /// The address of listeners, in place of the one in their documents.
    bind: Option<IpAddr>,
    /// Changes for the next batch.
    pending: Changes,
    /// The position after `pending`.
    next: Option<Position>,
    /// Whether `pending` is handed over even if it is empty.
    is_due: bool,
    /// The batch in flight: the position after it, and the gateway's answer.
    sent: Option<(Option<Position>, oneshot::Receiver<Refused>)>,
    /// Changes that were handed over and are not known to be in force: the batch in flight, and refused documents. The
    /// gateway retries refused documents itself.
    undecided: Changes,
    /// The last valid versions of all documents: what the gateway serves.
    good: Documents,
    in_force: InForce,
    retry_at: Instant,
}

impl Delivery {
    /// Hands over the state of the file, if there is one, as a batch of its own: the last good version of a document
    /// must come into force even if the controller has a later, invalid version.
    pub fn new(
        events: mpsc::Sender<SourceEvent>,
        bind: Option<IpAddr>,
        saved: Option<(&Documents, Option<&Position>)>,
    ) -> Self {
        let mut delivery = Self {
            events,
            bind,
            pending: Changes::new(),
            next: None,
            is_due: false,
            sent: None,
            undecided: Changes::new(),
            good: Documents::new(),
            in_force: InForce::default(),
            retry_at: Instant::now(),
        };
        if let Some((documents, position)) = saved {
            delivery.pending =
                documents.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
            delivery.next = position.cloned();
            let events = delivery.events.clone();
            if let Ok(permit) = events.try_reserve() {
                delivery.hand_over(permit);
            }
        }
        delivery
    }

    /// Adds the changes of a commit.
    pub fn add(&mut self, commit: Commit) {
        self.pending.extend(commit.changes);
        self.next = Some(commit.position);
        self.is_due = true;
    }

    /// Returns what the gateway serves.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Returns the state to keep.
    pub fn saved(&self) -> SavedState {
        let documents = self.good.iter().map(|(key, value)| SavedDocument {
            kind: key.kind.to_owned(),
            name: key.name.clone(),
            value: value.clone(),
        });
        SavedState {
            format: FORMAT_VERSION,
            position: self.in_force.position.clone().filter(|_| self.in_force.refused.is_empty()),
            documents: documents.collect(),
        }
    }

    /// Hands over due changes, and returns at the gateway's next answer. Cancel safe.
    ///
    /// # Errors
    /// The gateway ended.
    pub async fn progress(&mut self) -> Result<(), GatewayEnded> {
        loop {
            match &mut self.sent {
                Some((_, answer)) => {
                    let refused = answer.await.map_err(|_| GatewayEnded)?;
                    self.finish(refused);
                    return Ok(());
                }
                None if self.is_due => {
                    let events = self.events.clone();
                    let permit = events.reserve().await.map_err(|_| GatewayEnded)?;
                    self.hand_over(permit);
                }
                None if self.in_force.refused.is_empty() => std::future::pending().await,
                None => {
                    sleep_until(self.retry_at).await;
                    self.is_due = true;
                }
            }
        }
    }

    fn hand_over(&mut self, permit: mpsc::Permit<'_, SourceEvent>) {
        let pending = std::mem::take(&mut self.pending);
        let here = |key: &DocumentKey, value: &Option<Compact>| {
            Some(on_this_machine(key, value.as_ref()?, self.bind))
        };
        let changes = pending.iter().map(|(key, value)| (key.clone(), here(key, value))).collect();
        let (answer, answer_receiver) = oneshot::channel();
        permit.send(SourceEvent::Documents(DocumentChanges { changes, answer }));
        self.undecided.extend(pending);
        self.is_due = false;
        self.sent = Some((self.next.clone(), answer_receiver));
    }

    /// Applies the gateway's answer to the batch.
    fn finish(&mut self, refused: Refused) {
        let Some((position, _)) = self.sent.take() else { return };
        let (kept, decided) =
            std::mem::take(&mut self.undecided).into_iter().partition(|(key, _)| refused.contains_key(key));
        self.undecided = kept;
        let decided: Changes = decided;
        for (key, value) in decided {
            match value {
                Some(value) => drop(self.good.insert(key, value)),
                None => drop(self.good.remove(&key)),
            }
        }
        self.retry_at = Instant::now() + RETRY_INTERVAL;
        self.in_force = InForce { position, refused };
    }
}

/// Returns a document with this machine's address, if it is a listener.
fn on_this_machine(key: &DocumentKey, document: &Compact, bind: Option<IpAddr>) -> Compact {
    let Some(bind) = bind.filter(|_| key.kind == "listeners") else { return document.clone() };
    let mut value = document.value();
    let written = value.get("bind").and_then(Value::as_str).and_then(|text| text.parse::<SocketAddr>().ok());
    let Some(written) = written else { return document.clone() };
    value["bind"] = SocketAddr::new(bind, written.port()).to_string().into();
    Compact::from(&value)
}

/// The thread that takes documents ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayEnded;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> DocumentKey {
        DocumentKey { kind: "routes", name: name.to_owned() }
    }

    fn position(version: u64) -> Position {
        Position { epoch: "one".to_owned(), version, digest: String::new() }
    }

    fn commit(version: u64, name: &str, value: u64) -> Commit {
        let changes = Changes::from([(key(name), Some(Compact::from(&json!(value))))]);
        Commit { changes, position: position(version) }
    }

    fn next(events: &mut mpsc::Receiver<SourceEvent>) -> DocumentChanges {
        match events.try_recv() {
            Ok(SourceEvent::Documents(changes)) => changes,
            other => panic!("{other:?}"),
        }
    }

    /// Lets the delivery act until it waits.
    async fn act(delivery: &mut Delivery) -> bool {
        tokio::time::timeout(Duration::from_millis(20), delivery.progress()).await.is_ok()
    }

    #[test]
    fn listeners_get_the_address_of_the_machine_and_keep_their_port() {
        let at = |kind, value: Value| {
            let key = DocumentKey { kind, name: "a".to_owned() };
            on_this_machine(&key, &Compact::from(&value), "10.0.0.7".parse().ok()).value()
        };
        assert_eq!(at("listeners", json!({ "bind": "192.0.2.1:80" })), json!({ "bind": "10.0.0.7:80" }));
        assert_eq!(at("listeners", json!({ "bind": "unix:/run/x" })), json!({ "bind": "unix:/run/x" }));
        assert_eq!(at("routes", json!({ "bind": "192.0.2.1:80" })), json!({ "bind": "192.0.2.1:80" }));
    }

    #[test]
    fn one_batch_is_on_its_way_and_the_last_good_version_is_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (sender, mut events) = mpsc::channel(4);
            let saved = Documents::from([(key("a"), Compact::from(&json!(0)))]);
            let mut delivery = Delivery::new(sender, None, Some((&saved, Some(&position(1)))));
            delivery.add(commit(2, "a", 1));
            delivery.add(commit(3, "b", 1));
            let first = next(&mut events);
            assert_eq!(first.changes, [(key("a"), Some(Compact::from(&json!(0))))]);
            assert!(!act(&mut delivery).await && events.is_empty(), "one at a time");
            first.answer.send(Refused::new()).expect("it waits");
            assert!(act(&mut delivery).await);
            assert_eq!(delivery.in_force().position, Some(position(1)));
            assert!(!act(&mut delivery).await);
            let second = next(&mut events);
            assert_eq!(second.changes.len(), 2, "both commits together");
            second.answer.send(Refused::from([(key("a"), "bad".to_owned())])).expect("it waits");
            assert!(act(&mut delivery).await);
            assert_eq!(delivery.in_force().position, Some(position(3)));
            assert_eq!(delivery.good[&key("a")], Compact::from(&json!(0)), "the last good version");
            assert_eq!(delivery.good[&key("b")], Compact::from(&json!(1)));
            let (documents, position) = delivery.saved().into_parts(|_| Some("routes"));
            assert_eq!((documents, position), (delivery.good.clone(), None), "all is needed again");
            delivery.retry_at = Instant::now();
            assert!(!act(&mut delivery).await);
            let third = next(&mut events);
            assert_eq!(third.changes, [], "the gateway has what it refused");
            third.answer.send(Refused::new()).expect("it waits");
            assert!(act(&mut delivery).await);
            assert_eq!(delivery.good[&key("a")], Compact::from(&json!(1)));
            drop(events);
            delivery.add(commit(4, "b", 2));
            assert_eq!(delivery.progress().await, Err(GatewayEnded));
        });
    }
}
