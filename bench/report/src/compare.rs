//! Compares two result files, cell by cell and system by system. A figure is compared only if it is
//! comparable: the CPU cost and the latency at an offered rate, the throughput in a closed loop.
//! [`Comparison`] also lists what only one file has, and differences of machine or versions that make the
//! ratios doubtful. The gate for CI is built on it.

use crate::figures::{Call, CellReport, Metric, Report, call};
use crate::table::{Column, Group, Table, Text, Tone};
use crate::{estimate, number, terminal};
use serde::Serialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{Results, Summary};

/// The metrics that are compared. A run's maximum and its mean are too unstable to compare.
const COMPARED: [Metric; 3] = [Metric::Cpu, Metric::Rps, Metric::P99];

/// One figure of one system in one cell, in both files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The id of the cell.
    pub cell: String,
    /// The title of the cell.
    pub cell_title: String,
    /// The system's name.
    pub system: String,
    /// The system's title.
    pub title: String,
    /// The metric.
    pub metric: Metric,
    /// The value in the first file.
    pub before: f64,
    /// The value in the second file.
    pub after: f64,
    /// The second value divided by the first, with its interval. The files share no rounds, so it is wider
    /// than that of a ratio within one file.
    pub ratio: Summary,
    /// The conclusion, given the noise of both files' A/A controls.
    pub call: Call,
}

/// The differences between two result files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The figures that both files have.
    pub changes: Vec<Change>,
    /// Cells and systems with figures in only one of the files, as sentences.
    pub only_in_one: Vec<String>,
    /// Differences of machine or study that make the ratios doubtful, as sentences.
    pub doubts: Vec<String>,
}

/// Returns the settings of a cell except its length. A cell's id is its position in a study that may have
/// been edited, so equal ids may have other settings.
fn set(cell: &CellReport) -> BTreeMap<&String, &String> {
    cell.settings.iter().filter(|(name, _)| !matches!(name.as_str(), "seconds" | "rounds")).collect()
}

/// Compares the second file with the first.
pub fn compare(first: &Results, second: &Results) -> Comparison {
    let (old, new) = (Report::new(first), Report::new(second));
    let mut out = Comparison { changes: Vec::new(), only_in_one: Vec::new(), doubts: doubts(&old, &new) };
    for (cell, row) in new.rows() {
        let before = old.rows().find(|(other, one)| other.id == cell.id && one.system == row.system);
        if let Some((other, _)) = before
            && set(other) != set(cell)
        {
            out.only_in_one.push(format!(
                "{} in {}: the cell is set otherwise in the first file",
                row.title, cell.title
            ));
            continue;
        }
        let before_figures = before.and_then(|(_, row)| row.figures());
        match (before_figures, row.figures()) {
            (Some(_), Some(figures)) => {
                for metric in COMPARED {
                    // In a closed loop each run has its own rate, so throughputs compare but costs do not. At
                    // an offered rate it is the other way round.
                    if (metric == Metric::Rps) == figures.offered.is_some() {
                        continue;
                    }
                    let was = before.and_then(|(_, row)| row.control);
                    out.changes.extend(change(first, second, (cell, row), metric, was));
                }
            }
            (None, Some(_)) => {
                out.only_in_one
                    .push(format!("{} in {}: no figures in the first file", row.title, cell.title));
            }
            (Some(_), None) => {
                let why = row.why_not().unwrap_or_default();
                out.only_in_one
                    .push(format!("{} in {}: no figures in the second file ({why})", row.title, cell.title));
            }
            (None, None) => {}
        }
    }
    for (cell, row) in old.rows().filter(|(_, row)| row.figures().is_some()) {
        if !new.rows().any(|(other, one)| other.id == cell.id && one.system == row.system) {
            out.only_in_one.push(format!("{} in {}: not in the second file", row.title, cell.title));
        }
    }
    out
}

