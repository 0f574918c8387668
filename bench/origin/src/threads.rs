//! The threads of a server: tells them to stop, and receives their failures.

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

    /// Returns the descriptor that becomes readable when all threads must stop.
    pub(crate) fn stop(&self) -> Arc<OwnedFd> {
        self.stop.clone()
    }

    /// Starts a thread.
    pub(crate) fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let failed = self.failed.clone();
        let body = move || {
            if let Err(failure) = run() {
                // The receiver is gone while the server is being dropped.
                let _ = failed.send(failure);
            }
        };
        self.running.push(Builder::new().name(name).spawn(body).map_err(Failure::system("start a thread"))?);
        Ok(())
    }

    /// Waits until a thread fails; forever if none does.
    pub(crate) fn wait(&self) -> Result<Infallible, Failure> {
        let lost = |_| Failure::System("wait for threads", std::io::ErrorKind::BrokenPipe.into());
        Err(self.failures.recv().unwrap_or_else(lost))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // An eventfd accepts eight bytes, and this one is written once, so the call cannot fail.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        for thread in self.running.drain(..) {
            // A thread's panic was already printed, and a second panic here would abort the process.
            let _ = thread.join();
        }
    }
}
