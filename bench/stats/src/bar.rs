//! Decides whether a ratio stays below a bar, and how many rounds a decision needs.

use crate::bootstrap::Interval;

/// The least level of an interval on which a decision is based. Five rounds do not reach it (see
/// [`Interval::level`]).
const LEVEL: f64 = 0.95;

/// The factor by which rounds may be multiplied for an advice. If a decision needs more, the bar is
/// practically at the ratio, and no affordable run would decide.
const WORTH_WHILE: f64 = 12.0;

/// The comparison of a ratio with the highest permitted value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Held {
    /// The whole interval is at most the bar.
    Met,
    /// The whole interval is above the bar.
    Missed,
    /// The bar lies within the interval, or there are too few rounds for a decision.
    Undecided {
        /// The number of rounds, as noisy as these, that would decide if the estimate stays the same. `None`
        /// if these rounds do not permit an estimate, or too many would be needed.
        rounds: Option<u32>,
    },
}

/// Compares a ratio's interval from `rounds` rounds with the highest permitted value. All arguments are above
/// 0.
///
/// Do not use this to stop a run early. Suppose that a test computes a 95 % interval after each round and stops at the
/// first interval that excludes the bar. It is wrong in more than 5 % of runs (Armitage, McPherson and Rowe, "Repeated
/// significance tests on accumulating data", 1969). Fix the number of rounds in advance.
pub fn hold(ratio: &Interval, most: f64, rounds: u32) -> Held {
    if ratio.level < LEVEL {
        return Held::Undecided { rounds: None };
    }
    // A ratio that equals the bar may exceed it in the last digit.
    let most = most * (1.0 + 1e-9);
    if ratio.high <= most {
        return Held::Met;
    }
    if ratio.low > most {
        return Held::Missed;
    }
    // Intervals narrow with the square root of the number of rounds, on a logarithmic scale.
    let end = if ratio.estimate <= most { ratio.high } else { ratio.low };
    let times = ((end / ratio.estimate).ln() / (most / ratio.estimate).ln()).powi(2);
    let worth_while = times <= WORTH_WHILE;
    Held::Undecided { rounds: worth_while.then(|| (f64::from(rounds) * times).ceil() as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::Bootstrap;
    use crate::paired;

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval { estimate, low, high, level: 0.95, resamples: 2_047 }
    }

    #[test]
    fn the_whole_interval_decides() {
        assert_eq!(hold(&interval(0.80, 0.82, 0.86), 0.86, 7), Held::Met);
        assert_eq!(hold(&interval(0.861, 0.87, 0.88), 0.86, 7), Held::Missed);
        assert!(matches!(hold(&interval(0.80, 0.82, 0.87), 0.86, 7), Held::Undecided { .. }));
        assert!(matches!(hold(&interval(0.85, 0.88, 0.90), 0.86, 7), Held::Undecided { .. }));
    }

    #[test]
    fn few_rounds_decide_nothing() {
        let five = Interval { level: 0.9375, ..interval(0.4, 0.5, 0.6) };
        assert_eq!(hold(&five, 0.86, 5), Held::Undecided { rounds: None });
        let rounds = |count| {
            let ratio = paired::ratio(&vec![(1.0, 2.0); count], &Bootstrap::default()).unwrap();
            hold(&ratio, 0.86, count as u32)
        };
        assert_eq!((rounds(5), rounds(6)), (Held::Undecided { rounds: None }, Held::Met));
    }

    #[test]
    fn rounds_grow_with_the_square_of_what_is_to_be_narrowed() {
        // The upper end is twice as far from the estimate as the bar is, in logarithms.
        let ratio = interval(0.5, 1.0, 1.21);
        assert_eq!(hold(&ratio, 1.1, 10), Held::Undecided { rounds: Some(40) });
        let ratio = interval(0.5, 1.0, 1.3);
        assert_eq!(hold(&ratio, 1.001, 10), Held::Undecided { rounds: None }, "too many to be worth while");
        assert_eq!(
            hold(&interval(0.9, 1.0, 1.1), 1.0, 10),
            Held::Undecided { rounds: None },
            "the bar itself"
        );
    }

    #[test]
    fn the_advice_tells() {
        // The noise has a fixed shape: with the advised number of rounds the interval excludes the bar.
        let ratio = |count: u32| {
            let rounds: Vec<(f64, f64)> =
                (0..count).map(|at| ((0.1 * (f64::from(at) * 2.4).sin()).exp() * 0.97, 1.0)).collect();
            paired::ratio(&rounds, &Bootstrap::default()).unwrap()
        };
        let Held::Undecided { rounds: Some(advised) } = hold(&ratio(10), 1.0, 10) else {
            panic!("{:?}", ratio(10))
        };
        assert!(advised > 10 && hold(&ratio(advised + advised / 5), 1.0, advised) == Held::Met, "{advised}");
    }
}
