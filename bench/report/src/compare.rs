//! Compares two result files, cell by cell and system by system. A figure is compared only if it is
//! comparable: the CPU cost and the latency at an offered rate, the throughput in a closed loop.
//!
//! Two files are two runs, and a machine differs from run to run by more than most changes of a program. The
//! change of a system is therefore measured against another system that both files hold, the reference: the
//! ratio to it within the rounds of the second file, over the same ratio in the first one (a difference of
//! differences). The reference itself stands for the machine, and no conclusion is drawn about it. A table
//! draws many conclusions at once; [`tollgate_lab_stats::several`] widens the intervals so that all of them
//! hold together.
//!
//! [`Comparison`] also lists what only one file has, figures that were lost, and differences of machine or
//! versions that make the ratios doubtful. The gate for CI is built on it.

use crate::figures::{Call, CellReport, Metric, Report, Row, named, paired, rounds};
use crate::table::{Column, Group, Table, Text, Tone};
use crate::{FEWEST_ROUNDS, estimate, number, terminal};
use serde::Serialize;
use std::collections::BTreeMap;
use tollgate_lab_record::{Results, Summary};
use tollgate_lab_stats::several::widening;

/// The metrics that are compared. A run's maximum and its mean are too unstable to compare.
const COMPARED: [Metric; 3] = [Metric::Cpu, Metric::Rps, Metric::P99];

/// The choices of a comparison.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice<'a> {
    /// The system that stands for the machine. By default it is chosen for each cell: the study's baseline,
    /// or else the first system that both files hold and that is not in `systems`.
    pub reference: Option<&'a str>,
    /// The systems about which conclusions are drawn; empty means all.
    pub systems: &'a [String],
}

impl Choice<'_> {
    fn names(&self, system: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|name| name == system)
    }
}

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
    /// The title of the reference; `None` if no other system is in both files, or if this is the reference.
    /// The ratio then includes any change of the machine.
    pub against: Option<String>,
    /// The second value divided by the first, each relative to the reference, with the interval that holds
    /// together with the intervals of all other changes.
    pub ratio: Summary,
    /// The conclusion, given the noise of both files' A/A controls.
    pub call: Call,
}

/// A figure that the first file has and the second lacks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lost {
    /// The system's name.
    pub system: String,
    /// Whether the second file has the cell with this system, so that a trial failed.
    pub failed: bool,
    /// Returns a sentence that says which figure is lost, and why.
    pub text: String,
}

/// The differences between two result files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The figures that both files have.
    pub changes: Vec<Change>,
    /// The figures that only the first file has.
    pub lost: Vec<Lost>,
    /// Cells and systems with figures in only one of the files, as sentences; those of `lost` included.
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
pub fn compare(first: &Results, second: &Results, choice: &Choice<'_>) -> Comparison {
    let (old, new) = (Report::new(first), Report::new(second));
    let mut out = Comparison {
        changes: Vec::new(),
        lost: Vec::new(),
        only_in_one: Vec::new(),
        doubts: doubts(&old, &new),
    };
    let files = Files::new(first, second, choice);
    for (cell, row) in new.rows() {
        let before = old.rows().find(|(other, one)| other.id == cell.id && one.system == row.system);
        if let Some((other, _)) = before
            && set(other) != set(cell)
        {
            let text =
                format!("{} in {}: the cell is set otherwise in the first file", row.title, cell.title);
            match before.and_then(|(_, row)| row.figures()) {
                Some(_) => out.lose(row, false, text),
                None => out.only_in_one.push(text),
            }
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
                    match files.lost(cell, row, metric) {
                        // The latency of a trial is not the system's if the generator's side was full.
                        Some((_, _, text)) if metric.is_latency() => out.only_in_one.push(text),
                        Some((0, _, text)) => out.lose(row, true, text),
                        // The run was stopped, or was shorter than requested, so it proves nothing.
                        Some((_, true, text)) => out.lose(row, false, text),
                        Some((_, false, text)) => out.only_in_one.push(text),
                        None => {}
                    }
                    let was = before.and_then(|(_, row)| row.control);
                    out.changes.extend(files.change((cell, row), metric, was));
                }
            }
            (None, Some(_)) => {
                out.only_in_one
                    .push(format!("{} in {}: no figures in the first file", row.title, cell.title));
            }
            (Some(_), None) => {
                let why = row.why_not().unwrap_or_default();
                let text = format!("{} in {}: no figures in the second file ({why})", row.title, cell.title);
                out.lose(row, true, text);
            }
            (None, None) => {}
        }
    }
    for (cell, row) in old.rows().filter(|(_, row)| row.figures().is_some()) {
        if !new.rows().any(|(other, one)| other.id == cell.id && one.system == row.system) {
            out.lose(row, false, format!("{} in {}: not in the second file", row.title, cell.title));
        }
    }
    if !out.changes.is_empty() && out.changes.iter().all(|change| change.against.is_none()) {
        out.doubts.push(
            "No other system is in both files: a change of the machine is not told from one of the system"
                .to_owned(),
        );
    }
    conclude(&mut out.changes, choice);
    out
}

