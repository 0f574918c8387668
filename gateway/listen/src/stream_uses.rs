//! Bounds the connections and sessions of each stream of layer 4, over all workers.
//!
//! The workers share one [`StreamUses`]. A worker takes a [`StreamSlot`] when a stream with bounds takes a connection,
//! and drops it at its end. Streams without bounds never come here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections and sessions of each stream with bounds, by the stream's name. They survive a change of plan.
#[derive(Debug, Default)]
pub struct StreamUses(Mutex<HashMap<String, Arc<StreamUse>>>);

/// The connections and sessions of one stream.
#[derive(Debug, Default)]
pub struct StreamUse(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: u32,
    /// Only if there is a bound for each address.
    by_address: HashMap<IpAddr, u32>,
}

/// The bound that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFull {
    /// The bound of the stream.
    Stream,
    /// The bound for the client's address.
    Address,
}

/// The slot of one connection or session, until it is dropped.
#[derive(Debug)]
pub struct StreamSlot {
    uses: Arc<StreamUse>,
    /// The client's address, if it is counted.
    address: Option<IpAddr>,
}

impl StreamUses {
    /// Returns the counts of a stream. It takes a lock, so a worker keeps them.
    #[must_use]
    pub fn of(&self, name: &str) -> Arc<StreamUse> {
        let mut known = lock(&self.0);
        if let Some(uses) = known.get(name) {
            return uses.clone();
        }
        // Streams of former plans without connections.
        known.retain(|_, uses| Arc::strong_count(uses) > 1);
        known.entry(name.to_owned()).or_default().clone()
    }
}

impl StreamUse {
    /// Takes a slot for a client, within these bounds.
    ///
    /// # Errors
    /// The bound that is reached.
    pub fn take(
        self: &Arc<Self>,
        client: IpAddr,
        connections: Option<u32>,
        per_address: Option<u32>,
    ) -> Result<StreamSlot, StreamFull> {
        let mut counts = lock(&self.0);
        if connections.is_some_and(|most| counts.all >= most) {
            return Err(StreamFull::Stream);
        }
        if let Some(most) = per_address {
            let of_client = counts.by_address.entry(client).or_default();
            if *of_client >= most {
                return Err(StreamFull::Address);
            }
            *of_client += 1;
        }
        counts.all += 1;
        Ok(StreamSlot { uses: self.clone(), address: per_address.map(|_| client) })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut counts = lock(&self.uses.0);
        counts.all -= 1;
        if let Some(address) = self.address
            && let Some(of_client) = counts.by_address.get_mut(&address)
        {
            *of_client -= 1;
            if *of_client == 0 {
                counts.by_address.remove(&address);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_hold_and_places_are_returned() {
        let uses = StreamUses::default();
        let db = uses.of("db");
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let take = |client| db.take(client, Some(3), Some(2));
        let first = take(one).expect("free");
        let second = take(one).expect("free");
        assert_eq!(take(one).expect_err("its second was its last"), StreamFull::Address);
        let third = take(other).expect("free");
        assert_eq!(take(other).expect_err("three are there"), StreamFull::Stream);
        drop((first, second));
        assert!(take(one).is_ok());
        drop(third);
        let counts = lock(&db.0);
        assert_eq!((counts.all, counts.by_address.len()), (0, 0));
        drop(counts);
        assert!(Arc::ptr_eq(&db, &uses.of("db")), "a new plan finds the same counts");
        drop(db);
        let _ = uses.of("dns");
        assert_eq!(lock(&uses.0).len(), 1, "unused ones are forgotten");
    }
}
