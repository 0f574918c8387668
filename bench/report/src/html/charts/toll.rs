//! The chart of the toll by system, in its two parts.

use super::Charts;
use crate::figures::{CellReport, Metric, Row};
use crate::html::chart::bars::{Bar, Bars, ROOM};
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
        let bars: Vec<Bar> = rows.into_iter().map(|row| self.toll_bar(row)).collect();
        let has = |class: &str| bars.iter().flat_map(|bar| &bar.parts).any(|(part, _)| *part == class);
        let names = [("user", "in user mode"), ("system", "in the kernel"), ("whole", "not divided")];
        let key = names.into_iter().filter(|(class, _)| has(class)).collect();
        Bars {
            id: format!("{}-toll{at}", self.id),
            title: format!("CPU a request: {}", cell.title),
            about: table::terms(cell),
            axis: "µs of CPU a request",
            key,
            bars,
            rule,
            room: ROOM,
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
        let whole = figures.cpu_us.map_or(0.0, |cpu| cpu.estimate);
        let (parts, split) = match figures.user_us.zip(figures.system_us) {
            Some((user, system)) => (
                vec![("user", user), ("system", system)],
                format!(
                    "{} µs in user mode, {} µs in the kernel",
                    number::plain(user),
                    number::plain(system)
                ),
            ),
            None => (vec![("whole", whole)], "too few clock ticks to divide it".to_owned()),
        };
        let ratio = row.ratio(Metric::Cpu).and_then(|ratio| ratio.ours);
        let interval = figures.cpu_us.map_or_else(String::new, |cpu| table::range_us(&cpu));
        let says = format!("{}: {} µs ({interval}); {split}", row.title, number::plain(whole));
        Bar {
            parts,
            whisker: figures.cpu_us.filter(|cpu| cpu.low < cpu.high).map(|cpu| (cpu.low, cpu.high)),
            value: number::plain(whole),
            beside: ratio.map_or_else(String::new, |ratio| format!("× {}", number::ratio(ratio.estimate))),
            says,
            ..base
        }
    }
}
