//! Random sampling.

use tollgate_config::Percent;

/// Draws whether a request belongs to a random sample of this share.
pub(crate) fn is_sampled(share: Percent) -> bool {
    share >= Percent::ALL || fastrand::u64(..Percent::ALL.parts()) < share.parts()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_are_drawn() {
        fastrand::seed(7);
        for (parts, range) in
            [(0, 0..=0), (1_000_000_000, 850..=1_150), (5_000_000_000, 4_700..=5_300), (333_333, 0..=4)]
        {
            let share = Percent::from(parts);
            let count = (0..1_000_000).filter(|_| is_sampled(share)).count();
            assert!(range.contains(&count), "{count} of a million for {share} %");
        }
        assert!((0..1_000).all(|_| is_sampled(Percent::ALL)));
    }
}
