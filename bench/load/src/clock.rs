//! The monotonic clock in nanoseconds, and the timer that wakes a thread by it; the origins use both too.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Now.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// A span of seconds in nanoseconds.
pub fn span(seconds: f64) -> u64 {
    (seconds * SECOND as f64).round() as u64
}

/// Wakes an epoll at a given time. A `timerfd` rather than epoll's own time-out: that one has a grain of a
/// millisecond before Linux 5.11, and the kernel may let it run 50 us over (`PR_SET_TIMERSLACK`).
#[derive(Debug)]
pub struct Timer {
    file: OwnedFd,
    set_for: u64,
}

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// Those of the kernel, such as too many open files.
    pub fn new() -> io::Result<Self> {
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { file, set_for: u64::MAX })
    }

    /// Fires at `time`, once; a time in the past fires at once.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set(&mut self, time: u64) -> io::Result<()> {
        // A time that is past has fired and may have been seen: only one to come can be left as it is.
        if self.set_for == time && time > now() {
            return Ok(());
        }
        self.set_for = time;
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: (time / SECOND) as _, tv_nsec: (time % SECOND) as _ },
        };
        timerfd_settime(&self.file, TimerfdTimerFlags::ABSTIME, &spec).map(drop)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::read;

    #[test]
    fn a_past_time_fires_each_time_it_is_set() {
        let mut timer = Timer::new().unwrap();
        let past = now() - 1;
        for _ in 0..2 {
            timer.set(past).unwrap();
            let mut files = [PollFd::new(&timer, PollFlags::IN)];
            assert_eq!(poll(&mut files, None).unwrap(), 1);
            assert_eq!(read(&timer, &mut [0_u8; 8]).unwrap(), 8);
        }
    }
}
