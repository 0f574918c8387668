//! Tables before they are printed: the same columns and texts for terminal, Markdown and HTML.

mod decision;
mod derived;
mod published;
mod section;

pub use decision::of_decision;
pub(crate) use derived::signed;
pub use derived::{of_own, of_prices, steady};
pub use published::of_published;
pub use section::{of_more, of_section};

use crate::figures::{Call, CellReport, Ratio, Row};
use crate::number;
use tollgate_lab_record::VerdictKind;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub head: String,
    /// Whether it holds numbers, which stand to the right.
    pub number: bool,
    /// How soon a narrow terminal drops it: the highest goes first, 1 only after the intervals, 0 never.
    pub drop: u8,
}

/// What a text means, for colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    Plain,
    /// Better than the baseline.
    Good,
    /// Worse than the baseline, or a limit that is not the system's.
    Bad,
    /// Present, and not to be read as a figure.
    Faint,
}

/// Where a number comes from, so that a test can hold it against the result file.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Cell.
    pub cell: String,
    /// System.
    pub system: String,
    /// Name of the figure: `cpu_us`, `rps`, `ratio-cpu`...
    pub figure: String,
    /// The number, not rounded.
    pub value: f64,
}

/// A text in a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// As printed.
    pub text: String,
    /// A smaller text before it: an interval.
    pub beside: Option<String>,
    /// A second, smaller line: a finding.
    pub small: Option<String>,
    /// Its tone.
    pub tone: Tone,
    /// The number behind it.
    pub source: Option<Source>,
    /// Columns that it takes; more than 1 where there is a reason in place of figures.
    pub span: usize,
}

impl Text {
    /// A plain text.
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

    /// All of it on one line.
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

/// Rows under one sub-head.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What the rows have in common: the cell.
    pub title: Option<String>,
    /// Texts, as many as columns (counting spans).
    pub rows: Vec<Vec<Text>>,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows.
    pub groups: Vec<Group>,
    /// What a reader must know of its signs.
    pub footnotes: Vec<String>,
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
            Some(Call::Open) | None => (Tone::Plain, Some("one round")),
        };
        let interval = number::interval(ours.low, ours.high);
        let small = match small {
            Some("one round") if ours.rounds > 1 => "no spread".to_owned(),
            Some("one round") => "one round".to_owned(),
            Some(word) => format!("{interval} {word}"),
            None => interval,
        };
        text.beside(small).tone(tone)
    }
}

/// The word and the first thing that was seen.
fn verdict(row: &Row) -> Text {
    let text = Text::new(row.verdict_name());
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

/// A reason in place of figures.
fn reason(row: &Row, why: &str, span: usize) -> Text {
    let tone = if row.verdict.is_some() { Tone::Bad } else { Tone::Faint };
    Text { span, ..Text::new(format!("{}: {why}", row.verdict_name())).tone(tone) }
}

/// What a cell's sub-head says beside its title.
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
        let interval = number::interval(control.low, control.high);
        parts.push(format!(
            "the control against its own copy {} ({interval})",
            number::ratio(control.estimate)
        ));
    }
    parts.join("; ")
}
