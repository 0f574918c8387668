//! A running origin: its threads, and what they share.

use crate::control;
use crate::counters::{Counters, Tally};
use crate::failure::Failure;
use crate::files::raise_limit;
use crate::settings::Settings;
use crate::socket::listen_on;
use crate::worker::Worker;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Nanoseconds in a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// What the threads of an origin share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// One a thread.
    pub(crate) tallies: Vec<Tally>,
    /// Connections so far, for their numbers.
    pub(crate) connections: AtomicU64,
    /// Readable when all threads shall end.
    pub(crate) stop: OwnedFd,
}

impl Shared {
    /// Whether answers can have to wait at all.
    pub(crate) fn holds(&self) -> bool {
        self.settings.delay_ms > 0
    }

    /// When the answer to a request of this time may leave. A later request's answer never leaves earlier.
    pub(crate) fn leaves(&self, time: u64) -> u64 {
        time + self.settings.delay_ms * MILLISECOND
    }

    /// Takes note of a head that was read.
    pub(crate) fn saw(&self, _connection: u64, _head: &[u8]) {}

    /// All counts together.
    pub(crate) fn counters(&self) -> Counters {
        Counters::sum(&self.tallies)
    }
}

/// An origin that runs on threads of this process until it is dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    control: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    failures: Receiver<Failure>,
}

impl Origin {
    /// Starts one. When this returns it listens.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn start(settings: &Settings) -> Result<Self, Failure> {
        settings.check()?;
        raise_limit();
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            tallies: (0..settings.threads).map(|_| Tally::default()).collect(),
            connections: AtomicU64::new(0),
            stop: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(Failure::system("create an event"))?,
        });
        let (control_listener, control) = listen_on(settings.control, false)?;
        let (first, address) = listen_on(settings.listen, settings.threads > 1)?;
        let mut listeners = vec![first];
        for _ in 1..settings.threads {
            listeners.push(listen_on(address, true)?.0);
        }
        let (failed, failures) = channel();
        let mut origin = Self { address, control, shared, threads: Vec::new(), failures };
        for (thread, listener) in listeners.into_iter().enumerate() {
            let worker = Worker::new(origin.shared.clone(), thread, listener)?;
            origin.spawn(format!("origin-{thread}"), &failed, || worker.run())?;
        }
        let shared = origin.shared.clone();
        origin.spawn("control".into(), &failed, move || control::run(&shared, &control_listener))?;
        Ok(origin)
    }

    fn spawn(
        &mut self,
        name: String,
        failed: &Sender<Failure>,
        run: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let failed = failed.clone();
        let body = move || {
            if let Err(failure) = run() {
                // Nobody listens any more when the origin is being dropped.
                let _ = failed.send(failure);
            }
        };
        self.threads.push(Builder::new().name(name).spawn(body).map_err(Failure::system("start a thread"))?);
        Ok(())
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it tells what it counted.
    pub fn control(&self) -> SocketAddr {
        self.control
    }

    /// What it counted since its start.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // An eventfd takes eight bytes, and this one is written to once: it cannot fail.
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            // A thread's panic has been printed, and a second one here would abort.
            let _ = thread.join();
        }
    }
}

/// Runs an origin for the rest of this process, which a signal (SIGTERM) ends: it holds nothing that would have to be
/// put away.
///
/// # Errors
/// See [`Failure`]; it returns for no other reason.
pub fn serve(settings: &Settings) -> Result<Infallible, Failure> {
    let origin = Origin::start(settings)?;
    let ended = |_| Failure::Settings("all threads of the origin ended".into());
    Err(origin.failures.recv().unwrap_or_else(ended))
}
