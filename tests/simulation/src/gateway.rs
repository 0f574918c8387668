//! The gateway of a simulation: the real workers without threads and without a kernel. `run` and `script`
//! start it.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tollgate_listen::{BACKLOG, ConnectionCounts};
use tollgate_net::simulated::{self, TaskGroup};
use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Registry, Snapshot};
use tollgate_plan::Plan;
use tollgate_proxy::{ListenerId, Mailbox, Rollout, WorkerCommand, WorkerSetup, work};
use tollgate_upstream::UpstreamStates;

use crate::control::{self, InForce};
use crate::directory::Directory;
use crate::scenario::{GATEWAY, STREAMS};

/// How long the log's writer, a real thread, may take to finish.
const PATIENCE: Duration = Duration::from_secs(60);

/// The listeners of a plan, in its order, with their addresses. A plan may have the first one alone.
const LISTENERS: [(ListenerId, SocketAddr); 2] = [(ListenerId(0), GATEWAY), (ListenerId(1), STREAMS)];

/// The parts of the gateway that outlive the simulated world.
#[derive(Debug)]
pub struct GatewayResources {
    log: AccessLog,
    directory: TempDir,
    /// The counters.
    pub registry: Arc<Registry>,
    /// Created inside the world, because its times count from its creation.
    shared: OnceCell<Arc<UpstreamStates>>,
    loads: Arc<ConnectionCounts>,
}

/// A line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whether it is the line of a stream of layer 4 (`scheme` is `tcp`).
    pub is_stream: bool,
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

