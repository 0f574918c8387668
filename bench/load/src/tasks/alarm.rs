//! Wakes a task at an exact time: the runtime's own timers are precise to a millisecond only.

use crate::clock::{Timer, now};
use crate::failure::Failure;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer on the runtime's epoll.
pub(super) struct Alarm {
    timer: Timer,
    file: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// Creates an alarm that is not set.
    #[expect(
        deprecated,
        reason = "the replacement is unsafe; an owned descriptor that stays in place is sound"
    )]
    pub(super) fn new() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::System("create a timer", error);
        let timer = Timer::new().map_err(|error| failed(error.into()))?;
        let file = timer.as_fd().try_clone_to_owned().map_err(failed)?;
        let file = AsyncFd::with_interest(file, Interest::READABLE).map_err(failed)?;
        Ok(Self { timer, file })
    }

    /// Waits until `time`.
    pub(super) async fn at(&mut self, time: u64) -> Result<(), Failure> {
        self.timer.set(time).map_err(|error| Failure::System("set a timer", error.into()))?;
        while now() < time {
            let ready = self.file.readable().await;
            let mut ready = ready.map_err(|error| Failure::System("wait for a timer", error))?;
            // Fails if the timer has been set again since it fired; the loop then waits for it once more.
            let _ = rustix::io::read(self.file.get_ref(), &mut [0_u8; 8]);
            ready.clear_ready();
        }
        Ok(())
    }
}
