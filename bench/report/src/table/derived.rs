//! Tables of derived figures, and tables that a study itself defines.

use super::{Group, Table, Text, Tone, column};
use crate::figures::{Report, Section, Steady};
use crate::number;
use tollgate_lab_record::{Known, Price, Summary};

/// Returns a section's feature prices; `None` if it has none.
pub fn of_prices(report: &Report, section: &Section) -> Option<Table> {
    if section.prices.is_empty() {
        return None;
    }
    let columns = vec![
        column("Feature", false, 0),
        column("System", false, 0),
        column("CPU µs/req added", true, 0),
        column("p99 added", true, 0),
        column("Instructions/req added", true, 0),
        column("Why none", false, 2),
    ];
    let rows = section
        .prices
        .iter()
        .map(|price| {
            let feature =
                if price.whole { format!("{}: the whole", price.feature) } else { price.feature.clone() };
            vec![
                Text::new(feature),
                Text::new(report.title_of(&price.system)),
                with_interval(price.whole, &price.cpu_us, &number::plain),
                with_interval(price.whole, &price.p99_us, &number::time),
                match &price.instructions {
                    Known::Is(count) if price.whole => Text::new(number::whole(*count)),
                    Known::Is(count) => Text::new(signed(*count, &number::whole)),
                    Known::Not(_) => lacking(),
                },
                Text::new(why_none(price)).tone(Tone::Faint),
            ]
        })
        .collect();
    Some(Table {
        caption: format!("{}: what features add", section.title),
        columns,
        groups: vec![Group { title: None, rows }],
        footnotes: Vec::new(),
    })
}

fn lacking() -> Text {
    Text::new("–").tone(Tone::Faint)
}

fn with_interval(whole: bool, known: &Known<Summary>, write: &dyn Fn(f64) -> String) -> Text {
    let Known::Is(found) = known else { return lacking() };
    let shown = |value: f64| if whole { write(value) } else { signed(value, write) };
    let text = Text::new(shown(found.estimate));
    let text = if found.low < found.high {
        text.beside(format!("{} to {}", shown(found.low), shown(found.high)))
    } else {
        text
    };
    let shown = found.rounds >= crate::FEWEST_ROUNDS && (found.low > 0.0 || found.high < 0.0);
    if shown { text } else { text.tone(Tone::Faint) }
}

/// Returns why a price lacks figures; an empty string if it has all.
fn why_none(price: &Price) -> String {
    let why = |known: &Known<Summary>| match known {
        Known::Is(_) => None,
        Known::Not(why) => Some(why.clone()),
    };
    let (cpu, p99) = (why(&price.cpu_us), why(&price.p99_us));
    let counted = match &price.instructions {
        Known::Is(_) => None,
        Known::Not(why) => Some(why.clone()),
    };
    let mut parts = Vec::new();
    match (cpu, p99) {
        (Some(cpu), Some(p99)) if cpu == p99 => parts.push(cpu),
        (cpu, p99) => {
            parts.extend(cpu.map(|why| format!("CPU: {why}")));
            parts.extend(p99.map(|why| format!("p99: {why}")));
        }
    }
    parts.extend(counted.map(|why| format!("instructions: {why}")));
    parts.join("; ")
}

/// Formats a difference with its sign.
pub(crate) fn signed(value: f64, write: &dyn Fn(f64) -> String) -> String {
    format!("{}{}", if value > 0.0 { "+" } else { "" }, write(value))
}

/// Returns a table that the study itself defines.
pub fn of_own(caption: &str, own: &crate::figures::OwnTable) -> Table {
    let is_number = |at: usize| {
        let mut texts =
            own.rows.iter().filter_map(|row| row.get(at)).filter(|text| !text.is_empty()).peekable();
        texts.peek().is_some()
            && texts.all(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '–' || c == '-'))
    };
    Table {
        caption: caption.to_owned(),
        columns: own
            .head
            .iter()
            .enumerate()
            .map(|(at, head)| column(head, at > 0 && is_number(at), 0))
            .collect(),
        groups: vec![Group {
            title: None,
            rows: own.rows.iter().map(|row| row.iter().map(Text::new).collect()).collect(),
        }],
        footnotes: Vec::new(),
    }
}

/// Returns in words when a system was steady; `None` if the study did not ask for it.
pub fn steady(steady: Steady) -> Option<String> {
    match steady {
        Steady::After { seconds } => Some(format!("steady after {}", number::duration(seconds))),
        Steady::Never => Some("never steady".to_owned()),
        Steady::NotAsked => None,
    }
}
