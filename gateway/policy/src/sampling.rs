//! Random sampling, and percentages in millionths, which gives a percentage up to four decimals.

/// 100 % in millionths.
pub(crate) const MILLION: u32 = 1_000_000;

/// Draws whether a request belongs to a random sample of this many millionths.
pub(crate) fn is_sampled(millionths: u32) -> bool {
    millionths >= MILLION || fastrand::u32(..MILLION) < millionths
}

/// Formats a percentage without its sign: 1,000 millionths give `0.1`.
pub(crate) fn percent(millionths: u32) -> String {
    let decimals = format!("{}.{:04}", millionths / 10_000, millionths % 10_000);
    decimals.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_percentages_are_drawn() {
        fastrand::seed(7);
        for (millionths, range) in [(0, 0..=0), (1_000, 850..=1_150), (5_000, 4_700..=5_300), (1, 0..=8)] {
            let count = (0..MILLION).filter(|_| is_sampled(millionths)).count();
            assert!(range.contains(&count), "{count} of a million for {}", percent(millionths));
        }
        assert!((0..1_000).all(|_| is_sampled(MILLION)));
    }

    #[test]
    fn percentages_are_shown() {
        for (millionths, text) in
            [(0, "0"), (1_000, "0.1"), (1, "0.0001"), (125_000, "12.5"), (MILLION, "100")]
        {
            assert_eq!(percent(millionths), text);
        }
    }
}
