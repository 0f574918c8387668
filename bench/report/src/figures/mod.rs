//! Turns a result file into rows. Every output is made from [`Report`], so that no two outputs can show
//! different numbers.

mod build;
mod decision;
mod parts;

pub(crate) use build::{named, pair, paired, rounds};
pub use decision::{Decision, DecisionRow, Doubt, Headline, PriceList, is_reference};
pub use parts::{Page, Part};

use serde::Serialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{
    Ceiling, Header, Price, Published, Received, Summary, SystemUsed, VerdictKind, Window,
};
pub use tollgate_lab_record::{Figures, Metric};

/// The words with which a note begins that reports print above their tables.
const LEARNED: &str = "**What was learned";

/// The conclusion from a ratio and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// The whole interval is below 1, and below what the A/A control shows by chance.
    Lower,
    /// The whole interval is above 1, and above what the A/A control shows by chance.
    Higher,
    /// Neither: no difference was shown.
    Tie,
    /// Fewer rounds than a conclusion needs ([`crate::FEWEST_ROUNDS`]).
    Open,
    /// Between two files, the system that stands for the machine changed: no conclusion about the system.
    Reference,
    /// Better than the direct run of the same load. No gateway is, so the direct run was at a limit or
    /// disturbed, and the ratio is not a figure of the system.
    Beyond,
}

impl Call {
    /// Returns the word that tables show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Tie => "tie",
            Self::Open => "too few rounds",
            Self::Reference => "reference",
            Self::Beyond => "beyond direct",
        }
    }
}

/// A system's ratio to the baseline in one cell, for one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// The metric.
    pub metric: Metric,
    /// The measured ratio with its interval; `None` if either system was not measured.
    pub ours: Option<Summary>,
    /// The same ratio from the figures that the original published.
    pub published: Option<f64>,
    /// The conclusion from `ours`.
    pub call: Option<Call>,
}

/// When a system was steady after its start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Steady {
    /// After this time.
    After {
        /// Seconds from the start of the warm-up.
        seconds: f64,
    },
    /// Not within the time of the warm-up.
    Never,
    /// The study did not ask for it.
    NotAsked,
}

/// The result of a system in a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Figures.
    Measured(Box<Figures>),
    /// The system was measured, but the result is not a figure of the system.
    Void {
        /// The reason.
        why: String,
    },
    /// The system could not be measured on this machine.
    Missing {
        /// The reason.
        why: String,
    },
    /// The system was measured, but in other cells than this one.
    Elsewhere,
    /// The run has not reached it, or was stopped before.
    Pending,
}

/// A system in a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// [`SystemUsed::name`].
    pub system: String,
    /// [`SystemUsed::title`].
    pub title: String,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The component that limits it; `None` without a verdict.
    pub verdict: Option<VerdictKind>,
    /// The evidence of the verdict.
    pub findings: Vec<String>,
    /// When the system was steady.
    pub steady: Steady,
    /// The CPU ratio of the A/A control.
    pub control: Option<Summary>,
    /// The ratios to the baseline; the deciding metric comes first.
    pub ratios: Vec<Ratio>,
    /// The figures that the original published for it.
    pub published: Option<Published>,
}

impl Row {
    /// Returns the figures, if there are any.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Measured(figures) => Some(figures),
            _ => None,
        }
    }

    /// Returns the ratio for a metric.
    pub fn ratio(&self, metric: Metric) -> Option<&Ratio> {
        self.ratios.iter().find(|ratio| ratio.metric == metric)
    }

    /// Returns why there are no figures; `None` if there are.
    pub fn why_not(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Void { why } | Outcome::Missing { why } => Some(why.clone()),
            Outcome::Elsewhere => Some("not in this cell; see the sections".to_owned()),
            Outcome::Pending => Some("the run ended before its turn".to_owned()),
        }
    }

    /// Returns the word for the column of verdicts.
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
    /// The title of the cell.
    pub title: String,
    /// The setting that varies along the section, and this cell's value of it.
    pub axis: Option<(String, f64)>,
    /// All settings, by name.
    pub settings: BTreeMap<String, String>,
    /// The offered rate, if every system got the same one.
    pub offered: Option<f64>,
    /// The rows in the order of the study.
    pub rows: Vec<Row>,
    /// The direct ceiling before the rounds: median, in requests per second.
    pub ceiling_rps: Option<f64>,
}

