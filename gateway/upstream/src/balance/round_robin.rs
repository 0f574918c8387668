//! Smooth weighted round robin.

use std::cell::{Cell, RefCell};

/// Upper bound of the turns that a worker skips to start elsewhere than other workers.
const SKIPPED_TURNS_MAX: u64 = 256;

/// Smooth weighted round robin, as in nginx: in each turn every member gains its weight as credit. The member
/// with the most credit is picked and pays the sum of all weights. With weights 5, 1, 1 the order is a a b a
/// c a a, not five times a in a row.
#[derive(Debug)]
pub struct RoundRobin {
    weights: Vec<u64>,
    /// With equal weights the order is a plain rotation, and a turn costs the same for any number of members.
    turn: Cell<usize>,
    /// The number of members that rotate; 0 if weights differ or no member takes requests.
    rotating: usize,
    credit: RefCell<Vec<i64>>,
}

impl RoundRobin {
    /// Creates a round robin over members of these weights; a member of weight 0 is never picked.
    #[must_use]
    pub fn new(weights: Vec<u64>) -> Self {
        let credit = vec![0; weights.len()];
        Self::resume(weights, credit)
    }

    /// Continues another round robin of these members from its [`credit`](Self::credit). A new member has
    /// credit 0.
    pub(crate) fn resume(weights: Vec<u64>, mut credit: Vec<i64>) -> Self {
        // Only differences count. Members that left took their credit along, and without this the rest would
        // drift.
        let mean = credit.iter().sum::<i64>() / i64::try_from(credit.len()).unwrap_or(1).max(1);
        credit.iter_mut().for_each(|credit| *credit -= mean);
        let equal = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let rotating =
            if equal && weights.first().is_some_and(|weight| *weight > 0) { weights.len() } else { 0 };
        let richest = (0..credit.len()).rev().max_by_key(|at| credit[*at]);
        Self { turn: Cell::new(richest.unwrap_or(0)), rotating, credit: RefCell::new(credit), weights }
    }

    /// Skips turns to the starting point of `worker` in a round, so that the first requests of several
    /// workers do not all go to the first member.
    pub fn offset_start(&mut self, worker: usize, workers: usize) {
        let smallest =
            self.weights.iter().fold(0, |all, weight| greatest_common_divisor(all, *weight)).max(1);
        let round = self.weights.iter().sum::<u64>() / smallest;
        let skipped = (round * worker as u64 / workers.max(1) as u64).min(SKIPPED_TURNS_MAX);
        for _ in 0..skipped {
            self.pick();
        }
    }

    /// Returns the index of the next member; `None` if no member takes requests.
    #[inline]
    pub fn pick(&self) -> Option<usize> {
        if self.rotating == 0 {
            return self.pick_most_credit(|_| true);
        }
        let turn = self.turn.get();
        self.turn.set(if turn + 1 == self.rotating { 0 } else { turn + 1 });
        Some(turn)
    }

    /// Returns the next fitting member, and skips the others.
    pub(crate) fn pick_of(&self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        if self.rotating == 0 {
            return self.pick_most_credit(fits);
        }
        (0..self.rotating).find_map(|_| self.pick().filter(|member| fits(*member)))
    }

    fn pick_most_credit(&self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut credit = self.credit.borrow_mut();
        let mut best: Option<usize> = None;
        let mut sum = 0;
        for (index, weight) in self.weights.iter().enumerate() {
            if *weight == 0 || !fits(index) {
                continue;
            }
            let weight = *weight as i64;
            credit[index] += weight;
            sum += weight;
            if best.is_none_or(|best| credit[index] > credit[best]) {
                best = Some(index);
            }
        }
        if let Some(best) = best {
            credit[best] -= sum;
        }
        best
    }

    /// Returns how far each member is ahead of its turn, from which a round robin with other members or
    /// weights continues.
    pub(crate) fn credit(&self) -> Vec<i64> {
        if self.rotating == 0 {
            return self.credit.borrow().clone();
        }
        // The credit that the general rule would have produced in this round.
        let (turn, members, weight) = (self.turn.get() as i64, self.rotating as i64, self.weights[0] as i64);
        (0..members).map(|at| weight * if at < turn { turn - members } else { turn }).collect()
    }

    pub(crate) fn weights(&self) -> &[u64] {
        &self.weights
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(turns: &RoundRobin, count: usize) -> Vec<usize> {
        (0..count).filter_map(|_| turns.pick()).collect()
    }

    fn order(weights: &[u64], count: usize) -> Vec<usize> {
        picks(&RoundRobin::new(weights.to_vec()), count)
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
    fn an_empty_list_picks_nothing() {
        assert_eq!(order(&[], 3), [0; 0]);
        assert_eq!(order(&[0, 0], 3), [0; 0]);
        assert_eq!(order(&[0], 3), [0; 0]);
    }

    #[test]
    fn workers_begin_apart() {
        let first = |weights: &[u64], workers: usize| -> Vec<_> {
            let begin = |worker| {
                let mut turns = RoundRobin::new(weights.to_vec());
                turns.offset_start(worker, workers);
                turns.pick()
            };
            (0..workers).filter_map(begin).collect()
        };
        assert_eq!(first(&[1, 1, 1, 1], 4), [0, 1, 2, 3]);
        assert_eq!(first(&[1, 1, 1, 1], 2), [0, 2]);
        assert_eq!(first(&[3, 3], 4), [0, 0, 1, 1]);
        assert_eq!(first(&[5, 1, 1], 7), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(first(&[u32::MAX.into(), 1], 2), [0, 0]);
    }

    #[test]
    fn goes_on_where_it_was() {
        for weights in [[1, 1, 1, 1], [5, 1, 1, 3]] {
            for before in 0..20 {
                let through = RoundRobin::new(weights.to_vec());
                picks(&through, before);
                let resumed = RoundRobin::resume(weights.to_vec(), through.credit());
                assert_eq!(picks(&resumed, 20), picks(&through, 20), "{weights:?} after {before}");
            }
        }
    }

    #[test]
    fn remaining_endpoints_keep_their_turn() {
        let turns = RoundRobin::new(vec![1; 4]);
        picks(&turns, 2);
        let mut credit = turns.credit();
        credit.remove(0);
        // Of a b c d, it was c's turn.
        assert_eq!(picks(&RoundRobin::resume(vec![1; 3], credit), 3), [1, 2, 0]);
    }

    #[test]
    fn repeated_changes_favour_no_endpoint() {
        // A member that joins and leaves at every turn must not reset the others to the first.
        let mut credit = vec![0; 3];
        let mut seen = [0; 3];
        for _ in 0..300 {
            let turns = RoundRobin::resume(vec![1; 3], credit);
            seen[turns.pick().expect("one")] += 1;
            credit = turns.credit();
        }
        assert_eq!(seen, [100; 3]);
    }

    #[test]
    fn unsuitable_endpoints_are_skipped() {
        let turns = RoundRobin::new(vec![1; 3]);
        assert_eq!(turns.pick_of(|member| member != 0), Some(1));
        assert_eq!(turns.pick_of(|_| false), None);
        let turns = RoundRobin::new(vec![2, 1]);
        assert_eq!(turns.pick_of(|member| member == 1), Some(1));
        assert_eq!(turns.pick_of(|_| false), None);
        assert_eq!(picks(&turns, 3), [0, 1, 0]);
    }
}
