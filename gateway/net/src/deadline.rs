//! Deadlines on a worker's timing wheel. A connection has one and moves it at every step, so moving it is
//! cheap.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::tick_timer::TickTimer;
use crate::wheel::{NEVER, TICK_MS, Wheel};

/// A worker's timers. Clones are handles to the same timers.
#[derive(Clone)]
pub struct Timers(Rc<WorkerTimers>);

struct WorkerTimers {
    start: Instant,
    /// The tick that was looked up last. Nearly every look-up finds it again: a comparison costs a tenth of
    /// the difference of two instants.
    tick: RefCell<Tick>,
    wheel: RefCell<Wheel>,
    /// The tick until which the driver sleeps. An earlier deadline wakes it.
    sleeping_until: Cell<u64>,
    driver: RefCell<Option<Waker>>,
}

impl Timers {
    /// Creates timers for this thread and spawns their driver on its runtime. The driver ends when the last
    /// handle is dropped.
    /// # Errors
    /// If the kernel provides no timer.
    pub fn start() -> io::Result<Self> {
        let timer = TickTimer::new()?;
        let start = crate::now();
        let timers = Self(Rc::new(WorkerTimers {
            start,
            tick: RefCell::new(Tick { number: 0, from: start, to: start }),
            wheel: RefCell::new(Wheel::new()),
            sleeping_until: Cell::new(NEVER),
            driver: RefCell::new(None),
        }));
        crate::spawn(drive(Rc::downgrade(&timers.0), timer));
        Ok(timers)
    }

    /// Wakes every task that waits for a deadline, so that it checks for changes.
    pub fn wake_all(&self) {
        let mut woken = Vec::new();
        self.0.wheel.borrow().wakers(&mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Creates a deadline that is not set.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        Deadline { entry: self.0.wheel.borrow_mut().insert(), timers: self.0.clone() }
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Timers")
    }
}

/// A tick of the wheel, and its interval of time.
struct Tick {
    number: u64,
    from: Instant,
    /// Exclusive: it is the start of the next tick.
    to: Instant,
}

impl WorkerTimers {
    fn milliseconds(&self, at: Instant) -> u64 {
        milliseconds(at.saturating_duration_since(self.start))
    }

    /// Returns the tick that contains `at`.
    fn tick(&self, at: Instant) -> u64 {
        let known = self.tick.borrow();
        if known.from <= at && at < known.to {
            return known.number;
        }
        drop(known);
        self.find_tick(at)
    }

    #[cold]
    fn find_tick(&self, at: Instant) -> u64 {
        let number = self.milliseconds(at) / TICK_MS;
        let from = self.start + Duration::from_millis(number * TICK_MS);
        *self.tick.borrow_mut() = Tick { number, from, to: from + Duration::from_millis(TICK_MS) };
        number
    }
}

/// As [`Duration::as_millis`], without 128-bit arithmetic. Durations are capped at 136 years.
fn milliseconds(duration: Duration) -> u64 {
    duration.as_secs().min(u32::MAX.into()) * 1000 + u64::from(duration.subsec_millis())
}

/// A point in time that ends a wait. It is set again and again as an exchange proceeds. Setting it later is
/// one store; only setting it earlier than the wheel has planned costs more.
pub struct Deadline {
    timers: Rc<WorkerTimers>,
    entry: u32,
}

impl Deadline {
    /// Sets the deadline to `after` from `now`; `None` means never. It never passes early, and at most two
    /// ticks of 8 ms late.
    pub fn set(&self, now: Instant, after: Option<Duration>) {
        let due = match after {
            // Counted from the end of the current tick, in whole ticks, rounded up: never early.
            Some(after) => self.timers.tick(now) + 1 + milliseconds(after) / TICK_MS + 1,
            None => NEVER,
        };
        let earlier = self.timers.wheel.borrow_mut().set(self.entry, due);
        if earlier.is_some_and(|tick| tick < self.timers.sleeping_until.get())
            && let Some(waker) = self.timers.driver.borrow().as_ref()
        {
            waker.wake_by_ref();
        }
    }

    /// Unsets the deadline: as [`set`](Self::set) with `None`, but without reading the clock.
    pub fn clear(&self) {
        let _ = self.timers.wheel.borrow_mut().set(self.entry, NEVER);
    }

    /// Whether the deadline has passed; if not, the task is woken when it does.
    pub fn poll_passed(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.timers.wheel.borrow_mut().expired(self.entry, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.timers.wheel.borrow_mut().remove(self.entry);
    }
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Deadline({})", self.entry)
    }
}

/// The driver: sleeps until the next occupied bucket, visits it, and wakes what is due.
async fn drive(timers: std::rc::Weak<WorkerTimers>, timer: TickTimer) {
    // Allocated at the start, so that no request pays for the first wake-up.
    let mut woken = Vec::with_capacity(16);
    poll_fn(|cx| {
        loop {
            let Some(inner) = timers.upgrade() else { return Poll::Ready(()) };
            let mut driver = inner.driver.borrow_mut();
            if !driver.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *driver = Some(cx.waker().clone());
            }
            let now = inner.milliseconds(crate::now());
            inner.wheel.borrow_mut().advance(now / TICK_MS, &mut woken);
            woken.drain(..).for_each(Waker::wake);
            let next = inner.wheel.borrow().next_tick();
            inner.sleeping_until.set(next.unwrap_or(NEVER));
            let Some(next) = next else { return Poll::Pending };
            timer.set(Duration::from_millis((next * TICK_MS).saturating_sub(now).max(1)));
            if timer.poll_fired(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instant_has_its_tick_whatever_was_asked_before() {
        crate::Runtime::new().expect("a runtime").run(async {
            let timers = Timers::start().expect("timers");
            let start = timers.0.start;
            let tick = Duration::from_millis(TICK_MS);
            let nanosecond = Duration::from_nanos(1);
            for (after, number) in [
                (Duration::ZERO, 0),
                (tick - nanosecond, 0),
                (tick, 1),
                (3600 * tick + nanosecond, 3600),
                (2 * tick - nanosecond, 1),
                (2 * tick, 2),
                (3600 * tick, 3600),
            ] {
                assert_eq!(timers.0.tick(start + after), number, "{after:?}");
            }
        });
    }

    #[test]
    fn passes_in_time_and_wakes_its_task() {
        let runtime = crate::Runtime::new().expect("a runtime");
        runtime.run(async {
            let timers = Timers::start().expect("timers");
            let (long, short) = (timers.deadline(), timers.deadline());
            let start = crate::now();
            long.set(start, Some(Duration::from_secs(3600)));
            crate::yield_now().await;
            short.set(start, Some(Duration::from_millis(30)));
            poll_fn(|cx| short.poll_passed(cx)).await;
            assert!(start.elapsed() >= Duration::from_millis(30));
            poll_fn(|cx| {
                assert!(long.poll_passed(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        });
    }
}
