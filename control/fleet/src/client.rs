//! The gateway's side of the stream, on a thread of its own: connects to a controller, resumes at the last commit,
//! hands changes to the gateway, reports what it serves, and keeps the last good state in a file.
//!
//! If the connection breaks, the gateway keeps serving what it has. The thread then tries the controllers in turn, with
//! growing pauses.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_documents::{SourceEvent, StateFile};
use tollgate_net::component;
use tracing::{debug, info, warn};

use crate::delivery::{Delivery, GatewayEnded, SavedState};
use crate::lines::{LineReader, write_lines};
use crate::message::{Position, REASON_MAX_CHARS, REFUSED_MAX, ToController, ToGateway, line};
use crate::purge_delivery::{PurgeBatch, PurgeDelivery};
use crate::replica::{Commit, KindNames, Replica};
use crate::server::HEARTBEAT_INTERVAL;

/// Time limit for opening a connection, and for the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a controller may be silent: three heartbeats, and some.
const SILENCE_MAX: Duration = Duration::from_secs(7);
/// Bound of a message, in bytes. The largest documents are upstreams with many endpoints.
const MESSAGE_MAX_BYTES: usize = 64 << 20;
/// First pause between attempts.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Last pause between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After a connection of this duration, the next pause is the first one again.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Capacity of the queue of events: one batch is in flight, and the connection changes seldom.
const EVENTS_MAX: usize = 4;
/// Capacity of the queue of purges: one batch is in flight at a time.
const PURGE_BATCHES_MAX: usize = 1;

/// The address of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerAddress {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The settings of the client.
#[derive(Debug)]
pub struct FleetClientSettings {
    /// The controllers; at least one.
    pub controllers: Vec<ControllerAddress>,
    /// The name that their certificates must contain; `None`: the host of each.
    pub server_name: Option<String>,
    /// TLS, with the gateway's certificate and [`PROTOCOL`](crate::PROTOCOL).
    pub tls: Arc<ClientConfig>,
    /// Name of this gateway.
    pub name: String,
    /// Name and version of the program.
    pub program: String,
    /// The kinds of resources that this program has.
    pub kinds: KindNames,
    /// The address of listeners, in place of the one in their documents.
    pub bind: Option<IpAddr>,
    /// The file of the last good state.
    pub cache: Option<PathBuf>,
    /// The contents of that file.
    pub saved: Option<SavedState>,
}

/// The connection to the controllers.
#[derive(Clone, Debug)]
pub struct ControllerStatus {
    /// Name of this gateway.
    pub name: String,
    /// The controller that is connected; `None`: none is.
    pub controller: Option<String>,
    /// Why none is connected; `None`: one is.
    pub problem: Option<String>,
    /// Time of the last change between the two.
    pub since: SystemTime,
    /// How often a connection was lost.
    pub losses: u64,
    /// Whether the documents are from the file, and no controller confirmed them.
    pub cached: bool,
    /// The position that the gateway serves.
    pub position: Option<Position>,
    /// The refused documents, as `kind/name`, with the reasons.
    pub refused: BTreeMap<String, String>,
    /// The number of the last purge that is carried out.
    pub purge: u64,
    /// Every purge that the controller had at this time is carried out; `None`: no controller answered since the start.
    pub purges_known_at: Option<SystemTime>,
}

/// The thread of the client. Dropping it ends the thread.
#[derive(Debug)]
pub struct FleetThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    status: Arc<Mutex<ControllerStatus>>,
    tls: watch::Sender<Arc<ClientConfig>>,
    purges: Mutex<Option<mpsc::Receiver<PurgeBatch>>>,
}

impl FleetThread {
    /// Starts to follow the controllers. The first event has the state of the file, if there is one.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(settings: FleetClientSettings) -> io::Result<(Self, mpsc::Receiver<SourceEvent>)> {
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let (batch_sender, batches) = mpsc::channel(PURGE_BATCHES_MAX);
        let (stop, stopped) = oneshot::channel();
        let (tls, tls_receiver) = watch::channel(settings.tls.clone());
        let status = Arc::new(Mutex::new(ControllerStatus {
            name: settings.name.clone(),
            controller: None,
            problem: None,
            since: SystemTime::now(),
            losses: 0,
            cached: settings.saved.is_some(),
            position: None,
            refused: BTreeMap::new(),
            purge: 0,
            purges_known_at: None,
        }));
        let file = settings.cache.clone().map(|path| StateFile::start(path, "controller")).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = status.clone();
        let thread = std::thread::Builder::new().name("controller".to_owned()).spawn(move || {
            runtime.block_on(async {
                let client = Client::new(settings, tls_receiver, file, (event_sender, batch_sender), shared);
                tokio::select! {
                    _ = client.run() => {}
                    _ = stopped => {}
                }
            });
        })?;
        let purges = Mutex::new(Some(batches));
        Ok((Self { stop: Some(stop), thread: Some(thread), status, tls, purges }, events))
    }

    /// Returns the state of the connection, for readers on other threads.
    #[must_use]
    pub fn status(&self) -> Arc<Mutex<ControllerStatus>> {
        self.status.clone()
    }

    /// Returns the controller's purges, for the gateway to carry out until the receiver closes. `None` after the first
    /// call.
    #[must_use]
    pub fn take_purges(&self) -> Option<mpsc::Receiver<PurgeBatch>> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Uses these certificates from the next connection on.
    pub fn set_tls(&self, tls: Arc<ClientConfig>) {
        self.tls.send_replace(tls);
    }
}

