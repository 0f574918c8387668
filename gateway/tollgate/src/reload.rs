//! Reloads: reads and compiles changes of the file, the store or etcd, and puts valid ones in force.
//! [`SourceReader`] runs one job at a time on a thread of lower priority than the workers. The functions below
//! apply its results on the control thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use tokio::sync::oneshot;
use tollgate_config::{CombinedResources, Config, Problem};
use tollgate_net::component;
use tollgate_observe::{OperationResult, Registry};
use tollgate_plan::{CompileCache, Plan, UpstreamChange, compile_with_cache};
use tollgate_proxy::{Receipt, Rollout};
use tollgate_sources::{
    Applied, AppliedObjects, BatchResult, ChangeError, ChangeResult, CompletedRequest, DocumentChanges,
    EtcdEvent, PendingRequest, Sources,
};
use tollgate_store::Store;
use tollgate_upstream::health::HealthMonitor;
use tracing::{debug, error, info, warn};

use crate::diagnostics;
use crate::endpoint_discovery;
use crate::etcd;
use crate::files::{SourceFiles, certificate_expiries};
use crate::gateway::Gateway;
use crate::kubernetes;
use crate::listeners::{ListenersChange, SocketOpener, wanted_listeners};
use crate::load;
use crate::low_priority::spawn_low_priority;
use crate::operation::{ReloadOutcome, ReloadReport, ReloadWaiters, problems_to_json};
use crate::plural::count_noun;
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

/// A plan to roll out, with the sockets that it needs.
#[derive(Debug)]
pub struct PreparedRollout {
    rollout: Arc<Rollout>,
    listeners: ListenersChange,
}

/// The parts of the gateway that a job uses.
#[derive(Debug)]
pub struct JobContext {
    /// The plan in force.
    pub current: Arc<Rollout>,
    pub registry: Arc<Registry>,
    /// Opens the sockets of the plan that the job makes.
    pub opener: SocketOpener,
}

impl JobContext {
    /// Compiles changed documents, and opens the sockets that they add.
    fn compile(
        &mut self,
        parts: &CombinedResources<'_>,
        cache: &mut CompileCache,
    ) -> Result<Plan, Vec<Problem>> {
        let plan = compile_with_cache(parts, cache)?.plan;
        self.opener.open_documents(&wanted_listeners(&plan))?;
        Ok(plan)
    }

    fn prepare(self, plan: Plan) -> PreparedRollout {
        let listeners = self.opener.finish(&wanted_listeners(&plan));
        PreparedRollout { rollout: self.current.next(plan, &self.registry), listeners }
    }
}

/// The result of reading the file.
#[derive(Debug)]
pub struct FileReading {
    requested_at: Instant,
    /// The process's settings, the plan, and the files of both; `None` if the file is invalid.
    loaded: Option<LoadedFile>,
    /// How many routes were read; unchanged ones are taken from the last read.
    routes_read: usize,
    /// The read state, to be adopted once the plan is in force.
    reload: load::PlanReload,
}

/// A valid file: the process's settings, the plan and its sockets, and the files of both.
#[derive(Debug)]
struct LoadedFile {
    config: Config,
    rollout: Arc<Rollout>,
    listeners: io::Result<ListenersChange>,
    files: SourceFiles,
}

/// The result of changing the store. Each change is answered when all workers run the plan.
#[derive(Debug)]
pub struct StoreChanges {
    rollout: Option<PreparedRollout>,
    completed: Vec<CompletedRequest>,
    deferred: Vec<PendingRequest>,
}

/// The result of a change of objects. It is answered when all workers run the plan.
#[derive(Debug)]
pub struct ObjectChanges {
    rollout: Option<PreparedRollout>,
    applied: AppliedObjects<()>,
    changes: DocumentChanges,
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
                let applied = sources.apply_objects(documents, |parts| context.compile(parts, memo));
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

/// Puts changes in force. They are answered when all workers run the plan.
pub async fn apply_changes(
    changed: StoreChanges,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &mut SourceReader,
) {
    let StoreChanges { rollout, mut completed, deferred } = changed;
    let (requests, deferred_requests) = (completed.len(), deferred.len());
    debug!(target: component::RELOAD, requests, deferred_requests, "compiled the changes of the API");
    reader.pending_changes.splice(..0, deferred);
    for request in &completed {
        let who = &request.pending.request.who;
        if !request.result.changes.is_empty() {
            let (version, summary) = (request.result.version, &request.summary);
            info!(target: component::ADMIN, version, "audit: version {version} by {who}: {summary}");
        }
    }
    let Some(PreparedRollout { rollout, listeners }) = rollout else {
        let generation = gateway.current().generation();
        for CompletedRequest { pending, result, .. } in completed {
            pending.send_answer(Ok(ChangeResult { generation, ..result }));
        }
        return;
    };
    let ended_lookups = endpoint_discovery::apply(&mut gateway.discovery, &rollout).await;
    let receipts = gateway.roll_out(rollout.clone(), listeners).await;
    log_rollout(&rollout);
    health.apply_plan(rollout.change());
    if let Some(sources) = &reader.sources {
        sources.publish(&completed);
    }
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        let done = receipts.all().await;
        let generation = rollout.generation();
        record_in_force(&rollout, &registry);
        drop(rollout);
        for CompletedRequest { pending, result, .. } in completed.drain(..) {
            pending.send_answer(match &done {
                Ok(()) => Ok(ChangeResult { generation, ..result }),
                Err(error) => Err(ChangeError::StoreFailed(error.to_string())),
            });
        }
        ended_lookups.forget();
    });
}

