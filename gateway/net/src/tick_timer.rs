//! A kernel timer (timerfd) as a pollable event. Each worker has one; its timing wheel sets it to the next
//! occupied tick.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// One kernel timer. tokio's timer would do, but while it is enabled, every return to the poller reads the
/// clock and turns tokio's wheel. That takes 600 instructions, twice a request (callgrind), for a wheel that
/// would only ever hold the next tick of ours.
#[derive(Debug)]
pub(crate) struct TickTimer(TimerKind);

#[derive(Debug)]
enum TimerKind {
    Kernel(AsyncFd<OwnedFd>),
    #[cfg(feature = "simulate")]
    Simulated(crate::simulated::SimulatedTimer),
}

impl TickTimer {
    #[expect(
        deprecated,
        reason = "its safe successor demands I/O safety, which OwnedFd has, through unsafe code"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        #[cfg(feature = "simulate")]
        if crate::simulated::is_active() {
            return Ok(Self(TimerKind::Simulated(crate::simulated::SimulatedTimer::new())));
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?).map(|fd| Self(TimerKind::Kernel(fd)))
    }

    /// Sets the timer to fire after `after`, which must not be 0. Replaces an earlier setting.
    pub(crate) fn set(&self, after: Duration) {
        match &self.0 {
            TimerKind::Kernel(fd) => set(fd.get_ref(), after),
            #[cfg(feature = "simulate")]
            TimerKind::Simulated(timer) => timer.set(after),
        }
    }

    /// Whether the timer has fired since the last call; if not, the task is woken when it does.
    pub(crate) fn poll_fired(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            TimerKind::Kernel(fd) => poll_fired(fd, cx),
            #[cfg(feature = "simulate")]
            TimerKind::Simulated(timer) => timer.poll_fired(cx),
        }
    }
}

fn set(fd: &OwnedFd, after: Duration) {
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
    // A valid timer with a valid time cannot fail (timerfd_settime(2)).
    let _ =
        timerfd_settime(fd, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: never, it_value: value });
}

fn poll_fired(fd: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> Poll<()> {
    match fd.poll_read_ready(cx) {
        Poll::Ready(Ok(mut guard)) => {
            // Only the edge matters; setting the timer again clears the count of expirations.
            guard.clear_ready();
            Poll::Ready(())
        }
        Poll::Ready(Err(_)) => Poll::Ready(()),
        Poll::Pending => Poll::Pending,
    }
}
