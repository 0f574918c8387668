//! The signals that the process listens to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// All of them. From when this is made none of them ends the process by itself; one that comes before anybody asks is
/// remembered.
pub struct Signals {
    /// SIGTERM and SIGINT.
    pub stop: Stop,
    /// SIGHUP.
    pub reload: Signal,
    /// SIGUSR1.
    pub reopen: Signal,
    /// SIGUSR2.
    pub upgrade: Signal,
}

/// Those that ask for a stop.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens to them, on the runtime that this is called on.
    ///
    /// # Errors
    /// When the kernel gives no signals.
    pub fn new() -> io::Result<Self> {
        let stop =
            Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
        Ok(Self {
            stop,
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}

impl Stop {
    /// Waits for one.
    pub async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
