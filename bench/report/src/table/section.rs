//! The tables of a section: the deciding figures, and the others.

use super::{Column, Group, Place, Table, Text, Tone, column, p99_range, parts, reason, verdict};
use crate::figures::{CellReport, Figures, Metric, Report, Row, Section};
use crate::number;

/// Returns a section's table: its cells one below another, with a row for each system. `None` for a section
/// without cells.
pub fn of_section(report: &Report, section: &Section) -> Option<Table> {
    if section.cells.is_empty() {
        return None;
    }
    let layout = Layout::of(report, section);
    let columns = layout.columns();
    let groups = section
        .cells
        .iter()
        .map(|cell| Group {
            title: Some(cell.title.clone()),
            rows: cell.rows.iter().map(|row| layout.row(cell, row, columns.len())).collect(),
        })
        .collect();
    Some(Table { caption: section.title.clone(), columns, groups, footnotes: Vec::new() })
}

/// The columns of a section's table.
struct Layout<'a> {
    /// The system to which ratios are relative: its name and its title.
    baseline: Option<&'a (String, String)>,
    has_cost: bool,
    /// Whether the cost is also given as user and system time.
    has_parts: bool,
    /// The cells whose costs come from a closed loop.
    own_rate: Extent,
    /// The cells whose latencies count from the real sending.
    from_sending: Extent,
    /// The metrics with a ratio to the baseline.
    ratios: Vec<Metric>,
}

/// Of how many rows something holds: the head of a column says it for all of them, and otherwise each text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    None,
    Some,
    All,
}

impl Extent {
    fn of(mut found: impl Iterator<Item = bool>) -> Self {
        let Some(first) = found.next() else { return Self::None };
        match (first, found.all(|other| other == first)) {
            (true, true) => Self::All,
            (false, true) => Self::None,
            _ => Self::Some,
        }
    }

    /// Returns the head of a column, with a word if it is true of all rows.
    fn head(self, name: &str, word: &str) -> String {
        if self == Self::All { format!("{name} {word}") } else { name.to_owned() }
    }

    /// Returns the word for a row, if it is true of that row and not of all.
    fn word(self, holds: bool, word: &'static str) -> Option<&'static str> {
        (self == Self::Some && holds).then_some(word)
    }
}

impl<'a> Layout<'a> {
    fn of(report: &'a Report, section: &Section) -> Self {
        let baseline = report.baseline.as_ref();
        let compared_by = section.compared_by.iter().filter(|_| baseline.is_some());
        let costs = measured(section).filter(|figures| figures.cpu_us.is_some());
        let timed = measured(section).filter(|figures| figures.p99_us.or(figures.p50_us).is_some());
        Self {
            baseline,
            has_cost: measured(section).any(|figures| figures.cpu_us.is_some()),
            has_parts: measured(section).any(|figures| figures.user_us.is_some()),
            own_rate: Extent::of(costs.map(|figures| figures.offered.is_none())),
            from_sending: Extent::of(timed.map(|figures| !figures.corrected)),
            ratios: compared_by.copied().collect(),
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![column("System", false, 0)];
        if self.has_cost {
            columns.push(column(self.own_rate.head("CPU µs/req", "at its own rate"), true, 0));
            if self.has_parts {
                columns.push(column("user + system", true, 5));
            }
        }
        let latency = |name: &str| self.from_sending.head(name, "from sending");
        columns.extend([
            column("req/s", true, 0),
            column(latency("p50"), true, 4),
            column(latency("p99"), true, 0),
        ]);
        if self.has_cost {
            columns.push(column("Memory", true, 3));
        }
        if let Some((_, title)) = self.baseline {
            columns.extend(self.ratios.iter().map(|by| column(format!("{} ÷ {title}", by.title()), true, 0)));
        }
        columns.push(column("Limited by", false, 0));
        columns
    }

    /// Returns a row of these columns. If the system has no figures, the reason takes the place of all but the first.
    fn row(&self, cell: &CellReport, row: &Row, columns: usize) -> Vec<Text> {
        let place = Place { cell: &cell.id, system: &row.system };
        let mut texts = vec![Text::new(&row.title)];
        let Some(figures) = row.figures() else {
            texts.push(reason(row, &row.why_not().unwrap_or_default(), columns - 1));
            return texts;
        };
        if self.has_cost {
            let own_rate = figures.cpu_us.is_some() && figures.offered.is_none();
            let cost = place.number("cpu_us", figures.cpu_us.map(|cpu| cpu.estimate), number::plain);
            let cost = match self.own_rate.word(own_rate, "own rate") {
                Some(word) => cost.beside(word),
                None => cost,
            };
            texts.push(if own_rate { cost.tone(Tone::Faint) } else { cost });
            if self.has_parts {
                texts.push(parts(figures));
            }
        }
        texts.push(place.number("rps", Some(figures.rps.estimate), number::whole));
        texts.push(place.number("p50_us", figures.p50_us, number::time));
        let tail = place.number("p99_us", figures.of(Metric::P99), number::time);
        let uncorrected = figures.p99_us.is_some() && !figures.corrected;
        let marked = self.from_sending.word(uncorrected, "from sending");
        let beside: Vec<String> = marked.map(str::to_owned).into_iter().chain(p99_range(figures)).collect();
        texts.push(if beside.is_empty() { tail } else { tail.beside(beside.join(", ")) });
        if self.has_cost {
            texts.push(place.number("memory_kib", figures.memory_kib, number::memory));
        }
        let is_baseline = self.baseline.is_some_and(|(name, _)| row.system == *name);
        texts.extend(self.ratios.iter().map(|metric| place.ratio(row.ratio(*metric), is_baseline)));
        texts.push(verdict(row));
        texts
    }
}

fn rows(section: &Section) -> impl Iterator<Item = &Row> {
    section.cells.iter().flat_map(|cell| &cell.rows)
}

/// Returns the figures of the rows that have some.
fn measured(section: &Section) -> impl Iterator<Item = &Figures> {
    rows(section).filter_map(Row::figures)
}

/// Returns the section's other figures, with a row for each system that has some: mean and maximum latency,
/// the uncorrected percentile, cores of system and origin, connections, failures, throttling by a quota.
/// Columns in which no system has a figure above 0 are left
/// out. `None` for a section without figures.
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
        column("Connections a request", true, 6),
        column("Connections a request, at the origin", true, 6),
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
            place.number(
                "upstream_peak",
                (figures.upstream_peak > 0).then_some(figures.upstream_peak as f64),
                number::whole,
            ),
            place.number("client_connections", figures.client_connections, number::plain),
            place.number("upstream_connections", figures.upstream_connections, number::plain),
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
    (!groups.is_empty()).then(|| {
        let caption = format!("{}: more figures", section.title);
        Table { caption, columns, groups, footnotes: Vec::new() }.without_empty_columns()
    })
}
