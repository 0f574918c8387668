//! Tables before they are printed: the same columns and texts for terminal, Markdown and HTML.

use crate::figures::{Call, CellReport, Decision, DecisionRow, Metric, Ratio, Report, Row, Section, Steady};
use crate::number;
use tollgate_lab_record::{Summary, VerdictKind};

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
    parts.join("; ")
}

/// A section's table: its cells one below the other, a row for each system. `None` for a section without cells.
pub fn of_section(report: &Report, section: &Section) -> Option<Table> {
    if section.cells.is_empty() {
        return None;
    }
    let baseline = report.baseline.as_ref();
    let measured = || section.cells.iter().flat_map(|cell| &cell.rows).filter_map(Row::figures);
    let has_cost = measured().any(|figures| figures.cpu_us.is_some());
    let published = |metric: Metric| {
        section.cells.iter().flat_map(|cell| &cell.rows).any(|row| {
            row.ratio(metric).is_some_and(|ratio| ratio.published.is_some_and(|value| value != 1.0))
        })
    };
    let mut columns = vec![column("System", false, 0)];
    if has_cost {
        columns.push(column("CPU µs/req", true, 0));
        columns.push(column("user + system", true, 5));
    }
    columns.extend([column("req/s", true, 0), column("p50", true, 4), column("p99", true, 0)]);
    if has_cost {
        columns.push(column("Memory", true, 3));
    }
    if let Some((_, title)) = baseline {
        for metric in &section.compared_by {
            columns.push(column(format!("{} ÷ {title}", metric.title()), true, 0));
            if published(*metric) {
                columns.push(column(format!("{} ÷ {title}, published", metric.title()), true, 1));
            }
        }
    }
    columns.push(column("Limited by", false, 0));
    let row_of = |cell: &CellReport, row: &Row| {
        let place = Place { cell: &cell.id, system: &row.system };
        let mut texts = vec![Text::new(&row.title)];
        let Some(figures) = row.figures() else {
            texts.push(reason(row, &row.why_not().unwrap_or_default(), columns.len() - 1));
            return texts;
        };
        if has_cost {
            let own_rate = figures.cpu_us.is_some() && cell.offered.is_none();
            let cost = place.number("cpu_us", figures.cpu_us.map(|cpu| cpu.estimate), number::plain);
            texts.push(if own_rate {
                Text { text: format!("{}*", cost.text), ..cost }.tone(Tone::Faint)
            } else {
                cost
            });
            let parts = figures.user_us.zip(figures.system_us);
            texts.push(parts.map_or_else(
                || Text::new("–").tone(Tone::Faint),
                |(user, system)| {
                    Text::new(format!("{} + {}", number::plain(user), number::plain(system)))
                        .tone(Tone::Faint)
                },
            ));
        }
        texts.push(place.number("rps", Some(figures.rps.estimate), number::whole));
        texts.push(place.number("p50_us", figures.p50_us, number::time));
        let mark = if figures.corrected { "" } else { "†" };
        texts.push(place.number("p99_us", figures.p99_us, |us| format!("{}{mark}", number::time(us))));
        if has_cost {
            texts.push(place.number("memory_kib", figures.memory_kib, number::memory));
        }
        if let Some((name, _)) = baseline {
            for metric in &section.compared_by {
                texts.push(place.ratio(row.ratio(*metric), &row.system == name));
                if published(*metric) {
                    let theirs = row.ratio(*metric).and_then(|ratio| ratio.published);
                    texts.push(place.number(&format!("published-{}", metric.key()), theirs, number::ratio));
                }
            }
        }
        texts.push(verdict(row));
        texts
    };
    let groups = section
        .cells
        .iter()
        .map(|cell| Group {
            title: Some(cell.title.clone()),
            rows: cell.rows.iter().map(|row| row_of(cell, row)).collect(),
        })
        .collect();
    let mut footnotes = Vec::new();
    if has_cost && section.cells.iter().any(|cell| cell.offered.is_none()) {
        footnotes.push(
            "* at the system's own rate: busy systems batch and look cheaper, so these costs do not compare."
                .to_owned(),
        );
    }
    if measured().any(|figures| figures.p99_us.is_some() && !figures.corrected) {
        footnotes.push(
            "† from the real send time: a generator that waits for an answer does not see the requests it held back."
                .to_owned(),
        );
    }
    let fewest = measured().map(|figures| figures.rounds).min().unwrap_or(0);
    if baseline.is_some() && (2..6).contains(&fewest) {
        footnotes.push(format!(
            "Rows of {fewest} rounds: their intervals hold the truth in {} % of such studies, not in 95 %.",
            number::plain(crate::estimate::level(fewest) * 100.0)
        ));
    }
    Some(Table { caption: section.title.clone(), columns, groups, footnotes })
}

