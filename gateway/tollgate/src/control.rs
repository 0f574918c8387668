//! The control thread. It handles signals, reloads, upgrades, the admin listener and the cost meter.
//! [`control`] runs it from the start of the workers to the end of the process. It never blocks: file
//! access, the store and compilation run on other threads.

mod upgrading;

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tollgate_fleet::{FleetServer, PurgeBatch};
use tollgate_net::{Timers, component};
use tollgate_sources::{
    ChangeError, EtcdEvent, PendingRequest, SharedControllerStatus, SourceEvent, Sources, record_connection,
};
use tollgate_upstream::health::HealthMonitor;
use tollgate_upstream::{EndpointEvent, EndpointNotice};
use tracing::{debug, info};

pub use self::upgrading::Upgradable;
use self::upgrading::{Upgrade, upgrade_result};
use crate::admin_context::AdminContext;
use crate::diagnostics;
use crate::etcd;
use crate::file_watch::FileWatch;
use crate::gateway::{ApiChannels, Gateway};
use crate::kubernetes;
use crate::operation::{Operation, ReloadOutcome};
use crate::reload;
use crate::roll_out;
use crate::sampler::Sampler;
use crate::signals::Signals;
use crate::source_reader::{JobResult, SourceReader};
use crate::stop::{hand_over, stop};
use crate::systemd;
use crate::upgrade::Successor;

/// A running gateway, with everything that its control thread needs.
pub struct StartedGateway {
    pub gateway: Gateway,
    pub runtime: LocalRuntime,
    /// The signals received since the start began.
    pub signals: Signals,
    /// The configuration file, and the store or etcd.
    pub sources: Sources,
    /// Messages from etcd, if it is a source.
    pub etcd_events: Option<mpsc::Receiver<EtcdEvent>>,
    /// Changes of documents, if Kubernetes or a controller is a source.
    pub source_events: Option<mpsc::Receiver<SourceEvent>>,
    /// Serves the gateways of a fleet, if this process is a controller.
    pub fleet: Option<FleetServer>,
}

/// How often the [`Sampler`] runs and the workers are checked.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of the process waits for the sources to finish their writes.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Capacity of the queue of pending changes. When the queue is full, senders wait.
const CHANGE_QUEUE_MAX: usize = 256;
/// Capacity of the queue of operations. When the queue is full, senders wait.
const OPERATION_QUEUE_MAX: usize = 16;

/// The reason why the control thread ends.
enum ExitReason {
    /// A signal or a client asked for a stop. The duration, if any, replaces `timeouts.drain`.
    Stop(Option<Duration>),
    /// Another process serves.
    Succeeded(Successor),
}

/// Returns the control thread's runtime. It is a local one, so that tasks for endpoints stay on this thread,
/// as they do on a worker.
///
/// # Errors
/// The kernel provides no poller.
pub fn runtime() -> io::Result<LocalRuntime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Runs the control thread until SIGTERM or SIGINT, or until another process has taken over. Then drains.
///
/// # Errors
/// A worker died, or signals cannot be received.
pub fn control(started: StartedGateway, upgradable: Upgradable) -> io::Result<()> {
    let StartedGateway { mut gateway, runtime, mut signals, sources, etcd_events, source_events, fleet } =
        started;
    let shared = gateway.shared.clone();
    // Started outside of `watch`, because health checks continue during the drain.
    let health = runtime.block_on(async {
        let health = HealthMonitor::start(shared, &Timers::start()?, fastrand::u64(..), log_endpoint_change);
        health.add_upstreams(&gateway.current().upstreams);
        // So does the overload guard: a draining process may run short of memory too.
        gateway.overload_guard.start();
        Ok::<_, io::Error>(health)
    })?;
    let (change_sender, change_queue) = mpsc::channel(CHANGE_QUEUE_MAX);
    let (operation_sender, operations) = mpsc::channel(OPERATION_QUEUE_MAX);
    let view = sources.view.clone();
    gateway.open_api(ApiChannels {
        view: view.clone(),
        change_queue: change_sender,
        operations: operation_sender,
    });
    let controller_purges = sources.take_controller_purges();
    let reader = SourceReader::new(sources);
    gateway.registry.update_status(|status| status.file = reader.file().display().to_string());
    let mut control = ControlThread {
        gateway,
        health,
        reader,
        watch: FileWatch::default(),
        upgradable,
        upgrade: None,
        reload_deferred: false,
        change_queue,
        operations,
        upgrade_pending: false,
        etcd_events,
        source_events,
        controller_purges,
    };
    control.gateway.registry.update_status(|status| status.etcd = etcd::status(&view));
    let end = runtime.block_on(control.watch(&mut signals));
    control.cancel_upgrade(&runtime);
    let ControlThread { gateway, health, reader, .. } = control;
    // Gateways keep what they serve, and look for another controller.
    drop(fleet);
    // The sources may wait for a disk or for etcd; a stop does not wait for them.
    let released = release(reader);
    let ended = match end {
        Ok(ExitReason::Stop(limit)) => stop(&runtime, gateway, &mut signals, limit),
        Ok(ExitReason::Succeeded(successor)) => hand_over(&runtime, gateway, &successor, &mut signals),
        // The remaining workers drain as at a stop.
        Err(error) => stop(&runtime, gateway, &mut signals, None).and(Err(error)),
    };
    // The receiver returns an error when the sources are released.
    let _ = released.recv_timeout(RELEASE_TIMEOUT);
    drop(health);
    // Threads that wait for a disk end with the process.
    runtime.shutdown_background();
    ended
}

