//! The table at the head of a report: the cell that the study is about, with a row for each system in it. It has only
//! columns that need no explanation. The results of the systems in all cells are in a table of their own ([`of_systems`]).

use super::{Group, Place, Table, Text, Tone, column, limit, p99_range, reason};
use crate::figures::{Decision, DecisionRow, Figures, Headline, Metric, Outcome, PriceList, Report};
use crate::number;

/// The columns that depend on the decision.
struct Shown {
    /// CPU time for each request.
    cost: bool,
    /// Throughput, which only a closed loop shows: at an offered rate it repeats the rate.
    rps: bool,
    mean: bool,
    /// Latency, if it counts from the intended send time: other latencies need an explanation.
    latency: bool,
}

/// Returns the table at the head of a report.
pub fn of_decision(report: &Report, decision: &Decision) -> Table {
    if let Headline::Prices { lists } = &decision.headline {
        return of_price_lists(lists);
    }
    let any = |has: fn(&Figures) -> bool| decision.rows.iter().filter_map(|row| row.row.figures()).any(has);
    let shown = Shown {
        cost: decision.offered.is_some() && any(|figures| figures.cpu_us.is_some()),
        rps: decision.offered.is_none(),
        mean: decision.by == Metric::Mean,
        latency: any(|figures| figures.p99_us.is_some() && figures.corrected),
    };
    let mut columns = vec![column("System", false, 0)];
    if shown.cost {
        columns.push(column("CPU µs/req", true, 0));
    }
    if shown.rps {
        columns.push(column("req/s", true, 0));
    }
    if let Some((_, title)) = &report.baseline {
        let metric = ratio_metric(report, decision);
        columns.push(column(format!("{} ÷ {title}", metric.title()), true, 0));
    }
    if shown.mean {
        columns.push(column("Mean", true, 0));
    }
    if shown.latency {
        columns.extend([column("p50", true, 5), column("p99", true, 0)]);
    }
    columns.extend([column("Memory", true, 2), column("Limited by", false, 3)]);
    let here = decision.rows.iter().filter(|entry| entry.row.outcome != Outcome::Elsewhere);
    let rows = here.map(|row| decision_row(report, decision, &shown, row, columns.len())).collect();
    Table {
        caption: decision.at.clone(),
        columns,
        groups: vec![Group { title: None, rows }],
        footnotes: Vec::new(),
    }
}

/// Returns the metric of the decision table's ratio: CPU, unless the baseline has no CPU cost (a direct run).
fn ratio_metric(report: &Report, decision: &Decision) -> Metric {
    let cpu_stands = report
        .baseline
        .as_ref()
        .and_then(|(name, _)| decision.rows.iter().find(|row| &row.row.system == name))
        .and_then(|row| row.row.figures())
        .is_some_and(|figures| figures.cpu_us.is_some());
    if decision.by == Metric::Cpu && !cpu_stands { Metric::P99 } else { decision.by }
}

fn decision_row(
    report: &Report,
    decision: &Decision,
    shown: &Shown,
    entry: &DecisionRow,
    columns: usize,
) -> Vec<Text> {
    let row = &entry.row;
    let place = Place { cell: &decision.cell, system: &row.system };
    let mut texts = vec![Text::new(&row.title)];
    let Some(figures) = row.figures() else {
        texts.push(reason(row, &row.why_not().unwrap_or_default(), columns - 1));
        return texts;
    };
    if shown.cost {
        texts.push(place.number("cpu_us", figures.cpu_us.map(|cpu| cpu.estimate), number::plain));
    }
    if shown.rps {
        texts.push(place.number("rps", Some(figures.rps.estimate), number::whole));
    }
    if let Some((name, _)) = &report.baseline {
        texts.push(place.ratio(row.ratio(ratio_metric(report, decision)), &row.system == name));
    }
    if shown.mean {
        texts.push(place.number("mean_us", figures.mean_us, number::time));
    }
    if shown.latency {
        let own = |value: Option<f64>| value.filter(|_| figures.corrected);
        texts.push(place.number("p50_us", own(figures.p50_us), number::time));
        let tail = place.number("p99_us", own(figures.of(Metric::P99)), number::time);
        texts.push(match p99_range(figures).filter(|_| figures.corrected) {
            Some(range) => tail.beside(range),
            None => tail,
        });
    }
    texts.push(place.number("memory_kib", figures.memory_kib, number::memory));
    texts.push(limit(row));
    texts
}

/// Returns the table of a study of prices: what each system's features add.
fn of_price_lists(lists: &[PriceList]) -> Table {
    let rows = lists.iter().map(|list| {
        let (feature, added) = match &list.most {
            Some((feature, added)) => (
                Text::new(feature),
                Text::new(format!("{} µs", number::plain(added.estimate))).beside(format!(
                    "{}–{}",
                    number::plain(added.low),
                    number::plain(added.high)
                )),
            ),
            None => (Text::new("–").tone(Tone::Faint), Text::new("–").tone(Tone::Faint)),
        };
        vec![
            Text::new(&list.title),
            Text::new(list.measured.to_string()),
            Text::new(list.shown.to_string()),
            feature,
            added,
        ]
    });
    Table {
        caption: "What features add to a request".to_owned(),
        columns: vec![
            column("System", false, 0),
            column("Features measured", true, 1),
            column("Add CPU time beyond chance", true, 0),
            column("Most expensive", false, 0),
            column("CPU added", true, 0),
        ],
        groups: vec![Group { title: None, rows: rows.collect() }],
        footnotes: Vec::new(),
    }
}

/// Returns what each system did in all cells of the study: in how many it has figures, in how many it was itself the
/// limit, and the most that it carried. `None` if nothing was measured.
pub fn of_systems(decision: Option<&Decision>) -> Option<Table> {
    let decision = decision?;
    let rows = decision.rows.iter().map(|entry| {
        let usable = Text::new(format!("{} of {}", entry.usable, entry.cells));
        let most = match &entry.most {
            Some((rps, _, title)) => Text::new(number::whole(*rps)).beside(title),
            None => Text::new("–").tone(Tone::Faint),
        };
        vec![
            Text::new(&entry.row.title),
            if entry.usable < entry.cells { usable.tone(Tone::Bad) } else { usable },
            Text::new(entry.own_limit.to_string()),
            most,
        ]
    });
    Some(Table {
        caption: "Every system in all cells".to_owned(),
        columns: vec![
            column("System", false, 0),
            column("Usable cells", true, 0),
            column("Itself the limit", true, 0),
            column("Most req/s", true, 0),
        ],
        groups: vec![Group { title: None, rows: rows.collect() }],
        footnotes: Vec::new(),
    })
}
