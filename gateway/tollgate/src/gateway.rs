//! The running gateway: its sockets, its workers, its log, its plan.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::LocalRuntime;
use tokio::sync::{mpsc, watch};
use tollgate_config as config;
use tollgate_config::{Config, LogFormat, LogTarget};
use tollgate_net::notice;
use tollgate_observe::{
    AccessLog, AdminState, LineTarget, Log, LogConfig, LogFilter, Registry, SyslogTarget, SyslogTransport,
    available_cores,
};
use tollgate_plan::{Plan, PlannedLog};
use tollgate_policy::{LogExport, Side};
use tollgate_proxy::{Control, Receipt, Receipts, Rollout};
use tollgate_sources::{Pending, View};
use tollgate_upstream::{Discovery, Shared};

use crate::access::{Access, Attempts, check_audit_log};
use crate::admin::{self, Admin};
use crate::aside::aside;
use crate::behind::behind;
use crate::compiled::Good;
use crate::files::Files;
use crate::guards::Guarding;
use crate::listeners::{self, Inherited, Listeners};
use crate::lookups;
use crate::startup::cannot_log;
use crate::surface::{self, Surface};
use crate::workers::Workers;

/// How long a log's last lines may take at its end.
const LOG_CLOSE: Duration = Duration::from_secs(2);

/// The running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The config in force, without its routes.
    pub config: Config,
    /// The files that it was made of.
    pub files: Files,
    /// The counters.
    pub registry: Arc<Registry>,
    /// The access log.
    pub log: Arc<AccessLog>,
    /// Whether it takes requests.
    pub ready: Arc<AtomicBool>,
    /// What all workers know of upstreams.
    pub shared: Arc<Shared>,
    /// The look-ups of their endpoints.
    pub discovery: Discovery,
    /// Where it listens.
    pub listeners: Listeners,
    /// The admin listener.
    pub admin: Admin,
    /// Its workers.
    pub workers: Workers,
    /// What becomes of new work when memory or file descriptors run short.
    pub guarding: Guarding,
    /// The plan that the workers run, or are about to.
    current: Arc<Rollout>,
    /// The same, for whoever serves the admin listener.
    shown: watch::Sender<Arc<Rollout>>,
    api: (Arc<View>, mpsc::Sender<Pending>),
    /// Who may do what over the admin listener.
    access: watch::Sender<Arc<Access>>,
    attempts: Arc<Attempts>,
    /// Plans of before, on which requests may still be under way: a worker is never the last to let go of one.
    retired: Vec<Arc<Rollout>>,
}

/// All that a new config opens: it is there, and nothing has changed yet.
#[derive(Debug)]
pub struct Prepared {
    listeners: listeners::Change,
    admin: admin::Change,
    log: Option<AccessLog>,
}

