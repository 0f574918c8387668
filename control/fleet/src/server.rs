//! The controller's side of the stream, on a thread of its own: accepts gateways, sends them changes, and tracks what
//! each gateway serves.
//!
//! `tollgate controller` [starts](FleetServer::start) it, and publishes documents and purges through the
//! [`FleetHandle`]. Invariant: a client without a certificate of the fleet's authority does not pass the handshake, so
//! it gets no document.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tollgate_documents::{Compact, DocumentKey, Refused};
use tollgate_net::component;
use tracing::{debug, info, warn};

use crate::lines::{LineReader, write_lines};
use crate::log::DocumentLog;
use crate::message::{Position, PurgePosition, ToController, ToGateway, line};
use crate::purge_file::PurgeFile;
use crate::purge_list::{PurgeDelta, PurgeList};
use crate::replica::KindNames;

/// How often each side tells the other that it is alive.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How long a gateway may be silent: three heartbeats, and some.
const SILENCE_MAX: Duration = Duration::from_secs(7);
/// Time limit for the handshake and the first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Bound of a message of a gateway, in bytes. The largest is a report with refused documents.
const MESSAGE_MAX_BYTES: usize = 1 << 20;
/// How many connections are served at a time. More wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 10_000;
/// How many gateways that have left are remembered.
const LEFT_MAX: usize = 1000;
/// Pause after a failed accept, for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bound of the names that a gateway sends, in bytes.
const NAME_MAX_BYTES: usize = 200;

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

