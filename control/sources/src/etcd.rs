//! etcd as a source. Valid entries become documents, and a file keeps the last valid state.

mod apply;
mod cache;
mod history;
mod join;
mod purges;
mod settings;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use tollgate_config::{DocumentProblem, ResourceKind};
use tollgate_etcd::{EtcdHandle, EtcdThread};

pub use apply::Applied;
pub use history::{list_gateways, list_versions};
pub use join::{GatewayIdentity, record_connection};
pub use purges::write_purge;
pub(crate) use write::WriteOutcome;

/// The key under `PREFIX/config/` that every change by a gateway writes. A transaction requires its last seen
/// revision, and so that its writer has seen all changes by other gateways. Without that, two gateways could
/// make changes at the same time that are valid alone but not together.
const GUARD_KEY: &str = "version";

/// A gateway's connection to etcd, and the state of its entries.
#[derive(Debug)]
pub(crate) struct EtcdSource {
    pub handle: EtcdHandle,
    thread: EtcdThread,
    /// The revision that last changed each key, as etcd reported it; refused entries included.
    seen: HashMap<String, u64>,
    /// Refused entries, by key.
    refused: BTreeMap<String, RefusedUpdate>,
    cache: Option<cache::CacheWriter>,
    /// Name and version of the program.
    program: String,
    /// Start time, in seconds since 1970.
    started: u64,
}

/// An entry that is not in force.
#[derive(Clone, Debug)]
struct RefusedUpdate {
    value: Option<Vec<u8>>,
    revision: u64,
    problems: Vec<DocumentProblem>,
    /// Whether a change of another entry may make it valid.
    retry: bool,
}

/// The state of etcd, for readers of the view.
#[derive(Clone, Debug)]
pub struct EtcdView {
    /// The handle for requests.
    pub handle: EtcdHandle,
    /// The member that answers; `None`: none does.
    pub member: Option<String>,
    /// Why no member answers; `None`: one does.
    pub problem: Option<String>,
    /// Time of the last change between the two.
    pub since: SystemTime,
    /// How often the connection to every member was lost.
    pub losses: u64,
    /// Whether the state in force was read from the cache file, and etcd has not confirmed it yet.
    pub cached: bool,
    /// The revision up to which all entries are known.
    pub revision: u64,
    /// Entries that are not in force.
    pub refused: Arc<Vec<RefusedEntry>>,
}

/// An entry that is not in force, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedEntry {
    /// Its key, below `PREFIX/config/`.
    pub key: String,
    /// The revision of the refused entry.
    pub revision: u64,
    /// Whether the refused change is a deletion.
    pub removal: bool,
    /// The revision that is in force instead; `None`: nothing is.
    pub in_force: Option<u64>,
    /// The problems of the entry.
    pub problems: Vec<DocumentProblem>,
}

/// Returns kind and name of the resource that a key names.
fn parse_key(key: &str) -> Option<(&'static ResourceKind, &str)> {
    let (kind, name) = key.split_once('/')?;
    Some((tollgate_config::kind(kind)?, name)).filter(|(_, name)| !name.is_empty())
}

fn key_of(kind: &ResourceKind, name: &str) -> String {
    format!("{}/{name}", kind.name)
}
