//! Medians, spreads and per-round ratios.

/// The middle value (mean of the two middle ones for an even count); `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Smallest and largest value; `None` for no values.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    Some((low, high))
}

/// The value that `percent` of all values do not exceed (nearest rank); sorts in place.
pub fn percentile(values: &mut [u64], percent: f64) -> Option<u64> {
    values.sort_unstable();
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied()
}

/// `subject / peer` for every round in which the subject and each peer that takes part have a value, where `peer` is
/// the better of them: the one with the lower median over those rounds.
///
/// Dividing within a round keeps the machine's slow moments out of the ratio. The better peer is found over the run
/// and not in each round: the lower of two disturbed figures is low by luck, and the ratio to it would grow with the
/// machine's noise (by a tenth at the twofold swings seen on shared machines). A peer that never has a value (not
/// installed) takes no part; a round in which a participant failed is left out.
pub fn ratios(subject: &[Option<f64>], peers: &[&[Option<f64>]]) -> Vec<f64> {
    let present: Vec<_> = peers.iter().filter(|peer| peer.iter().any(Option::is_some)).collect();
    let value = |series: &[Option<f64>], at: usize| series.get(at).copied().flatten();
    let rounds: Vec<usize> = (0..subject.len())
        .filter(|at| value(subject, *at).is_some() && present.iter().all(|peer| value(peer, *at).is_some()))
        .collect();
    let typical = |series: &[Option<f64>]| {
        let values: Vec<f64> = rounds.iter().filter_map(|at| value(series, *at)).collect();
        median(&values).unwrap_or(f64::INFINITY)
    };
    let Some(better) = present.iter().min_by(|a, b| typical(a).total_cmp(&typical(b))) else {
        return Vec::new();
    };
    let ratio = |at: &usize| Some(value(subject, *at)? / value(better, *at).filter(|figure| *figure > 0.0)?);
    rounds.iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 5.0]), Some(5.0));
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let mut hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut hundred, 99.0), Some(99));
        assert_eq!(percentile(&mut hundred, 50.0), Some(50));
        assert_eq!(percentile(&mut hundred, 100.0), Some(100));
        assert_eq!(percentile(&mut [7], 99.0), Some(7));
        assert_eq!(percentile(&mut [], 99.0), None);
    }

    #[test]
    fn ratio_is_to_the_better_peer_of_the_run_within_each_round() {
        let gateway = [Some(8.0), Some(16.0), Some(9.0)];
        let nginx = [Some(10.0), Some(20.0), Some(10.0)];
        // Luckier in the last round, but not better.
        let haproxy = [Some(12.0), Some(24.0), Some(9.9)];
        assert_eq!(ratios(&gateway, &[&nginx, &haproxy]), [0.8, 0.8, 0.9]);
    }

    #[test]
    fn a_round_with_a_failed_participant_is_left_out_and_an_absent_peer_takes_no_part() {
        let gateway = [Some(8.0), None, Some(9.0)];
        let nginx = [None, Some(24.0), Some(10.0)];
        let absent = [None, None, None];
        assert_eq!(ratios(&gateway, &[&nginx, &absent]), [0.9]);
        assert!(ratios(&gateway, &[&absent]).is_empty());
        assert!(ratios(&gateway, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn median_lies_within_the_spread(values in prop::collection::vec(0.0f64..1e9, 1..40)) {
            let (low, high) = spread(&values).unwrap();
            let middle = median(&values).unwrap();
            prop_assert!(low <= middle && middle <= high);
        }
    }
}
