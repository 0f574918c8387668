//! A timing wheel in which moving a deadline later costs one store.
//!
//! Every connection has one entry, and traffic moves its deadline ahead with each message. The entry stays in
//! its bucket until that bucket is visited. Only then does the wheel see that the deadline has moved, and
//! places the entry in a later bucket. (nginx re-arms a timer only if it moved by more than 300 ms, for the
//! same reason.)

use std::task::Waker;

/// Length of a tick in milliseconds: the precision of every timeout.
pub(crate) const TICK_MS: u64 = 8;
/// Number of buckets. The wheel turns once in 1,024 x 8 ms = 8.2 s; a later deadline is visited once a turn.
const BUCKETS: usize = 1024;
/// End of a bucket's list; also marks an entry without a bucket.
const NIL: u32 = u32::MAX;
/// Each time this many more entries are free, those at the end are released.
const SHRINK_STEP: usize = 512;
/// A deadline that never passes.
pub(crate) const NEVER: u64 = u64::MAX;

struct WheelEntry {
    /// The tick at which the deadline has passed.
    due: u64,
    /// The tick whose bucket holds the entry, modulo 2^32. It is at most one turn away.
    placed: u32,
    next: u32,
    previous: u32,
    state: EntryState,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryState {
    /// Free for reuse.
    Free,
    /// In no bucket.
    Unlinked,
    /// In the list of its bucket.
    Linked,
}

/// The wheel: entries by index, in buckets by tick.
pub(crate) struct Wheel {
    entries: Vec<WheelEntry>,
    free: Vec<u32>,
    heads: Box<[u32; BUCKETS]>,
    /// One bit for each non-empty bucket, so that the next one is found without visiting empty ones.
    occupied: [u64; BUCKETS / 64],
    /// All ticks up to this one were visited.
    now: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            heads: Box::new([NIL; BUCKETS]),
            occupied: [0; BUCKETS / 64],
            now: 0,
        }
    }

    /// Adds an entry without a deadline. Returns its index.
    pub(crate) fn insert(&mut self) -> u32 {
        let state = EntryState::Unlinked;
        let entry = WheelEntry { due: NEVER, placed: 0, next: NIL, previous: NIL, state, waker: None };
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            return index;
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.unlink(index);
        let entry = &mut self.entries[index as usize];
        entry.waker = None;
        entry.state = EntryState::Free;
        self.free.push(index);
        let last = index as usize + 1 == self.entries.len();
        if self.free.len().is_multiple_of(SHRINK_STEP) || (last && self.free.len() > SHRINK_STEP) {
            self.shrink();
        }
    }

    /// Releases memory that a burst of connections needed, as far as the entries at the end are free.
    fn shrink(&mut self) {
        while self.entries.pop_if(|last| last.state == EntryState::Free).is_some() {}
        let length = self.entries.len();
        self.free.retain(|index| (*index as usize) < length);
        self.entries.shrink_to_fit();
        self.free.shrink_to_fit();
    }

    /// Sets the deadline. Returns the tick of its new bucket if the entry was placed, so that the driver can
    /// wake sooner; `None` if it stays where it is.
    pub(crate) fn set(&mut self, index: u32, due: u64) -> Option<u64> {
        let entry = &mut self.entries[index as usize];
        entry.due = due;
        if due == NEVER
            || (entry.state == EntryState::Linked
                && self.now + u64::from(entry.placed.wrapping_sub(self.now as u32)) <= due)
        {
            return None;
        }
        self.unlink(index);
        Some(self.link(index))
    }

    /// Whether the deadline has passed; if not, `waker` is woken when it does.
    pub(crate) fn expired(&mut self, index: u32, waker: &Waker) -> bool {
        let entry = &mut self.entries[index as usize];
        if entry.due <= self.now {
            return true;
        }
        if !entry.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            entry.waker = Some(waker.clone());
        }
        false
    }

    /// Collects the wakers of all waiting tasks.
    pub(crate) fn wakers(&self, woken: &mut Vec<Waker>) {
        woken.extend(self.entries.iter().filter_map(|entry| entry.waker.clone()));
    }

    /// Visits every bucket up to and including `tick`, and collects the wakers that are due.
    pub(crate) fn advance(&mut self, tick: u64, woken: &mut Vec<Waker>) {
        if tick <= self.now {
            return;
        }
        let from = self.now + 1;
        self.now = tick;
        // After a long sleep, one turn visits every bucket; more would visit them again.
        let last = tick.min(from + BUCKETS as u64 - 1);
        for tick in from..=last {
            let bucket = tick as usize % BUCKETS;
            let mut index = std::mem::replace(&mut self.heads[bucket], NIL);
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            while index != NIL {
                let entry = &mut self.entries[index as usize];
                let next = entry.next;
                entry.state = EntryState::Unlinked;
                if entry.due <= self.now {
                    woken.extend(entry.waker.clone());
                } else if entry.due != NEVER {
                    self.link(index);
                }
                index = next;
            }
        }
    }

    /// The next tick with a bucket to visit.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        let start = self.now + 1;
        let first = start as usize % BUCKETS;
        // One word more than there are: the first word is visited twice, first its high bits and at the end
        // its low bits.
        for step in 0..=BUCKETS / 64 {
            let word = (first / 64 + step) % (BUCKETS / 64);
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (first % 64);
            }
            if bits != 0 {
                let bucket = word * 64 + bits.trailing_zeros() as usize;
                return Some(start + ((bucket + BUCKETS - first) % BUCKETS) as u64);
            }
        }
        None
    }

    fn link(&mut self, index: u32) -> u64 {
        let entry = &mut self.entries[index as usize];
        let tick = entry.due.clamp(self.now + 1, self.now + BUCKETS as u64);
        let bucket = tick as usize % BUCKETS;
        entry.placed = tick as u32;
        entry.state = EntryState::Linked;
        entry.previous = NIL;
        entry.next = self.heads[bucket];
        let next = entry.next;
        if next != NIL {
            self.entries[next as usize].previous = index;
        }
        self.heads[bucket] = index;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        tick
    }

    fn unlink(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if entry.state != EntryState::Linked {
            return;
        }
        entry.state = EntryState::Unlinked;
        let (previous, next, bucket) = (entry.previous, entry.next, entry.placed as usize % BUCKETS);
        if next != NIL {
            self.entries[next as usize].previous = previous;
        }
        if previous != NIL {
            self.entries[previous as usize].next = next;
            return;
        }
        self.heads[bucket] = next;
        if next == NIL {
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn run(wheel: &mut Wheel, tick: u64) {
        let mut woken = Vec::new();
        wheel.advance(tick, &mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    #[test]
    fn a_deadline_passes_at_its_tick_and_not_before() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut wheel = Wheel::new();
        for due in [1, 2, 63, 64, 65, 1023, 1024, 1025, 5000] {
            let start = wheel.now;
            let index = wheel.insert();
            wheel.set(index, start + due);
            assert!(!wheel.expired(index, &waker));
            run(&mut wheel, start + due - 1);
            assert!(!wheel.expired(index, &waker), "{due}");
            let before = count.0.load(Ordering::Relaxed);
            run(&mut wheel, start + due);
            assert!(wheel.expired(index, &waker), "{due}");
            assert_eq!(count.0.load(Ordering::Relaxed), before + 1, "{due}");
            wheel.remove(index);
        }
        assert_eq!(wheel.next_tick(), None);
    }

    #[test]
    fn moving_later_keeps_the_entry_where_it_is() {
        let waker = Waker::from(Arc::new(Count::default()));
        let mut wheel = Wheel::new();
        let index = wheel.insert();
        assert_eq!(wheel.set(index, 10), Some(10));
        assert_eq!(wheel.set(index, 20), None);
        assert_eq!(wheel.next_tick(), Some(10));
        run(&mut wheel, 10);
        assert!(!wheel.expired(index, &waker));
        assert_eq!(wheel.next_tick(), Some(20));
        assert_eq!(wheel.set(index, 15), Some(15), "an earlier deadline moves the entry");
        run(&mut wheel, 15);
        assert!(wheel.expired(index, &waker));
    }

    #[test]
    fn the_next_tick_is_found_all_round() {
        let mut wheel = Wheel::new();
        for start in [0, 1, 62, 63, 64, 1000, 1022, 1023, 4095] {
            run(&mut wheel, start);
            for due in [1, 5, 64, 500, 1023, 1024] {
                let index = wheel.insert();
                wheel.set(index, wheel.now + due);
                assert_eq!(wheel.next_tick(), Some(wheel.now + due), "{start} {due}");
                wheel.remove(index);
                assert_eq!(wheel.next_tick(), None);
            }
        }
    }

    #[test]
    fn a_burst_is_forgotten() {
        let mut wheel = Wheel::new();
        let kept: Vec<u32> = (0..8).map(|_| wheel.insert()).collect();
        let burst: Vec<u32> = (0..10_000).map(|_| wheel.insert()).collect();
        for index in &burst {
            wheel.set(*index, 100);
        }
        burst.iter().for_each(|index| wheel.remove(*index));
        assert!(wheel.entries.capacity() < SHRINK_STEP + kept.len());
        assert_eq!(wheel.next_tick(), None);
        let again: Vec<u32> = (0..1000).map(|_| wheel.insert()).collect();
        assert!(again.iter().all(|index| !kept.contains(index)));
    }

    #[test]
    fn neighbours_in_a_bucket_survive_each_others_removal() {
        let waker = Waker::from(Arc::new(Count::default()));
        let mut wheel = Wheel::new();
        let entries: Vec<u32> = (0..5).map(|_| wheel.insert()).collect();
        for index in &entries {
            wheel.set(*index, 7);
        }
        for index in [entries[2], entries[4], entries[0]] {
            wheel.remove(index);
        }
        run(&mut wheel, 7);
        assert!(wheel.expired(entries[1], &waker) && wheel.expired(entries[3], &waker));
    }
}