/// Puts changes from etcd in force.
pub async fn apply_etcd(
    rollout: Option<PreparedRollout>,
    applied: &Applied<()>,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &SourceReader,
) {
    applied.messages.iter().for_each(etcd::log_message);
    if let Some(sources) = &reader.sources {
        sources.publish_applied(applied);
    }
    if let Some(rollout) = rollout {
        put_in_force(rollout, gateway, health, || ()).await;
    }
}

/// Puts changes of objects in force. They are answered when all workers run the plan.
pub async fn apply_objects(
    changed: ObjectChanges,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &SourceReader,
) {
    let ObjectChanges { rollout, applied, changes } = changed;
    applied.messages.iter().for_each(kubernetes::log_message);
    if let Some(sources) = &reader.sources {
        sources.publish_objects(&applied);
    }
    let refused = applied.refused;
    let answer = move || kubernetes::answer(changes, refused);
    match rollout {
        Some(rollout) => put_in_force(rollout, gateway, health, answer).await,
        None => answer(),
    }
}

/// Gives a plan to all workers. Calls `done` when all of them run it.
async fn put_in_force(
    PreparedRollout { rollout, listeners }: PreparedRollout,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    done: impl FnOnce() + Send + 'static,
) {
    let ended_lookups = endpoint_discovery::apply(&mut gateway.discovery, &rollout).await;
    let receipts = gateway.roll_out(rollout.clone(), listeners).await;
    log_rollout(&rollout);
    health.apply_plan(rollout.change());
    let registry = gateway.registry.clone();
    tokio::spawn(async move {
        if receipts.all().await.is_ok() {
            record_in_force(&rollout, &registry);
        }
        drop(rollout);
        done();
        ended_lookups.forget();
    });
}

/// Reports that the plan is on its way to the workers.
fn log_rollout(rollout: &Rollout) {
    let UpstreamChange { added, changed, removed } = rollout.change();
    debug!(
        target: component::RELOAD,
        generation = rollout.generation(),
        routes = rollout.routes.len(),
        upstreams_added = added.len(),
        upstreams_changed = changed.len(),
        upstreams_removed = removed.len(),
        "sent the plan to the workers"
    );
}

/// Records that every worker runs the plan.
fn record_in_force(rollout: &Rollout, registry: &Registry) {
    let (generation, routes) = (rollout.generation(), rollout.routes.len());
    debug!(target: component::RELOAD, generation, "every worker runs the plan");
    registry.update_status(|status| {
        if generation > status.generation {
            status.generation = generation;
            status.routes = routes;
            status.connections_limit = rollout.settings.limits.connections;
            status.certificates = certificate_expiries(rollout);
            status.in_force_since = SystemTime::now();
        }
    });
}

/// Adopts sockets of listeners that could not be opened before.
pub fn apply_sockets(change: ListenersChange, gateway: &mut Gateway) {
    if change.is_empty() {
        return;
    }
    info!(target: component::LISTENER, "opened listeners of documents that were missing");
    let (receipt, _) = Receipt::new();
    if let Err(error) = gateway.change_listeners(change, &receipt) {
        warn!(target: component::LISTENER, "{error}");
    }
}

