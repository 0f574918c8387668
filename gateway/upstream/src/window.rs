//! Counts over a stretch of time that moves with it: written by one worker, read by all.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks that a window covers, the present one included.
pub(crate) const SPAN: u32 = 10;

/// A power of two above [`SPAN`], so that a bucket is found without a division.
const BUCKETS: usize = 16;

/// What is this many ticks late, or fewer, is known to be late, and not new after all ticks have been used.
const LATE: u32 = 1 << 20;

/// `N` kinds of counts over the last [`SPAN`] ticks. How long a tick is, its user says.
///
/// A bucket is one word: the tick in its upper half, the count in its lower. So whoever reads never sees the count of
/// one tick under another, and the one worker that writes needs no read-modify-write (as with all counters, the
/// observe room's note on single writers has the figure).
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
    /// Counts one more of a kind, in this tick. For the thread alone that the window belongs to.
    #[inline]
    pub fn add(&self, kind: usize, tick: u32) {
        let bucket = &self.buckets[kind][tick as usize % BUCKETS];
        let held = bucket.load(Ordering::Relaxed);
        let at = (held >> 32) as u32;
        // What comes late (its tick was looked up before something waited) counts in the tick that has the bucket now.
        let is_there = at.wrapping_sub(tick) <= LATE;
        let next =
            if is_there { held + u64::from(held as u32 != u32::MAX) } else { u64::from(tick) << 32 | 1 };
        bucket.store(next, Ordering::Relaxed);
    }

    /// How many there were of a kind in the last [`SPAN`] ticks.
    pub fn sum(&self, kind: usize, tick: u32) -> u64 {
        let held = self.buckets[kind].iter().map(|bucket| bucket.load(Ordering::Relaxed));
        held.filter(|held| tick.wrapping_sub((held >> 32) as u32) < SPAN).map(|held| held & 0xffff_ffff).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A window has what a list of all events has in the last ticks, whatever the gaps between them.
        #[test]
        fn counts_as_a_list_of_events_would(start in any::<u32>(), gaps in prop::collection::vec(0_u32..40, 1..200)) {
            let window = Window::<2>::default();
            // No tick that could be taken for late: of a window that is new, all buckets are at 0.
            let mut tick = start.wrapping_sub(LATE) % (u32::MAX - LATE);
            let mut events = Vec::new();
            for (index, gap) in gaps.into_iter().enumerate() {
                tick = tick.wrapping_add(gap);
                window.add(index % 2, tick);
                events.push((index % 2, tick));
                for kind in 0..2 {
                    let in_span = |event: &&(usize, u32)| event.0 == kind && tick.wrapping_sub(event.1) < SPAN;
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
    fn nothing_is_known_of_a_new_one() {
        assert_eq!(Window::<1>::default().sum(0, 3), 0);
    }
}
