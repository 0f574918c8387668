//! The decision table.

use super::{Group, Place, Table, Text, Tone, column, reason};
use crate::figures::{Decision, DecisionRow, Metric, Report};
use crate::number;

/// Returns the decision table.
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
