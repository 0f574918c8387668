//! What a run found, before anyone formats it.

use crate::cells::{Cell, GOAL, Pace};
use crate::load::Outcome;
use crate::meter::{CpuUsed, Memory};
use crate::stats::{median, ratios, spread};

/// The row measured without a server between generator and origin.
pub const DIRECT: &str = "direct";

/// The server whose ratio is reported.
pub const SUBJECT: &str = "tollgate";

/// One measurement of one target.
#[derive(Debug, Clone)]
pub struct Sample {
    /// CPU time of the target's process tree; none for the direct row.
    pub cpu: Option<CpuUsed>,
    /// What the generator counted.
    pub outcome: Outcome,
    /// Why the measurement does not count.
    pub problem: Option<String>,
}

impl Sample {
    /// CPU microseconds a verified response: total, user, system.
    pub fn cpu_per_request(&self) -> Option<[f64; 3]> {
        let cpu = self.cpu.filter(|_| self.outcome.ok > 0)?;
        Some([cpu.total, cpu.user, cpu.system].map(|nanos| nanos / 1e3 / self.outcome.ok as f64))
    }
}

/// All measurements of one target in one cell.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The target's name.
    pub name: &'static str,
    /// Why there are no measurements.
    pub missing: Option<String>,
    /// One a round.
    pub samples: Vec<Sample>,
    /// After the last round, connections closed.
    pub memory: Option<Memory>,
    /// Milliseconds from start to the first right answer.
    pub ready_ms: Option<f64>,
}

impl Row {
    /// A figure of every round, `None` where the round does not count.
    pub fn per_round(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Vec<Option<f64>> {
        self.samples.iter().map(|sample| figure(sample).filter(|_| sample.problem.is_none())).collect()
    }

    /// Median of a figure over the rounds that count.
    pub fn median(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(&self.per_round(figure).into_iter().flatten().collect::<Vec<_>>())
    }

    /// Lowest and highest value of a figure over the rounds that count.
    pub fn spread(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Option<(f64, f64)> {
        spread(&self.per_round(figure).into_iter().flatten().collect::<Vec<_>>())
    }
}

/// CPU microseconds a request.
pub fn cpu(sample: &Sample) -> Option<f64> {
    sample.cpu_per_request().map(|[total, ..]| total)
}

/// 99th percentile of latency, microseconds.
pub fn p99(sample: &Sample) -> Option<f64> {
    Some(sample.outcome.latency.p99).filter(|value| *value > 0.0)
}

/// How a ratio stands to its bar.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No bar was set.
    NoBar,
    /// Nothing to compare.
    Unknown,
    /// At or below the bar.
    Pass,
    /// Above it, by so much.
    Miss(f64),
}

impl Verdict {
    /// Holds a ratio against a bar; both are compared as printed, with two decimals.
    pub fn of(ratio: Option<f64>, bar: Option<f64>) -> Self {
        let printed = |value: f64| (value * 100.0).round() / 100.0;
        match (ratio, bar) {
            (_, None) => Self::NoBar,
            (None, Some(_)) => Self::Unknown,
            (Some(ratio), Some(bar)) if printed(ratio) <= bar => Self::Pass,
            (Some(ratio), Some(bar)) => Self::Miss(printed(ratio) - bar),
        }
    }

    /// As the tables write it.
    pub fn text(&self) -> String {
        match self {
            Self::NoBar => "-".into(),
            Self::Unknown => "not measured".into(),
            Self::Pass => "PASS".into(),
            Self::Miss(by) => format!("MISS by {by:.2}"),
        }
    }
}

/// All measurements of one cell.
#[derive(Debug, Clone)]
pub struct CellResult {
    /// The load.
    pub cell: Cell,
    /// Requests a second offered to every target; none in a closed loop.
    pub rate: Option<u32>,
    /// What a reader must know beside the figures.
    pub notes: Vec<String>,
    /// The targets, then the direct row.
    pub rows: Vec<Row>,
}

impl CellResult {
    /// Ratios of a row's figure to the better of the peers, a value a round that counts.
    pub fn ratios_to_better_peer(&self, name: &str, figure: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        let series = |row: &Row| row.per_round(&figure);
        let peers: Vec<_> =
            self.rows.iter().filter(|row| row.name != SUBJECT && row.name != DIRECT).map(series).collect();
        let peers: Vec<&[Option<f64>]> = peers.iter().map(Vec::as_slice).collect();
        self.rows
            .iter()
            .find(|row| row.name == name)
            .map_or_else(Vec::new, |row| ratios(&series(row), &peers))
    }

    /// The gateway's median CPU ratio.
    pub fn cpu_ratio(&self) -> Option<f64> {
        median(&self.ratios_to_better_peer(SUBJECT, cpu))
    }

    /// The gateway's median ratio of the 99th percentile; only where the same rate was offered to all.
    pub fn p99_ratio(&self) -> Option<f64> {
        match self.cell.pace {
            Pace::Rate(_) => median(&self.ratios_to_better_peer(SUBJECT, p99)),
            Pace::Close => None,
        }
    }

    /// CPU ratio against the bar.
    pub fn cpu_verdict(&self) -> Verdict {
        Verdict::of(self.cpu_ratio(), self.cell.bars.cpu)
    }

