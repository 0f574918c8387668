//! The messages of both sides. Each is one line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_documents::Compact;

use crate::edit::Edit;

/// A state of a controller's documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The run of the controller: versions count within it.
    pub epoch: String,
    /// The version: the number of changes of documents in this run.
    pub version: u64,
    /// A digest of all documents. Two runs with the same documents have the same one.
    pub digest: String,
}

/// A place in a controller's list of purges: every purge up to `number` is carried out, or was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgePosition {
    /// The list to which `number` belongs; empty: no list is known.
    pub epoch: String,
    /// The number of the last purge.
    pub number: u64,
}

/// A message of the controller to a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToGateway {
    /// The documents up to the next commit replace the gateway's.
    Reset,
    /// A document is new or changed.
    Put {
        /// The kind of the document.
        kind: String,
        /// Its name.
        name: String,
        /// Its value.
        value: Compact,
    },
    /// A document has changed in a few places.
    Edit {
        /// The kind of the document.
        kind: String,
        /// Its name.
        name: String,
        /// The changes.
        edits: Vec<Edit>,
    },
    /// A document is gone.
    Remove {
        /// The kind of the document.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The changes since the last commit are complete, and take effect together.
    Commit(Position),
    /// A purge of the cache, as the body of a request to the admin API.
    Purge {
        /// Its number in the list of purges.
        number: u64,
        /// The body.
        request: Value,
    },
    /// The purges up to here were sent. Only gateways whose hello has `purges` get this, before their first commit.
    Purges {
        /// The position after them; without an epoch: the controller does not know its purges yet.
        position: PurgePosition,
        /// Whether the gateway now has every purge since the position of its hello. Otherwise it has only the purges of
        /// the last hour that this controller knows.
        is_complete: bool,
    },
    /// The controller is alive.
    Alive,
    /// The controller does not serve this gateway, for this reason.
    Rejected(String),
}

/// A message of a gateway to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToController {
    /// The first message of a connection.
    Hello {
        /// Name of the gateway.
        name: String,
        /// Name and version of its program.
        program: String,
        /// The last commit that it has received; `None`: none.
        position: Option<Position>,
        /// The last purge that it has carried out; `None`: its version carries out no purges of a controller.
        #[serde(default)]
        purges: Option<PurgePosition>,
    },
    /// The gateway has carried out purges.
    Purged {
        /// The position after them.
        position: PurgePosition,
        /// The number of each purge, and how many stored responses it matched.
        counts: Vec<(u64, u64)>,
    },
    /// The gateway serves a position.
    Report {
        /// The position.
        position: Position,
        /// Documents that the gateway refused, as `kind/name`, with the reasons. The last valid version of each stays
        /// in force. At most `REFUSED_MAX` of them.
        refused: BTreeMap<String, String>,
        /// How many it refused.
        refused_count: usize,
    },
    /// The gateway is alive.
    Alive,
}

/// How many refused documents a report names.
pub const REFUSED_MAX: usize = 100;
/// Bound of a reason in a report, in characters.
pub const REASON_MAX_CHARS: usize = 1000;

/// Formats a message as a line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Serialization to a vector fails only for maps whose keys are not texts, and there is none.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns the line of a document.
pub fn put_line(kind: &str, name: &str, value: &Compact) -> Vec<u8> {
    let text = |text: &str| Value::from(text).to_string();
    // The document is there as JSON already.
    let (kind, name, value) = (text(kind), text(name), value.text());
    format!("{{\"put\":{{\"kind\":{kind},\"name\":{name},\"value\":{value}}}}}\n").into_bytes()
}
