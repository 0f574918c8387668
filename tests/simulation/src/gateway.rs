//! The gateway of a simulation: the real workers, without threads and without a kernel.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate_listen::{BACKLOG, Loads};
use tollgate_net::Timers;
use tollgate_net::simulated::{self, Group};
use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Registry, Snapshot};
use tollgate_plan::Plan;
use tollgate_proxy::{Control, DoorId, Mailbox, Rollout, WorkerSetup, work};
use tollgate_upstream::Shared;
use tollgate_upstream::health::Health;

use crate::scenario::GATEWAY;

/// How long the log's writer, a thread of the real world, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What outlives the world.
#[derive(Debug)]
pub struct Office {
    log: AccessLog,
    directory: TempDir,
    /// Its counters.
    pub registry: Arc<Registry>,
    shared: Arc<Shared>,
    loads: Arc<Loads>,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `status`.
    pub status: u16,
    /// `reason`.
    pub reason: String,
    /// `attempts`.
    pub attempts: u64,
    /// `bytes_out`.
    pub bytes_out: usize,
    /// `target`.
    pub target: String,
}

impl Office {
    /// Opens the log.
    ///
    /// # Errors
    /// As the file system.
    pub fn open(workers: usize) -> std::io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let log = AccessLog::start(LogConfig {
            target: LogTarget::File(directory.path().join("log")),
            format: LogFormat::Template("{status} {reason} {attempts} {bytes_out} {target}".to_owned()),
        })?;
        Ok(Self {
            log,
            directory,
            registry: Registry::new(true),
            shared: Shared::new(),
            loads: Arc::new(Loads::new(workers)),
        })
    }

    /// When the world is gone: the log's lines, and what the workers have left behind.
    ///
    /// # Errors
    /// As the file system.
    pub fn close(self) -> std::io::Result<(Vec<Line>, Snapshot, Vec<String>)> {
        let mut left = Vec::new();
        if !self.log.close(PATIENCE) {
            left.push("the log does not end".to_owned());
        }
        let text = std::fs::read_to_string(self.directory.path().join("log"))?;
        let lines = text.lines().map(|line| {
            let mut words = line.splitn(5, ' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            Line {
                status: word().parse().unwrap_or(0),
                reason: word(),
                attempts: word().parse().unwrap_or(0),
                bytes_out: word().parse().unwrap_or(0),
                target: word(),
            }
        });
        let lines = lines.collect();
        let counts = self.registry.snapshot();
        let handles = [
            ("loads", Arc::strong_count(&self.loads)),
            ("the registry", Arc::strong_count(&self.registry)),
            ("what is shared of upstreams", Arc::strong_count(&self.shared)),
        ];
        left.extend(
            handles
                .iter()
                .filter(|(_, count)| *count > 1)
                .map(|(what, count)| format!("{} hold on to {what} after the end", count - 1)),
        );
        if self.loads.total() > 0 {
            left.push(format!("{} places for connections are taken after the end", self.loads.total()));
        }
        Ok((lines, counts, left))
    }
}

/// The running workers.
#[derive(Debug)]
pub struct Gateway {
    mailboxes: Vec<Mailbox>,
    groups: Vec<Group>,
    registry: Arc<Registry>,
    current: RefCell<Arc<Rollout>>,
    /// Where the control thread hears of a plan.
    control: UnboundedSender<Arc<Rollout>>,
    running: Rc<Cell<usize>>,
    failures: Rc<RefCell<Vec<String>>>,
}

/// A plan from its text.
///
/// # Panics
/// When it is none: a scenario's plans are right.
#[must_use]
pub fn plan(text: &str) -> Plan {
    let loaded = tollgate_config::from_text("plan.yaml", text, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}\n{text}", loaded.problems.render(false)));
    match tollgate_plan::compile(&config) {
        Ok(compiled) => compiled.plan,
        Err(problems) => panic!("{problems:?}\n{text}"),
    }
}

/// The control thread's part: probes, and the ends of ejections.
async fn look_after(first: Arc<Rollout>, mut plans: UnboundedReceiver<Arc<Rollout>>, shared: Arc<Shared>) {
    let Ok(timers) = Timers::start() else { return };
    let seed = simulated::with_random(|rng| rng.u64(..));
    let health = Health::start(shared, &timers, seed, |notice| simulated::note(&notice.to_string()));
    health.begin(&first.upstreams);
    while let Some(next) = plans.recv().await {
        health.change(next.change());
    }
}

impl Gateway {
    /// Starts the workers, each in a group of its own.
    #[must_use]
    pub fn start(workers: usize, plan: Plan, office: &Office) -> Self {
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| Mailbox::new()).unzip();
        let bind = plan.listeners[0].bind;
        let plan = Rollout::first(plan, &office.registry);
        let running = Rc::new(Cell::new(workers));
        let failures = Rc::new(RefCell::new(Vec::new()));
        let mut groups = Vec::new();
        for (id, control) in inboxes.into_iter().enumerate() {
            let sockets = vec![(DoorId(0), bind, simulated::listen(GATEWAY, BACKLOG as usize))];
            assert!(mailboxes[id].send(Control::Listen(sockets, None)).is_ok(), "its inbox is here");
            let setup = WorkerSetup {
                id,
                plan: plan.clone(),
                control,
                mailboxes: mailboxes.clone(),
                loads: office.loads.clone(),
                registry: office.registry.clone(),
                stats: office.registry.worker(),
                shared: office.shared.clone(),
                log: office.log.sink(),
            };
            let (running, failures) = (running.clone(), failures.clone());
            let group = simulated::new_group();
            simulated::spawn_in(group, async move {
                if let Err(error) = work(setup, || ()).await {
                    failures.borrow_mut().push(format!("worker {id}: {error}"));
                }
                simulated::note(&format!("worker {id} has ended"));
                running.set(running.get() - 1);
            });
            groups.push(group);
        }
        let (control, plans) = unbounded_channel();
        let group = simulated::new_group();
        simulated::spawn_in(group, look_after(plan.clone(), plans, office.shared.clone()));
        groups.push(group);
        let (registry, current) = (office.registry.clone(), RefCell::new(plan));
        Self { mailboxes, groups, registry, current, control, running, failures }
    }

    /// A worker's group.
    #[must_use]
    pub fn group(&self, worker: usize) -> Group {
        self.groups[worker]
    }

    /// Tells all workers. Each hears of it when it has its turn.
    pub fn tell(&self, control: impl Fn() -> Control) {
        for mailbox in &self.mailboxes {
            // One that has drained is gone.
            let _ = mailbox.send(control());
        }
    }

    /// Gives all workers another plan.
    pub fn change(&self, plan: Plan) {
        let next = self.current.borrow().next(plan, &self.registry);
        self.tell(|| Control::Plan(next.clone(), None));
        // It listens for as long as the world stands.
        let _ = self.control.send(next.clone());
        self.current.replace(next);
    }

    /// Waits until all workers have ended. Then no connection is left, nor anything else once their runtimes are gone.
    pub async fn ended(&self) -> Vec<String> {
        while self.running.get() > 0 {
            simulated::sleep(Duration::from_millis(10)).await;
        }
        let mut left = self.failures.borrow().clone();
        // As a thread ends: its runtime drops all tasks.
        for (worker, group) in self.groups.iter().enumerate() {
            simulated::kill(*group);
            let open = simulated::open_sockets(*group);
            if open != (0, 0) {
                left.push(format!("worker {worker} leaves sockets (listening, connected): {open:?}"));
            }
        }
        left
    }
}
