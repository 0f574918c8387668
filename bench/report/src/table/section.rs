//! The tables of a section: the deciding figures, and the others.

use super::{Column, Group, Place, Table, Text, Tone, column, p99, parts, reason, verdict};
use crate::figures::{Call, CellReport, Figures, Metric, Report, Row, Section};
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
    let footnotes = footnotes(section, layout.baseline.is_some(), layout.has_cost);
    Some(Table { caption: section.title.clone(), columns, groups, footnotes })
}

/// The columns of a section's table.
struct Layout<'a> {
    /// The system to which ratios are relative: its name and its title.
    baseline: Option<&'a (String, String)>,
    has_cost: bool,
    /// Whether the cost is also given as user and system time.
    has_parts: bool,
    /// The metrics with a ratio to the baseline, each with whether the original published that ratio, too.
    ratios: Vec<(Metric, bool)>,
}

impl<'a> Layout<'a> {
    fn of(report: &'a Report, section: &Section) -> Self {
        let published = |metric: Metric| {
            rows(section).any(|row| {
                row.ratio(metric).is_some_and(|ratio| ratio.published.is_some_and(|value| value != 1.0))
            })
        };
        let baseline = report.baseline.as_ref();
        let compared_by = section.compared_by.iter().filter(|_| baseline.is_some());
        Self {
            baseline,
            has_cost: measured(section).any(|figures| figures.cpu_us.is_some()),
            has_parts: measured(section).any(|figures| figures.user_us.is_some()),
            ratios: compared_by.map(|metric| (*metric, published(*metric))).collect(),
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![column("System", false, 0)];
        if self.has_cost {
            columns.push(column("CPU µs/req", true, 0));
            if self.has_parts {
                columns.push(column("user + system", true, 5));
            }
        }
        columns.extend([column("req/s", true, 0), column("p50", true, 4), column("p99", true, 0)]);
        if self.has_cost {
            columns.push(column("Memory", true, 3));
        }
        if let Some((_, title)) = self.baseline {
            for (metric, is_published) in &self.ratios {
                columns.push(column(format!("{} ÷ {title}", metric.title()), true, 0));
                if *is_published {
                    columns.push(column(format!("{} ÷ {title}, published", metric.title()), true, 1));
                }
            }
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
            let own_rate = figures.cpu_us.is_some() && cell.offered.is_none();
            let cost = place.number("cpu_us", figures.cpu_us.map(|cpu| cpu.estimate), number::plain);
            texts.push(if own_rate {
                Text { text: format!("{}*", cost.text), ..cost }.tone(Tone::Faint)
            } else {
                cost
            });
            if self.has_parts {
                texts.push(parts(figures));
            }
        }
        texts.push(place.number("rps", Some(figures.rps.estimate), number::whole));
        texts.push(place.number("p50_us", figures.p50_us, number::time));
        texts.push(p99(&place, figures));
        if self.has_cost {
            texts.push(place.number("memory_kib", figures.memory_kib, number::memory));
        }
        let is_baseline = self.baseline.is_some_and(|(name, _)| row.system == *name);
        for (metric, is_published) in &self.ratios {
            texts.push(place.ratio(row.ratio(*metric), is_baseline));
            if *is_published {
                let theirs = row.ratio(*metric).and_then(|ratio| ratio.published);
                texts.push(place.number(&format!("published-{}", metric.key()), theirs, number::ratio));
            }
        }
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

/// Returns the footnotes that the figures of a section's table need.
fn footnotes(section: &Section, has_baseline: bool, has_cost: bool) -> Vec<String> {
    let mut footnotes = Vec::new();
    if has_cost && section.cells.iter().any(|cell| cell.offered.is_none()) {
        footnotes.push(
            "* at the system's own rate: busy systems batch and look cheaper, so these costs do not compare."
                .to_owned(),
        );
    }
    let of_rounds = measured(section).filter_map(|figures| figures.p99_rounds_us);
    if of_rounds.into_iter().any(|p99| p99.low < p99.high) {
        footnotes.push("p99 is the one of a typical round.".to_owned());
    }
    if measured(section).any(|figures| figures.p99_us.is_some() && !figures.corrected) {
        footnotes.push(
            "† from the real send time: a generator that waits for an answer does not see the requests it held back."
                .to_owned(),
        );
    }
    if measured(section).any(|figures| figures.dropped > 0) {
        footnotes.push("A round that is void for one system is dropped for all of its cell.".to_owned());
    }
    let hidden = rows(section).any(|row| {
        row.figures().is_some_and(|figures| figures.offered.is_some())
            && row.verdict.is_some_and(|kind| !kind.has_latency())
    });
    if hidden {
        footnotes.push(
            "No latency stands where the generator's side or the origin caused it: that latency is not the system's."
                .to_owned(),
        );
    }
    let fewest = measured(section).map(|figures| figures.rounds).min().unwrap_or(0);
    if fewest == 1 {
        footnotes.push(format!(
            "Rows of one round have no interval, and no difference is named from fewer than {} rounds.",
            crate::FEWEST_ROUNDS
        ));
    } else if has_baseline && (2..crate::FEWEST_ROUNDS).contains(&fewest) {
        footnotes.push(format!(
            "Rows of {fewest} rounds: {} % confidence intervals; a difference is named from {} rounds on.",
            number::plain(crate::estimate::level(fewest) * 100.0),
            crate::FEWEST_ROUNDS
        ));
    }
    let beyond = rows(section).any(|row| {
        section
            .compared_by
            .iter()
            .any(|metric| row.ratio(*metric).is_some_and(|ratio| ratio.call == Some(Call::Beyond)))
    });
    if beyond {
        footnotes.push(
            "limit (beyond direct): no gateway is faster than the same load without one, so the direct run was at a limit of \
             its own or disturbed, and the ratio is no figure of the system."
                .to_owned(),
        );
    }
    footnotes
}

/// Returns the section's other figures, with a row for each system that has some: mean and maximum latency,
/// the uncorrected percentile, cores of system and origin, connections, failures, throttling by a quota.
/// `None` for a section without figures.
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
    (!groups.is_empty()).then(|| Table {
        caption: format!("{}: more figures", section.title),
        columns,
        groups,
        footnotes: Vec::new(),
    })
}
