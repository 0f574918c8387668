//! A gate for CI: fails if a system's cost has grown beyond an allowance, with statistical certainty.

use crate::compare::{Change, compare};
use crate::figures::Metric;
use crate::number;
use std::fmt;
use tollgate_lab_record::Results;

/// The result of the gate.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// No cost grew beyond the allowance with its whole interval.
    Passed {
        /// The number of costs that were compared.
        checked: usize,
        /// Further remarks for the reader, such as another CPU.
        doubts: Vec<String>,
    },
    /// These costs grew beyond the allowance.
    Failed {
        /// The costs.
        over: Vec<Change>,
        /// The allowance, as a share.
        allowance: f64,
        /// Further remarks for the reader, such as another CPU.
        doubts: Vec<String>,
    },
    /// The files have no cost in common, so nothing was compared.
    NothingToCompare {
        /// The reasons, as far as they are known.
        reasons: Vec<String>,
    },
}

impl Gate {
    /// Returns the exit code for a shell: 0 passed, 1 failed, 2 nothing to compare.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Passed { .. } => 0,
            Self::Failed { .. } => 1,
            Self::NothingToCompare { .. } => 2,
        }
    }
}

/// The fewest rounds with which an interval is reliable enough (88 %; 6 rounds reach 95 %) to fail a build.
const FEWEST: u32 = 4;

/// Compares `new` with `baseline`. The gate looks at the ratio, new to baseline, of a system's CPU time for
/// each request at an equal rate. It fails only if the whole interval of a ratio lies above `1 + allowance`
/// (0.03: three per cent), so that noise alone fails no build. `systems` are the names to check; an empty
/// list means all. Throughput and latency are not checked: with the noise of a shared machine they would fail
/// builds without cause.
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
    // A row without figures is no cost that grew, but the reader of a passed gate must know about it.
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
                        crate::table::range(&change.ratio)
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