/// The server of a fleet. Dropping it ends its thread and all connections.
#[derive(Debug)]
pub struct FleetServer {
    handle: FleetHandle,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
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

#[derive(Debug)]
struct Fleet {
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

impl FleetServer {
    /// Starts to serve the documents on a listening socket.
    ///
    /// # Errors
    /// The socket cannot be used, or no thread can be started.
    pub fn start(
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        kinds: KindNames,
        documents: impl IntoIterator<Item = (DocumentKey, Compact)>,
        purges: PurgeList,
        purge_file: Option<PurgeFile>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut log = DocumentLog::new(format!("{:032x}", fastrand::u128(..)));
        log.replace(documents);
        let handle = FleetHandle(Arc::new(Fleet {
            version: watch::Sender::new(log.position().version),
            log: Mutex::new(log),
            gateways: Mutex::default(),
            reports: watch::Sender::new(0),
            purges: Mutex::new(purges),
            purge_file: Mutex::new(purge_file),
            purge_version: watch::Sender::new(0),
            tls: Mutex::new(tls),
            kinds,
        }));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let fleet = handle.0.clone();
        let thread = std::thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept_gateways(listener, fleet) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { handle, address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the handle.
    #[must_use]
    pub fn handle(&self) -> &FleetHandle {
        &self.handle
    }

    /// Returns the address with its actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FleetServer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread never blocks, so it ends soon.
            let _ = thread.join();
        }
    }
}

impl FleetHandle {
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
    fn log(&self) -> MutexGuard<'_, DocumentLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gateways(&self) -> MutexGuard<'_, Gateways> {
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_served(&self, version: u64) -> bool {
        self.gateways().connected().all(|gateway| gateway.is_late || gateway.serves(version))
    }

    fn purges(&self) -> MutexGuard<'_, PurgeList> {
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
    fn join(&self, name: String, program: String, address: SocketAddr, purges: Option<PurgePosition>) -> u64 {
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

    fn update(&self, connection: u64, change: impl FnOnce(&mut GatewayStatus)) {
        if let Some(gateway) = self.gateways().by_connection.get_mut(&connection) {
            change(gateway);
        }
    }

    fn leave(&self, connection: u64, why: String) {
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

    fn reject(&self, address: SocketAddr, why: &str) {
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

async fn accept_gateways(listener: TcpListener, fleet: Arc<Fleet>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(target: component::CONTROLLER, "cannot accept gateways: {error}"),
    };
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, address)) => {
                let fleet = fleet.clone();
                tokio::spawn(async move {
                    serve(stream, address, &fleet).await;
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(target: component::CONTROLLER, "cannot accept a gateway: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection until it ends.
async fn serve(stream: TcpStream, address: SocketAddr, fleet: &Fleet) {
    let tls = fleet.tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Nagle's algorithm would delay every change.
    let _ = stream.set_nodelay(true);
    let greeting = async {
        let stream = TlsAcceptor::from(tls).accept(stream).await.map_err(|error| error.to_string())?;
        let (reader, writer) = split(stream);
        let mut lines = LineReader::new(reader, MESSAGE_MAX_BYTES);
        match lines.next::<ToController>(HELLO_TIMEOUT).await? {
            ToController::Hello { name, program, position, purges }
                if name.len().max(program.len()) <= NAME_MAX_BYTES =>
            {
                Ok((lines, writer, name, program, (position, purges)))
            }
            _ => Err("it does not introduce itself as a gateway".to_owned()),
        }
    };
    let greeted = timeout(HELLO_TIMEOUT, greeting).await;
    let greeted = greeted.unwrap_or_else(|_| Err(format!("no gateway within {HELLO_TIMEOUT:?}")));
    let (mut lines, mut writer, name, program, (position, purges)) = match greeted {
        Ok(greeted) => greeted,
        Err(why) => return fleet.reject(address, &why),
    };
    let version = position.as_ref().map_or(0, |position| position.version);
    info!(target: component::CONTROLLER, "the gateway {name} has joined from {address}, with version {version}");
    let connection = fleet.join(name, program, address, purges.clone());
    let why = tokio::select! {
        why = read_reports(&mut lines, fleet, connection) => why,
        why = send_changes(&mut writer, fleet, connection, position, purges) => why,
    };
    fleet.leave(connection, why);
}

/// Reads a gateway's reports. Returns why the connection ended.
async fn read_reports<R: AsyncRead + Unpin>(
    lines: &mut LineReader<R>,
    fleet: &Fleet,
    connection: u64,
) -> String {
    loop {
        let message = match lines.next::<ToController>(SILENCE_MAX).await {
            Ok(message) => message,
            Err(why) => return why,
        };
        let now = SystemTime::now();
        match message {
            ToController::Hello { .. } => return "it introduced itself twice".to_owned(),
            ToController::Alive => fleet.update(connection, |gateway| gateway.heard_at = now),
            ToController::Purged { position, counts } => {
                {
                    let mut purges = fleet.purges();
                    // A number of another list means nothing here.
                    if purges.position().epoch == position.epoch {
                        purges.count(&counts);
                    }
                }
                fleet.update(connection, |gateway| {
                    gateway.heard_at = now;
                    gateway.purges = gateway.purges.is_some().then_some(position);
                });
                fleet.reports.send_modify(|count| *count += 1);
            }
            ToController::Report { position, refused, refused_count } => {
                // A position of another run of the controller is not comparable.
                let present = fleet.log().position();
                let is_comparable = position.epoch == present.epoch;
                fleet.update(connection, |gateway| {
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
                fleet.reports.send_modify(|count| *count += 1);
            }
        }
    }
}

/// Sends the purges that a gateway lacks, and the difference between its position and the present documents, after each
/// change. Returns why the connection ended.
async fn send_changes<W: AsyncWrite + Unpin>(
    writer: &mut W,
    fleet: &Fleet,
    connection: u64,
    mut known: Option<Position>,
    mut known_purges: Option<PurgePosition>,
) -> String {
    let mut version = fleet.version.subscribe();
    let mut purge_version = fleet.purge_version.subscribe();
    let mut heartbeat = interval(HEARTBEAT_INTERVAL);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_first = true;
    loop {
        version.borrow_and_update();
        purge_version.borrow_and_update();
        // Purges come first: a gateway knows at its first commit whether there are any.
        let mut lines = known_purges.as_mut().map_or_else(Vec::new, |of| lacking_purges(fleet, of, is_first));
        let delta = fleet.log().since(known.as_ref());
        if std::mem::take(&mut is_first) || known.as_ref() != Some(&delta.position) {
            debug!(
                target: component::CONTROLLER,
                connection, version = delta.position.version, lines = delta.lines.len(), "sends changes"
            );
            known = Some(delta.position.clone());
            lines.extend(delta.lines);
            lines.push(Bytes::from(line(&ToGateway::Commit(delta.position))));
        }
        if lines.is_empty() {
            tokio::select! {
                changed = version.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return "the controller ends".to_owned(),
                },
                changed = purge_version.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return "the controller ends".to_owned(),
                },
                _ = heartbeat.tick() => lines.push(Bytes::from(line(&ToGateway::Alive))),
            }
        }
        let bytes: u64 = lines.iter().map(|line| line.len() as u64).sum();
        if let Err(error) = write_lines(writer, lines).await {
            return error.to_string();
        }
        fleet.update(connection, |gateway| gateway.sent_bytes += bytes);
    }
}

/// Returns the lines of the purges after a position, and moves the position past them.
fn lacking_purges(fleet: &Fleet, known: &mut PurgePosition, is_first: bool) -> Vec<Bytes> {
    let mut purges = fleet.purges();
    // A list that is not known yet sends only its announcement.
    if !is_first && (!purges.is_known() || purges.position() == *known) {
        return Vec::new();
    }
    let PurgeDelta { mut lines, position, is_complete } = purges.since(known, SystemTime::now());
    if purges.is_known() {
        known.clone_from(&position);
    }
    lines.push(Bytes::from(line(&ToGateway::Purges { position, is_complete })));
    lines
}
