//! A running origin: its threads, and what they share.

use crate::control;
use crate::counters::{Counters, Tally};
use crate::failure::Failure;
use crate::grpc;
use crate::recorded::{Recorded, Recorder};
use crate::settings::{MILLISECOND, Settings};
use crate::socket::listen_on;
use crate::threads::Threads;
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the threads of an origin share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// One a thread.
    pub(crate) tallies: Vec<Tally>,
    /// Connections so far, for their numbers.
    pub(crate) connections: AtomicU64,
    pub(crate) recorder: Recorder,
    /// When the script of stalls began; 0 while it has not.
    begun: AtomicU64,
    /// Readable when all threads shall end.
    pub(crate) stop: Arc<OwnedFd>,
}

impl Shared {
    /// Whether answers can have to wait at all.
    pub(crate) fn holds(&self) -> bool {
        self.settings.delay_ms > 0 || !self.settings.stalls.is_empty()
    }

    /// When the answer to a request of this time may leave. A later request's answer never leaves earlier, unless a
    /// reset comes between them.
    pub(crate) fn leaves(&self, time: u64) -> u64 {
        let due = time + self.settings.delay_ms * MILLISECOND;
        if self.settings.stalls.is_empty() {
            return due;
        }
        let begun = match self.begun.load(Relaxed) {
            // Of two threads that see the first request, one wins, and both go by its time.
            0 => self.begun.compare_exchange(0, time, Relaxed, Relaxed).err().unwrap_or(time),
            begun => begun,
        };
        begun + self.settings.stalls.leaves(due.saturating_sub(begun))
    }

    /// Forgets what arrived, and lets the script of stalls begin anew with the next request. What waits keeps its time.
    pub(crate) fn reset(&self) {
        self.recorder.clear();
        self.begun.store(0, Relaxed);
    }

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
    threads: Threads,
}

impl Origin {
    /// Starts one. When this returns it listens.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn start(settings: &Settings) -> Result<Self, Failure> {
        settings.check()?;
        // With less than the most, connections beyond wait in the listen queue.
        let _ = tollgate_lab_load::raise_limit();
        let mut threads = Threads::new()?;
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            tallies: (0..settings.threads).map(|_| Tally::default()).collect(),
            connections: AtomicU64::new(0),
            recorder: Recorder::new(settings.record),
            begun: AtomicU64::new(0),
            stop: threads.stop(),
        });
        let (control_listener, control) = listen_on(settings.control, false)?;
        let (first, address) = listen_on(settings.listen, settings.threads > 1)?;
        let mut listeners = vec![first];
        for _ in 1..settings.threads {
            listeners.push(listen_on(address, true)?.0);
        }
        for (thread, listener) in listeners.into_iter().enumerate() {
            let name = format!("origin-{thread}");
            if settings.grpc {
                let worker = grpc::Worker { shared: shared.clone(), thread, listener };
                threads.spawn(name, || worker.run())?;
            } else {
                let worker = Worker::new(shared.clone(), thread, listener)?;
                threads.spawn(name, || worker.run())?;
            }
        }
        let controlled = shared.clone();
        threads.spawn("control".into(), move || control::run(&controlled, &control_listener))?;
        Ok(Self { address, control, shared, threads })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it tells what it counted.
    pub fn control(&self) -> SocketAddr {
        self.control
    }

    /// What it counted since its start; also `GET /counters` on the control port.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// The heads of the last requests, the oldest first; also `GET /recorded` on the control port.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared.recorder.all()
    }

    /// Forgets what was recorded, and lets the script of stalls begin anew with the next request; also `POST /reset` on
    /// the control port. Counters go on.
    pub fn reset(&self) {
        self.shared.reset();
    }
}

/// Runs an origin for the rest of this process, which a signal (SIGTERM) ends: it holds nothing that would have to be
/// put away.
///
/// # Errors
/// See [`Failure`]; it returns for no other reason.
pub fn serve(settings: &Settings) -> Result<Infallible, Failure> {
    Origin::start(settings)?.threads.wait()
}
