//! The threads of a server: how they are told to stop, and how they tell that they failed.

use crate::failure::Failure;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Threads that run until this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    stop: Arc<OwnedFd>,
    running: Vec<JoinHandle<()>>,
    failed: Sender<Failure>,
    failures: Receiver<Failure>,
}

impl Threads {
    pub(crate) fn new() -> Result<Self, Failure> {
        let stop = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let stop = Arc::new(stop.map_err(Failure::system("create an event"))?);
        let (failed, failures) = channel();
        Ok(Self { stop, running: Vec::new(), failed, failures })
    }

    /// What becomes readable when all threads shall end.
    pub(crate) fn stop(&self) -> Arc<OwnedFd> {
        self.stop.clone()
    }

    /// Starts one.
    pub(crate) fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let failed = self.failed.clone();
        let body = move || {
            if let Err(failure) = run() {
                // Nobody listens any more when the server is being dropped.
                let _ = failed.send(failure);
            }
        };
        self.running.push(Builder::new().name(name).spawn(body).map_err(Failure::system("start a thread"))?);
        Ok(())
    }

    /// Waits until a thread fails, which is for ever if all goes well.
    pub(crate) fn wait(&self) -> Result<Infallible, Failure> {
        let lost = |_| Failure::System("wait for threads", std::io::ErrorKind::BrokenPipe.into());
        Err(self.failures.recv().unwrap_or_else(lost))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // An eventfd takes eight bytes, and this one is written to once: it cannot fail.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        for thread in self.running.drain(..) {
            // A thread's panic has been printed, and a second one here would abort.
            let _ = thread.join();
        }
    }
}
