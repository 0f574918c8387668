//! Tables before they are printed: terminal, Markdown and HTML show the same columns and texts. A [`Text`]
//! may carry the exact number behind it ([`Source`]), which the HTML page exposes and its test compares with
//! the result file.

mod derived;
mod glossary;
mod overview;
mod plot;
mod published;
mod section;
mod sentences;

pub(crate) use derived::signed;
pub use derived::{of_own, of_prices, steady};
pub use glossary::glossary;
pub use overview::{of_decision, of_systems};
pub use plot::{Plot, PlotBar, plot};
pub use published::of_published;
pub use section::{of_more, of_section};
pub(crate) use sentences::sentences_text;
pub use sentences::{Piece, Sentence, sentences};

use crate::figures::{Call, CellReport, Figures, Ratio, Row};
use crate::number;
use tollgate_lab_record::{Host, Summary, VerdictKind};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The head of the column.
    pub head: String,
    /// Whether it has numbers, which are right-aligned.
    pub number: bool,
    /// The order in which a narrow terminal drops columns: the highest first; 1 only after the intervals; 0
    /// never.
    pub drop: u8,
}

/// The meaning of a text, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// None.
    Plain,
    /// Better than the baseline.
    Good,
    /// Worse than the baseline, or a limit outside the system.
    Bad,
    /// Not to be read as a figure.
    Faint,
}

/// The source of a number, so that a test can compare it with the result file.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The id of the cell.
    pub cell: String,
    /// The system's name.
    pub system: String,
    /// The name of the figure: `cpu_us`, `rps`, `ratio-cpu`...
    pub figure: String,
    /// The exact number.
    pub value: f64,
}

/// A text in a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The text as printed.
    pub text: String,
    /// A smaller text before it: an interval.
    pub beside: Option<String>,
    /// A second, smaller line: a finding.
    pub small: Option<String>,
    /// The meaning of the text.
    pub tone: Tone,
    /// The number that it shows.
    pub source: Option<Source>,
    /// The columns that it spans; more than 1 for a reason in place of figures.
    pub span: usize,
}

impl Text {
    /// Creates a plain text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), beside: None, small: None, tone: Tone::Plain, source: None, span: 1 }
    }

    fn small(mut self, small: impl Into<String>) -> Self {
        self.small = Some(small.into());
        self
    }

    fn beside(mut self, beside: impl Into<String>) -> Self {
        self.beside = Some(beside.into());
        self
    }

    fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Returns all parts on one line.
    pub fn joined(&self) -> String {
        let mut out = self.text.clone();
        if let Some(beside) = &self.beside {
            out.push_str(&format!(" ({beside})"));
        }
        if let Some(small) = &self.small {
            out.push_str(&format!(": {small}"));
        }
        out
    }
}

/// Rows under one subheading.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The subheading: the title of the rows' cell.
    pub title: Option<String>,
    /// The rows; each has one text for each column, counting spans.
    pub rows: Vec<Vec<Text>>,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The caption.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The groups of rows.
    pub groups: Vec<Group>,
    /// Explanations of the signs in the table.
    pub footnotes: Vec<String>,
}

impl Table {
    /// Returns the table without the columns in which every text is "–" or 0: what did not happen to any system.
    fn without_empty_columns(mut self) -> Self {
        let is_empty = |at: usize| {
            let mut texts = self.groups.iter().flat_map(|group| &group.rows).filter_map(|row| row.get(at));
            texts.all(|text| matches!(text.text.as_str(), "–" | "0" | "0.00") && text.span == 1)
        };
        let kept: Vec<bool> = (0..self.columns.len()).map(|at| at == 0 || !is_empty(at)).collect();
        let keep = |at: &mut usize| {
            *at += 1;
            kept[*at - 1]
        };
        let mut at = 0;
        self.columns.retain(|_| keep(&mut at));
        for row in self.groups.iter_mut().flat_map(|group| &mut group.rows) {
            let mut at = 0;
            row.retain(|_| keep(&mut at));
        }
        self
    }
}

