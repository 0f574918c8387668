//! The state of a fleet, which the controller and the connections of gateways share: the documents, the purges, and what
//! each gateway serves.
//!
//! `tollgate controller` publishes documents and purges through the [`FleetHandle`], and waits there until gateways serve
//! them. The [server](crate::server) reads both for each connection, and records the reports of gateways.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_documents::{Compact, DocumentKey, Refused};
use tollgate_net::component;
use tracing::{info, warn};

use crate::log::DocumentLog;
use crate::message::{Position, PurgePosition};
use crate::purge_file::PurgeFile;
use crate::purge_list::PurgeList;
use crate::replica::KindNames;

/// How many gateways that have left are remembered.
const LEFT_MAX: usize = 1000;

/// A gateway of the fleet.
#[derive(Clone, Debug)]
pub struct GatewayStatus {
    /// Its name.
    pub name: String,
    /// Name and version of its program.
    pub program: String,
    /// The address from which it connected.
    pub address: SocketAddr,
    /// When it connected.
    pub connected_at: SystemTime,
    /// When it was last heard.
    pub heard_at: SystemTime,
    /// Why its connection ended; `None`: it is connected.
    pub left: Option<String>,
    /// The position that it serves; `None`: it has not reported since it connected.
    pub position: Option<Position>,
    /// Since when it serves that.
    pub position_since: SystemTime,
    /// The documents that it refused, as `kind/name`, with the reasons.
    pub refused: BTreeMap<String, String>,
    /// How many documents it refused.
    pub refused_count: usize,
    /// The purges that it has carried out; `None`: its version carries out no purges of a controller.
    pub purges: Option<PurgePosition>,
    /// Bytes that were sent to it.
    pub sent_bytes: u64,
    /// Whether a change has waited for it too long. Later changes do not wait for it until it has caught up.
    is_late: bool,
}

/// The receipt of a purge, which gateways have yet to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeReceipt {
    /// Its number in the list.
    pub number: u64,
    /// Whether a restart of the controller loses it: `Ok(true)` if not, with the reason if its file cannot be written.
    pub is_durable: Result<bool, String>,
}

/// Publishes documents and purges, and reports what gateways serve. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FleetHandle(Arc<Fleet>);

/// The state of a fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    log: Mutex<DocumentLog>,
    /// The version of the log.
    version: watch::Sender<u64>,
    gateways: Mutex<Gateways>,
    /// Changes with every report.
    reports: watch::Sender<u64>,
    purges: Mutex<PurgeList>,
    /// The file of the purges. Locked while a purge is added and written, so that the file never goes back.
    purge_file: Mutex<Option<PurgeFile>>,
    /// Changes with every purge.
    purge_version: watch::Sender<u64>,
    tls: Mutex<Arc<ServerConfig>>,
    kinds: KindNames,
}

/// The gateways by the number of their connection.
#[derive(Debug, Default)]
struct Gateways {
    by_connection: BTreeMap<u64, GatewayStatus>,
    last_connection: u64,
    /// Failed handshakes, and clients that do not speak the protocol.
    rejected: u64,
}

impl FleetHandle {
    /// Creates the state of a fleet without gateways.
    pub(crate) fn new(
        tls: Arc<ServerConfig>,
        kinds: KindNames,
        documents: impl IntoIterator<Item = (DocumentKey, Compact)>,
        purges: PurgeList,
        purge_file: Option<PurgeFile>,
    ) -> Self {
        let mut log = DocumentLog::new(format!("{:032x}", fastrand::u128(..)));
        log.replace(documents);
        Self(Arc::new(Fleet {
            version: watch::Sender::new(log.position().version),
            log: Mutex::new(log),
            gateways: Mutex::default(),
            reports: watch::Sender::new(0),
            purges: Mutex::new(purges),
            purge_file: Mutex::new(purge_file),
            purge_version: watch::Sender::new(0),
            tls: Mutex::new(tls),
            kinds,
        }))
    }

