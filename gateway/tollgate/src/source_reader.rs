//! Runs the jobs that read the sources and compile plans, one at a time, on a thread of lower priority than the workers.
//!
//! The control thread queues work in a [`SourceReader`]: a reload of the file, changes over the API, events of etcd, and
//! changes of objects. It awaits [`finished`](SourceReader::finished) and applies the [`JobResult`]: a file in `reload`, other
//! changes in `roll_out`. Invariant: the sources belong either to the running job or to the reader, so no job sees the
//! unfinished work of another.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate_config::Config;
use tollgate_net::component;
use tollgate_plan::CompileCache;
use tollgate_proxy::Rollout;
use tollgate_sources::{
    Applied, AppliedDocuments, BatchResult, CompletedRequest, DocumentChanges, EtcdEvent, PendingRequest,
    Sources,
};
use tollgate_store::Store;
use tracing::{debug, error};

use crate::diagnostics;
use crate::files::SourceFiles;
use crate::gateway::Gateway;
use crate::job_context::{JobContext, PreparedRollout};
use crate::listeners::{ListenersChange, wanted_listeners};
use crate::load;
use crate::low_priority::spawn_low_priority;
use crate::operation::{ReloadOutcome, ReloadWaiters};
use crate::systemd;

/// Runs the jobs that read the sources, one at a time.
#[derive(Debug)]
pub struct SourceReader {
    file: PathBuf,
    /// The sources; `None` while a job uses them.
    sources: Option<Sources>,
    /// The compiled parts of the last plan; locked while a job runs.
    memo: Arc<Mutex<CompileCache>>,
    running: Option<oneshot::Receiver<(Sources, JobResult)>>,
    /// Whether a reload was requested while another job was running.
    reload_pending: bool,
    /// Clients that wait for the next read of the file.
    waiting: ReloadWaiters,
    /// Clients that wait for the running one.
    reading: ReloadWaiters,
    /// Changes for the next job.
    pending_changes: Vec<PendingRequest>,
    /// Messages from etcd for the next job.
    etcd_events: Vec<EtcdEvent>,
    /// Changes of objects for the next job. The source sends the next ones when these are answered.
    object_changes: Option<DocumentChanges>,
}

/// The result of a job.
#[derive(Debug)]
pub enum JobResult {
    /// The file was read.
    File(Box<FileReading>),
    /// The store was changed.
    Changes(Box<StoreChanges>),
    /// etcd has sent changes: the plan to roll out, if any, and the other results.
    Etcd(Option<PreparedRollout>, Box<Applied<()>>),
    /// Objects of Kubernetes have changed.
    Objects(Box<ObjectChanges>),
    /// Sockets of listeners that could not be opened before.
    Sockets(ListenersChange),
}

/// The result of reading the file.
#[derive(Debug)]
pub struct FileReading {
    pub requested_at: Instant,
    /// The process's settings, the plan, and the files of both; `None` if the file is invalid.
    pub loaded: Option<LoadedFile>,
    /// How many routes were read; unchanged ones are taken from the last read.
    pub routes_read: usize,
    /// The read state, to be adopted once the plan is in force.
    pub reload: load::PlanReload,
}

/// A valid file: the process's settings, the plan and its sockets, and the files of both.
#[derive(Debug)]
pub struct LoadedFile {
    pub config: Config,
    pub rollout: Arc<Rollout>,
    pub listeners: io::Result<ListenersChange>,
    pub files: SourceFiles,
}

/// The result of changing the store. Each change is answered when all workers run the plan.
#[derive(Debug)]
pub struct StoreChanges {
    pub rollout: Option<PreparedRollout>,
    pub completed: Vec<CompletedRequest>,
    pub deferred: Vec<PendingRequest>,
}

/// The result of a change of objects. It is answered when all workers run the plan.
#[derive(Debug)]
pub struct ObjectChanges {
    pub rollout: Option<PreparedRollout>,
    pub applied: AppliedDocuments<()>,
    pub changes: DocumentChanges,
}

