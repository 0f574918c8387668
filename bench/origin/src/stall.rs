//! Scripted stalls: spans in which no response is sent, and the latencies that a client must then measure.

use crate::settings::{NS_PER_MS, Settings};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tollgate_lab_stats::histogram::Histogram;

/// When an origin stalls. A response that is due within a stall is sent right after it. Times count from the
/// first request that is not for the ready path, after the start or after a reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected stalls as [{\"at_ms\": 500, \"for_ms\": 100}, ...] or as {\"every_ms\": 1000, \"for_ms\": 100}"
)]
pub enum Stalls {
    /// These stalls, in order and not touching each other.
    At(Vec<Stall>),
    /// Stalls in a fixed period.
    Every(Every),
}

/// One stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// When it begins, in milliseconds.
    pub at_ms: u64,
    /// Its length in milliseconds.
    pub for_ms: u64,
}

/// A stall at each multiple of the period, first after one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Every {
    /// The period in milliseconds.
    pub every_ms: u64,
    /// The length of each stall in milliseconds; less than the period.
    pub for_ms: u64,
}

impl Default for Stalls {
    fn default() -> Self {
        Self::At(Vec::new())
    }
}

/// Latest end of a stall, a day.
const LATEST_MS: u64 = 86_400_000;

impl Stalls {
    /// Returns whether there are no stalls.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::At(stalls) if stalls.is_empty())
    }

    /// Returns when a response is sent that is due at `time`. Both are nanoseconds from the first request.
    pub fn leaves(&self, time: u64) -> u64 {
        match self {
            Self::At(stalls) => {
                let started = stalls.partition_point(|stall| stall.at_ms * NS_PER_MS <= time);
                let end = started.checked_sub(1).map_or(0, |last| stalls[last].at_ms + stalls[last].for_ms);
                time.max(end * NS_PER_MS)
            }
            Self::Every(Every { every_ms, for_ms }) => {
                let started = time / (every_ms * NS_PER_MS);
                if started == 0 { time } else { time.max((started * every_ms + for_ms) * NS_PER_MS) }
            }
        }
    }

    /// Checks the values. The error says what was expected.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::At(stalls) => {
                let mut free = 0;
                for Stall { at_ms, for_ms } in stalls {
                    if *at_ms < free || *for_ms == 0 || at_ms.saturating_add(*for_ms) >= LATEST_MS {
                        return Err(format!(
                            "`stalls`: {for_ms} ms at {at_ms} ms: expected stalls in order, apart, none empty, within a day"
                        ));
                    }
                    // Two stalls that touch would be one, and it could not be found by its start.
                    free = at_ms + for_ms + 1;
                }
                Ok(())
            }
            Self::Every(Every { every_ms, for_ms }) => {
                if (1..*every_ms).contains(for_ms) && *every_ms < LATEST_MS {
                    return Ok(());
                }
                Err(format!(
                    "`stalls`: {for_ms} ms every {every_ms} ms: expected a stall shorter than its span"
                ))
            }
        }
    }
}

/// Computes the response times that a client must measure, without the time of an undisturbed exchange; only
/// the delay and the stalls count. The client sends `rate` requests per second, evenly, for `duration` from
/// the script's first moment, and always has a free connection.
pub fn truth(rate: f64, settings: &Settings, duration: Duration) -> Histogram {
    let mut times = Histogram::new();
    let delay = settings.delay_ms * NS_PER_MS;
    let count = (rate * duration.as_secs_f64()).round() as u64;
    for index in 0..count {
        let sent = (index as f64 * 1e9 / rate).round() as u64;
        times.record(settings.stalls.leaves(sent + delay) - sent);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn read(text: &str) -> Stalls {
        serde_json::from_str(text).unwrap()
    }

    fn leaves(stalls: &Stalls, micros: u64) -> u64 {
        stalls.leaves(micros * 1_000) / 1_000
    }

    #[test]
    fn both_forms_are_read_and_others_are_told_what_to_be() {
        let list = read(r#"[{"at_ms":10,"for_ms":5},{"at_ms":20,"for_ms":1}]"#);
        let got = [0, 9_999, 10_000, 14_999, 15_000, 20_500, 21_000].map(|time| leaves(&list, time));
        assert_eq!(got, [0, 9_999, 15_000, 15_000, 15_000, 21_000, 21_000]);
        let every = read(r#"{"every_ms":100,"for_ms":10}"#);
        let got = [5_000, 99_999, 100_000, 109_999, 110_000, 305_000].map(|time| leaves(&every, time));
        assert_eq!(got, [5_000, 99_999, 110_000, 110_000, 110_000, 310_000]);
        let reported =
            serde_json::from_str::<Stalls>(r#"{"every":100,"for_ms":10}"#).unwrap_err().to_string();
        assert!(reported.contains("every_ms"), "{reported}");
    }

    #[test]
    fn impossible_scripts_are_refused() {
        for text in [
            r#"[{"at_ms":10,"for_ms":5},{"at_ms":15,"for_ms":1}]"#,
            r#"[{"at_ms":10,"for_ms":0}]"#,
            r#"[{"at_ms":18446744073709551615,"for_ms":1}]"#,
            r#"{"every_ms":100,"for_ms":100}"#,
            r#"{"every_ms":0,"for_ms":0}"#,
        ] {
            assert!(read(text).check().is_err(), "{text}");
        }
        assert!(Stalls::default().check().is_ok());
    }

    #[test]
    fn the_truth_of_a_case_that_can_be_computed_by_hand() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut settings = Settings::new(any, any);
        // From 1 s on, a fifth of the time is stalled. In 10 s, nine stalls of 200 ms delay 18 % of the
        // requests, evenly by 0 to 200 ms. 1 % of all is 5.6 % of those: the 99th percentile is at 200 ms *
        // (1 - 1/18).
        settings.stalls = read(r#"{"every_ms":1000,"for_ms":200}"#);
        let times = truth(1_000.0, &settings, Duration::from_secs(10));
        assert_eq!(times.count(), 10_000);
        let p99 = times.percentile(99.0) as f64 / 1e6;
        assert!((p99 / (200.0 * 17.0 / 18.0) - 1.0).abs() < 0.01, "{p99}");
        assert_eq!(times.percentile(80.0), 0);
        // A delay shifts the start of the stalls and is added to the other times.
        settings.delay_ms = 50;
        let times = truth(1_000.0, &settings, Duration::from_secs(10));
        assert!((times.min() as f64 / 1e6 - 50.0).abs() < 0.05, "{}", times.min());
        assert!((times.max() as f64 / 1e6 - 250.0).abs() < 2.0, "{}", times.max());
    }

    proptest! {
        #[test]
        fn nothing_leaves_early_or_within_a_stall_or_out_of_order(
            spans in prop::collection::vec((1u64..50, 1u64..50), 0..6),
            times in prop::collection::vec(0u64..400_000_000, 1..50),
        ) {
            let mut end = 0;
            let list = spans.iter().map(|(gap, for_ms)| {
                let stall = Stall { at_ms: end + gap, for_ms: *for_ms };
                end = stall.at_ms + stall.for_ms;
                stall
            }).collect();
            let stalls = Stalls::At(list);
            prop_assert_eq!(stalls.check(), Ok(()));
            let mut times = times;
            times.sort_unstable();
            let left: Vec<u64> = times.iter().map(|time| stalls.leaves(*time)).collect();
            prop_assert!(left.is_sorted());
            for (time, left) in times.iter().zip(&left) {
                prop_assert!(left >= time);
                prop_assert_eq!(stalls.leaves(*left), *left);
            }
        }
    }
}
