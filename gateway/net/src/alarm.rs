//! The kernel's timer, as an event like any other.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// One timer of the kernel's. tokio's own would do, but while it is on, every return to the poller asks for the time
/// and goes through its wheel: 600 instructions each, twice a request (callgrind), for a wheel that never holds
/// anything but the next tick of ours.
#[derive(Debug)]
pub(crate) struct Alarm(Kind);

#[derive(Debug)]
enum Kind {
    Kernel(AsyncFd<OwnedFd>),
    #[cfg(feature = "simulate")]
    Simulated(crate::simulated::Alarm),
}

impl Alarm {
    #[expect(
        deprecated,
        reason = "its safe successor demands I/O safety, which OwnedFd has, through unsafe code"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        #[cfg(feature = "simulate")]
        if crate::simulated::is_active() {
            return Ok(Self(Kind::Simulated(crate::simulated::Alarm::new())));
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?).map(|fd| Self(Kind::Kernel(fd)))
    }

    /// Rings after a while, not 0. An earlier setting is forgotten.
    pub(crate) fn set(&self, after: Duration) {
        match &self.0 {
            Kind::Kernel(fd) => set(fd.get_ref(), after),
            #[cfg(feature = "simulate")]
            Kind::Simulated(alarm) => alarm.set(after),
        }
    }

    /// Whether it has rung since it was last seen to.
    pub(crate) fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            Kind::Kernel(fd) => poll_rung(fd, cx),
            #[cfg(feature = "simulate")]
            Kind::Simulated(alarm) => alarm.poll_rung(cx),
        }
    }
}

fn set(timer: &OwnedFd, after: Duration) {
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
    // A valid timer with a valid time cannot fail (timerfd_settime(2)).
    let _ = timerfd_settime(
        timer,
        TimerfdTimerFlags::empty(),
        &Itimerspec { it_interval: never, it_value: value },
    );
}

fn poll_rung(fd: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> Poll<()> {
    match fd.poll_read_ready(cx) {
        Poll::Ready(Ok(mut guard)) => {
            // The edge is what counts; setting it anew clears the count of rings.
            guard.clear_ready();
            Poll::Ready(())
        }
        Poll::Ready(Err(_)) => Poll::Ready(()),
        Poll::Pending => Poll::Pending,
    }
}
