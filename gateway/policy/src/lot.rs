//! Lots that are drawn, and percentages: in millionths, so that one has up to four decimals.

/// All of a million.
pub(crate) const MILLION: u32 = 1_000_000;

/// Whether a request is one of so many of a million.
pub(crate) fn drawn(millionths: u32) -> bool {
    millionths >= MILLION || fastrand::u32(..MILLION) < millionths
}

/// A percentage as text, without its sign: `0.1` of 1,000 millionths.
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
            let count = (0..MILLION).filter(|_| drawn(millionths)).count();
            assert!(range.contains(&count), "{count} of a million for {}", percent(millionths));
        }
        assert!((0..1_000).all(|_| drawn(MILLION)));
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