    /// Returns the state, for the connections of gateways.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        self.0.clone()
    }

    /// Replaces all documents by these. Returns the new version.
    pub fn publish(&self, documents: impl IntoIterator<Item = (DocumentKey, Compact)>) -> u64 {
        let version = {
            let mut log = self.0.log();
            log.replace(documents);
            log.position().version
        };
        self.0.version.send_if_modified(|known| std::mem::replace(known, version) != version);
        version
    }

    /// Returns the present position, and the number of documents.
    #[must_use]
    pub fn position(&self) -> (Position, usize) {
        let log = self.0.log();
        (log.position(), log.documents())
    }

    /// Uses these certificates for connections from now on.
    pub fn set_tls(&self, tls: Arc<ServerConfig>) {
        *self.0.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    /// Returns the connected gateways and recent ones, by name.
    #[must_use]
    pub fn gateways(&self) -> Vec<GatewayStatus> {
        let mut all: Vec<_> = self.0.gateways().by_connection.values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Returns how many connections were rejected.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.0.gateways().rejected
    }

    /// Adds a purge for all gateways: the body of a request to the admin API. Blocks while the list is written to its
    /// file.
    #[must_use]
    pub fn purge(&self, request: Arc<Value>) -> PurgeReceipt {
        let file = self.0.purge_file.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, list) = {
            let mut purges = self.0.purges();
            (purges.push(request, SystemTime::now()), purges.clone())
        };
        let written = file.as_ref().map(|file| file.write(&list)).transpose();
        // Send it even if it was not written: connected gateways still carry it out.
        self.0.purge_version.send_modify(|count| *count += 1);
        let is_durable = written.map(|written| written.is_some()).map_err(|error| error.to_string());
        PurgeReceipt { number, is_durable }
    }

    /// Changes the list of purges, and sends the change to the gateways.
    pub fn change_purges<T>(&self, change: impl FnOnce(&mut PurgeList) -> T) -> T {
        let result = change(&mut self.0.purges());
        self.0.purge_version.send_modify(|count| *count += 1);
        result
    }

    /// Calls `look` with the list of purges.
    pub fn read_purges<T>(&self, look: impl FnOnce(&PurgeList) -> T) -> T {
        look(&self.0.purges())
    }

    /// Waits until each connected gateway has carried out a purge, for at most this time. Gateways whose version
    /// carries out no purges of a controller do not count.
    pub async fn wait_until_purged(&self, number: u64, limit: Duration) {
        let mut reports = self.0.reports.subscribe();
        let done = async {
            while !self.0.is_purged(number) {
                if reports.changed().await.is_err() {
                    return;
                }
            }
        };
        // The caller reports how many gateways have carried it out.
        let _ = timeout(limit, done).await;
    }

    /// Waits until each connected gateway serves a version, for at most this time. Returns the documents that gateways
    /// refuse, with the reasons. After a gateway exceeds the time, later calls do not wait for it until it has caught
    /// up.
    pub async fn wait_until_served(&self, version: u64, limit: Duration) -> Refused {
        let mut reports = self.0.reports.subscribe();
        let served = async {
            while !self.0.is_served(version) {
                if reports.changed().await.is_err() {
                    return;
                }
            }
        };
        if timeout(limit, served).await.is_err() {
            self.0.mark_late(version);
        }
        self.0.refused()
    }
}

