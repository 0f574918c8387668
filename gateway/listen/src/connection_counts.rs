//! Counts the connections of each worker, and chooses the worker for a new connection.
//!
//! The workers share one [`ConnectionCounts`]. The accepting worker calls [`ConnectionCounts::choose`], then
//! [`ConnectionCounts::reserve`] for the chosen one, and releases the slot when the connection closes.
//! Invariant: the workers together never have more connections than the limits allow.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Pressure, StreamUses};

/// The number of client connections of each worker, connections under hand-over included. A slot is reserved
/// when a connection is accepted. So a burst spreads, and the limit holds, before the other worker has
/// looked. This costs one read-modify-write when a connection opens and one when it closes, and none for a
/// request.
#[derive(Debug)]
pub struct ConnectionCounts {
    workers: Vec<PaddedCount>,
    /// Limits that the control thread sets while the process is short of memory or descriptors.
    pub pressure: Pressure,
    /// The connections and sessions of streams with bounds of their own.
    pub streams: StreamUses,
}

/// A worker with fewer connections than this compares itself with all others instead of one.
const FEW_CONNECTIONS: usize = 8;

/// The reason why a new connection gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// The configured limit is reached.
    Limit,
    /// The process is short of memory or file descriptors.
    Resources,
}

/// Padded to a cache line, so that another worker's store causes no cache miss here.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedCount(AtomicUsize);

impl ConnectionCounts {
    /// Creates counters for `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| PaddedCount::default()).collect(),
            pressure: Pressure::default(),
            streams: StreamUses::default(),
        }
    }

    /// Reserves a slot at a worker.
    ///
    /// # Errors
    /// Which limit is reached: all workers together never have more than `limit` connections, nor more than
    /// the process has resources for. At the limit, two workers that reserve at the same time may both be
    /// refused the last slot.
    pub fn reserve(&self, worker: usize, limit: Option<u64>) -> Result<(), NoSlot> {
        // Sequentially consistent, and counted before the total is read: of two workers that reserve the last
        // slot at the same time, each sees the other's.
        self.take(worker);
        let (limit, means) = (limit.unwrap_or(u64::MAX), self.pressure.connections());
        if limit.min(means) == u64::MAX {
            return Ok(());
        }
        let total = self.total() as u64;
        let full = if total > limit { NoSlot::Limit } else { NoSlot::Resources };
        if total > limit.min(means) {
            self.release(worker);
            return Err(full);
        }
        Ok(())
    }

    /// Reserves a slot at a worker for a connection that already exists.
    pub fn take(&self, worker: usize) {
        self.workers[worker].0.fetch_add(1, Ordering::SeqCst);
    }

    /// Releases a slot of a worker.
    pub fn release(&self, worker: usize) {
        self.workers[worker].0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Number of connections of one worker.
    #[must_use]
    pub fn of(&self, worker: usize) -> usize {
        self.workers[worker].0.load(Ordering::SeqCst)
    }

    /// Number of connections of all workers. While the counters change, the sum may exceed the true number,
    /// but it never falls below the number of connections that stay open.
    #[must_use]
    pub fn total(&self) -> usize {
        (0..self.workers.len()).map(|worker| self.of(worker)).sum()
    }

    /// Returns the worker that should serve a connection that `worker` has accepted: itself, or another one,
    /// picked by `random`, if that has fewer. The kernel spreads connections by hash, so most of a small
    /// number can land on one worker. Two choices even that out (Mitzenmacher, "The Power of Two Choices in
    /// Randomized Load Balancing", 2001).
    ///
    /// While a worker has few connections, one more matters, so it compares itself with all others. With many
    /// connections that would only cause more hand-overs.
    #[must_use]
    pub fn choose(&self, worker: usize, random: usize) -> usize {
        let others = self.workers.len() - 1;
        if others == 0 {
            return worker;
        }
        let own = self.of(worker);
        let looked_at = if own < FEW_CONNECTIONS { others } else { 1 };
        let other = |step: usize| (worker + 1 + (random % others + step) % others) % self.workers.len();
        let least = (0..looked_at).map(other).min_by_key(|other| self.of(*other));
        least.filter(|other| self.of(*other) < own).unwrap_or(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_connections_spread() {
        let loads = ConnectionCounts::new(2);
        // The kernel gives all of them to worker 0 before worker 1 can react.
        for _ in 0..10 {
            assert_eq!(loads.reserve(loads.choose(0, 7), None), Ok(()));
        }
        assert_eq!((loads.of(0), loads.of(1)), (5, 5));
    }

    #[test]
    fn very_few_connections_spread_over_all_workers() {
        let loads = ConnectionCounts::new(6);
        for random in 0..30 {
            // The result depends neither on the accepting worker nor on the random number.
            let worker = random * 7 % 6;
            assert_eq!(loads.reserve(loads.choose(worker, random * 31), None), Ok(()));
            let all: Vec<_> = (0..6).map(|worker| loads.of(worker)).collect();
            assert!(all.iter().max().zip(all.iter().min()).is_some_and(|(most, least)| most - least <= 1));
        }
    }

    #[test]
    fn a_single_worker_keeps_every_connection() {
        assert_eq!(ConnectionCounts::new(1).choose(0, 12345), 0);
    }

    #[test]
    fn the_limit_holds_over_all_workers() {
        let loads = ConnectionCounts::new(3);
        let held = AtomicUsize::new(0);
        let taken = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|worker| {
                    let (loads, held) = (&loads, &held);
                    scope.spawn(move || {
                        let mut taken = 0;
                        for turn in 0..10_000 {
                            if loads.reserve(worker, Some(100)).is_ok() {
                                // Counted separately, because `total` sums counters that change concurrently.
                                assert!(held.fetch_add(1, Ordering::SeqCst) < 100);
                                taken += 1;
                            }
                            if turn % 3 == 0 && taken > 0 {
                                held.fetch_sub(1, Ordering::SeqCst);
                                loads.release(worker);
                                taken -= 1;
                            }
                        }
                        taken
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
        });
        assert_eq!(taken, loads.total());
        assert!(taken <= 100, "{taken}");
    }

    #[test]
    fn resource_pressure_limits_connections() {
        let loads = ConnectionCounts::new(2);
        loads.pressure.set(0, 2);
        assert_eq!((loads.reserve(0, None), loads.reserve(1, Some(3))), (Ok(()), Ok(())));
        assert_eq!(loads.reserve(0, None), Err(NoSlot::Resources));
        assert_eq!(
            loads.reserve(0, Some(2)),
            Err(NoSlot::Limit),
            "the config's own limit is named where both hold"
        );
        loads.take(1);
        assert_eq!(loads.total(), 3, "one that is there already is not asked");
        loads.pressure.set(0, u64::MAX);
        assert_eq!(loads.reserve(0, None), Ok(()));
    }

    #[test]
    fn priorities_below_the_line_are_turned_away() {
        let pressure = Pressure::default();
        let shed = || [0, 1, 2].map(|priority| pressure.rejects(priority));
        assert_eq!(shed(), [false; 3]);
        pressure.set(2, u64::MAX);
        assert_eq!(shed(), [true, true, false]);
        pressure.set(3, 0);
        assert_eq!(shed(), [true; 3]);
    }
}
