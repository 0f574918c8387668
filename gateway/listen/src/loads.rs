//! How many connections each worker has, and who gets the next one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Client connections of each worker. Each worker writes its own count only, with plain stores.
#[derive(Debug)]
pub struct Loads(Vec<Padded>);

/// On a cache line of its own: a neighbour's store must not cost this worker a miss.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicUsize);

impl Loads {
    /// For so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Padded::default()).collect())
    }

    /// Says how many connections a worker has; for that worker alone to call.
    pub fn set(&self, worker: usize, connections: usize) {
        self.0[worker].0.store(connections, Ordering::Relaxed);
    }

    /// Connections of all workers together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.iter().map(|load| load.0.load(Ordering::Relaxed)).sum()
    }

    /// Who should get a connection that `worker` has accepted: itself or one other, picked by `random`, if that one
    /// has fewer. The kernel spreads by hash, so that of few connections most can land on one worker;
    /// two choices even that out (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
    #[must_use]
    pub fn choose(&self, worker: usize, random: usize) -> usize {
        let others = self.0.len() - 1;
        if others == 0 {
            return worker;
        }
        let other = (worker + 1 + random % others) % self.0.len();
        let load = |worker: usize| self.0[worker].0.load(Ordering::Relaxed);
        if load(other) < load(worker) { other } else { worker }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_connections_spread() {
        let loads = Loads::new(2);
        let mut counts = [0; 2];
        for _ in 0..10 {
            // The kernel gives all of them to worker 0.
            let to = loads.choose(0, 7);
            counts[to] += 1;
            loads.set(to, counts[to]);
        }
        assert_eq!(counts, [5, 5]);
    }

    #[test]
    fn one_worker_keeps_all() {
        assert_eq!(Loads::new(1).choose(0, 12345), 0);
    }
}
