//! The running gateway: its sockets, workers, logs and plan. The control thread owns it and is the only one
//! to change it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::LocalRuntime;
use tokio::sync::{mpsc, watch};
use tollgate_cache::DiskState;
use tollgate_config as config;
use tollgate_config::{Config, LogFormat, LogTarget, Percent};
use tollgate_fleet::FleetHandle;
use tollgate_net::component;
use tollgate_observe::{
    AccessLog, AdminState, CacheStatus, CacheTier, LineTarget, Log, LogConfig, LogFilter, Registry,
    SeriesBounds, SyslogTarget, SyslogTransport, available_cores,
};
use tollgate_plan::{Plan, PlannedLog};
use tollgate_policy::{BackgroundIo, LogExport};
use tollgate_proxy::{Receipt, Receipts, Rollout, WorkerCommand};
use tollgate_sources::{PendingRequest, View};
use tollgate_upstream::{Discovery, UpstreamStates};
use tracing::warn;

use crate::access::{AccessRules, FailedAttempts, check_audit_log};
use crate::admin::{self, Admin};
use crate::admin_context::AdminContext;
use crate::admin_routes;
use crate::blocking_files::run_file_job;
use crate::build_info;
use crate::diagnostics::{self, PreparedLog};
use crate::endpoint_discovery;
use crate::files::SourceFiles;
use crate::fleet_purges::FleetPurges;
use crate::job_context::JobContext;
use crate::listeners::{InheritedSockets, Listeners, ListenersChange, wanted_listeners};
use crate::load::LoadedPlan;
use crate::low_priority::spawn_low_priority;
use crate::operation::Operation;
use crate::overload::OverloadGuard;
use crate::startup::cannot_log;
use crate::trace::RequestFollowers;
use crate::workers::WorkerThreads;

/// How long a log may take to write its last lines when the gateway ends.
const LOG_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the disk tier of the cache may take to write what waits when the gateway ends.
const CACHE_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The config in force, without its routes.
    pub config: Config,
    /// The files from which it was made.
    pub files: SourceFiles,
    /// The counters.
    pub registry: Arc<Registry>,
    /// The access log.
    pub log: Arc<AccessLog>,
    /// Whether the gateway takes requests.
    pub ready: Arc<AtomicBool>,
    /// The state of upstreams that all workers share.
    pub shared: Arc<UpstreamStates>,
    /// The discovery of endpoints.
    pub discovery: Discovery,
    /// The listening sockets.
    pub listeners: Listeners,
    /// The admin listener.
    pub admin: Admin,
    /// The worker threads.
    pub workers: WorkerThreads,
    /// Sheds load if memory or file descriptors run short.
    pub overload_guard: OverloadGuard,
    /// The plan that the workers run or are about to run.
    current: Arc<Rollout>,
    /// The same plan, for the admin listener.
    plan_sender: watch::Sender<Arc<Rollout>>,
    api: ApiChannels,
    /// The access rules of the admin listener.
    access: watch::Sender<Arc<AccessRules>>,
    attempts: Arc<FailedAttempts>,
    /// The gateways that take their documents from this process; `None`: it is no controller.
    pub fleet: Option<FleetHandle>,
    /// The purges of the cache that are shared with other gateways.
    purges: Arc<FleetPurges>,
    /// The clients of the admin listener that follow requests.
    followers: Arc<RequestFollowers>,
    /// Earlier plans, on which requests may still run. They are kept here so that no worker drops the last
    /// reference to one.
    retired: Vec<Arc<Rollout>>,
}

/// The parts of the control thread that the admin API uses.
#[derive(Debug)]
pub struct ApiChannels {
    /// The contents of the sources.
    pub view: Arc<View>,
    /// The queue of changes.
    pub change_queue: mpsc::Sender<PendingRequest>,
    /// The queue of operations on the process.
    pub operations: mpsc::Sender<Operation>,
}

/// Everything that a new config needs opened. It is ready, but nothing has changed yet.
#[derive(Debug)]
pub struct PreparedChange {
    listeners: ListenersChange,
    admin: admin::AdminChange,
    log: Option<AccessLog>,
    diagnostics: PreparedLog,
}