fn column(head: impl Into<String>, number: bool, drop: u8) -> Column {
    Column { head: head.into(), number, drop }
}

struct Place<'a> {
    cell: &'a str,
    system: &'a str,
}

impl Place<'_> {
    fn number(&self, figure: &str, value: Option<f64>, write: impl Fn(f64) -> String) -> Text {
        let Some(value) = value else { return Text::new("–").tone(Tone::Faint) };
        let source = Source {
            cell: self.cell.to_owned(),
            system: self.system.to_owned(),
            figure: figure.to_owned(),
            value,
        };
        Text { source: Some(source), ..Text::new(write(value)) }
    }

    fn ratio(&self, ratio: Option<&Ratio>, is_baseline: bool) -> Text {
        if is_baseline {
            return Text::new("1").beside("baseline").tone(Tone::Faint);
        }
        let Some((ratio, ours)) = ratio.and_then(|ratio| Some((ratio, ratio.ours?))) else {
            return Text::new("–").tone(Tone::Faint);
        };
        let figure = format!("ratio-{}", ratio.metric.key());
        let text = self.number(&figure, Some(ours.estimate), number::ratio);
        let lower_wins = ratio.metric.lower_is_better();
        let (tone, small) = match ratio.call {
            Some(Call::Lower) => (if lower_wins { Tone::Good } else { Tone::Bad }, None),
            Some(Call::Higher) => (if lower_wins { Tone::Bad } else { Tone::Good }, None),
            Some(Call::Tie) => (Tone::Plain, Some("tie")),
            Some(Call::Beyond) => return Text::new("limit").beside("beyond direct").tone(Tone::Bad),
            Some(Call::Open | Call::Reference) | None => (Tone::Plain, None),
        };
        let small = match small {
            Some(word) => format!("{} {word}", range(&ours)),
            None if ratio.call == Some(Call::Open) && ours.rounds > 1 => {
                format!("{}, {} rounds", range(&ours), ours.rounds)
            }
            None => range(&ours),
        };
        text.beside(small).tone(tone)
    }
}

/// Returns the interval of a ratio in words. One round has none, rounds that are all equal show none, and a
/// condensed file (0 rounds) may lack it.
pub(crate) fn range(ratio: &Summary) -> String {
    match ratio.rounds {
        0 => "no interval".to_owned(),
        1 => "one round".to_owned(),
        _ if ratio.low < ratio.high => number::interval(ratio.low, ratio.high),
        _ => "no spread".to_owned(),
    }
}

/// Returns the interval of a figure in microseconds, in words.
pub(crate) fn range_us(figure: &Summary) -> String {
    if figure.rounds > 1 && figure.low < figure.high {
        format!("{}–{}", number::plain(figure.low), number::plain(figure.high))
    } else {
        range(figure)
    }
}

/// Returns the user and system parts of a cost, or why they are not shown.
fn parts(figures: &Figures) -> Text {
    let text = match figures.user_us.zip(figures.system_us) {
        Some((user, system)) => Text::new(format!("{} + {}", number::plain(user), number::plain(system))),
        None if figures.cpu_us.is_some() => Text::new("too few ticks"),
        None => Text::new("–"),
    };
    text.tone(Tone::Faint)
}

/// Returns the verdict's name, and how many rounds count if some were dropped.
fn limit(row: &Row) -> Text {
    let text = Text::new(row.verdict_name());
    match row.figures().filter(|figures| figures.dropped > 0) {
        Some(figures) => {
            text.beside(format!("{} of {} rounds", figures.rounds, figures.rounds + figures.dropped))
        }
        None => text,
    }
}

