//! Chooses the charts of a section and fills them.

mod axis;
mod distribution;
mod prices;
mod toll;

use super::chart::Look;
use super::chart::lines::Series;
use crate::figures::{CellReport, Report, Section};
use maud::Markup;
use std::collections::BTreeMap;

/// The charts of a section.
pub(super) struct Charts<'a> {
    pub(super) report: &'a Report,
    pub(super) section: &'a Section,
    /// A prefix of ids, unique on the page.
    pub(super) id: String,
}

impl Charts<'_> {
    /// Returns the charts as figures in reading order. The figures of one group are next to each other.
    pub(super) fn draw(&self) -> Vec<Vec<Markup>> {
        if self.is_direct_alone() {
            return Vec::new();
        }
        let first = match self.section.axis() {
            // The cells differ in features, which are drawn as prices.
            _ if !self.section.prices.is_empty() => Vec::new(),
            Some("rate") => self.along_rate(),
            Some(axis) => self.along(axis),
            None => self.tolls(),
        };
        let mut groups = vec![first, self.prices(), self.curves(), self.traces()];
        for group in &mut groups {
            group.retain(|figure| !figure.0.is_empty());
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// Returns whether only the direct run has figures in this section, so that there is nothing to compare.
    pub(super) fn is_direct_alone(&self) -> bool {
        let rows = || self.section.cells.iter().flat_map(|cell| &cell.rows);
        rows().any(|row| row.figures().is_some())
            && rows().filter(|row| row.figures().is_some()).all(|row| row.system == "direct")
    }

    /// Returns the percentile curves of one cell of the section.
    pub(super) fn percentiles(&self, cell: &str) -> Vec<Markup> {
        let here = self.section.cells.iter().find(|one| one.id == cell);
        let Some((cell, curves)) = here.zip(self.report.curves.get(cell)) else { return Vec::new() };
        let mut figures = self.curves_of(cell, curves);
        figures.retain(|figure| !figure.0.is_empty());
        figures
    }

    fn look(&self, system: &str) -> Look {
        let names: Vec<String> = self.report.systems.iter().map(|used| used.name.clone()).collect();
        Look::of(system, &names)
    }

    /// Returns the cell of this section whose raw data is drawn: the decision table's cell if it is in this
    /// section, otherwise the first cell with such data.
    fn drawn_cell<'a, T>(&self, all: &'a BTreeMap<String, Vec<T>>) -> Option<(&CellReport, &'a Vec<T>)> {
        let decided = self.report.decision.as_ref().map(|decision| decision.cell.as_str());
        let here = || self.section.cells.iter().filter(|cell| all.contains_key(&cell.id));
        let cell = here().find(|cell| Some(cell.id.as_str()) == decided).or_else(|| here().next())?;
        Some((cell, &all[&cell.id]))
    }
}

/// Returns the largest x of all points.
fn ends(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.points).map(|point| point.x).fold(0.0, f64::max)
}