/// Widens the intervals so that they hold together, and draws the conclusions.
fn conclude(changes: &mut [Change], choice: &Choice<'_>) {
    let concludes = |change: &Change| {
        change.call != Call::Reference && change.ratio.rounds >= FEWEST_ROUNDS && choice.names(&change.system)
    };
    let count = changes.iter().filter(|change| concludes(change)).count();
    for change in changes {
        // The noise of the controls was applied to the narrower interval, and a wider one can only tie.
        let freedom = 2 * change.ratio.rounds.saturating_sub(1);
        change.ratio = estimate::widened(change.ratio, widening(count, freedom));
        let moved = change.ratio.low > 1.0 || change.ratio.high < 1.0;
        change.call = match change.call {
            Call::Reference if !moved => Call::Tie,
            Call::Lower | Call::Higher if !moved => Call::Tie,
            call => call,
        };
    }
}

/// The two files of a comparison.
struct Files<'a> {
    first: &'a Results,
    second: &'a Results,
    choice: &'a Choice<'a>,
    /// The rounds with a figure in both files, by cell, system and metric.
    counts: BTreeMap<(String, String, Metric), (u32, u32)>,
}

impl<'a> Files<'a> {
    fn new(first: &'a Results, second: &'a Results, choice: &'a Choice<'a>) -> Self {
        let mut counts = BTreeMap::new();
        for cell in &second.cells {
            for (system, metric) in cell.systems.iter().flat_map(|name| COMPARED.map(|metric| (name, metric)))
            {
                let count = |results: &Results| {
                    u32::try_from(rounds(results, &cell.id, system, metric).len()).unwrap_or(u32::MAX)
                };
                counts.insert((cell.id.clone(), system.clone(), metric), (count(first), count(second)));
            }
        }
        Self { first, second, choice, counts }
    }

    /// Returns the rounds with a figure in the first and in the second file.
    fn counts(&self, cell: &CellReport, row: &Row, metric: Metric) -> (u32, u32) {
        let key = (cell.id.clone(), row.system.clone(), metric);
        self.counts.get(&key).copied().unwrap_or_default()
    }

