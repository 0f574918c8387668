//! A gate for CI: fails if a system's cost has grown beyond an allowance, with statistical certainty, or if
//! a figure of the baseline is lost.

use crate::FEWEST_ROUNDS;
use crate::compare::{Change, Choice, Lost, compare};
use crate::figures::{Call, Metric};
use crate::number;
use std::fmt;
use tollgate_lab_record::Results;

/// The result of the gate.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// No cost grew beyond the allowance with its whole interval, and no figure was lost.
    Passed {
        /// The number of costs that were compared.
        checked: usize,
        /// Further remarks for the reader, such as another CPU.
        doubts: Vec<String>,
    },
    /// Costs grew beyond the allowance, or figures were lost.
    Failed {
        /// The costs.
        over: Vec<Change>,
        /// The cells that had figures in the baseline and have none now, as sentences.
        lost: Vec<String>,
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

/// Compares `new` with `baseline`. The gate looks at the ratio, new to baseline, of a system's CPU time for
/// each request at an equal rate, measured against another system that is in both files. It fails if the whole
/// interval of a ratio lies above `1 + allowance` (0.03: three per cent), so that noise alone fails no build.
/// It also fails if a system has no figures in a cell in which the baseline has some: a build that answers no
/// request must not pass.
///
/// `systems` are the names to check; an empty list means all. `reference` is the system that stands for the
/// machine; `None` chooses one. Growth of throughput and latency is not checked: with the noise of a shared
/// machine they would fail builds without cause.
pub fn gate(
    new: &Results,
    baseline: &Results,
    allowance: f64,
    systems: &[String],
    reference: Option<&str>,
) -> Gate {
    let condensed = |results: &Results| results.trials.is_empty() && !results.condensed.is_empty();
    if condensed(new) || condensed(baseline) {
        let reason = "a condensed file holds no rounds, and cannot be compared".to_owned();
        return Gate::NothingToCompare { reasons: vec![reason] };
    }
    let comparison = compare(baseline, new, &Choice { reference, systems });
    let named = |system: &String| systems.is_empty() || systems.contains(system);
    let counts = |change: &&Change| {
        change.metric == Metric::Cpu
            && change.ratio.rounds >= FEWEST_ROUNDS
            && change.call != Call::Reference
            && named(&change.system)
    };
    let checked: Vec<&Change> = comparison.changes.iter().filter(counts).collect();
    // Files that share nothing are of two studies; one cell in common shows that the others are missing.
    let shares = !checked.is_empty() || comparison.lost.iter().any(|one| one.failed && named(&one.system));
    let is_lost = |one: &&Lost| named(&one.system) && (one.failed || shares);
    let lost: Vec<String> = comparison.lost.iter().filter(is_lost).map(|one| one.text.clone()).collect();
    if checked.is_empty() && lost.is_empty() {
        let mut reasons = comparison.doubts;
        reasons.extend(comparison.only_in_one);
        if comparison.changes.iter().any(|change| change.metric == Metric::Cpu) {
            reasons.push(format!(
                "a cost counts from {FEWEST_ROUNDS} rounds on: with fewer its interval promises too little"
            ));
        }
        return Gate::NothingToCompare { reasons };
    }
    let mut doubts = comparison.doubts;
    doubts.extend(comparison.only_in_one.into_iter().filter(|text| !lost.contains(text)));
    let over: Vec<Change> = checked
        .iter()
        .filter(|change| {
            tollgate_lab_stats::tie::exceeds(&crate::estimate::as_interval(change.ratio), allowance)
        })
        .map(|change| (*change).clone())
        .collect();
    if over.is_empty() && lost.is_empty() {
        Gate::Passed { checked: checked.len(), doubts }
    } else {
        Gate::Failed { over, lost, allowance, doubts }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { checked, doubts } => {
                writeln!(f, "passed: {checked} costs, none beyond the allowance")?;
                lines(f, doubts)
            }
            Self::Failed { over, lost, allowance, doubts } => {
                if !over.is_empty() {
                    writeln!(
                        f,
                        "failed: more CPU a request than {} % above the baseline",
                        number::plain(allowance * 100.0)
                    )?;
                }
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
                if !lost.is_empty() {
                    writeln!(f, "failed: {} figures of the baseline are lost", lost.len())?;
                    lines(f, lost)?;
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
