//! A gateway for tests: workers on their own threads, with their statistics and their log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tollgate_config::from_text;
use tollgate_listen::{ConnectionCounts, bind};
use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Reason, Registry, Snapshot};
use tollgate_plan::Plan;
use tollgate_proxy::{ListenerId, Mailbox, Rollout, WorkerCommand, WorkerSetup, run_worker};

/// How long a test waits before it reports a hang. No test passes or fails because a machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Workers on their own threads.
pub struct Gateway {
    address: SocketAddr,
    mailboxes: Vec<Mailbox>,
    registry: Arc<Registry>,
    log: AccessLog,
    directory: tempfile::TempDir,
    plan: std::cell::RefCell<Arc<Rollout>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

/// The results, once all workers have stopped.
pub struct Ended {
    pub counts: Snapshot,
    /// `status reason bytes_in bytes_out attempts method target` of each exchange.
    pub lines: Vec<String>,
}

impl Ended {
    pub fn reason(&self, reason: Reason) -> u64 {
        self.counts.reasons[reason as usize]
    }
}

fn plan(yaml: &str) -> Plan {
    // Some tests end their own direction first, to see when the gateway ends its direction.
    let listen = "listen: {bind: 127.0.0.1:0, half_close: on}";
    tollgate_policy::register();
    let loaded = from_text("test.yaml", &format!("{listen}\n{yaml}"), &|_| None);
    let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
    tollgate_plan::compile(&config).expect("it compiles").plan
}

impl Gateway {
    /// Starts one worker with these routes and settings.
    pub fn start(yaml: &str) -> Self {
        Self::start_workers(1, yaml)
    }

    /// Starts one worker that sends everything to `origin`, with further keys of the route and of the file.
    pub fn to(origin: &str, route: &str, file: &str) -> Self {
        Self::start(&format!("routes:\n- {{match: \"/*\", to: \"{origin}\"{route}}}\n{file}\n"))
    }

    pub fn start_workers(workers: usize, yaml: &str) -> Self {
        Self::start_after(workers, yaml, |_, _| ())
    }

    /// Calls `before` when the sockets listen and no worker runs.
    pub fn start_after(workers: usize, yaml: &str, before: impl FnOnce(SocketAddr, &[Mailbox])) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let log = AccessLog::start(LogConfig {
            target: LogTarget::File(directory.path().join("log")),
            format: LogFormat::Template(
                "{status} {reason} {bytes_in} {bytes_out} {attempts} {method} {target}".to_owned(),
            ),
        })
        .expect("a log");
        let registry = Registry::new(true);
        let plan = Rollout::first(plan(yaml), &registry);
        let listeners = bind(SocketAddr::from(([127, 0, 0, 1], 0)), workers).expect("a port");
        let address = listeners[0].local_addr().expect("an address");
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| Mailbox::new()).unzip();
        let loads = Arc::new(ConnectionCounts::new(workers));
        for (mailbox, listener) in mailboxes.iter().zip(listeners) {
            let sockets =
                vec![(ListenerId(0), SocketAddr::from(([127, 0, 0, 1], 0)).into(), listener.into())];
            mailbox.send(WorkerCommand::Listen(sockets, None)).expect("a mailbox");
        }
        let shared = tollgate_upstream::UpstreamStates::new();
        before(address, &mailboxes);
        let mut threads = Vec::new();
        for (id, control) in inboxes.into_iter().enumerate() {
            let setup = WorkerSetup {
                id,
                plan: plan.clone(),
                control,
                mailboxes: mailboxes.clone(),
                loads: loads.clone(),
                registry: registry.clone(),
                stats: registry.worker(),
                shared: shared.clone(),
                log: log.sink(),
            };
            threads.push(std::thread::spawn(move || run_worker(setup, || ())));
        }
        let plan = std::cell::RefCell::new(plan);
        Self { address, mailboxes, registry, log, directory, plan, threads }
    }

    pub fn counts(&self) -> Snapshot {
        self.registry.snapshot()
    }

    pub fn tell(&self, control: impl Fn() -> WorkerCommand) {
        for mailbox in &self.mailboxes {
            mailbox.send(control()).expect("the worker runs");
        }
    }

    /// Gives every worker a new plan.
    pub fn change(&self, yaml: &str) {
        let next = self.plan.borrow().next(plan(yaml), &self.registry);
        self.tell(|| WorkerCommand::Plan(next.clone(), None));
        *self.plan.borrow_mut() = next;
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Drains all workers. Checks that everything that was opened was closed, and that every request ended
    /// exactly once.
    pub fn end(self, bound: Duration) -> Ended {
        for mailbox in &self.mailboxes {
            // A worker without connections may have stopped already.
            let _ = mailbox.send(WorkerCommand::Drain(Some(bound)));
        }
        for thread in self.threads {
            thread.join().expect("no panic").expect("a worker that ran");
        }
        assert!(self.log.close(PATIENCE));
        let counts = self.registry.snapshot();
        assert_eq!((counts.in_flight, counts.client_connections), (0, 0));
        for upstream in &counts.upstreams {
            assert_eq!((upstream.active(), upstream.idle), (0, 0), "{}", upstream.name);
        }
        assert_eq!(counts.reasons.iter().sum::<u64>(), counts.requests);
        let log = std::fs::read_to_string(self.directory.path().join("log")).expect("the log");
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, counts.requests, "{lines:?}");
        Ended { counts, lines }
    }
}

/// A client that sends raw bytes.
pub struct Client {
    pub stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, read: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sent");
    }

    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.send(bytes);
        self.answer()
    }

    /// Reads one response with a `Content-Length`, or without a body, as text.
    pub fn answer(&mut self) -> String {
        let head = loop {
            if let Some(end) = self.read.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.more() > 0, "closed within a head: {:?}", String::from_utf8_lossy(&self.read));
        };
        let text = String::from_utf8_lossy(&self.read[..head]).to_ascii_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let end = head + length.map_or(0, |length| length.parse::<usize>().expect("a length"));
        while self.read.len() < end {
            assert!(self.more() > 0, "closed within a body");
        }
        String::from_utf8_lossy(&self.read.drain(..end).collect::<Vec<u8>>()).into_owned()
    }

    fn more(&mut self) -> usize {
        let mut buffer = [0; 65536];
        let count = self.stream.read(&mut buffer).expect("read");
        self.read.extend_from_slice(&buffer[..count]);
        count
    }

    /// Reads everything until the end of the stream. Returns the error if the stream ends with one.
    pub fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        self.stream.read_to_end(&mut self.read)?;
        Ok(std::mem::take(&mut self.read))
    }

    /// Closes with a reset.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("linger");
    }
}

pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
