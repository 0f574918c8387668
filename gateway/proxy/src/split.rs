//! How the requests of a route go to several upstreams.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tollgate_upstream::{RoundRobin, Weighted};

/// How the requests of a route go to several upstreams.
#[derive(Debug)]
pub(crate) struct Split {
    /// The upstreams' names and weights.
    among: Vec<(String, u32)>,
    /// Whose turn it is.
    pub turns: RoundRobin,
    /// Who takes requests with a hash.
    pub by_hash: Weighted,
    /// Whether one of the upstreams ties requests to endpoints: then a request must come to the same upstream again.
    pub ties: bool,
}

/// A worker's splits by route, kept over changes of plan: one that did not change goes on with its turns.
#[derive(Debug)]
pub(crate) struct Splits {
    worker: usize,
    workers: usize,
    generation: Cell<u64>,
    /// With the number of the plan under which each was last asked for.
    known: RefCell<HashMap<String, (Rc<Split>, u64)>>,
}

impl Splits {
    /// None yet, for a worker by its number from 0, of so many.
    pub fn new(worker: usize, workers: usize) -> Rc<Self> {
        Rc::new(Self { worker, workers, generation: Cell::new(0), known: RefCell::default() })
    }

    /// From now on a new plan is in force. What nobody asked for under the one before is forgotten.
    pub fn change(&self, generation: u64) {
        let before = self.generation.replace(generation);
        self.known.borrow_mut().retain(|_, (_, used)| *used == before);
    }

    /// The split of a route among these upstreams, by name and weight.
    pub fn get(&self, route: &str, among: Vec<(String, u32)>, ties: bool) -> Rc<Split> {
        let mut known = self.known.borrow_mut();
        let same = known.get(route).filter(|(split, _)| split.among == among && split.ties == ties);
        let split = same.map(|(split, _)| split.clone()).unwrap_or_else(|| {
            let weights: Vec<u64> = among.iter().map(|(_, weight)| u64::from(*weight)).collect();
            let by_hash = Weighted::new(&weights);
            let mut turns = RoundRobin::new(weights);
            turns.begin_apart(self.worker, self.workers);
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
        assert_eq!([other.turns.pick(), other.turns.pick()], [Some(0), Some(1)], "another split begins anew");
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let splits = Splits::new(0, 1);
        for generation in 1..1_000 {
            splits.change(generation);
            splits.get(&format!("route {generation}"), among(&[1, 1]), false);
        }
        assert!(splits.known.borrow().len() <= 2);
    }
}
