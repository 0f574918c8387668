//! Reduces a result file to what its report shows.
//!
//! A condensed file has the figures of each system in each cell instead of its trials, so that it is small
//! enough for a repository. [`crate::Report`] reads both kinds. The ratios that a report may compare are kept
//! with the verdicts; the rounds are not, so that a condensed file cannot be compared with another one.

use crate::figures::{Figures, Report, pair};
use tollgate_lab_record::{Ceiling, Condensed, Line, Metric, Results, Verdict, VerdictKind};

/// Returns the lines of the condensed file.
pub fn condense(results: &Results) -> Vec<Line> {
    let report = Report::new(results);
    let mut out = vec![Line::Header(Box::new(results.header.clone()))];
    out.extend(results.systems.iter().cloned().map(Line::System));
    out.extend(results.cells.iter().cloned().map(Line::Cell));
    out.extend(results.received.iter().cloned().map(Line::Received));
    for (cell, row) in report.rows() {
        let trials = || results.trials_of(&cell.id, &row.system).filter_map(|trial| trial.load.as_ref());
        let tool = trials().next().map(|load| (load.tool.clone(), load.tool_version.clone()));
        let earlier = results.condensed_of(&cell.id, &row.system);
        let earlier = earlier.map(|one| (one.tool.clone(), one.tool_version.clone()));
        let (tool, tool_version) = tool.or(earlier).unwrap_or_default();
        let mut curves = report.curves.get(&cell.id).into_iter().flatten();
        let curve = curves.find(|curve| curve.system == row.system);
        let mut traces = report.traces.get(&cell.id).into_iter().flatten();
        let trace = traces.find(|trace| trace.system == row.system);
        if let Some(figures) = row.figures() {
            out.push(Line::Condensed(Box::new(Condensed {
                cell: cell.id.clone(),
                system: row.system.clone(),
                tool,
                tool_version,
                figures: figures.clone(),
                corrected: curve.map_or_else(Vec::new, |curve| curve.corrected.clone()),
                uncorrected: curve.map_or_else(Vec::new, |curve| curve.uncorrected.clone()),
                windows: trace.map_or_else(Vec::new, |trace| trace.windows.clone()),
            })));
        }
        let known = results.verdict_of(&cell.id, &row.system).cloned();
        // A system whose trials all failed may lack a verdict; the reason must stay.
        if let Some(mut verdict) = known.or_else(|| void(results, &cell.id, row)) {
            if let Some(figures) = row.figures() {
                add_ratios(results, &mut verdict, figures);
            }
            out.push(Line::Verdict(verdict));
        }
    }
    for cell in report.sections.iter().flat_map(|section| &section.cells) {
        let ceiling = results.ceilings.iter().find(|one| one.cell == cell.id);
        out.extend(
            ceiling.zip(cell.ceiling_rps).map(|(one, rps)| Line::Ceiling(Ceiling { rps, ..one.clone() })),
        );
    }
    out.extend(results.instructions.iter().cloned().map(Line::Instructions));
    out.extend(results.prices.iter().cloned().map(Line::Price));
    let notes = results.notes.iter().cloned();
    out.extend(notes.map(|(section, text)| Line::Note { section, text }));
    let tables = results.tables.iter().cloned();
    out.extend(tables.map(|(section, head, rows)| Line::Table { section, head, rows }));
    out.extend(results.end.map(|seconds| Line::End { seconds }));
    out
}

/// Returns a verdict that keeps the reason of a system without figures.
fn void(results: &Results, cell: &str, row: &crate::figures::Row) -> Option<Verdict> {
    let failed = results.trials_of(cell, &row.system).next().is_some() && row.figures().is_none();
    failed.then(|| Verdict {
        cell: cell.to_owned(),
        system: row.system.clone(),
        kind: VerdictKind::Invalid,
        findings: row.why_not().map(|text| tollgate_lab_record::Finding { text }).into_iter().collect(),
        control: None,
        ratios: std::collections::BTreeMap::new(),
    })
}

/// Adds the ratios to the baseline by all metrics, and to every system by the metric that a headline may use.
fn add_ratios(results: &Results, verdict: &mut Verdict, figures: &Figures) {
    let Some(cell) = results.cells.iter().find(|cell| cell.id == verdict.cell) else { return };
    let by = results.header.decides.as_ref().filter(|decides| decides.cell == cell.id).and_then(|one| one.by);
    let deciding = [Some(if figures.offered.is_some() { Metric::Cpu } else { Metric::Rps }), by];
    for other in cell.systems.iter().filter(|other| **other != verdict.system) {
        let is_baseline = Some(other) == results.header.baseline.as_ref();
        for metric in Metric::ALL {
            if !is_baseline && !deciding.contains(&Some(metric)) {
                continue;
            }
            if let Some(ratio) = pair(results, &cell.id, &verdict.system, other, metric) {
                verdict.ratios.insert(format!("{}/{other}", metric.key()), ratio);
            }
        }
    }
    if let Some(baseline) = results.header.baseline.clone().filter(|name| *name == verdict.system) {
        for metric in Metric::ALL {
            if let Some(ratio) = pair(results, &cell.id, &baseline, &baseline, metric) {
                verdict.ratios.insert(format!("{}/{baseline}", metric.key()), ratio);
            }
        }
    }
}
