//! A running origin: its threads and their shared state.

use crate::control;
use crate::counters::{Counters, Tally};
use crate::failure::Failure;
use crate::grpc;
use crate::recorded::{Recorded, Recorder};
use crate::settings::{NS_PER_MS, Settings};
use crate::socket::listen_on;
use crate::threads::Threads;
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The state that the threads of an origin share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// One for each thread.
    pub(crate) tallies: Vec<Tally>,
    /// Connections so far; numbers them.
    pub(crate) connections: AtomicU64,
    pub(crate) recorder: Recorder,
    /// When the script of stalls began, in nanoseconds; 0 before its first request.
    begun: AtomicU64,
    /// Becomes readable when all threads must stop.
    pub(crate) stop: Arc<OwnedFd>,
}

impl Shared {
    /// Returns whether responses can be delayed at all.
    pub(crate) fn holds(&self) -> bool {
        self.settings.delay_ms > 0 || !self.settings.stalls.is_empty()
    }

    /// Returns when the response to a request at `time` may be sent. A later request's response is never sent
    /// earlier, unless a reset happens between them.
    pub(crate) fn leaves(&self, time: u64) -> u64 {
        let due = time + self.settings.delay_ms * NS_PER_MS;
        if self.settings.stalls.is_empty() {
            return due;
        }
        let begun = match self.begun.load(Relaxed) {
            // If two threads see the first request, one wins and both use its time.
            0 => self.begun.compare_exchange(0, time, Relaxed, Relaxed).err().unwrap_or(time),
            begun => begun,
        };
        begun + self.settings.stalls.leaves(due.saturating_sub(begun))
    }

    /// Clears the recorded requests and restarts the script of stalls with the next request. Responses that
    /// are already delayed keep their time.
    pub(crate) fn reset(&self) {
        self.recorder.clear();
        self.begun.store(0, Relaxed);
    }

    /// Returns the sum of all counters.
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
    /// Starts an origin, which listens when this returns.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn start(settings: &Settings) -> Result<Self, Failure> {
        settings.check()?;
        // The result is ignored: with a low limit, further connections wait in the listen queue.
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

    /// Returns the address for requests.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the control port.
    pub fn control(&self) -> SocketAddr {
        self.control
    }

    /// Returns the counters since the start, as `GET /counters` on the control port does.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Returns the heads of the last requests, the oldest first, as `GET /recorded` on the control port does.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared.recorder.all()
    }

    /// Clears the recorded requests and restarts the script of stalls with the next request, as `POST /reset`
    /// on the control port does. Counters are not reset.
    pub fn reset(&self) {
        self.shared.reset();
    }
}

/// Runs an origin until a signal (SIGTERM) ends the process. It has no state that would need an orderly
/// shutdown.
///
/// # Errors
/// See [`Failure`]; it returns for no other reason.
pub fn serve(settings: &Settings) -> Result<Infallible, Failure> {
    Origin::start(settings)?.threads.wait()
}
