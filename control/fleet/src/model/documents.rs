//! Every replica ends with the log's documents. A test case drives one [`DocumentLog`] and several [`Replica`]s.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tollgate_documents::{Compact, DocumentKey};

use super::{ConnectionStep, GATEWAYS, connection_step};
use crate::log::DocumentLog;
use crate::message::{Position, ToGateway};
use crate::replica::Replica;

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// A document is set.
    Put(u8, u8),
    /// A document is removed.
    Remove(u8),
    /// All documents are replaced.
    Replace(Vec<(u8, u8)>),
    /// Something happens to a connection or a process.
    Connection(ConnectionStep),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, 0..4u8).prop_map(|(name, value)| Step::Put(name, value)),
        2 => (0..6u8).prop_map(Step::Remove),
        1 => vec((0..6u8, 0..4u8), 0..6).prop_map(Step::Replace),
        11 => connection_step(9).prop_map(Step::Connection),
    ]
}

fn key(name: u8) -> DocumentKey {
    DocumentKey { kind: if name.is_multiple_of(2) { "routes" } else { "upstreams" }, name: name.to_string() }
}

/// A document: some are long lists, so that edits are sent.
fn document(name: u8, value: u8) -> Compact {
    let endpoints = (0..80).filter(|number| *number != value).map(|number| format!("10.0.0.{number}:80"));
    Compact::from(&match name {
        0..4 => json!({ "endpoints": endpoints.collect::<Vec<_>>(), "of": [name, value] }),
        _ => json!({ "value": value }),
    })
}

fn kinds(name: &str) -> Option<&'static str> {
    ["routes", "upstreams"].into_iter().find(|kind| *kind == name)
}

/// A gateway, and its connection.
struct Gateway {
    replica: Replica,
    /// The position up to which the controller has sent changes, and the lines in flight.
    connection: Option<(Option<Position>, Vec<Bytes>)>,
    edits: usize,
}

impl Gateway {
    fn new() -> Self {
        Self { replica: Replica::new(kinds, BTreeMap::new(), None), connection: None, edits: 0 }
    }

    fn connect(&mut self) {
        if self.connection.is_none() {
            self.connection = Some((self.replica.position().cloned(), Vec::new()));
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.replica.disconnect();
    }

    /// Sends the changes, as the server does, and receives the first `count` lines.
    fn receive(&mut self, log: &DocumentLog, count: usize) {
        let Some((known, lines)) = &mut self.connection else { return };
        if lines.is_empty() {
            let delta = log.since(known.as_ref());
            *known = Some(delta.position.clone());
            let commit = serde_json::to_vec(&ToGateway::Commit(delta.position)).expect("a line");
            lines.extend(delta.lines.into_iter().chain([commit.into()]));
        }
        for line in lines.drain(..count.min(lines.len())).collect::<Vec<_>>() {
            let message: ToGateway = serde_json::from_slice(&line).expect("a message");
            self.edits += usize::from(matches!(message, ToGateway::Edit { .. }));
            self.replica.take(message).expect("it fits");
        }
    }
}

/// Runs the steps, then lets every gateway catch up. Returns how many edits were received.
fn run(steps: Vec<Step>) -> usize {
    let mut runs = 0;
    let mut log = DocumentLog::new("run 0".to_owned());
    let mut expected: BTreeMap<DocumentKey, Compact> = BTreeMap::new();
    let mut gateways: Vec<Gateway> = (0..GATEWAYS).map(|_| Gateway::new()).collect();
    for step in steps {
        match step {
            Step::Put(name, value) => {
                expected.insert(key(name), document(name, value));
                log.put(&key(name), document(name, value));
            }
            Step::Remove(name) => {
                expected.remove(&key(name));
                log.remove(&key(name));
            }
            Step::Replace(all) => {
                expected = all.into_iter().map(|(name, value)| (key(name), document(name, value))).collect();
                log.replace(expected.clone());
            }
            Step::Connection(ConnectionStep::Connect(gateway)) => gateways[gateway].connect(),
            Step::Connection(ConnectionStep::Receive(gateway, count)) => {
                gateways[gateway].receive(&log, count);
            }
            Step::Connection(ConnectionStep::Disconnect(gateway)) => gateways[gateway].disconnect(),
            Step::Connection(ConnectionStep::RestartGateway(gateway)) => {
                let Gateway { replica, .. } = &gateways[gateway];
                let (documents, position) = (replica.documents().clone(), replica.position().cloned());
                gateways[gateway].connection = None;
                gateways[gateway].replica = Replica::new(kinds, documents, position);
            }
            Step::Connection(ConnectionStep::RestartController) => {
                runs += 1;
                gateways.iter_mut().for_each(Gateway::disconnect);
                log = DocumentLog::new(format!("run {runs}"));
                log.replace(expected.clone());
            }
        }
        for gateway in &gateways {
            // No step makes more documents.
            assert!(gateway.replica.documents().len() <= 6);
        }
    }
    for gateway in &mut gateways {
        gateway.connect();
        // The remainder of the last delta, then one more.
        gateway.receive(&log, usize::MAX);
        gateway.receive(&log, usize::MAX);
        assert_eq!(*gateway.replica.documents(), expected);
        assert_eq!(gateway.replica.position(), Some(&log.position()));
    }
    gateways.iter().map(|gateway| gateway.edits).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_interleaving_ends_in_equal_documents(steps in vec(step(), 0..80)) {
        run(steps);
    }
}

#[test]
fn a_change_of_an_endpoint_is_received_as_an_edit() {
    let steps = vec![
        Step::Put(1, 0),
        Step::Connection(ConnectionStep::Connect(0)),
        Step::Connection(ConnectionStep::Receive(0, usize::MAX)),
        Step::Put(1, 1),
        Step::Connection(ConnectionStep::Receive(0, usize::MAX)),
    ];
    assert_eq!(run(steps), 1);
}

#[test]
fn a_document_of_a_newer_program_is_reported_and_changes_nothing() {
    let mut replica = Replica::new(kinds, BTreeMap::new(), None);
    let lines = [
        r#""reset""#,
        r#"{"put":{"kind":"dreams","name":"a","value":{}}}"#,
        r#"{"put":{"kind":"routes","name":"a","value":{}}}"#,
        r#"{"commit":{"epoch":"one","version":2,"digest":"0"}}"#,
    ];
    for line in lines {
        replica.take(serde_json::from_str(line).expect("a message")).expect("it fits");
    }
    assert_eq!(replica.documents().len(), 1);
    assert_eq!(replica.unknown().collect::<Vec<_>>(), [&("dreams".to_owned(), "a".to_owned())]);
}

#[test]
fn an_edit_that_does_not_fit_asks_for_everything() {
    let position = Position { epoch: "one".to_owned(), version: 1, digest: String::new() };
    let mut replica = Replica::new(kinds, BTreeMap::new(), Some(position));
    let edit = r#"{"edit":{"kind":"routes","name":"a","edits":[{"set":{"at":["x"],"value":1}}]}}"#;
    assert!(replica.take(serde_json::from_str(edit).expect("a message")).is_err());
    assert_eq!(replica.position(), None);
}
