//! The worker threads, and the messages to them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_listen::ConnectionCounts;
use tollgate_observe::{AccessLog, Registry};
use tollgate_proxy::{Mailbox, Rollout, WorkerCommand, WorkerSetup, run_worker};
use tollgate_upstream::UpstreamStates;

/// The running workers.
#[derive(Debug)]
pub struct WorkerThreads {
    mailboxes: Vec<Mailbox>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    loads: Arc<ConnectionCounts>,
}

impl WorkerThreads {
    /// Starts `count` workers. They accept no connections yet.
    ///
    /// # Errors
    /// A worker cannot start; the error says why.
    pub fn start(
        count: usize,
        plan: &Arc<Rollout>,
        registry: &Arc<Registry>,
        shared: &Arc<UpstreamStates>,
        log: &AccessLog,
    ) -> io::Result<Self> {
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| Mailbox::new()).unzip();
        let loads = Arc::new(ConnectionCounts::new(count));
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
                    // If another worker could not start, the receiver is gone.
                    let _ = running.send(());
                })
            })?);
        }
        drop(running);
        // Waits for all workers, so that readiness means every worker runs. A failed worker reports why.
        for _ in 0..count {
            if started.recv().is_err() {
                return Err(start_error(threads));
            }
        }
        Ok(Self { mailboxes, threads, loads })
    }

    /// Returns the number of workers.
    pub fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Returns the workers' connection counts, and the pressure that refuses connections.
    pub fn loads(&self) -> &Arc<ConnectionCounts> {
        &self.loads
    }

    /// Returns the mailbox of each worker.
    pub fn mailboxes(&self) -> &[Mailbox] {
        &self.mailboxes
    }

    /// Sends a message to each worker; `what` makes it from the worker's number.
    pub fn send(&self, mut what: impl FnMut(usize) -> WorkerCommand) {
        for (worker, mailbox) in self.mailboxes.iter().enumerate() {
            // A worker that is gone needs no message.
            let _ = mailbox.send(what(worker));
        }
    }

    /// Returns a function that ends a drain at once. A thread other than the draining one may call it.
    pub fn drain_now(&self) -> impl Fn() + use<> {
        let mailboxes = self.mailboxes.clone();
        move || {
            for mailbox in &mailboxes {
                // A worker that is gone has drained.
                let _ = mailbox.send(WorkerCommand::Drain(Some(Duration::ZERO)));
            }
        }
    }

    /// Returns whether every worker still runs.
    pub fn all_running(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Waits until all workers end.
    ///
    /// # Errors
    /// The first error of a worker.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// Returns the reason why a worker could not start. The other workers end with the process.
fn start_error(threads: Vec<JoinHandle<io::Result<()>>>) -> io::Error {
    let ended = threads.into_iter().filter(JoinHandle::is_finished).map(JoinHandle::join);
    let mut errors =
        ended.filter_map(|end| end.unwrap_or_else(|_| Err(io::Error::other("it panicked"))).err());
    let error = errors.next().unwrap_or_else(|| io::Error::other("it ended"));
    io::Error::new(error.kind(), format!("a worker cannot start: {error}"))
}