/// The section's other figures, a row for each system that has any: mean and largest latency, the uncorrected percentile, cores of
/// system and origin, connections, failures, time held back by a quota. `None` for a section without figures.
pub fn of_more(section: &Section) -> Option<Table> {
    let columns = vec![
        column("System", false, 0),
        column("Rounds", true, 6),
        column("Mean", true, 0),
        column("Max", true, 0),
        column("p99 uncorrected", true, 4),
        column("System cores", true, 0),
        column("req/s a core", true, 0),
        column("Origin cores", true, 2),
        column("Most connections to the origin", true, 3),
        column("Failed", true, 0),
        column("Held back by quota", true, 5),
    ];
    let row_of = |cell: &CellReport, row: &Row| {
        let figures = row.figures()?;
        let place = Place { cell: &cell.id, system: &row.system };
        let cores = |cores: f64| format!("{cores:.2}");
        let a_core = figures.cores.map(|cores| figures.rps.estimate / cores);
        Some(vec![
            Text::new(&row.title),
            Text::new(figures.rounds.to_string()),
            place.number("mean_us", figures.mean_us, number::time),
            place.number("max_us", figures.max_us, number::time),
            place.number("p99_uncorrected_us", figures.p99_uncorrected_us, number::time),
            place.number("cores", figures.cores, cores),
            place.number("rps_a_core", a_core, number::whole),
            place.number("origin_cores", Some(figures.origin_cores), cores),
            place.number("upstream_peak", Some(figures.upstream_peak as f64), number::whole),
            place.number("failed", Some(figures.failed as f64), number::whole),
            place.number("throttled", figures.throttled, |share| {
                format!("{} %", number::plain(share * 100.0))
            }),
        ])
    };
    let groups: Vec<Group> = section
        .cells
        .iter()
        .map(|cell| Group {
            title: Some(cell.title.clone()),
            rows: cell.rows.iter().filter_map(|row| row_of(cell, row)).collect(),
        })
        .filter(|group: &Group| !group.rows.is_empty())
        .collect();
    (!groups.is_empty()).then(|| Table {
        caption: format!("{}: more figures", section.title),
        columns,
        groups,
        footnotes: Vec::new(),
    })
}

/// The decision table.
pub fn of_decision(report: &Report, decision: &Decision) -> Table {
    let mut columns = vec![column("System", false, 0)];
    let by_cpu = decision.by == Metric::Cpu;
    columns.push(column(if by_cpu { "CPU µs/req" } else { "req/s" }, true, 0));
    if by_cpu {
        columns.push(column("user + system", true, 4));
    }
    if let Some((_, title)) = &report.baseline {
        let metric = ratio_metric(report, decision);
        columns.push(column(format!("{} ÷ {title}", metric.title()), true, 0));
    }
    columns.extend([
        column("p50", true, 5),
        column("p99", true, 0),
        column("Memory", true, 2),
        column("Most req/s", true, 2),
        column("Usable cells", true, 6),
        column("Limited by", false, 3),
    ]);
    let rows = decision.rows.iter().map(|row| decision_row(report, decision, row, columns.len())).collect();
    Table {
        caption: decision.at.clone(),
        columns,
        groups: vec![Group { title: None, rows }],
        footnotes: Vec::new(),
    }
}

/// What the decision table's ratio compares: CPU, unless the baseline has none (a direct run).
fn ratio_metric(report: &Report, decision: &Decision) -> Metric {
    let cpu_stands = report
        .baseline
        .as_ref()
        .and_then(|(name, _)| decision.rows.iter().find(|row| &row.row.system == name))
        .and_then(|row| row.row.figures())
        .is_some_and(|figures| figures.cpu_us.is_some());
    if decision.by == Metric::Cpu && !cpu_stands { Metric::P99 } else { decision.by }
}

