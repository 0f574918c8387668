//! The chart of the toll by system, in its two parts.

use super::Charts;
use crate::figures::{CellReport, Metric, Row};
use crate::html::chart::bars::{Bar, Bars};
use crate::{number, table};
use maud::Markup;

/// The most toll charts in one section; the section's table covers further cells.
const MOST_TOLL_CHARTS: usize = 4;
impl Charts<'_> {
    pub(super) fn tolls(&self) -> Vec<Markup> {
        let equal = self.section.cells.iter().filter(|cell| cell.offered.is_some());
        let cells = equal
            .filter(|cell| cell.rows.iter().any(|row| row.figures().is_some_and(|f| f.cpu_us.is_some())));
        cells.take(MOST_TOLL_CHARTS).enumerate().map(|(at, cell)| self.toll(at, cell)).collect()
    }

    pub(super) fn toll(&self, at: usize, cell: &CellReport) -> Markup {
        let baseline = self.report.baseline.as_ref();
        let mut rows: Vec<&Row> = cell
            .rows
            .iter()
            .filter(|row| row.figures().is_none_or(|figures| figures.cpu_us.is_some()))
            .collect();
        let cost = |row: &Row| row.figures().and_then(|figures| figures.of(Metric::Cpu)).unwrap_or(f64::MAX);
        rows.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let rule = baseline.and_then(|(name, title)| {
            let cpu = cell.row(name)?.figures()?.cpu_us?;
            Some((cpu.estimate, title.clone()))
        });
        let bars = rows.into_iter().map(|row| self.toll_bar(row)).collect();
        Bars {
            id: format!("{}-toll{at}", self.id),
            title: format!("CPU a request: {}", cell.title),
            about: table::terms(cell),
            axis: "µs of CPU a request",
            key: vec![("user", "in user mode"), ("system", "in the kernel")],
            bars,
            rule,
        }
        .draw()
    }

    pub(super) fn toll_bar(&self, row: &Row) -> Bar {
        let base = Bar {
            system: row.system.clone(),
            label: row.title.clone(),
            heading: None,
            parts: Vec::new(),
            whisker: None,
            value: String::new(),
            beside: String::new(),
            absent: None,
            says: String::new(),
        };
        let Some(figures) = row.figures() else {
            let why = row.why_not().unwrap_or_default();
            return Bar { absent: Some(format!("{}: {why}", row.verdict_name())), ..base };
        };
        let (user, system) = (figures.user_us.unwrap_or(0.0), figures.system_us.unwrap_or(0.0));
        let ratio = row.ratio(Metric::Cpu).and_then(|ratio| ratio.ours);
        let says = format!(
            "{}: {} µs in user mode, {} µs in the kernel",
            row.title,
            number::plain(user),
            number::plain(system)
        );
        Bar {
            parts: vec![("user", user), ("system", system)],
            whisker: figures.cpu_us.filter(|cpu| cpu.low < cpu.high).map(|cpu| (cpu.low, cpu.high)),
            value: number::plain(user + system),
            beside: ratio.map_or_else(String::new, |ratio| format!("× {}", number::ratio(ratio.estimate))),
            says,
            ..base
        }
    }
}
