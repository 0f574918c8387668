//! Chooses the charts of the overview, of a part and of a page, and fills them.

mod axis;
mod distribution;
mod overview;
mod prices;
mod toll;

use super::chart::Look;
use super::chart::lines::Series;
use crate::figures::{CellReport, Report, Section};
use maud::Markup;
use std::collections::BTreeMap;

pub(super) use overview::overview;

/// The classes of a bar in a system's colour, and in the same colour if the value is not the system's or not beyond
/// chance.
const FILL: [&str; 8] =
    ["fill c0", "fill c1", "fill c2", "fill c3", "fill c4", "fill c5", "fill c6", "fill c7"];
const PALE: [&str; 8] = [
    "fill pale c0",
    "fill pale c1",
    "fill pale c2",
    "fill pale c3",
    "fill pale c4",
    "fill pale c5",
    "fill pale c6",
    "fill pale c7",
];

/// The charts of a part of the report, or of one page of it.
pub(super) struct Charts<'a> {
    pub(super) report: &'a Report,
    /// The cells of the whole part.
    pub(super) part: &'a Section,
    /// The cells to draw: all cells of the part, or the cells of a page.
    pub(super) section: &'a Section,
    /// A prefix of ids, unique on the page.
    pub(super) id: String,
}

impl Charts<'_> {
    /// Returns the charts that run over the part's numbers of connections, or another setting.
    pub(super) fn of_part(&self) -> Vec<Vec<Markup>> {
        if self.is_direct_alone() {
            return Vec::new();
        }
        let first = match self.section.axis() {
            // The cells differ in features, which are drawn as prices.
            _ if !self.section.prices.is_empty() => Vec::new(),
            Some("rate") => self.along_rate(),
            Some(axis) => self.along(axis),
            None => Vec::new(),
        };
        drawn(vec![first, self.prices()])
    }

    /// Returns the charts of single cells.
    pub(super) fn of_cells(&self) -> Vec<Vec<Markup>> {
        if self.is_direct_alone() {
            return Vec::new();
        }
        let lines_show_it = self.part.axis().is_some() || !self.part.prices.is_empty();
        let tolls = if lines_show_it { Vec::new() } else { self.tolls() };
        drawn(vec![tolls, self.curves(), self.traces()])
    }

    /// Returns whether only the direct run has figures in this section, so that there is nothing to compare.
    pub(super) fn is_direct_alone(&self) -> bool {
        let rows = || self.section.cells.iter().flat_map(|cell| &cell.rows);
        rows().any(|row| row.figures().is_some())
            && rows().filter(|row| row.figures().is_some()).all(|row| row.system == "direct")
    }

    fn look(&self, system: &str) -> Look {
        look(self.report, system)
    }

    /// Returns the cell whose raw data is drawn, if it is one of these cells: the one of the decision table if the part
    /// has it, otherwise the part's first cell with such data.
    fn drawn_cell<'a, T>(&self, all: &'a BTreeMap<String, Vec<T>>) -> Option<(&CellReport, &'a Vec<T>)> {
        let decided = self.report.decision.as_ref().map(|decision| decision.cell.as_str());
        let known = || self.part.cells.iter().filter(|cell| all.contains_key(&cell.id));
        let chosen = known().find(|cell| Some(cell.id.as_str()) == decided).or_else(|| known().next())?;
        let cell = self.section.cells.iter().find(|cell| cell.id == chosen.id)?;
        Some((cell, &all[&cell.id]))
    }
}

/// Removes the figures that have nothing to draw.
fn drawn(mut groups: Vec<Vec<Markup>>) -> Vec<Vec<Markup>> {
    for group in &mut groups {
        group.retain(|figure| !figure.0.is_empty());
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Returns a system's look, which is the same in all charts.
fn look(report: &Report, system: &str) -> Look {
    let names: Vec<String> = report.systems.iter().map(|used| used.name.clone()).collect();
    Look::of(system, &names)
}

/// Returns the largest x of all points.
fn ends(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.points).map(|point| point.x).fold(0.0, f64::max)
}
