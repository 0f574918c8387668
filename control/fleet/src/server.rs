//! The controller's side of the stream, on a thread of its own: accepts gateways, sends them changes, and reads what
//! each gateway serves.
//!
//! `tollgate controller` [starts](FleetServer::start) it. The [state](crate::state) of the fleet has the documents and
//! purges to send. Invariant: a client without a certificate of the fleet's authority does not pass the handshake, so it
//! gets no document.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tollgate_documents::{Compact, DocumentKey};
use tollgate_net::component;
use tracing::{debug, info, warn};

use crate::lines::{LineReader, write_lines};
use crate::message::{Position, PurgePosition, ToController, ToGateway, line};
use crate::purge_file::PurgeFile;
use crate::purge_list::{PurgeDelta, PurgeList};
use crate::replica::KindNames;
use crate::state::{Fleet, FleetHandle};

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
/// Pause after a failed accept, for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bound of the names that a gateway sends, in bytes.
const NAME_MAX_BYTES: usize = 200;

/// The server of a fleet. Dropping it ends its thread and all connections.
#[derive(Debug)]
pub struct FleetServer {
    handle: FleetHandle,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
        let handle = FleetHandle::new(tls, kinds, documents, purges, purge_file);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let fleet = handle.fleet();
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
    // Nagle's algorithm would delay every change.
    let _ = stream.set_nodelay(true);
    let greeting = async {
        let stream =
            TlsAcceptor::from(fleet.tls()).accept(stream).await.map_err(|error| error.to_string())?;
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
        match message {
            ToController::Hello { .. } => return "it introduced itself twice".to_owned(),
            ToController::Alive => {
                fleet.update(connection, |gateway| gateway.heard_at = SystemTime::now());
            }
            ToController::Purged { position, counts } => fleet.purged(connection, position, &counts),
            ToController::Report { position, refused, refused_count } => {
                fleet.report(connection, position, refused, refused_count);
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
    let mut version = fleet.follow_documents();
    let mut purge_version = fleet.follow_purges();
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