impl Gateway {
    /// Opens every socket and discovers endpoints, on the control thread's runtime. Then starts the workers,
    /// which accept no connections before [`listen`](Self::listen).
    ///
    /// # Errors
    /// An address cannot be bound, a log cannot be opened, or a thread cannot be started.
    pub fn start(
        loaded: LoadedPlan,
        inherited: &mut InheritedSockets,
        runtime: &LocalRuntime,
    ) -> io::Result<Self> {
        let LoadedPlan { config, plan, files, routes_read } = loaded;
        let count = match config.workers {
            tollgate_config::WorkerCount::Auto => available_cores().workers(),
            tollgate_config::WorkerCount::Count(count) => usize::from(count),
        };
        let mut listeners = Listeners::default();
        let sockets = InheritedSockets { admin: None, listen: std::mem::take(&mut inherited.listen) };
        let opened = listeners.opener(count, sockets).open_plan(&wanted_listeners(&plan))?;
        let mut admin = Admin::default();
        let change = runtime.block_on(admin.prepare(&config, inherited))?;
        admin.apply(change, admin_tls(&plan));
        let audit_log = audit_log(&config).map(Path::to_owned);
        runtime.block_on(run_file_job(move || check_audit_log(audit_log.as_deref())))?;
        let access = watch::Sender::new(Arc::new(AccessRules::new(config.admin.as_ref())));
        let bounds = SeriesBounds {
            routes: config.metrics.routes as usize,
            upstreams: config.metrics.upstreams as usize,
        };
        let registry = Registry::with_bounds(bounds, config.metrics.enabled);
        let current = Rollout::first(plan, &registry);
        let log = runtime.block_on(access_log(&current.logs, current.side()))?;
        registry.watch_log(&log);
        let shared = UpstreamStates::new();
        registry.watch_upstreams(shared.clone());
        // Clients that connect now wait in the kernel's queue.
        let discovery = runtime.block_on(endpoint_discovery::start(&shared, &current));
        let workers = WorkerThreads::start(count, &current, &registry, &shared, &log)?;
        listeners.change(opened, &workers);
        let overload_guard = OverloadGuard::new(&current.settings.overload, workers.loads(), &registry);
        let ready = Arc::new(AtomicBool::new(false));
        registry.update_status(|status| {
            status.commit = build_info::commit();
            status.workers = count;
            status.generation = current.generation();
            status.routes = current.routes.len();
            status.connections_limit = current.settings.limits.connections;
            status.certificates.clone_from(&files.certificates);
            status.routes_read = routes_read;
        });
        let retired = Vec::new();
        let followers = RequestFollowers::new(workers.mailboxes().to_vec(), registry.trace_counts());
        let plan_sender = watch::Sender::new(current.clone());
        Ok(Self {
            config,
            files,
            registry,
            log: Arc::new(log),
            ready,
            shared,
            discovery,
            listeners,
            admin,
            workers,
            overload_guard,
            current,
            plan_sender,
            // Closed channels, until the control thread takes changes.
            api: ApiChannels {
                view: Arc::default(),
                change_queue: mpsc::channel(1).0,
                operations: mpsc::channel(1).0,
            },
            access,
            attempts: Arc::default(),
            fleet: None,
            purges: Arc::default(),
            followers,
            retired,
        })
    }

    /// Makes every worker accept connections, and waits until it does.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn listen(&mut self) -> io::Result<()> {
        let (receipt, receipts) = Receipt::new();
        self.listeners.start_accepting(&self.workers, &receipt)?;
        drop(receipt);
        receipts.wait()?;
        self.publish_listeners();
        self.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Shows the listening addresses on the status page.
    fn publish_listeners(&self) {
        let statuses = self.listeners.statuses();
        self.registry.update_status(|status| status.listeners = statuses);
    }

    /// Returns what a job needs to make the next plan.
    pub fn job_context(&self) -> JobContext {
        JobContext {
            current: self.current.clone(),
            registry: self.registry.clone(),
            opener: self.listeners.opener(self.workers.count(), InheritedSockets::default()),
        }
    }