impl SourceReader {
    /// Wraps sources that have been read once.
    pub fn new(sources: Sources) -> Self {
        let file = sources.file().to_owned();
        Self {
            file,
            sources: Some(sources),
            memo: Arc::default(),
            running: None,
            reload_pending: false,
            waiting: ReloadWaiters::default(),
            reading: ReloadWaiters::default(),
            pending_changes: Vec::new(),
            etcd_events: Vec::new(),
            object_changes: None,
        }
    }

    /// Starts to read the file, now or after the running job.
    pub fn start(&mut self, gateway: &Gateway) {
        let Some(mut sources) = self.sources.take() else {
            self.reload_pending = true;
            return;
        };
        self.reload_pending = false;
        self.reading.append(&mut self.waiting);
        debug!(target: component::RELOAD, file = %self.file.display(), "reads the file");
        systemd::reloading();
        let requested_at = Instant::now();
        let (context, memo) = (gateway.job_context(), self.memo.clone());
        self.running = Some(spawn_low_priority(move || {
            let reading = read(&mut sources, requested_at, context, &mut lock_memo(&memo));
            (sources, JobResult::File(Box::new(reading)))
        }));
    }

    /// Adds a client that gets the outcome of the next read. The caller then calls [`start`](Self::start).
    pub fn add_waiter(&mut self, waiter: oneshot::Sender<ReloadOutcome>) {
        self.waiting.add(waiter);
    }

    /// Queues a change for the next job.
    pub fn queue_change(&mut self, pending: PendingRequest) {
        self.pending_changes.push(pending);
    }

    /// Queues a message from etcd for the next job. `None` only retries entries that were refused because of
    /// others.
    pub fn queue_etcd_event(&mut self, event: Option<EtcdEvent>) {
        self.etcd_events.push(event.unwrap_or(EtcdEvent::Changes { revision: 0, entries: Vec::new() }));
    }

    /// Queues changes of objects for the next job.
    pub fn queue_object_changes(&mut self, changes: DocumentChanges) {
        self.object_changes = Some(changes);
    }

    /// Publishes the running generation in this gateway's key in etcd.
    pub fn publish_presence(&self, generation: u64) {
        if let Some(sources) = &self.sources {
            sources.publish_presence(generation);
        }
    }

    /// Starts the next job, if one is due and none is running.
    pub fn start_next(&mut self, gateway: &Gateway) {
        if self.reload_pending {
            return self.start(gateway);
        }
        if self.pending_changes.is_empty() && self.etcd_events.is_empty() && self.object_changes.is_none() {
            return;
        }
        let Some(mut sources) = self.sources.take() else { return };
        if let Some(mut changes) = self.object_changes.take() {
            let (mut context, memo) = (gateway.job_context(), self.memo.clone());
            self.running = Some(spawn_low_priority(move || {
                let memo = &mut *lock_memo(&memo);
                let documents = std::mem::take(&mut changes.changes);
                let applied = sources.apply_documents(documents, |parts| context.compile(parts, memo));
                let (plan, applied) = applied.split();
                let rollout = plan.map(|plan| context.prepare(plan));
                (sources, JobResult::Objects(Box::new(ObjectChanges { rollout, applied, changes })))
            }));
            return;
        }
        // Changes by other gateways come first: local changes may depend on them.
        if !self.etcd_events.is_empty() {
            let etcd_events = std::mem::take(&mut self.etcd_events);
            let (mut context, memo) = (gateway.job_context(), self.memo.clone());
            self.running = Some(spawn_low_priority(move || {
                let memo = &mut *lock_memo(&memo);
                let applied = sources.apply_events(etcd_events, |parts| context.compile(parts, memo));
                let (plan, applied) = applied.split();
                let rollout = plan.map(|plan| context.prepare(plan));
                (sources, JobResult::Etcd(rollout, Box::new(applied)))
            }));
            return;
        }
        let requests = std::mem::take(&mut self.pending_changes);
        let (mut context, memo) = (gateway.job_context(), self.memo.clone());
        self.running = Some(spawn_low_priority(move || {
            let memo = &mut *lock_memo(&memo);
            let batch = sources.apply_requests(requests, |parts| context.compile(parts, memo));
            let BatchResult { compiled, completed, deferred } = batch;
            let rollout = compiled.map(|plan| context.prepare(plan));
            (sources, JobResult::Changes(Box::new(StoreChanges { rollout, completed, deferred })))
        }));
    }

