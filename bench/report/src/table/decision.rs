//! The decision table.

use super::{Group, Place, Table, Text, Tone, column, limit, p99_range, parts, reason};
use crate::figures::{Decision, DecisionRow, Figures, Metric, Report};
use crate::number;

/// The columns that depend on the decision.
struct Shown {
    /// CPU time for each request.
    cost: bool,
    /// Its parts.
    parts: bool,
    /// Throughput and the highest throughput, which only a closed loop shows: at an offered rate both repeat
    /// the rate.
    rps: bool,
    mean: bool,
}

/// Returns the decision table.
pub fn of_decision(report: &Report, decision: &Decision) -> Table {
    let any = |has: fn(&Figures) -> bool| decision.rows.iter().filter_map(|row| row.row.figures()).any(has);
    let shown = Shown {
        cost: decision.offered.is_some() && any(|figures| figures.cpu_us.is_some()),
        parts: decision.offered.is_some() && any(|figures| figures.user_us.is_some()),
        rps: decision.offered.is_none(),
        mean: decision.by == Metric::Mean,
    };
    let mut columns = vec![column("System", false, 0)];
    if shown.cost {
        columns.push(column("CPU µs/req", true, 0));
    }
    if shown.parts {
        columns.push(column("user + system", true, 4));
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
    // In words, because the head of a report has no footnotes. All trials of a cell use one tool.
    let uncorrected = any(|figures| figures.p99_us.is_some() && !figures.corrected);
    let p99 = if uncorrected { "p99 from the real sending" } else { "p99" };
    columns.extend([column("p50", true, 5), column(p99, true, 0), column("Memory", true, 2)]);
    if shown.rps {
        columns.push(column("Most req/s", true, 2));
    }
    columns.extend([column("Usable cells", true, 6), column("Limited by", false, 3)]);
    let rows =
        decision.rows.iter().map(|row| decision_row(report, decision, &shown, row, columns.len())).collect();
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
    if shown.parts {
        texts.push(parts(figures));
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
    texts.push(place.number("p50_us", figures.p50_us, number::time));
    let tail = place.number("p99_us", figures.of(Metric::P99), number::time);
    texts.push(match p99_range(figures) {
        Some(range) => tail.beside(range),
        None => tail,
    });
    texts.push(place.number("memory_kib", figures.memory_kib, number::memory));
    if shown.rps {
        texts.push(match &entry.most {
            Some((rps, cell, title)) => {
                let most = Place { cell, system: &row.system };
                most.number("rps", Some(*rps), number::whole).beside(title)
            }
            None => Text::new("–").tone(Tone::Faint),
        });
    }
    let usable = Text::new(format!("{} of {}", entry.usable, entry.cells));
    texts.push(if entry.usable < entry.cells { usable.tone(Tone::Bad) } else { usable });
    texts.push(limit(row));
    texts
}
