//! The one place that turns a result file into rows. Every output is made from [`Report`], so that no two of them can
//! print different numbers.

mod build;
mod decision;

pub(crate) use build::{call, rounds};
pub use decision::{Decision, DecisionRow};

use serde::Serialize;
use std::collections::BTreeMap;
pub use tollgate_lab_record::Metric;
use tollgate_lab_record::{
    Ceiling, Header, Price, Published, Received, Summary, SystemUsed, VerdictKind, Window,
};

/// How a ratio and its interval stand to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// The whole interval is below 1, and below what the A/A control shows by chance.
    Lower,
    /// The whole interval is above 1, and above what the A/A control shows by chance.
    Higher,
    /// Neither: no difference was shown.
    Tie,
    /// Too few rounds for an interval, so nothing can be called.
    Open,
}

impl Call {
    /// As tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Tie => "tie",
            Self::Open => "too few rounds",
        }
    }
}

/// A system against the baseline in one cell, by one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// The figure.
    pub metric: Metric,
    /// Ours with its interval; `None` when either side was not measured.
    pub ours: Option<Summary>,
    /// The same ratio from the figures that the original printed.
    pub published: Option<f64>,
    /// What ours says.
    pub call: Option<Call>,
}

/// When a system was steady after its start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Steady {
    /// After so many seconds.
    After {
        /// Seconds.
        seconds: f64,
    },
    /// Not within the time that it was given.
    Never,
    /// Nobody asked.
    NotAsked,
}

/// What was measured of one system in one cell, over all good rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Good rounds.
    pub rounds: u32,
    /// Offered rate, requests a second; `None` for a closed loop.
    pub offered: Option<f64>,
    /// Verified responses a second: median of the rounds with its interval.
    pub rps: Summary,
    /// CPU a response, microseconds: median of the rounds with its interval. `None` for a direct run.
    pub cpu_us: Option<Summary>,
    /// The part in user mode: median, scaled so that both parts add up to `cpu_us`.
    pub user_us: Option<f64>,
    /// The part in the kernel.
    pub system_us: Option<f64>,
    /// Mean latency, microseconds.
    pub mean_us: Option<f64>,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// The rounds' 99th percentiles: a typical one with its interval, which tells how far `p99_us` may be trusted.
    pub p99_rounds_us: Option<Summary>,
    /// Largest, microseconds.
    pub max_us: Option<f64>,
    /// Whether latency counts from the intended send time (free of coordinated omission).
    pub corrected: bool,
    /// 99th percentile from the real send time, where a corrected one exists beside it.
    pub p99_uncorrected_us: Option<f64>,
    /// Resident memory of the process tree at the end, KiB: median. `None` for a direct run.
    pub memory_kib: Option<f64>,
    /// CPU of the system in cores: median. `None` for a direct run.
    pub cores: Option<f64>,
    /// CPU of the origin in cores: median.
    pub origin_cores: f64,
    /// Most connections to the origin at once, over all rounds.
    pub upstream_peak: u64,
    /// Connections that clients opened, a request; `None` where their tool does not tell.
    pub client_connections: Option<f64>,
    /// Connections that the origin accepted, a request; `None` where it does not count.
    pub upstream_connections: Option<f64>,
    /// Failed requests, over all rounds.
    pub failed: u64,
    /// Time that a CPU quota held it back, as a share of wall time; `None` without a quota.
    pub throttled: Option<f64>,
    /// When it was steady.
    pub steady: Steady,
}

impl Figures {
    /// The figure that a metric names.
    pub fn of(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Cpu => self.cpu_us.map(|cpu| cpu.estimate),
            Metric::Rps => Some(self.rps.estimate),
            Metric::Mean => self.mean_us,
            Metric::P50 => self.p50_us,
            Metric::P99 => self.p99_us,
            Metric::Max => self.max_us,
        }
    }
}

/// What there is to print of a system in a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Figures.
    Measured(Box<Figures>),
    /// Measured, but what came out is no figure of the system.
    Void {
        /// Why.
        why: String,
    },
    /// The system could not be measured here.
    Missing {
        /// What is lacking.
        why: String,
    },
    /// Measured, but in other cells than the one that is shown.
    Elsewhere,
    /// The run has not come to it, or it was stopped before.
    Pending,
}

/// A system in a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// [`SystemUsed::name`].
    pub system: String,
    /// [`SystemUsed::title`].
    pub title: String,
    /// What was measured.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Who limits it; `None` while there is no verdict.
    pub verdict: Option<VerdictKind>,
    /// What was seen.
    pub findings: Vec<String>,
    /// The A/A control's CPU ratio.
    pub control: Option<Summary>,
    /// Against the baseline, the figure that decides first.
    pub ratios: Vec<Ratio>,
    /// What the original printed of it.
    pub published: Option<Published>,
}

