//! The decision table, with one row for each system. It is based on a single cell: preferably one with equal
//! rates, and of these the one in which most systems were not limited. Rows are ordered by CPU cost at an
//! offered rate, and by throughput otherwise.

use super::{CellReport, Metric, Row, Section};
use serde::Serialize;
use tollgate_lab_record::VerdictKind;

/// The decision table: one row for each system, from the cell in which the systems compare best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The id of the chosen cell.
    pub cell: String,
    /// The title of the cell and of its section.
    pub at: String,
    /// The offered rate of the cell in requests per second; `None` for a closed loop.
    pub offered: Option<f64>,
    /// The metric that orders the rows.
    pub by: Metric,
    /// The rows, best first; systems without figures last.
    pub rows: Vec<DecisionRow>,
}

/// A system in the decision table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecisionRow {
    /// The system's row in the cell.
    pub row: Row,
    /// The highest rate (requests per second) in any cell with figures, with the id and title of that cell.
    pub most: Option<(f64, String, String)>,
    /// The number of cells in which the system has figures.
    pub usable: usize,
    /// The number of cells that name the system.
    pub cells: usize,
    /// In how many cells the system itself was the limit: saturated, one hot worker, quota, connections.
    pub own_limit: usize,
}

impl Decision {
    pub(super) fn of(sections: &[Section], baseline: Option<&(String, String)>) -> Option<Self> {
        let cells =
            || sections.iter().flat_map(|section| section.cells.iter().map(move |cell| (section, cell)));
        // Cells with equal rates come first, then cells in which most systems are not limited, then those
        // with the highest rate; of equal cells, the first.
        let rank = |cell: &CellReport| {
            let unhindered = cell
                .rows
                .iter()
                .filter(|row| row.figures().is_some() && row.verdict == Some(VerdictKind::Nothing));
            let measured = cell.rows.iter().filter(|row| row.figures().is_some());
            (cell.offered.is_some(), unhindered.count(), measured.count(), cell.offered.unwrap_or(0.0) as u64)
        };
        let mut best: Option<(&Section, &CellReport)> = None;
        for (section, cell) in cells() {
            if best.is_none_or(|(_, other)| rank(cell) > rank(other)) {
                best = Some((section, cell));
            }
        }
        let (section, cell) = best.filter(|(_, cell)| cell.rows.iter().any(|row| row.figures().is_some()))?;
        let by = if cell.offered.is_some() { Metric::Cpu } else { Metric::Rps };
        // Every system of the study gets a row, even if this cell leaves it out.
        let mut names: Vec<(&str, &Row)> = cell.rows.iter().map(|row| (row.system.as_str(), row)).collect();
        for (_, other) in cells() {
            for row in &other.rows {
                if names.iter().all(|(name, _)| *name != row.system) {
                    names.push((&row.system, row));
                }
            }
        }
        let mut rows: Vec<DecisionRow> = names
            .into_iter()
            .map(|(name, row)| {
                decision_row(name, row, cell.row(name).is_some(), cells().map(|(_, cell)| cell))
            })
            .collect();
        let key = |row: &DecisionRow| row.row.figures().and_then(|figures| figures.of(by));
        rows.sort_by(|a, b| {
            let order = match (key(a), key(b)) {
                (Some(a), Some(b)) if by.lower_is_better() => a.total_cmp(&b),
                (Some(a), Some(b)) => b.total_cmp(&a),
                (a, b) => b.is_some().cmp(&a.is_some()),
            };
            order.then_with(|| b.row.figures().is_some().cmp(&a.row.figures().is_some()))
        });
        // A direct run has no toll: it is the reference for the others, not a candidate.
        if let Some(at) = rows.iter().position(|row| row.row.system == "direct")
            && (by == Metric::Cpu || baseline.is_some_and(|(name, _)| name == "direct"))
        {
            let direct = rows.remove(at);
            rows.insert(0, direct);
        }
        Some(Self {
            cell: cell.id.clone(),
            at: format!("{} ({})", cell.title, section.title),
            offered: cell.offered,
            by,
            rows,
        })
    }

    /// Returns the best candidate that has figures.
    pub fn best(&self) -> Option<&DecisionRow> {
        self.rows.iter().find(|row| {
            row.row.system != "direct"
                && row.row.figures().is_some_and(|figures| figures.of(self.by).is_some())
        })
    }
}

fn decision_row<'a>(
    name: &str,
    row: &Row,
    in_cell: bool,
    cells: impl Iterator<Item = &'a CellReport>,
) -> DecisionRow {
    let mut out = DecisionRow { row: row.clone(), most: None, usable: 0, cells: 0, own_limit: 0 };
    if !in_cell && row.figures().is_some() {
        out.row.outcome = super::Outcome::Elsewhere;
        out.row.ratios.clear();
        out.row.verdict = None;
    }
    for cell in cells {
        let Some(row) = cell.row(name) else { continue };
        out.cells += 1;
        let Some(figures) = row.figures() else { continue };
        out.usable += 1;
        if matches!(
            row.verdict,
            Some(
                VerdictKind::Gateway | VerdictKind::HotWorker | VerdictKind::Quota | VerdictKind::Connections
            )
        ) {
            out.own_limit += 1;
        }
        if out.most.as_ref().is_none_or(|(rps, ..)| figures.rps.estimate > *rps) {
            out.most = Some((figures.rps.estimate, cell.id.clone(), cell.title.clone()));
        }
    }
    out
}
