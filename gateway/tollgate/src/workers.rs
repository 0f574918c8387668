//! The workers' threads, and what they are told.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_listen::Loads;
use tollgate_observe::{AccessLog, Registry};
use tollgate_proxy::{Control, Mailbox, Rollout, WorkerSetup, run_worker};
use tollgate_upstream::Shared;

/// The running workers.
#[derive(Debug)]
pub struct Workers {
    mailboxes: Vec<Mailbox>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    loads: Arc<Loads>,
}

impl Workers {
    /// Starts so many workers. They accept nothing yet.
    ///
    /// # Errors
    /// When one cannot start; it says why.
    pub fn start(
        count: usize,
        plan: &Arc<Rollout>,
        registry: &Arc<Registry>,
        shared: &Arc<Shared>,
        log: &AccessLog,
    ) -> io::Result<Self> {
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| Mailbox::new()).unzip();
        let loads = Arc::new(Loads::new(count));
        let mut threads = Vec::new();
        let (running, started) = std::sync::mpsc::channel();
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
        for _ in 0..count {
            if started.recv().is_err() {
                return Err(failure(threads));
            }
        }
        Ok(Self { mailboxes, threads, loads })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// How many connections each has, and what the process is short of.
    pub fn loads(&self) -> &Arc<Loads> {
        &self.loads
    }

    /// Tells each worker something, by its number.
    pub fn tell(&self, mut what: impl FnMut(usize) -> Control) {
        for (worker, mailbox) in self.mailboxes.iter().enumerate() {
            // A worker that is gone has nothing to do any more.
            let _ = mailbox.send(what(worker));
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
    pub fn are_whole(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Waits for all of them to end.
    ///
    /// # Errors
    /// What a worker could not do.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
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
