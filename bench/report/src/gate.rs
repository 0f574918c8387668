//! A gate for CI: did a system grow dearer than allowed, beyond doubt?

use crate::compare::{Change, compare};
use crate::figures::Metric;
use crate::number;
use std::fmt;
use tollgate_lab_record::Results;

/// What a gate says.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// No figure grew beyond the allowance with its whole interval.
    Passed {
        /// Figures that were held against the baseline.
        checked: usize,
        /// What the reader should know all the same, such as another CPU.
        doubts: Vec<String>,
    },
    /// These did.
    Failed {
        /// The figures.
        over: Vec<Change>,
        /// The allowance, as a share.
        allowance: f64,
        /// What the reader should know, such as another CPU.
        doubts: Vec<String>,
    },
    /// The files have no figure in common, so nothing was checked.
    NothingToCompare {
        /// Why, as far as it is known.
        reasons: Vec<String>,
    },
}

impl Gate {
    /// Exit code for a shell: 0 passed, 1 failed, 2 nothing to compare.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Passed { .. } => 0,
            Self::Failed { .. } => 1,
            Self::NothingToCompare { .. } => 2,
        }
    }
}

/// Rounds from which an interval promises enough (88 %; 6 promise 95 %) to fail a build by.
const FEWEST: u32 = 4;

/// Holds `new` against `baseline`. It fails only when the whole interval of a system's CPU a request at an equal rate, new over
/// baseline, lies above `1 + allowance` (0.03: three per cent), so that noise alone fails no build. `systems` are the names that
/// count; none names all. Throughput and latency do not count: at a shared machine's noise they fail builds that did nothing.
pub fn gate(new: &Results, baseline: &Results, allowance: f64, systems: &[String]) -> Gate {
    let comparison = compare(baseline, new);
    let counts = |change: &&Change| {
        change.metric == Metric::Cpu
            && change.ratio.rounds >= FEWEST
            && (systems.is_empty() || systems.contains(&change.system))
    };
    let checked: Vec<&Change> = comparison.changes.iter().filter(counts).collect();
    if checked.is_empty() {
        let mut reasons = comparison.doubts;
        reasons.extend(comparison.only_in_one);
        if comparison.changes.iter().any(|change| change.metric == Metric::Cpu) {
            reasons.push(format!(
                "a cost counts from {FEWEST} rounds on: with fewer its interval promises too little"
            ));
        }
        return Gate::NothingToCompare { reasons };
    }
    // What lost its figures is no cost that grew, but the reader of a passed gate must know.
    let mut doubts = comparison.doubts;
    doubts.extend(comparison.only_in_one);
    let over: Vec<Change> = checked
        .iter()
        .filter(|change| {
            tollgate_lab_stats::tie::exceeds(&crate::estimate::as_interval(change.ratio), allowance)
        })
        .map(|change| (*change).clone())
        .collect();
    if over.is_empty() {
        Gate::Passed { checked: checked.len(), doubts }
    } else {
        Gate::Failed { over, allowance, doubts }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { checked, doubts } => {
                writeln!(f, "passed: {checked} costs, none beyond the allowance")?;
                lines(f, doubts)
            }
            Self::Failed { over, allowance, doubts } => {
                writeln!(
                    f,
                    "failed: more CPU a request than {} % above the baseline",
                    number::plain(allowance * 100.0)
                )?;
                for change in over {
                    writeln!(
                        f,
                        "  {}, {}: {} µs, was {} µs: {} ({})",
                        change.title,
                        change.cell_title,
                        number::plain(change.after),
                        number::plain(change.before),
                        number::ratio(change.ratio.estimate),
                        number::interval(change.ratio.low, change.ratio.high)
                    )?;
                }
                lines(f, doubts)
            }
            Self::NothingToCompare { reasons } => {
                writeln!(
                    f,
                    "nothing to compare: expected both files to hold the cost of a system in the same cell at an offered rate; \
                     run the same study for both"
                )?;
                lines(f, reasons)
            }
        }
    }
}

fn lines(f: &mut fmt::Formatter<'_>, texts: &[String]) -> fmt::Result {
    texts.iter().try_for_each(|text| writeln!(f, "  {text}"))
}
