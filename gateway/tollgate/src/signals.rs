//! The signals that the process handles.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals. Once this is created, none of them ends the process by default, and a signal that arrives
/// before it is awaited is remembered.
pub struct Signals {
    /// SIGTERM and SIGINT: stop.
    pub stop: StopSignals,
    /// SIGHUP: reload.
    pub reload: Signal,
    /// SIGUSR1: reopen the logs.
    pub reopen: Signal,
    /// SIGUSR2: upgrade.
    pub upgrade: Signal,
}

/// The signals that ask for a stop.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Registers the handlers on the current runtime.
    ///
    /// # Errors
    /// The kernel refuses a handler.
    pub fn new() -> io::Result<Self> {
        let stop = StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        Ok(Self {
            stop,
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}

impl StopSignals {
    /// Waits for a request to stop.
    pub async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
