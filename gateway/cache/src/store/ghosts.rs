//! Remembers which objects were evicted recently, without the objects: the ghost queue of S3-FIFO.
//!
//! A table of fingerprints, each with the number of the eviction that wrote it. Only the last evictions count, as many
//! as the main queue has objects; a look-up compares the numbers, so dropping older ones costs nothing. The table costs
//! 8 bytes per object; a queue with a set would cost about 40.

/// Fingerprints that share a place. A new one replaces the oldest of them.
const WAYS: usize = 8;
/// The fewest places for fingerprints.
const PLACES_MIN: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    /// 0: there is none.
    fingerprint: u32,
    number: u32,
}

/// The objects that were evicted recently.
#[derive(Debug)]
pub(super) struct Ghosts {
    /// A power of two of places.
    places: Vec<Ghost>,
    /// The number of the last eviction.
    number: u32,
}

impl Default for Ghosts {
    fn default() -> Self {
        Self { places: vec![Ghost::default(); PLACES_MIN], number: 0 }
    }
}

impl Ghosts {
    /// Remembers an eviction. `capacity` is the number of evictions to remember.
    pub fn insert(&mut self, hash: u64, capacity: usize) {
        if capacity > self.places.len() {
            self.grow(capacity);
        }
        self.number = self.number.wrapping_add(1);
        let ghost = Ghost { fingerprint: fingerprint(hash), number: self.number };
        let number = self.number;
        let ways = self.ways(hash);
        let age = |other: &Ghost| match other.fingerprint {
            0 => u32::MAX,
            _ => number.wrapping_sub(other.number),
        };
        if let Some(oldest) = ways.iter_mut().max_by_key(|other| age(other)) {
            *oldest = ghost;
        }
    }

    /// Forgets an object, and returns whether it was among the last `capacity` evictions.
    pub fn take(&mut self, hash: u64, capacity: usize) -> bool {
        let (number, wanted) = (self.number, fingerprint(hash));
        let Some(found) = self.ways(hash).iter_mut().find(|ghost| ghost.fingerprint == wanted) else {
            return false;
        };
        let age = number.wrapping_sub(found.number);
        *found = Ghost::default();
        (age as usize) < capacity
    }

    fn ways(&mut self, hash: u64) -> &mut [Ghost] {
        let first = hash as usize & (self.places.len() - 1) & !(WAYS - 1);
        &mut self.places[first..first + WAYS]
    }

    /// Doubles the table. A fingerprint does not tell its place in the larger table, so it goes to both.
    fn grow(&mut self, capacity: usize) {
        while self.places.len() < capacity {
            self.places.extend_from_within(..);
        }
    }
}

/// The part of a hash that does not choose the place. Never 0.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads numbers over 64 bits, as the hash of a key does.
    fn hash(number: u64) -> u64 {
        number
            .wrapping_add(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn recent_evictions_are_remembered() {
        let mut ghosts = Ghosts::default();
        (0..500).for_each(|number| ghosts.insert(hash(number), 400));
        let known: Vec<bool> = (0..500).map(|number| ghosts.take(hash(number), 400)).collect();
        assert!(!known[..100].contains(&true), "forgotten by their number");
        assert!(
            known[100..].iter().filter(|known| **known).count() >= 390,
            "the places are shared, so a few are lost"
        );
        assert!(!(0..500).any(|number| ghosts.take(hash(number), 400)), "each is taken once");
    }

    #[test]
    fn a_table_that_grows_forgets_nothing() {
        let mut ghosts = Ghosts::default();
        (0..200).for_each(|number| ghosts.insert(hash(number), 1000));
        ghosts.insert(hash(1000), 100_000);
        assert_eq!(ghosts.places.len(), 131_072);
        assert!((0..200).filter(|number| ghosts.take(hash(*number), 100_000)).count() >= 195);
        assert!(!ghosts.take(hash(2000), 100_000));
    }
}