impl Drop for FleetThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends at its next pause, after it has written the file.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Client {
    settings: FleetClientSettings,
    tls: watch::Receiver<Arc<ClientConfig>>,
    file: Option<StateFile<SavedState>>,
    events: mpsc::Sender<SourceEvent>,
    status: Arc<Mutex<ControllerStatus>>,
    replica: Replica,
    delivery: Delivery,
    purges: PurgeDelivery,
}

impl Client {
    fn new(
        mut settings: FleetClientSettings,
        tls: watch::Receiver<Arc<ClientConfig>>,
        file: Option<StateFile<SavedState>>,
        (events, batches): (mpsc::Sender<SourceEvent>, mpsc::Sender<PurgeBatch>),
        status: Arc<Mutex<ControllerStatus>>,
    ) -> Self {
        let saved = settings.saved.take().map(|saved| saved.into_parts(settings.kinds));
        let for_delivery = saved.as_ref().map(|(documents, position)| (documents, position.as_ref()));
        let delivery = Delivery::new(events.clone(), settings.bind, for_delivery);
        let (documents, position) = saved.unwrap_or_default();
        let replica = Replica::new(settings.kinds, documents, position);
        let purges = PurgeDelivery::new(batches);
        Self { settings, tls, file, events, status, replica, delivery, purges }
    }

    /// Follows the controllers in turn, until the gateway ends.
    async fn run(mut self) -> Result<(), GatewayEnded> {
        let mut pause = PAUSE_MIN;
        let mut next = 0;
        loop {
            let controllers = &self.settings.controllers;
            let Some(controller) = controllers.get(next % controllers.len().max(1)).cloned() else {
                return Ok(());
            };
            next += 1;
            let began_at = Instant::now();
            let why = self.follow(&controller).await?;
            self.replica.disconnect();
            self.purges.disconnect();
            self.report_loss(format!("{controller}: {why}")).await?;
            if began_at.elapsed() >= STABLE_AFTER {
                pause = PAUSE_MIN;
            }
            // Up to a half shorter, so that a fleet does not return all at once.
            let end = Instant::now() + pause.mul_f64(1.0 - fastrand::f64() / 2.0);
            pause = (pause * 2).min(PAUSE_MAX);
            while Instant::now() < end {
                tokio::select! {
                    () = sleep(end.saturating_duration_since(Instant::now())) => {}
                    answered = self.delivery.progress() => {
                        answered?;
                        self.record_in_force();
                    }
                    done = self.purges.progress() => done?,
                }
            }
        }
    }

    /// Follows a controller until its connection breaks. Returns the reason.
    async fn follow(&mut self, controller: &ControllerAddress) -> Result<String, GatewayEnded> {
        let stream = match self.open(controller).await? {
            Ok(stream) => stream,
            Err(why) => return Ok(why),
        };
        let (reader, mut writer) = split(stream);
        match self.exchange(controller, reader, &mut writer).await {
            Err(Failure::Connection(why)) => Ok(why),
            Err(Failure::Gateway) => Err(GatewayEnded),
            Ok(never) => match never {},
        }
    }

