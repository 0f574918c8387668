//! The monotonic clock in nanoseconds, and a timer on it that wakes a thread. The origins use both as well.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Returns the current time in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Converts seconds to nanoseconds.
pub fn span(seconds: f64) -> u64 {
    (seconds * SECOND as f64).round() as u64
}

/// Wakes an epoll at a given time. It is a `timerfd` because epoll's own timeout has a resolution of a
/// millisecond before Linux 5.11, and the kernel may let it run 50 us over (`PR_SET_TIMERSLACK`).
#[derive(Debug)]
pub struct Timer {
    file: OwnedFd,
    set_for: u64,
}

impl Timer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// If the kernel refuses, for example because too many files are open.
    pub fn new() -> io::Result<Self> {
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { file, set_for: u64::MAX })
    }

    /// Sets the timer to fire once at `time`. A time in the past fires at once.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&mut self, time: u64) -> io::Result<()> {
        // A time in the past has fired and that event may already be consumed, so only a pending timer can be
        // left as it is.
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