/// Drops the sources on another thread. The receiver disconnects when that is done.
fn release(reader: SourceReader) -> std::sync::mpsc::Receiver<()> {
    let (done, released) = std::sync::mpsc::channel();
    // If no thread can be started, they are dropped here.
    let _ = std::thread::Builder::new().name("release".to_owned()).spawn(move || {
        drop(reader);
        drop(done);
    });
    released
}

struct ControlThread {
    gateway: Gateway,
    health: Rc<HealthMonitor>,
    reader: SourceReader,
    watch: FileWatch,
    upgradable: Upgradable,
    upgrade: Option<Upgrade>,
    /// A reload was requested while a new process was starting, which may have read the file before.
    reload_deferred: bool,
    /// Changes from the API.
    change_queue: mpsc::Receiver<PendingRequest>,
    /// Operations that clients of the API request.
    operations: mpsc::Receiver<Operation>,
    /// An upgrade was requested while a job of the reader was running.
    upgrade_pending: bool,
    /// Messages from etcd, if it is a source.
    etcd_events: Option<mpsc::Receiver<EtcdEvent>>,
    /// Changes of documents, if Kubernetes or a controller is a source.
    source_events: Option<mpsc::Receiver<SourceEvent>>,
    /// Purges from a controller and the state of its connection, until a task follows them.
    controller_purges: Option<(mpsc::Receiver<PurgeBatch>, SharedControllerStatus)>,
}