impl CellReport {
    /// Returns the title; `None` if it only repeats the value of the axis, as the title of a point without one does.
    pub fn own_title(&self) -> Option<&str> {
        let repeated = self.axis.as_ref().map(|(axis, value)| format!("{axis} {value}"));
        (repeated.as_ref() != Some(&self.title)).then_some(self.title.as_str())
    }

    /// Returns the row of a system.
    pub fn row(&self, system: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.system == system)
    }
}

/// The cells that share one table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// The title of the section.
    pub title: String,
    /// The cells in the order of the study.
    pub cells: Vec<CellReport>,
    /// The metrics by which its tables compare with the baseline.
    pub compared_by: Vec<Metric>,
    /// Notes in Markdown.
    pub notes: Vec<String>,
    /// Tables that the study itself defines.
    pub tables: Vec<OwnTable>,
    /// The costs that features add, as the analysis computed them.
    pub prices: Vec<Price>,
}

impl Section {
    /// Returns the setting that varies along the cells, if it is the same for all of them and has at least
    /// two values.
    pub fn axis(&self) -> Option<&str> {
        let (first, start) = self.cells.first()?.axis.as_ref()?;
        let same = self.cells.iter().all(|cell| cell.axis.as_ref().is_some_and(|(name, _)| name == first));
        let varies =
            self.cells.iter().any(|cell| cell.axis.as_ref().is_some_and(|(_, value)| value != start));
        (same && varies).then_some(first.as_str())
    }

    /// Returns the names and titles of its systems, in order of first appearance.
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

/// A table that the study itself defines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnTable {
    /// The heads of the columns.
    pub head: Vec<String>,
    /// The rows, with one text for each column.
    pub rows: Vec<Vec<String>>,
}

/// The warm-up of a system by the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// [`SystemUsed::name`].
    pub system: String,
    /// The windows of the warm-up, about one second each.
    pub windows: Vec<Window>,
    /// When the system was steady.
    pub steady: Steady,
}

/// The percentile curves of one system in one cell: percentile (0-100) and microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// [`SystemUsed::name`].
    pub system: String,
    /// From the intended send time.
    pub corrected: Vec<(f64, f64)>,
    /// From the real send time.
    pub uncorrected: Vec<(f64, f64)>,
}

/// A whole result file, prepared for output.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The header of the file.
    pub header: Header,
    /// The systems of the study.
    pub systems: Vec<SystemUsed>,
    /// Name and title of the baseline, if the study has one.
    pub baseline: Option<(String, String)>,
    /// The sections in the order of the study.
    pub sections: Vec<Section>,
    /// The lessons of the study, in Markdown: its notes that begin with `**What was learned`.
    pub learned: Vec<String>,
    /// The other notes on the whole study, in Markdown.
    pub notes: Vec<String>,
    /// Tables on the whole study.
    pub tables: Vec<OwnTable>,
    /// The requests that the origin received. [`Received::section`] names the sections to which an entry
    /// applies; it is empty if the entry applies to all.
    pub received: Vec<Received>,
    /// The direct ceilings.
    pub ceilings: Vec<Ceiling>,
    /// The decision table; `None` if nothing was measured.
    pub decision: Option<Decision>,
    /// Percentile curves by the id of their cell.
    pub curves: BTreeMap<String, Vec<Curve>>,
    /// Warm-ups by the id of their cell.
    pub traces: BTreeMap<String, Vec<Trace>>,
    /// The tools that produced the load: names and versions.
    pub tools: Vec<(String, String)>,
    /// The duration of the run in seconds; `None` if the run has not finished.
    pub end: Option<f64>,
}

impl Report {
    /// Returns a system's title.
    pub fn title_of<'a>(&'a self, system: &'a str) -> &'a str {
        self.systems.iter().find(|used| used.name == system).map_or(system, |used| &used.title)
    }

    /// Returns the systems that could not be measured.
    pub fn missing(&self) -> impl Iterator<Item = &SystemUsed> {
        self.systems.iter().filter(|used| used.missing.is_some())
    }

    /// Returns the parts of all sections, in order.
    pub fn parts(&self) -> Vec<Part> {
        self.sections.iter().flat_map(Section::parts).collect()
    }

    /// Returns all rows with their cells.
    pub fn rows(&self) -> impl Iterator<Item = (&CellReport, &Row)> {
        self.sections
            .iter()
            .flat_map(|section| &section.cells)
            .flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)))
    }

    /// Returns a warning for the reader if the run has not finished; otherwise `None`.
    pub fn unfinished(&self) -> Option<&'static str> {
        self.end.is_none().then_some("The run has not come to its end; it can be continued.")
    }
}