fn change(
    first: &Results,
    second: &Results,
    (cell, row): (&crate::figures::CellReport, &crate::figures::Row),
    metric: Metric,
    was: Option<Summary>,
) -> Option<Change> {
    let of = |results: &Results| crate::figures::rounds(results, &cell.id, &row.system, metric);
    let (before, after) = (of(first), of(second));
    let ratio = estimate::unpaired_ratio(&after, &before)?;
    let noise = wider(was, row.control).filter(|_| metric == Metric::Cpu);
    Some(Change {
        cell: cell.id.clone(),
        cell_title: cell.title.clone(),
        system: row.system.clone(),
        title: row.title.clone(),
        metric,
        before: estimate::interval(&before)?.estimate,
        after: estimate::interval(&after)?.estimate,
        call: call(ratio, noise),
        ratio,
    })
}

fn wider(one: Option<Summary>, other: Option<Summary>) -> Option<Summary> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(Summary { low: one.low.min(other.low), high: one.high.max(other.high), ..one })
        }
        (one, other) => one.or(other),
    }
}

fn doubts(old: &Report, new: &Report) -> Vec<String> {
    let mut out = Vec::new();
    let mut differ = |what: &str, old: String, new: String| {
        if old != new {
            out.push(format!("{what}: {old} in the first file, {new} in the second"));
        }
    };
    differ("Study", old.header.study.clone(), new.header.study.clone());
    differ("CPU", old.header.host.cpu.clone(), new.header.host.cpu.clone());
    differ("Cores", number::plain(old.header.host.cores), number::plain(new.header.host.cores));
    differ("Kernel", old.header.host.kernel.clone(), new.header.host.kernel.clone());
    for used in &new.systems {
        if let Some(was) = old.systems.iter().find(|was| was.name == used.name) {
            differ(&format!("Version of {}", used.title), was.version.clone(), used.version.clone());
        }
    }
    out
}

impl Comparison {
    /// Formats the comparison for a terminal, as [`crate::terminal()`] does.
    pub fn terminal(&self, width: usize, colour: bool) -> String {
        let mut out = terminal::draw(&self.table(), width, colour);
        for line in self.doubts.iter().chain(&self.only_in_one) {
            out.push_str(line);
            out.push('\n');
        }
        out
    }

    fn table(&self) -> Table {
        let column = |head: &str, number: bool, drop: u8| Column { head: head.to_owned(), number, drop };
        let mut groups: Vec<Group> = Vec::new();
        for change in &self.changes {
            if groups.last().is_none_or(|group| group.title.as_deref() != Some(&change.cell_title)) {
                groups.push(Group { title: Some(change.cell_title.clone()), rows: Vec::new() });
            }
            if let Some(group) = groups.last_mut() {
                group.rows.push(row(change));
            }
        }
        Table {
            caption: "Second file over first".to_owned(),
            columns: vec![
                column("System", false, 0),
                column("Figure", false, 0),
                column("First", true, 2),
                column("Second", true, 1),
                column("Ratio", true, 0),
                column("", false, 0),
            ],
            groups,
            footnotes: Vec::new(),
        }
    }
}

fn row(change: &Change) -> Vec<Text> {
    let write = |value: f64| match change.metric {
        Metric::Cpu => format!("{} µs", number::plain(value)),
        Metric::Rps => number::whole(value),
        _ => number::time(value),
    };
    let worse = match change.call {
        Call::Higher => Some(change.metric.lower_is_better()),
        Call::Lower => Some(!change.metric.lower_is_better()),
        Call::Tie | Call::Open | Call::Beyond => None,
    };
    let tone = worse.map_or(Tone::Plain, |worse| if worse { Tone::Bad } else { Tone::Good });
    let ratio = number::ratio(change.ratio.estimate);
    let interval = crate::table::range(&change.ratio);
    vec![
        Text::new(&change.title),
        Text::new(change.metric.title()),
        Text::new(write(change.before)),
        Text::new(write(change.after)),
        Text { beside: Some(interval), tone, ..Text::new(ratio) },
        Text::new(change.call.name()),
    ]
}