impl Gateway {
    /// Opens every socket, looks up what is to be looked up, on the control thread's runtime, then starts the workers.
    /// They accept nothing before [`listen`](Self::listen).
    ///
    /// # Errors
    /// When an address cannot be bound, the log cannot be opened, or a thread cannot be started.
    pub fn start(good: Good, inherited: &mut Inherited, runtime: &LocalRuntime) -> io::Result<Self> {
        let Good { config, plan, files, anew } = good;
        let count = match config.workers {
            tollgate_config::Workers::Auto => available_cores().workers(),
            tollgate_config::Workers::Count(count) => usize::from(count),
        };
        let mut listeners = Listeners::default();
        let opened = runtime.block_on(listeners.prepare(&listeners::wanted(&config), count, inherited))?;
        let mut admin = Admin::default();
        let change = runtime.block_on(admin.prepare(&config, inherited))?;
        admin.change(change, admin_tls(&plan));
        let audit_log = audit_log(&config).map(Path::to_owned);
        runtime.block_on(aside(move || check_audit_log(audit_log.as_deref())))?;
        let access = watch::Sender::new(Arc::new(Access::new(config.admin.as_ref())));
        let registry = Registry::new(config.metrics);
        let current = Rollout::first(plan, &registry);
        let log = runtime.block_on(access_log(&current.logs, current.side()))?;
        registry.watch_log(&log);
        let shared = Shared::new();
        registry.watch_upstreams(shared.clone());
        // Whoever connects meanwhile waits in the kernel's queue.
        let discovery = runtime.block_on(lookups::begin(&shared, &current));
        let workers = Workers::start(count, &current, &registry, &shared, &log)?;
        listeners.change(opened, &workers);
        let guarding = Guarding::new(&current.settings.overload, workers.loads(), &registry);
        let ready = Arc::new(AtomicBool::new(false));
        registry.update_status(|status| {
            status.workers = count;
            status.generation = current.generation();
            status.routes = current.routes.len();
            status.certificates.clone_from(&files.certificates);
            status.routes_read = anew;
        });
        let retired = Vec::new();
        let shown = watch::Sender::new(current.clone());
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
            guarding,
            current,
            shown,
            // Until the control thread takes changes.
            api: (Arc::default(), mpsc::channel(1).0),
            access,
            attempts: Arc::default(),
            retired,
        })
    }

    /// Has every worker accept, and waits until it does.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn listen(&mut self) -> io::Result<()> {
        let (receipt, receipts) = Receipt::new();
        self.listeners.tell(&self.workers, &receipt)?;
        drop(receipt);
        receipts.wait()?;
        self.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What the admin listener shows.
    pub fn surface(&self) -> Surface {
        let admin = AdminState { registry: self.registry.clone(), ready: self.ready.clone() };
        let (view, asking) = self.api.clone();
        Surface {
            admin,
            plan: self.shown.subscribe(),
            view,
            asking,
            access: self.access.subscribe(),
            attempts: self.attempts.clone(),
        }
    }

    /// What the API reads, and where it asks for changes.
    pub fn open_api(&mut self, view: Arc<View>, asking: mpsc::Sender<Pending>) {
        self.api = (view, asking);
    }

    /// Serves the admin listener, if it is not served yet. Needs a runtime.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn serve_admin(&mut self) -> io::Result<()> {
        let surface = self.surface();
        self.admin.serve(|| (surface::router(&surface), surface::watch(&surface)))
    }

    /// The plan that the workers run, or are about to.
    pub fn current(&self) -> &Arc<Rollout> {
        &self.current
    }

    /// Opens what a new config adds.
    ///
    /// # Errors
    /// When one thing cannot be opened; nothing has changed then.
    pub async fn prepare(&self, config: &Config, logs: &[PlannedLog]) -> io::Result<Prepared> {
        let none = &mut Inherited::default();
        let addresses = listeners::wanted(config);
        let listeners = self.listeners.prepare(&addresses, self.workers.count(), none).await?;
        let admin = self.admin.prepare(config, none).await?;
        let audit_log = audit_log(config).map(Path::to_owned);
        aside(move || check_audit_log(audit_log.as_deref())).await?;
        let log = self.changed_log(logs).await?;
        Ok(Prepared { listeners, admin, log })
    }

    /// Gives every worker a new plan, and all that was prepared for it. The receipts come back when all of them have
    /// taken it over.
    ///
    /// # Errors
    /// When there are no descriptors left: the plan holds, without its new addresses.
    pub fn change(
        &mut self,
        plan: Arc<Rollout>,
        config: Config,
        prepared: Prepared,
    ) -> (Receipts, io::Result<()>) {
        let Prepared { listeners, admin, log } = prepared;
        let (receipt, receipts) = Receipt::new();
        self.change_log(log, &receipt);
        // Before the sockets: what they let in finds its routes.
        self.workers.tell(|_| Control::Plan(plan.clone(), Some(receipt.clone())));
        self.guarding.change(&plan.settings.overload);
        self.shown.send_replace(plan.clone());
        self.retired.push(std::mem::replace(&mut self.current, plan));
        self.listeners.change(listeners, &self.workers);
        let told = self.listeners.tell(&self.workers, &receipt);
        // Who may not any longer may not from now on; the listener comes after who may.
        self.access.send_replace(Arc::new(Access::new(config.admin.as_ref())));
        self.admin.change(admin, admin_tls(&self.current));
        let told = told.and(self.serve_admin());
        // These hold as they were at the start, whatever the new file says.
        let (workers, metrics) = (self.config.workers, self.config.metrics);
        let (store, etcd) = (self.config.store.take(), self.config.etcd.take());
        self.config = Config { workers, metrics, store, etcd, ..config };
        (receipts, told)
    }

    /// The logs of another plan, opened; `None`: they are the ones that are open.
    async fn changed_log(&self, logs: &[PlannedLog]) -> io::Result<Option<AccessLog>> {
        if self.current.logs == logs {
            return Ok(None);
        }
        access_log(logs, self.current.side()).await.map(Some)
    }

    /// Has the workers write these logs from now on.
    fn change_log(&mut self, log: Option<AccessLog>, receipt: &Receipt) {
        let Some(log) = log else { return };
        self.workers.tell(|_| Control::Log(Box::new(log.sink()), Some(receipt.clone())));
        self.registry.watch_log(&log);
        // The old one ends by itself when the last worker has handed over its lines.
        self.log = Arc::new(log);
    }

    /// Gives every worker a new plan that changes nothing else. The receipts come back when all have taken it over.
    pub async fn take_over(&mut self, plan: Arc<Rollout>) -> Receipts {
        let (receipt, receipts) = Receipt::new();
        match self.changed_log(&plan.logs).await {
            Ok(log) => self.change_log(log, &receipt),
            // The lines of routes whose logs are not open go to the usual ones.
            Err(error) => notice!("warning: {error}"),
        }
        self.workers.tell(|_| Control::Plan(plan.clone(), Some(receipt.clone())));
        self.shown.send_replace(plan.clone());
        self.retired.push(std::mem::replace(&mut self.current, plan));
        receipts
    }

    /// Drops plans that no request runs on any longer. With many routes that takes milliseconds, which no worker is to
    /// stand still for, nor this thread.
    pub fn drop_retired(&mut self) {
        let (gone, kept) =
            std::mem::take(&mut self.retired).into_iter().partition(|plan| Arc::strong_count(plan) == 1);
        self.retired = kept;
        let gone: Vec<_> = gone;
        if !gone.is_empty() {
            drop(behind(move || drop(gone)));
        }
    }

    /// From now on every answer says that it is the connection's last. `grace` is what idle connections have when the
    /// drain has begun.
    pub fn leave(&self, grace: Option<Duration>) {
        self.ready.store(false, Ordering::Relaxed);
        self.registry.update_status(|status| status.draining = true);
        self.workers.tell(|_| Control::Leave { grace });
    }

    /// Accepts no more, lets what is under way end for at most `bound`, and waits for it.
    ///
    /// # Errors
    /// What a worker could not do.
    pub fn drain(mut self, bound: Option<Duration>) -> io::Result<()> {
        self.listeners.forget();
        self.workers.tell(|_| Control::Drain(bound));
        let result = self.workers.join();
        self.log.close(LOG_CLOSE);
        result
    }
}

/// What handshakes of the admin listener are configured with.
fn admin_tls(plan: &Plan) -> Option<Arc<rustls::ServerConfig>> {
    plan.admin.as_ref().map(tollgate_tls::Server::config)
}

fn audit_log(config: &Config) -> Option<&Path> {
    config.admin.as_ref().and_then(|admin| admin.audit_log.as_deref())
}

/// The access logs, with who is told of them.
async fn access_log(logs: &[PlannedLog], side: &Side) -> io::Result<AccessLog> {
    let opened: Vec<Log> = logs.iter().map(|log| log_of(log, side)).collect();
    aside(move || AccessLog::start_all(opened)).await.map_err(|error| cannot_log(logs, &error))
}

fn log_of(planned: &PlannedLog, side: &Side) -> Log {
    let PlannedLog { key, usual, log, collector } = planned;
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
        sample: filter.sample,
    });
    let told = collector.clone();
    Log {
        config: LogConfig { target, format },
        key: *key,
        usual: *usual,
        fields: log.fields.clone(),
        filter: filter.collect(),
        told: told.map(|collector| -> Arc<dyn LineTarget> { Arc::new(LogExport::new(collector, side)) }),
    }
}