fn decision_row(report: &Report, decision: &Decision, entry: &DecisionRow, columns: usize) -> Vec<Text> {
    let row = &entry.row;
    let place = Place { cell: &decision.cell, system: &row.system };
    let mut texts = vec![Text::new(&row.title)];
    let Some(figures) = row.figures() else {
        texts.push(reason(row, &row.why_not().unwrap_or_default(), columns - 1));
        return texts;
    };
    if decision.by == Metric::Cpu {
        texts.push(place.number("cpu_us", figures.cpu_us.map(|cpu| cpu.estimate), number::plain));
        let parts = figures.user_us.zip(figures.system_us);
        texts.push(parts.map_or_else(
            || Text::new("–").tone(Tone::Faint),
            |(user, system)| {
                Text::new(format!("{} + {}", number::plain(user), number::plain(system))).tone(Tone::Faint)
            },
        ));
    } else {
        texts.push(place.number("rps", Some(figures.rps.estimate), number::whole));
    }
    if let Some((name, _)) = &report.baseline {
        texts.push(place.ratio(row.ratio(ratio_metric(report, decision)), &row.system == name));
    }
    texts.push(place.number("p50_us", figures.p50_us, number::time));
    texts.push(place.number("p99_us", figures.p99_us, number::time));
    texts.push(place.number("memory_kib", figures.memory_kib, number::memory));
    texts.push(match &entry.most {
        Some((rps, cell, title)) => {
            let most = Place { cell, system: &row.system };
            most.number("rps", Some(*rps), number::whole).beside(title)
        }
        None => Text::new("–").tone(Tone::Faint),
    });
    let usable = Text::new(format!("{} of {}", entry.usable, entry.cells));
    texts.push(if entry.usable < entry.cells { usable.tone(Tone::Bad) } else { usable });
    texts.push(Text::new(row.verdict_name()));
    texts
}

/// A section's scaling with workers; `None` where it does not vary them.
pub fn of_scaling(section: &Section) -> Option<Table> {
    if section.scaling.is_empty() {
        return None;
    }
    let columns = vec![
        column("System", false, 0),
        column("req/s a further worker", true, 0),
        column("R²", true, 2),
        column("Largest residual", true, 3),
        column("Efficiency at most workers", true, 0),
    ];
    let percent = |share: f64| format!("{} %", number::plain(share * 100.0));
    let rows = section
        .scaling
        .iter()
        .map(|one| {
            vec![
                Text::new(&one.title),
                Text::new(number::whole(one.slope)),
                Text::new(format!("{:.3}", one.r_squared)),
                Text::new(percent(one.residual)),
                Text::new(one.efficiency.map_or_else(|| "–".to_owned(), percent)),
            ]
        })
        .collect();
    Some(Table {
        caption: format!("{}: fit along workers", section.title),
        columns,
        groups: vec![Group { title: None, rows }],
        footnotes: vec!["Efficiency: requests/s of W workers over W times those of one.".to_owned()],
    })
}

/// A section's feature prices; `None` where it has none.
pub fn of_prices(section: &Section) -> Option<Table> {
    if section.prices.is_empty() {
        return None;
    }
    let columns = vec![
        column("Feature", false, 0),
        column("System", false, 0),
        column("CPU µs/req added", true, 0),
        column("p99 added", true, 0),
    ];
    let signed = |value: Option<Summary>, write: &dyn Fn(f64) -> String| {
        value.map_or_else(
            || Text::new("–").tone(Tone::Faint),
            |price| {
                let text = Text::new(signed(price.estimate, write));
                let text =
                    text.beside(format!("{} to {}", signed(price.low, write), signed(price.high, write)));
                if price.low <= 0.0 && price.high >= 0.0 { text.tone(Tone::Faint) } else { text }
            },
        )
    };
    let rows = section
        .prices
        .iter()
        .map(|price| {
            vec![
                Text::new(&price.feature),
                Text::new(&price.title),
                signed(price.cpu_us, &number::plain),
                signed(price.p99_us, &number::time),
            ]
        })
        .collect();
    Some(Table {
        caption: format!("{}: what features add", section.title),
        columns,
        groups: vec![Group { title: None, rows }],
        footnotes: vec!["Faint: the interval holds 0, so no price was shown.".to_owned()],
    })
}

/// A difference, with its sign.
pub(crate) fn signed(value: f64, write: &dyn Fn(f64) -> String) -> String {
    format!("{}{}", if value > 0.0 { "+" } else { "" }, write(value))
}

/// A table of the study's own.
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

/// When a system was steady, in words; `None` when nobody asked.
pub fn steady(steady: Steady) -> Option<String> {
    match steady {
        Steady::After { seconds } => Some(format!("steady after {}", number::duration(seconds))),
        Steady::Never => Some("never steady".to_owned()),
        Steady::NotAsked => None,
    }
}