/// Puts a file in force if it is valid; otherwise reports that the old plan stays.
pub async fn apply_file(
    reading: FileReading,
    gateway: &mut Gateway,
    health: &HealthMonitor,
    reader: &mut SourceReader,
) {
    let FileReading { requested_at, loaded, routes_read, mut reload } = reading;
    let file = reader.file.as_path();
    let waiters = std::mem::take(&mut reader.reading);
    // Rendering is skipped if no client waits for it.
    let problems = if waiters.is_empty() { Vec::new() } else { problems_to_json(&reload.problems) };
    let Some(LoadedFile { config, rollout, listeners, files }) = loaded else {
        let problem = "the file has errors: the standard error says which".to_owned();
        report_refused(gateway, requested_at, file, problem);
        let message = format!("{} has errors and is not loaded; nothing has changed", file.display());
        return waiters.answer(&ReloadOutcome::Refused { message, problems });
    };
    let prepared = match listeners {
        Ok(listeners) => gateway.prepare(&config, &rollout.logs, listeners).await,
        Err(error) => Err(error),
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            error!(target: component::RELOAD, "{error}");
            report_refused(gateway, requested_at, file, error.to_string());
            let message = format!("{} is not loaded; nothing has changed: {error}", file.display());
            return waiters.answer(&ReloadOutcome::Refused { message, problems: Vec::new() });
        }
    };
    let needs_restart = unchangeable_settings(&gateway.config, &config);
    if !needs_restart.is_empty() {
        let fixed = needs_restart.join(", ");
        warn!(
            target: component::RELOAD,
            "{fixed} changed: this needs an upgrade or a restart, the rest is in force"
        );
    }
    debug!(target: component::RELOAD, "opened the listeners and logs that are new");
    let ended_lookups = endpoint_discovery::apply(&mut gateway.discovery, &rollout).await;
    let (receipts, admin_result) = gateway.change(rollout.clone(), config, prepared);
    log_rollout(&rollout);
    gateway.registry.update_status(|status| status.certificates.clone_from(&files.certificates));
    gateway.files = files;
    if let Some(sources) = &mut reader.sources {
        sources.adopt(&mut reload);
    }
    health.apply_plan(rollout.change());
    let registry = gateway.registry.clone();
    let file = file.to_owned();
    tokio::spawn(async move {
        let done = admin_result.and(receipts.all().await);
        let problem = report_reload(done, (&rollout, routes_read), requested_at, &registry, &file);
        waiters.answer(&ReloadOutcome::InForce(ReloadReport {
            file: file.display().to_string(),
            generation: rollout.generation(),
            routes: rollout.routes.len(),
            routes_read,
            took: requested_at.elapsed(),
            needs_restart,
            problem,
            warnings: problems,
        }));
        ended_lookups.forget();
    });
}

/// Reports a reload that has changed nothing.
fn report_refused(gateway: &Gateway, requested_at: Instant, file: &Path, problem: String) {
    let path = file.display();
    error!(target: component::RELOAD, "{path} is not loaded; the gateway goes on with what it has");
    let attempt =
        OperationResult { at: SystemTime::now(), took: requested_at.elapsed(), problem: Some(problem) };
    gateway.registry.update_status(|status| status.last_reload = Some(attempt));
    systemd::ready();
}

/// Reports that every worker runs the plan. Returns what is missing nevertheless.
fn report_reload(
    done: io::Result<()>,
    (rollout, routes_read): (&Rollout, usize),
    requested_at: Instant,
    registry: &Registry,
    file: &Path,
) -> Option<String> {
    let (took, at) = (requested_at.elapsed(), SystemTime::now());
    let (generation, routes) = (rollout.generation(), rollout.routes.len());
    debug!(target: component::RELOAD, generation, "every worker runs the plan");
    let problem = done.err().map(|error| format!("an address or the admin listener is missing: {error}"));
    if let Some(problem) = &problem {
        warn!(target: component::RELOAD, "{problem}");
    }
    registry.update_status(|status| {
        // If two reloads overtake each other, the later one is in force.
        if generation > status.generation {
            status.generation = generation;
            status.routes = routes;
            status.routes_read = routes_read;
            status.in_force_since = at;
            status.last_reload = Some(OperationResult { at, took, problem: problem.clone() });
        }
    });
    let routes = count_noun(routes, "route");
    let milliseconds = took.as_secs_f64() * 1e3;
    let path = file.display();
    info!(
        target: component::RELOAD,
        generation,
        "reloaded {path}: {routes}, generation {generation}, {milliseconds:.1} ms"
    );
    systemd::ready();
    problem
}

/// Returns the settings that the new file changes, but a reload cannot.
fn unchangeable_settings(old: &Config, new: &Config) -> Vec<&'static str> {
    let checks = [
        ("`workers`", old.workers != new.workers),
        ("`metrics`", old.metrics != new.metrics),
        ("`store`", old.store != new.store),
        ("`etcd`", old.etcd != new.etcd),
        ("`kubernetes`", old.kubernetes != new.kubernetes),
    ];
    checks.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
