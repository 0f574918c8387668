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
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    #[expect(
        deprecated,
        reason = "its safe successor demands I/O safety, which OwnedFd has, through unsafe code"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?).map(Self)
    }

    /// Rings after a while, not 0. An earlier setting is forgotten.
    pub(crate) fn set(&self, after: Duration) {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
        // A valid timer with a valid time cannot fail (timerfd_settime(2)).
        let _ = timerfd_settime(
            self.0.get_ref(),
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: never, it_value: value },
        );
    }

    /// Whether it has rung since it was last seen to.
    pub(crate) fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.poll_read_ready(cx) {
            Poll::Ready(Ok(mut guard)) => {
                // The edge is what counts; setting it anew clears the count of rings.
                guard.clear_ready();
                Poll::Ready(())
            }
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    }
}