impl Row {
    /// The figures, where there are any.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Measured(figures) => Some(figures),
            _ => None,
        }
    }

    /// The ratio by a figure.
    pub fn ratio(&self, metric: Metric) -> Option<&Ratio> {
        self.ratios.iter().find(|ratio| ratio.metric == metric)
    }

    /// Why there is no figure; `None` where there is one.
    pub fn why_not(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Void { why } | Outcome::Missing { why } => Some(why.clone()),
            Outcome::Elsewhere => Some("not in this cell; see the sections".to_owned()),
            Outcome::Pending => Some("the run ended before its turn".to_owned()),
        }
    }

    /// The word in the column of verdicts.
    pub fn verdict_name(&self) -> &'static str {
        match (&self.outcome, self.verdict) {
            (Outcome::Missing { .. }, _) => "missing",
            (Outcome::Elsewhere, _) => "elsewhere",
            (Outcome::Pending, _) => "not measured",
            (_, Some(kind)) => kind.name(),
            (Outcome::Void { .. }, None) => "invalid",
            (Outcome::Measured(_), None) => "no verdict yet",
        }
    }
}

/// A cell with a row for each of its systems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellReport {
    /// [`tollgate_lab_record::Cell::id`].
    pub id: String,
    /// Its title.
    pub title: String,
    /// What varies along the section and this cell's value of it.
    pub axis: Option<(String, f64)>,
    /// Everything that was set.
    pub settings: BTreeMap<String, String>,
    /// Offered rate when every system got the same one.
    pub offered: Option<f64>,
    /// Rows in the order of the study.
    pub rows: Vec<Row>,
    /// The direct ceiling before each round: median requests a second.
    pub ceiling_rps: Option<f64>,
}

impl CellReport {
    /// The row of a system.
    pub fn row(&self, system: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.system == system)
    }
}

/// Cells that stand in one table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// Cells in the order of the study.
    pub cells: Vec<CellReport>,
    /// The figures by which its tables compare with the baseline.
    pub compared_by: Vec<Metric>,
    /// Notes, Markdown.
    pub notes: Vec<String>,
    /// Tables of the study's own.
    pub tables: Vec<OwnTable>,
    /// What features add, as the analysis drew it.
    pub prices: Vec<Price>,
}

impl Section {
    /// What varies along the cells, when it is the same for all of them and takes at least two values.
    pub fn axis(&self) -> Option<&str> {
        let (first, start) = self.cells.first()?.axis.as_ref()?;
        let same = self.cells.iter().all(|cell| cell.axis.as_ref().is_some_and(|(name, _)| name == first));
        let varies =
            self.cells.iter().any(|cell| cell.axis.as_ref().is_some_and(|(_, value)| value != start));
        (same && varies).then_some(first.as_str())
    }

    /// Names and titles of its systems in order of first appearance.
    pub fn systems(&self) -> Vec<(&str, &str)> {
        let mut systems: Vec<(&str, &str)> = Vec::new();
        for row in self.cells.iter().flat_map(|cell| &cell.rows) {
            if systems.iter().all(|(name, _)| *name != row.system) {
                systems.push((&row.system, &row.title));
            }
        }
        systems
    }
}

/// A table of a study's own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnTable {
    /// Column heads.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

/// A warm-up by the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// [`SystemUsed::name`].
    pub system: String,
    /// Its windows.
    pub windows: Vec<Window>,
    /// When it was steady.
    pub steady: Steady,
}

/// Percentile curves of one system in one cell: percentile (0-100) and microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// [`SystemUsed::name`].
    pub system: String,
    /// From the intended send time.
    pub corrected: Vec<(f64, f64)>,
    /// From the real send time.
    pub uncorrected: Vec<(f64, f64)>,
}

/// A whole result file, ready to be printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The first line of the file.
    pub header: Header,
    /// Systems of the study.
    pub systems: Vec<SystemUsed>,
    /// Title of the baseline, when the study names one.
    pub baseline: Option<(String, String)>,
    /// Sections in the order of the study.
    pub sections: Vec<Section>,
    /// Notes on the whole, Markdown.
    pub notes: Vec<String>,
    /// Tables on the whole.
    pub tables: Vec<OwnTable>,
    /// What the origin received; the sections where it was so, or none where it was so in all.
    pub received: Vec<Received>,
    /// Direct ceilings.
    pub ceilings: Vec<Ceiling>,
    /// One row a system; `None` when nothing was measured.
    pub decision: Option<Decision>,
    /// Percentile curves of a cell, by its id.
    pub curves: BTreeMap<String, Vec<Curve>>,
    /// Warm-ups by the second, by the cell's id.
    pub traces: BTreeMap<String, Vec<Trace>>,
    /// Tools that produced the load, with versions.
    pub tools: Vec<(String, String)>,
    /// Seconds it took; `None` when the file ends before the run's end.
    pub end: Option<f64>,
}

impl Report {
    /// A system's title.
    pub fn title_of<'a>(&'a self, system: &'a str) -> &'a str {
        self.systems.iter().find(|used| used.name == system).map_or(system, |used| &used.title)
    }

    /// Systems that could not be measured.
    pub fn missing(&self) -> impl Iterator<Item = &SystemUsed> {
        self.systems.iter().filter(|used| used.missing.is_some())
    }

    /// All rows with their cells.
    pub fn rows(&self) -> impl Iterator<Item = (&CellReport, &Row)> {
        self.sections
            .iter()
            .flat_map(|section| &section.cells)
            .flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)))
    }

    /// What the reader must know about how far the run got; `None` when it came to its end.
    pub fn unfinished(&self) -> Option<&'static str> {
        self.end.is_none().then_some("The run has not come to its end; it can be continued.")
    }
}