    /// Starts to open the listeners that could not be opened before, unless a job is running: its plan needs them too.
    pub fn open_missing(&mut self, gateway: &Gateway) {
        if gateway.listeners.missing().is_empty() {
            return;
        }
        let Some(sources) = self.sources.take() else { return };
        let JobContext { current, opener, .. } = gateway.job_context();
        self.running = Some(spawn_low_priority(move || {
            (sources, JobResult::Sockets(opener.finish(&wanted_listeners(&current))))
        }));
    }

    /// Returns the result of the running job; never, if there is none.
    pub async fn finished(&mut self) -> io::Result<JobResult> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let outcome = running.await;
        self.running = None;
        let (sources, outcome) = outcome.map_err(io::Error::other)?;
        self.sources = Some(sources);
        Ok(outcome)
    }

    /// Returns whether a job is running.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the path of the configuration file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the store for an upgrade; empty if there is none or a job is running.
    pub fn store(&self) -> StoreHandle {
        StoreHandle(self.sources.as_ref().and_then(Sources::store).cloned())
    }

    /// Puts changes back in front of the queue, because the batch could not contain them.
    pub fn queue_deferred(&mut self, deferred: Vec<PendingRequest>) {
        self.pending_changes.splice(..0, deferred);
    }

    /// Returns the sources; `None` while a job uses them.
    pub fn sources(&self) -> Option<&Sources> {
        self.sources.as_ref()
    }

    /// Adopts the state of a read whose plan is in force.
    pub fn adopt(&mut self, reload: &mut load::PlanReload) {
        if let Some(sources) = &mut self.sources {
            sources.adopt(reload);
        }
    }

    /// Takes the clients that wait for the read that has just finished.
    pub fn take_waiters(&mut self) -> ReloadWaiters {
        std::mem::take(&mut self.reading)
    }
}

/// The store during an upgrade. Both methods may wait for the disk.
#[derive(Debug)]
pub struct StoreHandle(Option<Arc<Store>>);

impl StoreHandle {
    /// Closes the store's file, so that the new process can open it.
    pub fn close(&self) {
        if let Some(store) = &self.0 {
            store.close();
        }
    }

    /// Opens the file again after the upgrade has failed.
    pub fn reopen(&self) {
        if let Some(store) = &self.0
            && let Err(error) = store.reopen()
        {
            let path = store.path().display();
            error!(target: component::GATEWAY, "cannot open the store {path} again: {error}");
        }
    }
}

/// Locks the memo. It is valid at any time, so a panic while it was locked does no harm.
fn lock_memo(memo: &Mutex<CompileCache>) -> MutexGuard<'_, CompileCache> {
    memo.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads and compiles the file. It runs on another thread, since it may take long.
fn read(
    sources: &mut Sources,
    requested_at: Instant,
    context: JobContext,
    memo: &mut CompileCache,
) -> FileReading {
    let mut reload = load::reload(sources, memo);
    diagnostics::report_problems(&reload.problems);
    let loaded = load::take_loaded(&mut reload);
    let routes_read = loaded.as_ref().map_or(0, |loaded| loaded.routes_read);
    let (is_valid, took_ms) = (loaded.is_some(), requested_at.elapsed().as_secs_f64() * 1e3);
    debug!(target: component::RELOAD, is_valid, routes_read, took_ms, "read and compiled the file");
    let loaded = loaded.map(|loaded| {
        let JobContext { current, registry, opener } = context;
        let listeners = opener.open_plan(&wanted_listeners(&loaded.plan));
        let rollout = current.next(loaded.plan, &registry);
        LoadedFile { config: loaded.config, rollout, listeners, files: loaded.files }
    });
    FileReading { requested_at, loaded, routes_read, reload }
}