/// Returns the interval of the 99th percentile over the rounds, in words; `None` if they show no spread.
fn p99_range(figures: &Figures) -> Option<String> {
    let rounds = figures.p99_rounds_us.filter(|rounds| rounds.rounds > 1 && rounds.low < rounds.high)?;
    Some(format!("{}–{}", number::time(rounds.low), number::time(rounds.high)))
}

/// Returns the verdict's name and its first finding.
fn verdict(row: &Row) -> Text {
    let text = limit(row);
    let tone = match row.verdict {
        Some(VerdictKind::Nothing) => Tone::Plain,
        Some(
            VerdictKind::Gateway | VerdictKind::HotWorker | VerdictKind::Quota | VerdictKind::Connections,
        ) => Tone::Plain,
        Some(_) => Tone::Bad,
        None => Tone::Faint,
    };
    let text = text.tone(tone);
    match row.findings.first().filter(|_| row.verdict != Some(VerdictKind::Nothing)) {
        Some(seen) => text.small(seen),
        None => text,
    }
}

/// Returns the findings of a row that `verdict` and `reason` do not show.
pub fn further_findings(row: &Row) -> &[String] {
    match row.verdict {
        _ if row.figures().is_none() => &[],
        Some(VerdictKind::Nothing) => &row.findings,
        _ => row.findings.get(1..).unwrap_or_default(),
    }
}

/// Returns a reason in place of figures.
fn reason(row: &Row, why: &str, span: usize) -> Text {
    let tone = if row.verdict.is_some() { Tone::Bad } else { Tone::Faint };
    Text { span, ..Text::new(format!("{}: {why}", row.verdict_name())).tone(tone) }
}

/// Cores that other programs used before the run, from which a report says so at its head.
const BUSY: f64 = 0.2;

/// Returns a warning if other programs used the machine when the run began.
pub fn busy(host: &Host) -> Option<String> {
    host.busy_at_start.filter(|cores| *cores > BUSY)?;
    let (_, text) = surroundings(host).pop()?;
    Some(format!("A busy machine: {text}."))
}

/// Returns what the figures of a run depend on besides CPU and kernel: a name and a text each. Empty for a file
/// of an earlier version, which does not hold it.
pub fn surroundings(host: &Host) -> Vec<(&'static str, String)> {
    let Some(busy) = host.busy_at_start else { return Vec::new() };
    let interrupts = match host.irq_time_accounting {
        Some(true) => "their time is counted apart from the tasks (CONFIG_IRQ_TIME_ACCOUNTING)",
        Some(false) => "their time counts as the task's that they interrupt (no CONFIG_IRQ_TIME_ACCOUNTING)",
        None => "how their time is counted is not known (the kernel does not publish its configuration)",
    };
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    vec![
        ("Interrupts", interrupts.to_owned()),
        ("Frequency", or(host.governor.clone(), "set by no governor of this kernel")),
        ("Hypervisor", or(host.hypervisor.clone(), "none")),
        ("Mitigations", or(host.mitigations.join("; "), "none")),
        (
            "At the start",
            format!(
                "other programs used {} cores, load average {}",
                number::plain(busy),
                number::plain(host.load_at_start)
            ),
        ),
    ]
}

/// Returns the terms of a cell, which its subheading shows next to the title.
pub fn terms(cell: &CellReport) -> String {
    let mut parts = Vec::new();
    match cell.offered {
        Some(rps) => parts.push(format!("{} requests/s offered to each", number::whole(rps))),
        None if cell.rows.iter().any(|row| row.figures().is_some()) => {
            parts.push("closed loop: each at its own rate".to_owned());
        }
        None => {}
    }
    if let Some(ceiling) = cell.ceiling_rps {
        parts.push(format!("direct ceiling {} requests/s", number::whole(ceiling)));
    }
    if let Some(control) = cell.rows.iter().find_map(|row| row.control) {
        parts.push(format!(
            "the control against its own copy {} ({})",
            number::ratio(control.estimate),
            range(&control)
        ));
    }
    parts.join("; ")
}