    /// p99 ratio against the bar.
    pub fn p99_verdict(&self) -> Verdict {
        Verdict::of(self.p99_ratio(), self.cell.bars.p99)
    }

    /// Whether the project's goal beyond the bars is reached.
    pub fn reaches_goal(&self) -> bool {
        self.cpu_ratio().is_some_and(|ratio| (ratio * 100.0).round() / 100.0 <= GOAL)
    }
}

/// Memory over many idle connections, and after a burst.
#[derive(Debug, Clone, Default)]
pub struct IdleMemory {
    /// The target's name.
    pub name: &'static str,
    /// Why there are no figures.
    pub missing: Option<String>,
    /// Idle connections that were held.
    pub connections: u32,
    /// KiB before, with them, and after the burst that followed.
    pub base: u64,
    /// With the idle connections open.
    pub held: u64,
    /// After all connections closed.
    pub after: u64,
}

impl IdleMemory {
    /// KiB an idle connection.
    pub fn per_connection(&self) -> f64 {
        self.held.saturating_sub(self.base) as f64 / f64::from(self.connections.max(1))
    }

    /// Memory after the burst over memory before.
    pub fn after_over_base(&self) -> f64 {
        self.after as f64 / self.base.max(1) as f64
    }
}

/// A large body through one target.
#[derive(Debug, Clone, Default)]
pub struct Transfer {
    /// The target's name.
    pub name: &'static str,
    /// `upload` or `download`.
    pub direction: &'static str,
    /// Why there is no figure: the target is missing, or bytes were lost or changed.
    pub problem: Option<String>,
    /// Bytes of the body.
    pub bytes: u64,
    /// Largest resident set of the process tree, KiB.
    pub peak: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A whole run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Facts about machine, versions and settings, in the order they are printed.
    pub facts: Vec<(&'static str, String)>,
    /// The load cells.
    pub cells: Vec<CellResult>,
    /// Memory of idle connections; empty when not measured.
    pub idle: Vec<IdleMemory>,
    /// Large bodies; empty when not measured.
    pub transfers: Vec<Transfer>,
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::cells::ALL;
    use crate::load::Latency;
    use crate::meter::Clock;

    /// A sample with this many CPU microseconds a request and this p99.
    pub fn sample(cpu_us: f64, p99: f64, problem: Option<&str>) -> Sample {
        let ok = 1_000;
        let total = cpu_us * 1e3 * ok as f64;
        let latency = Latency { mean: p99 / 3.0, p50: p99 / 4.0, p99 };
        Sample {
            cpu: Some(CpuUsed { total, user: total * 0.25, system: total * 0.75, clock: Clock::Schedstat }),
            outcome: Outcome { ok, failed: 0, seconds: 0.5, body_bytes: Some(2_000), latency },
            problem: problem.map(str::to_owned),
        }
    }

    /// A cell with a gateway, both peers and three rounds.
    pub fn cell_result() -> CellResult {
        let row = |name, figures: [f64; 3]| Row {
            name,
            samples: figures.iter().map(|us| sample(*us, us * 10.0, None)).collect(),
            memory: Some(Memory { rss: 4_096, pss: 2_048, peak: 5_000 }),
            ready_ms: Some(20.0),
            missing: None,
        };
        CellResult {
            cell: ALL[1].clone(),
            rate: Some(32_000),
            notes: vec![],
            rows: vec![
                row("tollgate", [8.0, 16.0, 9.0]),
                row("nginx", [10.0, 20.0, 10.0]),
                row("haproxy", [12.0, 24.0, 9.9]),
            ],
        }
    }

    #[test]
    fn cpu_is_shared_over_verified_responses() {
        let [total, user, system] = sample(13.3, 1.0, None).cpu_per_request().unwrap();
        assert!((total - 13.3).abs() < 1e-9 && (user + system - total).abs() < 1e-9);
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        let result = cell_result();
        assert!((result.cpu_ratio().unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(result.cpu_verdict(), Verdict::Pass);
        assert!(result.reaches_goal());
        assert_eq!(result.ratios_to_better_peer("nginx", cpu), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_round_with_a_problem_does_not_count() {
        let mut result = cell_result();
        result.rows[1].samples[0].problem = Some("3 failed".into());
        assert_eq!(result.ratios_to_better_peer("tollgate", cpu).len(), 2);
        assert_eq!(result.rows[1].median(cpu), Some(15.0));
    }

    #[test]
    fn verdicts_compare_what_is_printed() {
        assert_eq!(Verdict::of(Some(0.864), Some(0.86)), Verdict::Pass);
        assert_eq!(Verdict::of(Some(0.91), Some(0.86)).text(), "MISS by 0.05");
        assert_eq!(Verdict::of(None, Some(0.86)), Verdict::Unknown);
        assert_eq!(Verdict::of(Some(0.5), None), Verdict::NoBar);
    }

    #[test]
    fn memory_a_connection() {
        let idle = IdleMemory {
            connections: 5_000,
            base: 10_000,
            held: 14_000,
            after: 10_900,
            ..Default::default()
        };
        assert!((idle.per_connection() - 0.8).abs() < 1e-9);
        assert!((idle.after_over_base() - 1.09).abs() < 1e-9);
    }
}
