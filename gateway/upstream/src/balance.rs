//! Smooth weighted round robin.

use std::cell::{Cell, RefCell};

/// Smooth weighted round robin, as nginx has it: each turn every member gains its weight, the richest is picked
/// and pays the sum of all weights. With weights 5, 1, 1 the order is a a b a c a a, not five times a in a row.
#[derive(Debug)]
pub struct Balancer {
    weights: Vec<u32>,
    /// With equal weights the order is plain rotation, and a turn costs the same for any number of members.
    turn: Cell<usize>,
    equal: bool,
    credit: RefCell<Vec<i64>>,
}

impl Balancer {
    /// For members of these weights; 0 is never picked. `start` shifts the first pick, so that workers which begin
    /// together do not all begin with the first member.
    #[must_use]
    pub fn new(weights: Vec<u32>, start: usize) -> Self {
        let equal = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let balancer = Self {
            turn: Cell::new(if weights.is_empty() { 0 } else { start % weights.len() }),
            credit: RefCell::new(vec![0; weights.len()]),
            equal,
            weights,
        };
        if !equal {
            (0..start % balancer.weights.len()).for_each(|_| {
                balancer.pick();
            });
        }
        balancer
    }

    /// The weights that it was made with.
    #[must_use]
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// The next member, by index; `None` if none takes requests.
    pub fn pick(&self) -> Option<usize> {
        if self.equal {
            if self.weights.first().is_none_or(|weight| *weight == 0) {
                return None;
            }
            let turn = self.turn.get();
            self.turn.set(if turn + 1 == self.weights.len() { 0 } else { turn + 1 });
            return Some(turn);
        }
        let mut credit = self.credit.borrow_mut();
        let mut best: Option<usize> = None;
        let mut sum = 0;
        for (index, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
            credit[index] += i64::from(*weight);
            sum += i64::from(*weight);
            if best.is_none_or(|best| credit[index] > credit[best]) {
                best = Some(index);
            }
        }
        if let Some(best) = best {
            credit[best] -= sum;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(weights: &[u32], turns: usize) -> Vec<usize> {
        let balancer = Balancer::new(weights.to_vec(), 0);
        (0..turns).filter_map(|_| balancer.pick()).collect()
    }

    #[test]
    fn weights_are_kept_and_spread() {
        assert_eq!(order(&[5, 1, 1], 7), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(order(&[1, 1, 1], 4), [0, 1, 2, 0]);
        let picks = order(&[3, 0, 7], 1000);
        assert_eq!(picks.iter().filter(|pick| **pick == 0).count(), 300);
        assert_eq!(picks.iter().filter(|pick| **pick == 1).count(), 0);
    }

    #[test]
    fn nobody_to_pick() {
        assert_eq!(order(&[], 3), [0; 0]);
        assert_eq!(order(&[0, 0], 3), [0; 0]);
        assert_eq!(order(&[0], 3), [0; 0]);
    }
}
