//! The tables of a section: the deciding figures, and the others.

use super::{Group, Place, Table, Text, Tone, column, p99, parts, reason, verdict};
use crate::figures::{Call, CellReport, Metric, Report, Row, Section};
use crate::number;

/// Returns a section's table: its cells one below another, with a row for each system. `None` for a section
/// without cells.
pub fn of_section(report: &Report, section: &Section) -> Option<Table> {
    if section.cells.is_empty() {
        return None;
    }
    let baseline = report.baseline.as_ref();
    let measured = || section.cells.iter().flat_map(|cell| &cell.rows).filter_map(Row::figures);
    let has_cost = measured().any(|figures| figures.cpu_us.is_some());
    let has_parts = measured().any(|figures| figures.user_us.is_some());
    let published = |metric: Metric| {
        section.cells.iter().flat_map(|cell| &cell.rows).any(|row| {
            row.ratio(metric).is_some_and(|ratio| ratio.published.is_some_and(|value| value != 1.0))
        })
    };
    let mut columns = vec![column("System", false, 0)];
    if has_cost {
        columns.push(column("CPU µs/req", true, 0));
        if has_parts {
            columns.push(column("user + system", true, 5));
        }
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
            if has_parts {
                texts.push(parts(figures));
            }
        }
        texts.push(place.number("rps", Some(figures.rps.estimate), number::whole));
        texts.push(place.number("p50_us", figures.p50_us, number::time));
        texts.push(p99(&place, figures));
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
    let of_rounds = measured().filter_map(|figures| figures.p99_rounds_us);
    if of_rounds.into_iter().any(|p99| p99.low < p99.high) {
        footnotes.push("p99 is the one of a typical round.".to_owned());
    }
    if measured().any(|figures| figures.p99_us.is_some() && !figures.corrected) {
        footnotes.push(
            "† from the real send time: a generator that waits for an answer does not see the requests it held back."
                .to_owned(),
        );
    }
    if measured().any(|figures| figures.dropped > 0) {
        footnotes.push("A round that is void for one system is dropped for all of its cell.".to_owned());
    }
    let hidden = section.cells.iter().flat_map(|cell| &cell.rows).any(|row| {
        row.figures().is_some_and(|figures| figures.offered.is_some())
            && row.verdict.is_some_and(|kind| !kind.has_latency())
    });
    if hidden {
        footnotes.push(
            "No latency stands where the generator's side or the origin caused it: that latency is not the system's."
                .to_owned(),
        );
    }
    let fewest = measured().map(|figures| figures.rounds).min().unwrap_or(0);
    if fewest == 1 {
        footnotes.push(format!(
            "Rows of one round have no interval, and no difference is named from fewer than {} rounds.",
            crate::FEWEST_ROUNDS
        ));
    } else if baseline.is_some() && (2..crate::FEWEST_ROUNDS).contains(&fewest) {
        footnotes.push(format!(
            "Rows of {fewest} rounds: {} % confidence intervals; a difference is named from {} rounds on.",
            number::plain(crate::estimate::level(fewest) * 100.0),
            crate::FEWEST_ROUNDS
        ));
    }
    let beyond = section.cells.iter().flat_map(|cell| &cell.rows).any(|row| {
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
    Some(Table { caption: section.title.clone(), columns, groups, footnotes })
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
