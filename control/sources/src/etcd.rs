//! etcd: entries become documents, each taken in if it is good, and what is good is kept in a file.

mod cache;
mod history;
mod intake;
mod join;
mod settings;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use tollgate_config::{DocumentProblem, Kind};
use tollgate_etcd::{Etcd, Handle};

pub use history::{gateways, versions};
pub use intake::Brought;
pub use join::{Joined, heard};
pub(crate) use write::Written;

/// The key under `PREFIX/config/` that every change of a gateway writes: who has seen its last revision has seen all
/// changes of gateways, so that two do not make changes at once that are good alone and not together.
const GUARD: &str = "version";

/// A gateway's side of etcd.
#[derive(Debug)]
pub(crate) struct Shared {
    pub handle: Handle,
    etcd: Etcd,
    /// The revision that changed each key last, as etcd has told it: those of refused entries too.
    seen: HashMap<String, u64>,
    /// By key.
    refused: BTreeMap<String, Held>,
    cache: Option<cache::Cache>,
    /// The program and its version.
    program: String,
    /// When it was started, in seconds since 1970.
    started: u64,
}

/// An entry that is not in force.
#[derive(Clone, Debug)]
struct Held {
    value: Option<Vec<u8>>,
    revision: u64,
    problems: Vec<DocumentProblem>,
    /// Whether it may become good by a change of another one.
    again: bool,
}

/// What is known of etcd, for those who read.
#[derive(Clone, Debug)]
pub struct EtcdState {
    /// What makes requests.
    pub handle: Handle,
    /// The member that answers.
    pub member: Option<String>,
    /// Why nobody does.
    pub lost: Option<String>,
    /// Since when it is the one or the other.
    pub since: SystemTime,
    /// How often it was lost.
    pub losses: u64,
    /// Whether what is in force was read from the file of the last good state, and not told by etcd yet.
    pub cached: bool,
    /// The revision up to which all is known.
    pub revision: u64,
    /// Entries that are not in force.
    pub refused: Arc<Vec<RefusedEntry>>,
}

/// An entry that is not in force, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedEntry {
    /// Its key, below `PREFIX/config/`.
    pub key: String,
    /// The revision that made it so.
    pub revision: u64,
    /// Whether it was to take something away.
    pub removal: bool,
    /// The revision of what is in force in its place, if there is something.
    pub in_force: Option<u64>,
    /// What is wrong.
    pub problems: Vec<DocumentProblem>,
}

/// The kind and the name that a key stands for.
fn resource(key: &str) -> Option<(&'static Kind, &str)> {
    let (kind, name) = key.split_once('/')?;
    Some((tollgate_config::kind(kind)?, name)).filter(|(_, name)| !name.is_empty())
}

fn key(kind: &Kind, name: &str) -> String {
    format!("{}/{name}", kind.name)
}
