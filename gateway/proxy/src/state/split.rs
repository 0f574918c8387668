//! Divides the requests of a route among several upstreams, by weight or by hash.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tollgate_upstream::{RoundRobin, Weighted};

/// The division of a route's requests among its upstreams.
#[derive(Debug)]
pub(crate) struct Split {
    /// The upstreams' names and weights.
    among: Vec<(String, u32)>,
    /// Chooses an upstream for requests without affinity.
    pub turns: RoundRobin,
    /// Chooses an upstream for requests with a hash.
    pub by_hash: Weighted,
    /// Whether one of the upstreams ties requests to endpoints. Related requests must then reach the same
    /// upstream.
    pub ties: bool,
}

/// A worker's splits by route. They outlive a change of plan: an unchanged split continues its rotation.
#[derive(Debug)]
pub(crate) struct Splits {
    worker: usize,
    workers: usize,
    generation: Cell<u64>,
    /// Each with the number of the plan under which it was last used.
    known: RefCell<HashMap<String, (Rc<Split>, u64)>>,
}

impl Splits {
    /// Creates an empty set for worker number `worker`, counted from 0, of `workers`.
    pub fn new(worker: usize, workers: usize) -> Rc<Self> {
        Rc::new(Self { worker, workers, generation: Cell::new(0), known: RefCell::default() })
    }

    /// Called when a new plan comes into force. Forgets splits that the previous plan did not use.
    pub fn change(&self, generation: u64) {
        let before = self.generation.replace(generation);
        self.known.borrow_mut().retain(|_, (_, used)| *used == before);
    }

    /// Returns the split of a route among these upstreams, by name and weight.
    pub fn get(&self, route: &str, among: Vec<(String, u32)>, ties: bool) -> Rc<Split> {
        let mut known = self.known.borrow_mut();
        let same = known.get(route).filter(|(split, _)| split.among == among && split.ties == ties);
        let split = same.map(|(split, _)| split.clone()).unwrap_or_else(|| {
            let weights: Vec<u64> = among.iter().map(|(_, weight)| u64::from(*weight)).collect();
            let by_hash = Weighted::new(&weights);
            let mut turns = RoundRobin::new(weights);
            turns.offset_start(self.worker, self.workers);
            Rc::new(Split { among, turns, by_hash, ties })
        });
        known.insert(route.to_owned(), (split.clone(), self.generation.get()));
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(weights: &[u32]) -> Vec<(String, u32)> {
        weights.iter().enumerate().map(|(at, weight)| (format!("u{at}"), *weight)).collect()
    }

    #[test]
    fn turns_outlive_a_plan() {
        let splits = Splits::new(0, 1);
        let mut picked = [0; 2];
        for generation in 1..=100 {
            splits.change(generation);
            picked[splits.get("canary", among(&[99, 1]), false).turns.pick().expect("one")] += 1;
        }
        assert_eq!(picked, [99, 1]);
        let other = splits.get("canary", among(&[1, 1]), false);
        assert_eq!([other.turns.pick(), other.turns.pick()], [Some(0), Some(1)], "another split starts over");
    }

    #[test]
    fn unused_splits_are_dropped() {
        let splits = Splits::new(0, 1);
        for generation in 1..1_000 {
            splits.change(generation);
            splits.get(&format!("route {generation}"), among(&[1, 1]), false);
        }
        assert!(splits.known.borrow().len() <= 2);
    }
}