    /// Adopts the sockets of a plan that the workers already have.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn change_listeners(&mut self, change: ListenersChange, receipt: &Receipt) -> io::Result<()> {
        self.listeners.change(change, &self.workers);
        let listening = self.listeners.start_accepting(&self.workers, receipt);
        self.publish_listeners();
        listening
    }

    /// Returns the state from which the admin listener answers.
    pub fn context(&self) -> AdminContext {
        let admin = AdminState { registry: self.registry.clone(), ready: self.ready.clone() };
        let ApiChannels { view, change_queue, operations } = &self.api;
        AdminContext {
            admin,
            plan: self.plan_sender.subscribe(),
            view: view.clone(),
            change_queue: change_queue.clone(),
            operations: operations.clone(),
            access: self.access.subscribe(),
            attempts: self.attempts.clone(),
            fleet: self.fleet.clone(),
            purges: self.purges.clone(),
            followers: self.followers.clone(),
        }
    }

    /// Sets the view that the API reads, and the channels for its requests.
    pub fn open_api(&mut self, api: ApiChannels) {
        self.api = api;
    }

    /// Serves the admin listener, unless it is already served. Needs a Tokio runtime.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn serve_admin(&mut self) -> io::Result<()> {
        let context = self.context();
        self.admin.serve(|| (admin_routes::router(&context), admin_routes::watch(&context)))
    }

    /// Returns the plan that the workers run or are about to run.
    pub fn current(&self) -> &Arc<Rollout> {
        &self.current
    }

    /// Opens everything that a new config adds; the sockets of its listeners are open.
    ///
    /// # Errors
    /// Something cannot be opened. Nothing has changed then.
    pub async fn prepare(
        &self,
        config: &Config,
        logs: &[PlannedLog],
        listeners: ListenersChange,
    ) -> io::Result<PreparedChange> {
        let none = &mut InheritedSockets::default();
        let admin = self.admin.prepare(config, none).await?;
        let audit_log = audit_log(config).map(Path::to_owned);
        run_file_job(move || check_audit_log(audit_log.as_deref())).await?;
        let log = self.changed_log(logs).await?;
        let settings = config.log.clone();
        let diagnostics = run_file_job(move || diagnostics::prepare(&settings)).await?;
        Ok(PreparedChange { listeners, admin, log, diagnostics })
    }

    /// Gives every worker a new plan, with everything that was prepared for it. The receipts complete when
    /// all workers run it.
    ///
    /// # Errors
    /// No file descriptors are left. The plan is in force, but without its new addresses.
    pub fn change(
        &mut self,
        plan: Arc<Rollout>,
        config: Config,
        prepared: PreparedChange,
    ) -> (Receipts, io::Result<()>) {
        let PreparedChange { listeners, admin, log, diagnostics } = prepared;
        diagnostics.apply();
        let (receipt, receipts) = Receipt::new();
        self.change_log(log, &receipt);
        // Before the sockets, so that requests on new addresses find their routes.
        self.workers.send(|_| WorkerCommand::Plan(plan.clone(), Some(receipt.clone())));
        self.overload_guard.change(&plan.settings.overload);
        self.plan_sender.send_replace(plan.clone());
        self.retired.push(std::mem::replace(&mut self.current, plan));
        let listening = self.change_listeners(listeners, &receipt);
        // Revokes access from now on. The listener follows the access rules, so it never serves under older
        // ones.
        self.access.send_replace(Arc::new(AccessRules::new(config.admin.as_ref())));
        self.admin.apply(admin, admin_tls(&self.current));
        let listening = listening.and(self.serve_admin());
        // These settings keep their values from the start, whatever the new file says.
        let (workers, metrics) = (self.config.workers, self.config.metrics.clone());
        let (store, etcd) = (self.config.store.take(), self.config.etcd.take());
        let (kubernetes, controller) = (self.config.kubernetes.take(), self.config.controller.take());
        let fleet = self.config.fleet.take();
        self.config = Config { workers, metrics, store, etcd, kubernetes, controller, fleet, ..config };
        (receipts, listening)
    }

    /// Opens the logs of another plan; `None` if they are the ones in use.
    async fn changed_log(&self, logs: &[PlannedLog]) -> io::Result<Option<AccessLog>> {
        if self.current.logs == logs {
            return Ok(None);
        }
        access_log(logs, self.current.side()).await.map(Some)
    }

    /// Makes the workers write to these logs.
    fn change_log(&mut self, log: Option<AccessLog>, receipt: &Receipt) {
        let Some(log) = log else { return };
        self.workers.send(|_| WorkerCommand::Log(Box::new(log.sink()), Some(receipt.clone())));
        self.registry.watch_log(&log);
        // The old log ends when the last worker has handed over its lines.
        self.log = Arc::new(log);
    }

    /// Gives every worker a new plan from the store or etcd, and its sockets. The receipts complete when all workers run it.
    pub async fn roll_out(&mut self, plan: Arc<Rollout>, listeners: ListenersChange) -> Receipts {
        let (receipt, receipts) = Receipt::new();
        match self.changed_log(&plan.logs).await {
            Ok(log) => self.change_log(log, &receipt),
            // Requests of routes whose logs are not open are logged to the gateway's logs.
            Err(error) => warn!(target: component::GATEWAY, "{error}"),
        }
        self.workers.send(|_| WorkerCommand::Plan(plan.clone(), Some(receipt.clone())));
        self.plan_sender.send_replace(plan.clone());
        self.retired.push(std::mem::replace(&mut self.current, plan));
        // After the plan, so that requests on new addresses find their routes.
        if let Err(error) = self.change_listeners(listeners, &receipt) {
            warn!(target: component::GATEWAY, "{error}");
        }
        receipts
    }

    /// Returns the state of the store of responses for metrics; `None`: no policy caches.
    pub fn cache_status(&self) -> Option<CacheStatus> {
        let store = self.current.policies().known_cache()?;
        let (counts, disk) = (store.counts(), store.disk_status());
        Some(CacheStatus {
            memory: CacheTier {
                objects: counts.objects,
                bytes: counts.bytes,
                capacity_bytes: self.current.settings.cache.memory,
            },
            disk_serves: disk.as_ref().is_some_and(|disk| disk.state == DiskState::Ready),
            disk: disk.map(|disk| CacheTier {
                objects: disk.objects,
                bytes: disk.bytes,
                capacity_bytes: disk.size_bytes,
            }),
        })
    }

    /// Returns the problem of the cache's disk tier, if it has one.
    pub fn cache_problem(&self) -> Option<String> {
        self.current.policies().known_cache()?.disk_status()?.problem.map(|(problem, _)| problem)
    }

    /// Drops plans that no request uses. With many routes that takes milliseconds, so neither a worker nor
    /// this thread does it.
    pub fn drop_retired(&mut self) {
        let (unused, kept) =
            std::mem::take(&mut self.retired).into_iter().partition(|plan| Arc::strong_count(plan) == 1);
        self.retired = kept;
        let unused: Vec<_> = unused;
        if !unused.is_empty() {
            drop(spawn_low_priority(move || drop(unused)));
        }
    }

    /// From now on, every response announces that the connection will close, and each worker keeps the connections that
    /// it accepts. `grace` is how long idle connections may stay after the drain begins.
    pub fn announce_close(&self, grace: Option<Duration>) {
        self.ready.store(false, Ordering::Relaxed);
        self.registry.update_status(|status| status.draining = true);
        let (receipt, receipts) = Receipt::new();
        self.workers.send(|_| WorkerCommand::Leave { grace, receipt: Some(receipt.clone()) });
        drop(receipt);
        // No worker reports a failure of this command.
        let _ = receipts.wait();
    }

    /// Closes the listening sockets, gives requests in flight at most `bound` to finish, and waits for that.
    ///
    /// # Errors
    /// The first error of a worker.
    pub fn drain(mut self, bound: Option<Duration>) -> io::Result<()> {
        self.listeners.close();
        self.workers.send(|_| WorkerCommand::Drain(bound));
        let result = self.workers.join();
        self.current.policies().release_cache_disk(CACHE_CLOSE_TIMEOUT);
        self.log.close(LOG_CLOSE_TIMEOUT);
        result
    }
}

