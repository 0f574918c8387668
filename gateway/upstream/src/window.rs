//! Counts over a sliding time window. One worker writes a window, all workers read it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks that a window covers, including the current one.
pub(crate) const SPAN_TICKS: u32 = 10;

/// Buckets per kind. A power of two above [`SPAN_TICKS`], so that finding a bucket takes no division.
const BUCKETS: usize = 16;

/// A tick that is behind its bucket's by at most this much is late. A larger distance means that tick numbers
/// wrapped.
const LATE_TICKS_MAX: u32 = 1 << 20;

/// `N` kinds of counts over the last [`SPAN_TICKS`] ticks. The user decides how long a tick is.
///
/// A bucket is one word: the tick in the upper half, the count in the lower half. A reader therefore never
/// sees the count of one tick under another. The one worker that writes needs no read-modify-write operation;
/// `tollgate_observe` gives the figure in its note on single writers.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Window<const N: usize> {
    buckets: [[AtomicU64; BUCKETS]; N],
}

impl<const N: usize> Default for Window<N> {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))) }
    }
}

impl<const N: usize> Window<N> {
    /// Counts one event of a kind in this tick. Only the thread that owns the window may call it.
    #[inline]
    pub fn add(&self, kind: usize, tick: u32) {
        let bucket = &self.buckets[kind][tick as usize % BUCKETS];
        let held = bucket.load(Ordering::Relaxed);
        let at = (held >> 32) as u32;
        // A late event (the caller waited after it computed the tick) counts in the tick that now owns the
        // bucket.
        let is_there = at.wrapping_sub(tick) <= LATE_TICKS_MAX;
        let next =
            if is_there { held + u64::from(held as u32 != u32::MAX) } else { u64::from(tick) << 32 | 1 };
        bucket.store(next, Ordering::Relaxed);
    }

    /// Returns how many events of a kind happened in the last [`SPAN_TICKS`] ticks.
    pub fn sum(&self, kind: usize, tick: u32) -> u64 {
        let held = self.buckets[kind].iter().map(|bucket| bucket.load(Ordering::Relaxed));
        held.filter(|held| tick.wrapping_sub((held >> 32) as u32) < SPAN_TICKS)
            .map(|held| held & 0xffff_ffff)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A window agrees with a list of all events of the last ticks, whatever the gaps between them.
        #[test]
        fn counts_as_a_list_of_events_would(start in any::<u32>(), gaps in prop::collection::vec(0_u32..40, 1..200)) {
            let window = Window::<2>::default();
            // No tick that could be taken for late: all buckets of a new window are at tick 0.
            let mut tick = start.wrapping_sub(LATE_TICKS_MAX) % (u32::MAX - LATE_TICKS_MAX);
            let mut events = Vec::new();
            for (index, gap) in gaps.into_iter().enumerate() {
                tick = tick.wrapping_add(gap);
                window.add(index % 2, tick);
                events.push((index % 2, tick));
                for kind in 0..2 {
                    let in_span = |event: &&(usize, u32)| event.0 == kind && tick.wrapping_sub(event.1) < SPAN_TICKS;
                    prop_assert_eq!(window.sum(kind, tick), events.iter().filter(in_span).count() as u64);
                }
            }
        }
    }

    #[test]
    fn a_late_one_does_not_wipe_out_what_came_since() {
        let window = Window::<1>::default();
        (0..5).for_each(|_| window.add(0, 116));
        window.add(0, 100);
        assert_eq!(window.sum(0, 116), 6);
    }

    #[test]
    fn a_new_window_has_no_counts() {
        assert_eq!(Window::<1>::default().sum(0, 3), 0);
    }
}
