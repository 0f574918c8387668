//! Delays a body so that it moves at a rate, or at its share of one: the [`Pacer`].
//!
//! [`TransformingClient`](super::transforming_client) asks its pacers before it passes a piece of a body on. A pacer
//! has one state, the time at which the bytes that have moved are due at the rate. While that is close to the present,
//! more may move; afterwards the body waits for a deadline of the worker's timers. Invariant: within a time `t`, at most
//! the free bytes, the bytes of `t` at the rate, and those of two [intervals](INTERVAL_MIN) move.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tollgate_net::Deadline;
use tollgate_policy::{BodyLimit, Share, TransferRate};

/// The bytes of an interval move at once. The interval is long enough that timers, which are up to 16 ms late, do not
/// lower the rate, and that a fast body needs few wake-ups.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// The same for a low rate, at which the bytes of a shorter interval would not fill a packet.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// The least bytes of an interval, unless it would be longer than [`INTERVAL_MAX`].
const PIECE_MIN_BYTES: u64 = 4096;

/// Delays a body so that it moves at a rate.
#[derive(Debug)]
pub(super) struct Pacer {
    bytes_per_second: u64,
    /// The request's share of the rate, if others have one too.
    share: Option<Arc<Share>>,
    /// Bytes that move at full speed.
    free_bytes: u64,
    /// The time at which the bytes that have moved are due; `None`: none has moved.
    due: Option<Instant>,
    deadline: Deadline,
    is_waiting: bool,
}

impl Pacer {
    pub fn new(BodyLimit { rate, share }: BodyLimit, deadline: Deadline) -> Self {
        let TransferRate { bytes_per_second, free_bytes } = rate;
        let bytes_per_second = bytes_per_second.get();
        Self { bytes_per_second, share, free_bytes, due: None, deadline, is_waiting: false }
    }

    /// Returns the number of requests that share the rate.
    fn sharers(&self) -> u64 {
        self.share.as_ref().map_or(1, |share| share.requests())
    }

    /// Returns the time that bytes take.
    fn time(&self, bytes: u64) -> Duration {
        let shared = u128::from(bytes) * u128::from(self.sharers());
        let nanoseconds = shared * NANOSECONDS / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Returns the time whose bytes move at once.
    fn interval(&self) -> Duration {
        self.time(PIECE_MIN_BYTES).clamp(INTERVAL_MIN, INTERVAL_MAX)
    }

    /// Returns whether the body waits for its rate.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Waits until more of the body may move. Returns how many bytes may: at least one.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        loop {
            let now = tollgate_net::now();
            let ahead = self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
            if let Some(bytes) = self.allowance(ahead) {
                self.is_waiting = false;
                return Poll::Ready(bytes);
            }
            if !std::mem::replace(&mut self.is_waiting, true) {
                self.deadline.set(now, Some(ahead));
            }
            ready!(self.deadline.poll_passed(cx));
            self.is_waiting = false;
        }
    }

    /// Returns how many bytes may move now. `ahead` is the time until the moved bytes are due. A body below its rate is
    /// not delayed. A body above it waits until the bytes of a whole interval may move.
    fn allowance(&self, ahead: Duration) -> Option<usize> {
        let interval = self.interval();
        let room = interval.saturating_sub(ahead);
        let paced = if room >= interval / 4 { self.bytes_in(room) } else { 0 };
        let bytes = self.free_bytes.saturating_add(paced);
        (bytes > 0).then(|| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns the bytes of this time at the rate: at least one.
    fn bytes_in(&self, time: Duration) -> u64 {
        let bytes =
            time.as_nanos() * u128::from(self.bytes_per_second) / NANOSECONDS / u128::from(self.sharers());
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// Records that bytes of the body have moved. A pause of the body earns one interval.
    pub fn count(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let free = bytes.min(self.free_bytes);
        self.free_bytes -= free;
        if bytes > free {
            let now = tollgate_net::now();
            let earliest = now.checked_sub(self.interval()).unwrap_or(now);
            let from = self.due.map_or(now, |due| due.max(earliest));
            self.due = Some(from.checked_add(self.time(bytes - free)).unwrap_or(from));
        }
    }

    /// Lets further bytes move at full speed.
    pub fn exempt(&mut self, bytes: u64) {
        self.free_bytes = self.free_bytes.saturating_add(bytes);
    }
}

const NANOSECONDS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::num::NonZeroU64;

    use tollgate_net::{Runtime, Timers};

    use super::*;

    fn pacer(bytes_per_second: u64, free_bytes: u64, timers: &Timers) -> Pacer {
        let bytes_per_second = NonZeroU64::new(bytes_per_second).expect("a rate");
        let rate = TransferRate { bytes_per_second, free_bytes };
        Pacer::new(BodyLimit { rate, share: None }, timers.deadline())
    }

    /// Moves the bytes that `pacer` lets through within `time`, in pieces of at most `most` bytes. Returns the number of
    /// bytes and of pieces.
    async fn move_for(pacer: &mut Pacer, time: Duration, most: usize) -> (u64, u64) {
        let (start, mut bytes, mut pieces) = (tollgate_net::now(), 0, 0);
        loop {
            let piece = poll_fn(|cx| pacer.poll_piece(cx)).await.min(most);
            if start.elapsed() >= time {
                return (bytes, pieces);
            }
            pacer.count(piece);
            bytes += piece as u64;
            pieces += 1;
        }
    }

    #[test]
    fn a_body_moves_at_its_rate_after_the_free_bytes() {
        Runtime::new().expect("a runtime").run(async {
            let timers = Timers::start().expect("timers");
            for most in [usize::MAX, 700] {
                let mut pacer = pacer(1_000_000, 300_000, &timers);
                let (bytes, _) = move_for(&mut pacer, Duration::from_millis(400), most).await;
                // Two intervals more at most. A busy machine may wake it late, which costs rate.
                assert!((500_000..=800_000).contains(&bytes), "{bytes} bytes in pieces of {most}");
            }
        });
    }

    #[test]
    fn a_low_rate_moves_whole_packets() {
        Runtime::new().expect("a runtime").run(async {
            let timers = Timers::start().expect("timers");
            let mut pacer = pacer(20_000, 0, &timers);
            let (bytes, pieces) = move_for(&mut pacer, Duration::from_millis(500), usize::MAX).await;
            assert!(pieces <= 4 && bytes / pieces >= PIECE_MIN_BYTES - 1, "{bytes} bytes in {pieces} pieces");
        });
    }

    #[test]
    fn slow_bodies_and_exempted_bytes_are_not_delayed() {
        Runtime::new().expect("a runtime").run(async {
            let timers = Timers::start().expect("timers");
            let mut pacer = pacer(1024, 0, &timers);
            let allowed = || {
                let now = tollgate_net::now();
                pacer.allowance(pacer.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now)))
            };
            assert_eq!(allowed(), Some(1024), "an interval's bytes at once");
            pacer.count(100);
            assert!(pacer.allowance(Duration::from_millis(98)).is_some_and(|bytes| bytes > 900));
            pacer.count(10_000);
            assert_eq!(pacer.allowance(Duration::from_secs(9)), None);
            pacer.exempt(7);
            assert_eq!(pacer.allowance(Duration::from_secs(9)), Some(7));
            pacer.count(7);
            assert_eq!(pacer.allowance(Duration::from_secs(9)), None);
            assert!(pacer.due.is_some_and(|due| due > tollgate_net::now() + Duration::from_secs(8)));
        });
    }
}