impl Fleet {
    /// Returns the configuration of TLS for a new connection.
    pub(crate) fn tls(&self) -> Arc<ServerConfig> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows the version of the documents.
    pub(crate) fn follow_documents(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Follows the purges: the number changes with each.
    pub(crate) fn follow_purges(&self) -> watch::Receiver<u64> {
        self.purge_version.subscribe()
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, DocumentLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gateways(&self) -> MutexGuard<'_, Gateways> {
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_served(&self, version: u64) -> bool {
        self.gateways().connected().all(|gateway| gateway.is_late || gateway.serves(version))
    }

    pub(crate) fn purges(&self) -> MutexGuard<'_, PurgeList> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_purged(&self, number: u64) -> bool {
        let present = self.purges().position();
        let gateways = self.gateways();
        gateways.connected().all(|gateway| {
            gateway.purges.is_none() || gateway.has_purged(&PurgePosition { number, ..present.clone() })
        })
    }

    fn mark_late(&self, version: u64) {
        let mut gateways = self.gateways();
        let late = gateways.by_connection.values_mut().filter(|gateway| gateway.left.is_none());
        for gateway in late.filter(|gateway| !gateway.serves(version)) {
            if !std::mem::replace(&mut gateway.is_late, true) {
                warn!(target: component::CONTROLLER, "the gateway {} is late: it does not serve version {version}", gateway.name);
            }
        }
    }

    /// Returns the documents that connected gateways refuse, with the first reason of each.
    fn refused(&self) -> Refused {
        let mut out = Refused::new();
        for gateway in self.gateways().connected() {
            for (document, why) in &gateway.refused {
                let Some((kind, name)) = document.split_once('/') else { continue };
                // A kind that only the gateway does not know is not in the documents of this program.
                let Some(kind) = (self.kinds)(kind) else { continue };
                let key = DocumentKey { kind, name: name.to_owned() };
                out.entry(key).or_insert_with(|| format!("gateway {}: {why}", gateway.name));
            }
        }
        out
    }

    /// Adds a gateway. Returns the number of its connection.
    pub(crate) fn join(
        &self,
        name: String,
        program: String,
        address: SocketAddr,
        purges: Option<PurgePosition>,
    ) -> u64 {
        let mut gateways = self.gateways();
        gateways.by_connection.retain(|_, gateway| gateway.left.is_none() || gateway.name != name);
        gateways.last_connection += 1;
        let now = SystemTime::now();
        let status = GatewayStatus {
            name,
            program,
            address,
            connected_at: now,
            heard_at: now,
            left: None,
            position: None,
            position_since: now,
            refused: BTreeMap::new(),
            refused_count: 0,
            purges,
            sent_bytes: 0,
            // It may need everything. Changes do not wait for it.
            is_late: true,
        };
        let connection = gateways.last_connection;
        gateways.by_connection.insert(connection, status);
        connection
    }

    /// Changes the status of a gateway.
    pub(crate) fn update(&self, connection: u64, change: impl FnOnce(&mut GatewayStatus)) {
        if let Some(gateway) = self.gateways().by_connection.get_mut(&connection) {
            change(gateway);
        }
    }

    /// Records which purges a gateway has carried out, and how many responses each removed.
    pub(crate) fn purged(&self, connection: u64, position: PurgePosition, counts: &[(u64, u64)]) {
        {
            let mut purges = self.purges();
            // A number of another list means nothing here.
            if purges.position().epoch == position.epoch {
                purges.count(counts);
            }
        }
        self.update(connection, |gateway| {
            gateway.heard_at = SystemTime::now();
            gateway.purges = gateway.purges.is_some().then_some(position);
        });
        self.reports.send_modify(|count| *count += 1);
    }

    /// Records what a gateway serves. A position of another run of the controller is not comparable.
    pub(crate) fn report(
        &self,
        connection: u64,
        position: Position,
        refused: BTreeMap<String, String>,
        refused_count: usize,
    ) {
        let now = SystemTime::now();
        let present = self.log().position();
        let is_comparable = position.epoch == present.epoch;
        self.update(connection, |gateway| {
            gateway.heard_at = now;
            if !is_comparable {
                return;
            }
            if gateway.position.as_ref() != Some(&position) {
                gateway.position_since = now;
            }
            gateway.is_late &= position.version < present.version;
            gateway.position = Some(position);
            (gateway.refused, gateway.refused_count) = (refused, refused_count);
        });
        self.reports.send_modify(|count| *count += 1);
    }

    /// Records that a connection has ended.
    pub(crate) fn leave(&self, connection: u64, why: String) {
        {
            let mut gateways = self.gateways();
            let Some(gateway) = gateways.by_connection.get_mut(&connection) else { return };
            info!(target: component::CONTROLLER, "the gateway {} has left: {why}", gateway.name);
            gateway.left = Some(why);
            let left = gateways.by_connection.iter().filter(|(_, gateway)| gateway.left.is_some());
            let (count, oldest) = (left.clone().count(), left.map(|(connection, _)| *connection).min());
            if let Some(oldest) = oldest.filter(|_| count > LEFT_MAX) {
                gateways.by_connection.remove(&oldest);
            }
        }
        // Wakes the tasks that wait for it.
        self.reports.send_modify(|count| *count += 1);
    }

    /// Counts and reports a client that is no gateway of the fleet.
    pub(crate) fn reject(&self, address: SocketAddr, why: &str) {
        self.gateways().rejected += 1;
        warn!(target: component::CONTROLLER, "rejected a connection from {address}: {why}");
    }
}

impl Gateways {
    fn connected(&self) -> impl Iterator<Item = &GatewayStatus> {
        self.by_connection.values().filter(|gateway| gateway.left.is_none())
    }
}

impl GatewayStatus {
    fn serves(&self, version: u64) -> bool {
        self.position.as_ref().is_some_and(|position| position.version >= version)
    }

    /// Returns whether it has carried out all purges up to a position.
    #[must_use]
    pub fn has_purged(&self, position: &PurgePosition) -> bool {
        self.purges.as_ref().is_some_and(|of| of.epoch == position.epoch && of.number >= position.number)
    }
}
