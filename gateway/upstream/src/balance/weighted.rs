//! Random choice by weight.

use fastrand::Rng;

use super::hash::mix;

/// Members with weights, of which one is chosen by a random number or a hash.
#[derive(Debug)]
pub struct Weighted {
    /// The sum of the weights up to and including each member's.
    ends: Vec<u64>,
}

impl Weighted {
    /// Creates a choice among members of these weights; a member of weight 0 is never chosen.
    #[must_use]
    pub fn new(weights: &[u64]) -> Self {
        let ends = weights.iter().scan(0, |sum: &mut u64, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { ends: ends.collect() }
    }

    fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the member for a hash; it is the same as long as the weights are. `None` if no member has a
    /// weight.
    #[must_use]
    pub fn by_hash(&self, hash: u64) -> Option<usize> {
        // Mixed once more, so that this choice is independent of the choice of the endpoint behind it.
        let point = u64::try_from((u128::from(mix(hash)) * u128::from(self.total())) >> 64).ok()?;
        self.member_at(point)
    }

    fn member_at(&self, point: u64) -> Option<usize> {
        let at = self.ends.partition_point(|end| *end <= point);
        (at < self.ends.len()).then_some(at)
    }

    /// Returns a random member by weight.
    pub(super) fn random(&self, rng: &mut Rng) -> Option<usize> {
        let total = self.total();
        if total == 0 { None } else { self.member_at(rng.u64(..total)) }
    }

    /// Returns two different random members by weight. The second is `None` if only one member has a weight.
    pub(super) fn random_pair(&self, rng: &mut Rng) -> Option<(usize, Option<usize>)> {
        let first = self.random(rng)?;
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let rest = self.total() - (self.ends[first] - start);
        if rest == 0 {
            return Some((first, None));
        }
        let point = rng.u64(..rest);
        let point = if point < start { point } else { point + self.ends[first] - start };
        Some((first, self.member_at(point)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often each of three members was chosen.
    fn drawn(mut draw: impl FnMut(&mut Rng) -> Option<usize>) -> [u32; 3] {
        let mut rng = Rng::with_seed(7);
        let mut seen = [0; 3];
        for _ in 0..100_000 {
            seen[draw(&mut rng).expect("one")] += 1;
        }
        seen
    }

    /// Whether `seen` is within four standard deviations of a binomial distribution.
    fn near(seen: u32, share: f64) -> bool {
        let n = 100_000.0;
        (f64::from(seen) - n * share).abs() <= 4.0 * (n * share * (1.0 - share)).sqrt()
    }

    #[test]
    fn any_by_weight() {
        let weighted = Weighted::new(&[1, 0, 3]);
        let seen = drawn(|rng| weighted.random(rng));
        assert!(near(seen[0], 0.25) && seen[1] == 0, "{seen:?}");
        let seen = drawn(|rng| weighted.by_hash(rng.u64(..)));
        assert!(near(seen[0], 0.25) && seen[1] == 0, "{seen:?}");
    }

    #[test]
    fn two_are_different() {
        let weighted = Weighted::new(&[1, 2, 3]);
        let seen = drawn(|rng| {
            let (first, second) = weighted.random_pair(rng)?;
            assert!(second.is_some_and(|second| second != first));
            second
        });
        // The second after each first: 1/6 * (2/5, 3/5), 2/6 * (1/4, 3/4), 3/6 * (1/3, 2/3).
        let share = 2.0 / 6.0 / 4.0 + 3.0 / 6.0 / 3.0;
        assert!(near(seen[0], share), "{seen:?}");
    }

    #[test]
    fn fewer_than_two() {
        let mut rng = Rng::with_seed(7);
        assert_eq!(Weighted::new(&[0, 4]).random_pair(&mut rng), Some((1, None)));
        assert_eq!(Weighted::new(&[0]).random_pair(&mut rng), None);
        assert_eq!(Weighted::new(&[]).random(&mut rng), None);
        assert_eq!(Weighted::new(&[]).by_hash(5), None);
    }
}