impl GatewayResources {
    /// Opens the log for `workers` workers.
    ///
    /// # Errors
    /// Returns an error if the log's file cannot be created.
    pub fn open(workers: usize) -> std::io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let log = AccessLog::start(LogConfig {
            target: LogTarget::File(directory.path().join("log")),
            format: LogFormat::Template(
                "{scheme} {status} {reason} {attempts} {bytes_out} {target}".to_owned(),
            ),
        })?;
        Ok(Self {
            log,
            directory,
            registry: Registry::new(true),
            shared: OnceCell::new(),
            loads: Arc::new(ConnectionCounts::new(workers)),
        })
    }

    /// Returns the state of upstreams that the workers share.
    pub fn shared(&self) -> &Arc<UpstreamStates> {
        self.shared.get_or_init(UpstreamStates::new)
    }

    /// Closes the log after the end of the world. Returns its lines, the counters, and a description of each
    /// leak.
    ///
    /// # Errors
    /// Returns an error if the log's file cannot be read.
    pub fn close(self) -> std::io::Result<(Vec<Line>, Snapshot, Vec<String>)> {
        let mut left = Vec::new();
        if !self.log.close(PATIENCE) {
            left.push("the log does not end".to_owned());
        }
        let text = std::fs::read_to_string(self.directory.path().join("log"))?;
        let lines = text.lines().map(|line| {
            let mut words = line.splitn(6, ' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            Line {
                is_stream: word() == "tcp",
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
            ("what is shared of upstreams", self.shared.get().map_or(1, Arc::strong_count)),
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

/// The running workers, and the control thread.
#[derive(Debug)]
pub struct Gateway {
    mailboxes: Vec<Mailbox>,
    /// The groups of the workers, followed by the group of the control thread.
    groups: Vec<TaskGroup>,
    /// The channel by which the control thread gets its plans.
    plans: UnboundedSender<Plan>,
    /// The endpoints that look-ups find.
    pub directory: Rc<Directory>,
    /// The plans in force.
    pub in_force: Rc<InForce>,
    registry: Arc<Registry>,
    loads: Arc<ConnectionCounts>,
    shared: Weak<UpstreamStates>,
    running: Rc<Cell<usize>>,
    failures: Rc<RefCell<Vec<String>>>,
}

/// Compiles a plan from its text.
///
/// # Panics
/// Panics if the text is not valid; the plans of scenarios always are.
#[must_use]
pub fn plan(text: &str) -> Plan {
    tollgate_plan::register_policies();
    let loaded = tollgate_config::from_text("plan.yaml", text, &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}\n{text}", loaded.problems.render(false)));
    match tollgate_plan::compile(&config) {
        Ok(compiled) => compiled.plan,
        Err(problems) => panic!("{problems:?}\n{text}"),
    }
}

impl Gateway {
    /// Starts the workers and the control thread, each in a group of its own. `directory` holds the endpoints
    /// for look-ups.
    #[must_use]
    pub fn start(workers: usize, plan: Plan, directory: Directory, resources: &GatewayResources) -> Self {
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| Mailbox::new()).unzip();
        let binds: Vec<_> = plan.listeners.iter().map(|listener| listener.bind.clone()).collect();
        directory.apply(&plan);
        let (directory, in_force) = (Rc::new(directory), Rc::<InForce>::default());
        let plan = Rollout::first(plan, &resources.registry);
        let running = Rc::new(Cell::new(workers));
        let failures = Rc::new(RefCell::new(Vec::new()));
        let mut groups = Vec::new();
        for (id, control) in inboxes.into_iter().enumerate() {
            let sockets = binds.iter().zip(LISTENERS).map(|(bind, (listener, address))| {
                (listener, bind.clone(), simulated::listen(address, BACKLOG as usize))
            });
            let sockets = sockets.collect();
            assert!(mailboxes[id].send(WorkerCommand::Listen(sockets, None)).is_ok(), "its inbox is here");
            let setup = WorkerSetup {
                id,
                plan: plan.clone(),
                control,
                mailboxes: mailboxes.clone(),
                loads: resources.loads.clone(),
                registry: resources.registry.clone(),
                stats: resources.registry.worker(),
                shared: resources.shared().clone(),
                log: resources.log.sink(),
            };
            let (running, failures) = (running.clone(), failures.clone());
            let group = simulated::new_group();
            simulated::spawn_in(group, async move {
                if let Err(error) = work(setup, || ()).await {
                    failures.borrow_mut().push(format!("worker {id}: {error}"));
                }
                simulated::note(&format!("worker {id} has ended"));
                running.set(running.get() - 1);
                // When a real worker's thread ends, it drops everything that is left, above all idle
                // connections.
                simulated::kill(group);
            });
            groups.push(group);
        }
        let (plans, inbox) = unbounded_channel();
        let group = simulated::new_group();
        in_force.began(&plan);
        let desk = control::Desk {
            mailboxes: mailboxes.clone(),
            registry: resources.registry.clone(),
            shared: resources.shared().clone(),
            directory: directory.clone(),
            in_force: in_force.clone(),
        };
        simulated::spawn_in(group, control::run(plan, inbox, desk));
        groups.push(group);
        Self {
            mailboxes,
            groups,
            plans,
            directory,
            in_force,
            registry: resources.registry.clone(),
            loads: resources.loads.clone(),
            shared: Arc::downgrade(resources.shared()),
            running,
            failures,
        }
    }

    /// Returns a worker's group. The index after the last worker is the control thread.
    #[must_use]
    pub fn group(&self, worker: usize) -> TaskGroup {
        self.groups[worker]
    }

    /// Returns all groups: the groups of the workers, followed by the control thread's group.
    #[must_use]
    pub fn groups(&self) -> &[TaskGroup] {
        &self.groups
    }

    /// Returns the current counters.
    #[must_use]
    pub fn counts(&self) -> Snapshot {
        self.registry.snapshot()
    }

    /// Returns how many client connections are counted as open.
    #[must_use]
    pub fn places(&self) -> usize {
        self.loads.total()
    }

    /// Returns the state of upstreams that the workers share, while a handle to it exists.
    #[must_use]
    pub fn shared(&self) -> Option<Arc<UpstreamStates>> {
        self.shared.upgrade()
    }

    /// Sends a message to all workers. Each receives it at its next turn.
    pub fn tell(&self, control: impl Fn() -> WorkerCommand) {
        for mailbox in &self.mailboxes {
            // A drained worker no longer receives.
            let _ = mailbox.send(control());
        }
    }

    /// Sheds requests below this priority from now on, as when memory is short.
    pub fn press(&self, below: u8) {
        self.loads.pressure.set(below, u64::MAX);
    }

    /// Sends another plan to the control thread, which gives it to all workers.
    pub fn change(&self, plan: Plan) {
        // The control thread receives for as long as the world exists.
        let _ = self.plans.send(plan);
    }

    /// Waits until all workers have stopped, and returns the errors and leaked sockets. Once the runtimes are dropped,
    /// nothing may be left.
    pub async fn ended(&self) -> Vec<String> {
        while self.running.get() > 0 {
            simulated::sleep(Duration::from_millis(10)).await;
        }
        let mut left = self.failures.borrow().clone();
        // When a thread ends, its runtime drops all tasks.
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