/// Returns the TLS configuration of the admin listener.
fn admin_tls(plan: &Plan) -> Option<Arc<rustls::ServerConfig>> {
    plan.admin.as_ref().map(tollgate_tls::TlsServerConfig::config)
}

fn audit_log(config: &Config) -> Option<&Path> {
    config.admin.as_ref().and_then(|admin| admin.audit_log.as_deref())
}

/// Opens the access logs, with their exports to collectors.
async fn access_log(logs: &[PlannedLog], side: &BackgroundIo) -> io::Result<AccessLog> {
    let opened: Vec<Log> = logs.iter().map(|log| observe_log(log, side)).collect();
    run_file_job(move || AccessLog::start_all(opened)).await.map_err(|error| cannot_log(logs, &error))
}

fn observe_log(planned: &PlannedLog, side: &BackgroundIo) -> Log {
    let PlannedLog { key, is_default, log, collector } = planned;
    let target = match &log.to {
        LogTarget::Off => tollgate_observe::LogTarget::Off,
        LogTarget::Stdout => tollgate_observe::LogTarget::Stdout,
        LogTarget::File(path) => tollgate_observe::LogTarget::File(path.clone()),
        LogTarget::Syslog(server) => tollgate_observe::LogTarget::Syslog(SyslogTarget {
            transport: match &server.transport {
                config::SyslogTransport::Udp(address) => SyslogTransport::Udp(address.clone()),
                config::SyslogTransport::Tcp(address) => SyslogTransport::Tcp(address.clone()),
                config::SyslogTransport::Unix(path) => SyslogTransport::Unix(path.clone()),
            },
            facility: server.facility,
            severity: server.severity,
            app_name: server.app_name.clone(),
        }),
    };
    let format = match &log.format {
        LogFormat::Combined => tollgate_observe::LogFormat::Combined,
        LogFormat::Json => tollgate_observe::LogFormat::Json,
        LogFormat::Template(text) => tollgate_observe::LogFormat::Template(text.value.clone()),
    };
    let filter = log.filter.iter().map(|filter| LogFilter {
        statuses: filter.statuses.clone(),
        min_duration: filter.min_duration,
        sample: filter.sample.map(Percent::parts),
    });
    let collector = collector.clone();
    Log {
        config: LogConfig { target, format },
        key: *key,
        is_default: *is_default,
        fields: log.fields.clone(),
        filter: filter.collect(),
        line_target: collector
            .map(|collector| -> Arc<dyn LineTarget> { Arc::new(LogExport::new(collector, side)) }),
    }
}