    /// Returns the system that stands for the machine in a cell; `None` if no two systems are in both files.
    fn reference<'c>(&self, cell: &'c CellReport, metric: Metric) -> Option<&'c Row> {
        let both = |row: &&Row| {
            let (first, second) = self.counts(cell, row, metric);
            first > 0 && second > 0
        };
        let rows: Vec<&Row> = cell.rows.iter().filter(both).collect();
        if rows.len() < 2 {
            return None;
        }
        let of = |name: &str| rows.iter().copied().find(|row| row.system == name);
        let baseline = self.second.header.baseline.as_deref();
        let unnamed = |row: &&Row| self.choice.systems.is_empty() || !self.choice.names(&row.system);
        self.choice
            .reference
            .and_then(of)
            .or_else(|| baseline.and_then(of).filter(unnamed))
            .or_else(|| rows.iter().copied().find(|row| unnamed(row) && row.system != "direct"))
            .or_else(|| rows.iter().copied().find(unnamed))
            .or_else(|| baseline.and_then(of))
            .or_else(|| rows.first().copied())
    }

    fn change(
        &self,
        (cell, row): (&CellReport, &Row),
        metric: Metric,
        was: Option<Summary>,
    ) -> Option<Change> {
        let of = |results: &Results| rounds(results, &cell.id, &row.system, metric);
        let (before, after) = (of(self.first), of(self.second));
        let reference = self.reference(cell, metric);
        let is_reference = reference.is_some_and(|reference| reference.system == row.system);
        let against = reference.filter(|_| !is_reference).and_then(|reference| {
            let within =
                |results: &Results| paired(results, &cell.id, &row.system, &reference.system, metric);
            let ratio = estimate::independent_ratio(within(self.second)?, within(self.first)?);
            Some((reference.title.clone(), ratio))
        });
        let (against, ratio) = match against {
            Some((title, ratio)) => (Some(title), ratio),
            None => (None, estimate::unpaired_ratio(&after, &before)?),
        };
        let noise = wider(was, row.control).filter(|_| metric == Metric::Cpu);
        Some(Change {
            cell: cell.id.clone(),
            cell_title: cell.title.clone(),
            system: row.system.clone(),
            title: row.title.clone(),
            metric,
            before: estimate::interval(&before)?.estimate,
            after: estimate::interval(&after)?.estimate,
            against,
            call: match named(ratio, noise) {
                Call::Lower | Call::Higher if is_reference => Call::Reference,
                call => call,
            },
            ratio,
        })
    }

    /// Returns how many rounds of the second file have a figure, whether that file has too few trials for a conclusion,
    /// and a sentence about them, if the rounds are none, or too few although the first file has enough.
    fn lost(&self, cell: &CellReport, row: &Row, metric: Metric) -> Option<(u32, bool, String)> {
        let (had, has) = self.counts(cell, row, metric);
        let ran = self.second.trials_of(&cell.id, &row.system).filter(|trial| trial.round > 0).count();
        let few = had >= FEWEST_ROUNDS && has < FEWEST_ROUNDS;
        (ran > 0 && had > 0 && (has == 0 || few)).then(|| {
            let name = metric.title();
            let text = format!(
                "{} in {}: {name} in {has} of {ran} rounds of the second file",
                row.title, cell.title
            );
            (has, ran < FEWEST_ROUNDS as usize, text)
        })
    }
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
    let (one, other) = (&old.header.host, &new.header.host);
    differ("Study", old.header.study.clone(), new.header.study.clone());
    differ("CPU", one.cpu.clone(), other.cpu.clone());
    differ("Cores", number::plain(one.cores), number::plain(other.cores));
    differ("Kernel", one.kernel.clone(), other.kernel.clone());
    let reported = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    // A file of an earlier version holds none of these.
    if one.busy_at_start.is_some() && other.busy_at_start.is_some() {
        differ("Hypervisor", reported(&one.hypervisor), reported(&other.hypervisor));
        differ("Frequency governor", reported(&one.governor), reported(&other.governor));
        differ("Mitigations", reported(&one.mitigations.join("; ")), reported(&other.mitigations.join("; ")));
    }
    for used in &new.systems {
        if let Some(was) = old.systems.iter().find(|was| was.name == used.name) {
            differ(&format!("Version of {}", used.title), was.version.clone(), used.version.clone());
        }
    }
    out
}

impl Comparison {
    fn lose(&mut self, row: &Row, failed: bool, text: String) {
        self.only_in_one.push(text.clone());
        self.lost.push(Lost { system: row.system.clone(), failed, text });
    }

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
        let mut footnotes = Vec::new();
        if self.changes.iter().any(|change| change.against.is_some()) {
            footnotes.push(
                "Ratio: the change against the reference named beside it, which runs in the same rounds and stands for the \
                 machine; the reference's own row shows the change of the machine."
                    .to_owned(),
            );
        }
        footnotes.push("The intervals hold together with 95 %, over all rows.".to_owned());
        Table {
            caption: "Second file over first".to_owned(),
            columns: vec![
                column("System", false, 0),
                column("Figure", false, 0),
                column("First", true, 2),
                column("Second", true, 1),
                column("Against", false, 3),
                column("Ratio", true, 0),
                column("", false, 0),
            ],
            groups,
            footnotes,
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
        Call::Tie | Call::Open | Call::Beyond | Call::Reference => None,
    };
    let tone = worse.map_or(Tone::Plain, |worse| if worse { Tone::Bad } else { Tone::Good });
    let ratio = number::ratio(change.ratio.estimate);
    let interval = crate::table::range(&change.ratio);
    vec![
        Text::new(&change.title),
        Text::new(change.metric.title()),
        Text::new(write(change.before)),
        Text::new(write(change.after)),
        Text::new(change.against.as_deref().unwrap_or("–")),
        Text { beside: Some(interval), tone, ..Text::new(ratio) },
        Text::new(change.call.name()),
    ]
}