    /// Opens a connection, and lets the gateway's answers to earlier batches arrive in that time.
    async fn open(
        &mut self,
        controller: &ControllerAddress,
    ) -> Result<Result<TlsStream<TcpStream>, String>, GatewayEnded> {
        let tls = self.tls.borrow().clone();
        let connecting = connect(controller, self.settings.server_name.as_deref(), tls);
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                connected = &mut connecting => return Ok(connected),
                answered = self.delivery.progress() => {
                    answered?;
                    self.record_in_force();
                }
                done = self.purges.progress() => done?,
            }
        }
    }

    async fn exchange(
        &mut self,
        controller: &ControllerAddress,
        reader: ReadHalf<TlsStream<TcpStream>>,
        writer: &mut WriteHalf<TlsStream<TcpStream>>,
    ) -> Result<std::convert::Infallible, Failure> {
        let hello = ToController::Hello {
            name: self.settings.name.clone(),
            program: self.settings.program.clone(),
            position: self.replica.position().cloned(),
            purges: Some(self.purges.position().clone()),
        };
        write_lines(writer, [Bytes::from(line(&hello))]).await?;
        let mut lines = LineReader::new(reader, MESSAGE_MAX_BYTES);
        let mut alive = interval(HEARTBEAT_INTERVAL);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_connected = false;
        let mut reported = None;
        loop {
            let in_force = self.delivery.in_force();
            // Before the first commit, the controller may not know what the position means.
            if is_connected
                && reported.as_ref() != Some(in_force)
                && let Some(position) = in_force.position.clone()
            {
                reported = Some(in_force.clone());
                let report = self.report(position);
                write_lines(writer, [Bytes::from(line(&report))]).await?;
            }
            tokio::select! {
                message = lines.next::<ToGateway>(SILENCE_MAX) => {
                    let message = message.map_err(Failure::Connection)?;
                    let commit = self.take(message).map_err(Failure::Connection)?;
                    self.record_purges();
                    if let Some(commit) = commit {
                        if !std::mem::replace(&mut is_connected, true) {
                            self.report_connection(controller).await?;
                        }
                        debug!(
                            target: component::CONTROLLER,
                            version = commit.position.version, changes = commit.changes.len(), "received changes"
                        );
                        self.delivery.add(commit);
                    }
                }
                answered = self.delivery.progress() => {
                    answered?;
                    self.record_in_force();
                }
                done = self.purges.progress() => {
                    done?;
                    self.record_purges();
                    if self.purges.has_report() {
                        let report = self.purges.take_report();
                        write_lines(writer, [Bytes::from(line(&report))]).await?;
                    }
                }
                _ = alive.tick() => write_lines(writer, [Bytes::from(line(&ToController::Alive))]).await?,
            }
        }
    }

    /// Applies a message. Returns the changes if it is a commit.
    fn take(&mut self, message: ToGateway) -> Result<Option<Commit>, String> {
        match message {
            ToGateway::Purge { number, request } => self.purges.receive(number, Arc::new(request)),
            ToGateway::Purges { position, is_complete } => self.purges.complete(position, is_complete),
            message => {
                let commit = self.replica.take(message)?;
                if commit.is_some() {
                    self.purges.note_commit();
                }
                return Ok(commit);
            }
        }
        Ok(None)
    }

    /// Publishes which purges are carried out.
    fn record_purges(&self) {
        let mut status = self.status();
        status.purge = self.purges.position().number;
        if self.purges.is_current() {
            status.purges_known_at = Some(SystemTime::now());
        }
    }

    /// Returns the report of what the gateway serves.
    fn report(&self, position: Position) -> ToController {
        let refused = self.refused();
        let refused_count = refused.len();
        let refused = refused.into_iter().take(REFUSED_MAX);
        let short = refused.map(|(key, why)| (key, why.chars().take(REASON_MAX_CHARS).collect()));
        ToController::Report { position, refused: short.collect(), refused_count }
    }

    /// Returns the refused documents, with those of kinds that this program does not have.
    fn refused(&self) -> BTreeMap<String, String> {
        let refused = self.delivery.in_force().refused.iter();
        let unknown = self.replica.unknown().map(|(kind, name)| {
            (
                format!("{kind}/{name}"),
                "this gateway's program does not know this kind of resource".to_owned(),
            )
        });
        refused.map(|(key, why)| (format!("{}/{}", key.kind, key.name), why.clone())).chain(unknown).collect()
    }

    /// Publishes the documents in force, and saves them.
    fn record_in_force(&self) {
        let position = self.delivery.in_force().position.clone();
        let refused = self.refused();
        let is_cached = {
            let mut status = self.status();
            (status.position, status.refused) = (position, refused);
            status.cached
        };
        // The state of the file is there already.
        if let (Some(file), false) = (&self.file, is_cached) {
            file.queue(self.delivery.saved());
        }
    }

    fn status(&self) -> MutexGuard<'_, ControllerStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn report_connection(&self, controller: &ControllerAddress) -> Result<(), GatewayEnded> {
        {
            let mut status = self.status();
            status.controller = Some(controller.to_string());
            (status.problem, status.since, status.cached) = (None, SystemTime::now(), false);
        }
        info!(target: component::CONTROLLER, "connected to the controller {controller}");
        self.events.send(SourceEvent::Connected(Ok(()))).await.map_err(|_| GatewayEnded)
    }

    async fn report_loss(&self, why: String) -> Result<(), GatewayEnded> {
        let is_new = {
            let mut status = self.status();
            let was_connected = status.controller.take().is_some();
            status.losses += u64::from(was_connected);
            if was_connected {
                status.since = SystemTime::now();
            }
            let before = status.problem.replace(why.clone());
            before.as_ref() != Some(&why)
        };
        if is_new {
            warn!(target: component::CONTROLLER, "no controller answers: {why}; what is in force stays so");
            return self.events.send(SourceEvent::Connected(Err(why))).await.map_err(|_| GatewayEnded);
        }
        Ok(())
    }
}

/// Why the client gives up a connection.
enum Failure {
    /// For this reason.
    Connection(String),
    /// The gateway ended.
    Gateway,
}

impl From<GatewayEnded> for Failure {
    fn from(GatewayEnded: GatewayEnded) -> Self {
        Self::Gateway
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

async fn connect(
    controller: &ControllerAddress,
    server_name: Option<&str>,
    tls: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let name = server_name.unwrap_or(&controller.host).to_owned();
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let connecting = async {
        let stream = TcpStream::connect((controller.host.as_str(), controller.port)).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(tls).connect(name, stream).await
    };
    let connected = timeout(CONNECT_TIMEOUT, connecting).await;
    let stream = connected.map_err(|_| format!("no connection within {CONNECT_TIMEOUT:?}"))?;
    stream.map_err(|error| error.to_string())
}
