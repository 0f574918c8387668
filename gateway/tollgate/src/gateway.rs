//! The running gateway: its sockets, its workers, its log.

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_config::{Config, LogFormat, LogTarget, Workers};
use tollgate_listen::{Loads, bind};
use tollgate_observe::{AccessLog, LogConfig, Registry, available_cores};
use tollgate_plan::Plan;
use tollgate_proxy::{Control, Mailbox, WorkerSetup, run_worker};

use crate::compiled::Good;
use crate::startup::{cannot_listen, cannot_log};

/// How long the log's last lines may take at the end.
const LOG_CLOSE: Duration = Duration::from_secs(2);

/// The running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The config that it started with: what cannot change while it runs is read from here.
    pub config: Config,
    /// The counters.
    pub registry: Arc<Registry>,
    /// The access log.
    pub log: AccessLog,
    /// Whether it takes requests.
    pub ready: Arc<AtomicBool>,
    /// The admin listener.
    pub admin: Option<TcpListener>,
    /// How long requests in flight may take at the end.
    pub drain_bound: Cell<Option<Duration>>,
    addresses: Vec<SocketAddr>,
    mailboxes: Vec<Mailbox>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Gateway {
    /// Binds every socket, then starts the workers.
    ///
    /// # Errors
    /// When an address cannot be bound, the log cannot be opened, or a thread cannot be started.
    pub fn start(good: Good) -> io::Result<Self> {
        let Good { config, plan } = good;
        let workers = match config.workers {
            Workers::Auto => available_cores().workers(),
            Workers::Count(count) => usize::from(count),
        };
        let mut listeners: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for listener in &config.listen {
            let address = listener.bind.value;
            let bound = bind(address, workers).map_err(|error| cannot_listen("listen", address, &error))?;
            addresses.push(bound[0].local_addr()?);
            bound.into_iter().zip(&mut listeners).for_each(|(socket, worker)| worker.push(socket));
        }
        let admin = match &config.admin {
            Some(address) => {
                let listener = TcpListener::bind(address.value)
                    .map_err(|error| cannot_listen("admin", address.value, &error))?;
                listener.set_nonblocking(true)?;
                Some(listener)
            }
            None => None,
        };
        let log = AccessLog::start(log_config(&config)).map_err(|error| cannot_log(&config, &error))?;
        let registry = Registry::new(config.metrics);
        registry.watch_log(&log);
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| Mailbox::new()).unzip();
        let plan = Arc::new(plan);
        let loads = Arc::new(Loads::new(workers));
        let mut threads = Vec::new();
        let (running, started) = std::sync::mpsc::channel();
        for (id, (control, listeners)) in inboxes.into_iter().zip(listeners).enumerate() {
            let setup = WorkerSetup {
                id,
                plan: plan.clone(),
                listeners,
                control,
                mailboxes: mailboxes.clone(),
                loads: loads.clone(),
                registry: registry.clone(),
                stats: registry.worker(),
                log: log.sink(),
            };
            let thread = std::thread::Builder::new().name(format!("worker-{id}"));
            let running = running.clone();
            threads.push(thread.spawn(move || {
                run_worker(setup, move || {
                    // Nobody waits for it any more: another worker could not start.
                    let _ = running.send(());
                })
            })?);
        }
        drop(running);
        // Whoever sees it ready may count on every worker; one that cannot start says why.
        for _ in 0..workers {
            if started.recv().is_err() {
                return Err(failure(threads));
            }
        }
        let ready = Arc::new(AtomicBool::new(true));
        let drain_bound = Cell::new(config.timeouts.drain);
        Ok(Self { config, registry, log, ready, admin, drain_bound, addresses, mailboxes, threads })
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address of the admin listener.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// Gives every worker a new plan.
    pub fn change(&self, plan: Plan) {
        let plan = Arc::new(plan);
        for mailbox in &self.mailboxes {
            // A worker that is gone needs no plan.
            let _ = mailbox.send(Control::Plan(plan.clone()));
        }
    }

    /// A way to end a drain at once, for whoever waits for it.
    pub fn hurry(&self) -> impl Fn() + use<> {
        let mailboxes = self.mailboxes.clone();
        move || {
            for mailbox in &mailboxes {
                // A worker that is gone has drained.
                let _ = mailbox.send(Control::Drain(Some(Duration::ZERO)));
            }
        }
    }

    /// Whether every worker still runs.
    pub fn is_whole(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Accepts no more, lets what is under way end, and waits for it.
    ///
    /// # Errors
    /// What a worker could not do.
    pub fn drain(self, bound: Option<Duration>) -> io::Result<()> {
        self.ready.store(false, Ordering::Relaxed);
        for mailbox in &self.mailboxes {
            let _ = mailbox.send(Control::Drain(bound));
        }
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
        self.log.close(LOG_CLOSE);
        result
    }
}

/// Why a worker could not start. The others end with the process.
fn failure(threads: Vec<JoinHandle<io::Result<()>>>) -> io::Error {
    let ended = threads.into_iter().filter(JoinHandle::is_finished).map(JoinHandle::join);
    let mut errors =
        ended.filter_map(|end| end.unwrap_or_else(|_| Err(io::Error::other("it panicked"))).err());
    let error = errors.next().unwrap_or_else(|| io::Error::other("it ended"));
    io::Error::new(error.kind(), format!("a worker cannot start: {error}"))
}

fn log_config(config: &Config) -> LogConfig {
    let target = match &config.access_log.to {
        LogTarget::Off => tollgate_observe::LogTarget::Off,
        LogTarget::Stdout => tollgate_observe::LogTarget::Stdout,
        LogTarget::File(path) => tollgate_observe::LogTarget::File(path.clone()),
    };
    let format = match &config.access_log.format {
        LogFormat::Combined => tollgate_observe::LogFormat::Combined,
        LogFormat::Json => tollgate_observe::LogFormat::Json,
        LogFormat::Template(text) => tollgate_observe::LogFormat::Template(text.value.clone()),
    };
    LogConfig { target, format }
}