impl ControlThread {
    async fn watch(&mut self, signals: &mut Signals) -> io::Result<ExitReason> {
        let mut sampler = Sampler::start(&self.gateway);
        self.watch.watch_files(self.gateway.files.watched.clone()).await;
        self.gateway.serve_admin()?;
        self.follow_purges();
        systemd::ready();
        let mut tick = tokio::time::interval(SAMPLE_INTERVAL);
        // After a delay the next sample comes a full interval later; a shorter interval would measure only
        // the sampling.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = signals.stop.requested() => return Ok(ExitReason::Stop(None)),
                _ = signals.reload.recv() => self.reload(),
                () = self.watch.changed() => self.reload(),
                _ = signals.reopen.recv() => {
                    self.gateway.log.reopen();
                    diagnostics::reopen();
                }
                _ = signals.upgrade.recv() => self.start_upgrade(),
                Some(operation) = self.operations.recv() => match operation {
                    Operation::Reload(waiter) => self.reload_for(waiter),
                    Operation::Stop(limit) => return Ok(ExitReason::Stop(limit)),
                },
                Some(pending) = self.change_queue.recv() => self.queue_changes(pending),
                Some(event) = next_event(&mut self.etcd_events) => self.queue_etcd_events(event),
                Some(event) = next_event(&mut self.source_events) => self.queue_source_event(event),
                outcome = self.reader.finished() => {
                    let outcome = outcome?;
                    tokio::select! {
                        () = self.apply(outcome) => {}
                        // Applying a plan may wait for name servers.
                        () = signals.stop.requested() => return Ok(ExitReason::Stop(None)),
                    }
                    if std::mem::take(&mut self.upgrade_pending) {
                        self.start_upgrade();
                    }
                    self.start_pending_work();
                }
                result = upgrade_result(&mut self.upgrade) => {
                    if let Some(successor) = self.continue_upgrade(result)? {
                        return Ok(ExitReason::Succeeded(successor));
                    }
                }
                _ = tick.tick() => {
                    sampler.sample(&self.gateway);
                    self.gateway.drop_retired();
                    if self.upgrade.is_none() && !self.upgrade_pending {
                        self.reader.open_missing(&self.gateway);
                    }
                    if self.upgrade.is_none() {
                        // Tries again after a lack of file descriptors, which was reported when it occurred.
                        let _ = self.gateway.serve_admin();
                    }
                    if !self.gateway.workers.all_running() {
                        return Err(io::Error::other("a worker has ended"));
                    }
                }
            }
        }
    }

    fn reload(&mut self) {
        if self.upgrade.is_some() || self.upgrade_pending {
            debug!(target: component::RELOAD, "the reload waits for the upgrade");
            self.reload_deferred = true;
            return;
        }
        self.reader.start(&self.gateway);
    }

    /// Reloads for a client of the API, which gets the outcome.
    fn reload_for(&mut self, waiter: oneshot::Sender<ReloadOutcome>) {
        if self.upgrade.is_some() || self.upgrade_pending {
            // A client that has left needs no answer.
            let _ =
                waiter.send(ReloadOutcome::NotNow("another process is taking over: try again in a moment"));
            return;
        }
        self.reader.add_waiter(waiter);
        self.reload();
    }

    /// Starts the work that waits. While an upgrade is in progress it stays queued, and runs here if the
    /// upgrade fails.
    fn start_pending_work(&mut self) {
        if self.upgrade.is_some() || self.upgrade_pending {
            return;
        }
        if std::mem::take(&mut self.reload_deferred) {
            self.reload();
        }
        self.reader.start_next(&self.gateway);
    }

    /// Queues a change of the store, with all others that have arrived. They are made together.
    fn queue_changes(&mut self, pending: PendingRequest) {
        let mut next = Some(pending);
        while let Some(pending) = next {
            if self.upgrade.is_some() || self.upgrade_pending {
                pending.send_answer(Err(ChangeError::NotNow(
                    "another process is taking over: try again in a moment",
                )));
            } else {
                self.reader.queue_change(pending);
            }
            next = self.change_queue.try_recv().ok();
        }
        self.start_pending_work();
    }

    /// Queues a message from etcd, with all others that have arrived. They are applied together.
    fn queue_etcd_events(&mut self, event: EtcdEvent) {
        let mut next = Some(event);
        while let Some(event) = next {
            if let Some(message) = record_connection(&self.gateway.context().view, &event) {
                etcd::log_message(&message);
            }
            if matches!(event, EtcdEvent::Snapshot { .. } | EtcdEvent::Changes { .. }) {
                self.reader.queue_etcd_event(Some(event));
            }
            next = self.etcd_events.as_mut().and_then(|events| events.try_recv().ok());
        }
        self.update_etcd_status();
        self.start_pending_work();
    }

    /// Starts to carry out the purges that gateways with a common etcd or controller share.
    fn follow_purges(&mut self) {
        let AdminContext { view, plan, purges, fleet, .. } = self.gateway.context();
        if let Some(etcd) = view.read(|state| state.etcd.as_ref().map(|etcd| etcd.handle.clone())) {
            tokio::spawn(purges.follow_etcd(etcd, plan, fleet));
        } else if let Some((batches, status)) = self.controller_purges.take() {
            tokio::spawn(purges.follow_controller(batches, status, plan));
        }
    }

    fn queue_source_event(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Documents(changes) => self.reader.queue_object_changes(changes),
            // The stream of a controller reports its connection itself.
            SourceEvent::Connected(_) if self.gateway.config.controller.is_some() => {}
            SourceEvent::Connected(connected) => kubernetes::log_connection(&connected),
        }
        self.start_pending_work();
    }

    fn update_etcd_status(&self) {
        let status = etcd::status(&self.gateway.context().view);
        self.gateway.registry.update_status(|of| of.etcd = status);
    }

    async fn apply(&mut self, outcome: JobResult) {
        match outcome {
            JobResult::Etcd(rollout, applied) => {
                roll_out::apply_etcd(rollout, &applied, &mut self.gateway, &self.health, &self.reader).await;
            }
            JobResult::Sockets(change) => roll_out::apply_sockets(change, &mut self.gateway),
            JobResult::Objects(changed) => {
                roll_out::apply_documents(*changed, &mut self.gateway, &self.health, &self.reader).await;
            }
            JobResult::File(reading) => {
                reload::apply_file(*reading, &mut self.gateway, &self.health, &mut self.reader).await;
                if self.etcd_events.is_some() {
                    // Entries of etcd that the old file made invalid may be valid now.
                    self.reader.queue_etcd_event(None);
                }
                self.watch.watch_files(self.gateway.files.watched.clone()).await;
            }
            JobResult::Changes(changed) => {
                roll_out::apply_changes(*changed, &mut self.gateway, &self.health, &mut self.reader).await;
            }
        }
        if self.etcd_events.is_some() {
            self.update_etcd_status();
            self.reader.publish_presence(self.gateway.current().generation());
        }
    }
}

/// Writes the change of an endpoint's state to the log.
fn log_endpoint_change(notice: &EndpointNotice) {
    let EndpointNotice { upstream, endpoint, event } = notice;
    match event {
        EndpointEvent::TlsFailed(_) | EndpointEvent::TlsWorks => {
            info!(target: component::TLS, upstream, %endpoint, "{notice}");
        }
        _ => info!(target: component::HEALTH, upstream, %endpoint, "{notice}"),
    }
}

/// Returns the next message of a source; never, if there is no such source.
async fn next_event<T>(events: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match events {
        Some(open) => open.recv().await,
        None => std::future::pending().await,
    }
}
