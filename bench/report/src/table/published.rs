//! The figures that the original published, next to the measured ones.

use super::{Group, Table, Text, Tone, column};
use crate::figures::{CellReport, Figures, Report, Row, Section};
use crate::{estimate, number};
use tollgate_lab_record::Published;

/// A figure that an original may publish.
struct Figure {
    name: &'static str,
    ours: fn(&Figures) -> Option<f64>,
    theirs: fn(&Published) -> Option<f64>,
    write: fn(f64) -> String,
    /// Whether its ratio to another system's is comparable across machines.
    compares: bool,
}

impl Figure {
    fn of(&self, row: &Row) -> Option<f64> {
        row.figures().and_then(self.ours)
    }

    fn printed(&self, row: &Row) -> Option<f64> {
        row.published.as_ref().and_then(self.theirs)
    }
}

const MEAN: Figure = Figure {
    name: "Mean",
    ours: |figures| figures.mean_us,
    theirs: |published| published.mean_us,
    write: number::time,
    compares: true,
};

const FIGURES: [Figure; 7] = [
    Figure {
        name: "req/s",
        ours: |figures| Some(figures.rps.estimate),
        theirs: |published| estimate::median(&published.rps),
        write: number::whole,
        compares: true,
    },
    MEAN,
    Figure {
        name: "p99",
        ours: |figures| figures.p99_us,
        theirs: |published| published.p99_us,
        write: number::time,
        compares: true,
    },
    Figure {
        name: "Max",
        ours: |figures| figures.max_us,
        theirs: |published| published.max_us,
        write: number::time,
        compares: true,
    },
    Figure {
        name: "System cores",
        ours: |figures| figures.cores,
        theirs: |published| published.cpu_percent.map(|percent| percent / 100.0),
        write: |cores| format!("{cores:.2}"),
        compares: false,
    },
    Figure {
        name: "Origin cores",
        ours: |figures| Some(figures.origin_cores),
        theirs: |published| published.origin_cpu_percent.map(|percent| percent / 100.0),
        write: |cores| format!("{cores:.2}"),
        compares: false,
    },
    Figure {
        name: "Failed",
        ours: |figures| Some(figures.failed as f64),
        theirs: |published| published.errors.map(|errors| errors as f64),
        write: number::whole,
        compares: false,
    },
];

/// Returns the section's published figures next to the measured ones, and each as a ratio to the same
/// system's. That system is the baseline, or the first one of the cell if the original has no run of the
/// baseline. Systems that are missing here are included. Returns `None` if nothing was published.
pub fn of_published(report: &Report, section: &Section) -> Option<Table> {
    let rows = || section.cells.iter().flat_map(|cell| &cell.rows);
    let figures: Vec<&Figure> =
        FIGURES.iter().filter(|figure| rows().any(|row| figure.printed(row).is_some())).collect();
    if figures.is_empty() {
        return None;
    }
    let baseline = report.baseline.as_ref().map(|(name, _)| name.as_str());
    let adds = section
        .cells
        .iter()
        .any(|cell| base(cell, baseline).is_some_and(|base| is_direct(base) && MEAN.printed(base).is_some()));
    let mut columns = vec![column("System", false, 0)];
    for figure in &figures {
        columns.push(column(figure.name, true, 0));
        columns.push(column(format!("{}, published", figure.name), true, 0));
        if figure.compares {
            columns.push(column(format!("{} ratio", figure.name), true, 1));
            columns.push(column(format!("{} ratio, published", figure.name), true, 1));
        }
    }
    if adds {
        columns.push(column("Mean added a proxy", true, 1));
        columns.push(column("Mean added a proxy, published", true, 1));
    }
    let row_of = |cell: &CellReport, base: &Row, row: &Row| {
        let proxies = cell.settings.get("chain").and_then(|text| text.parse().ok()).unwrap_or(1.0);
        let is_base = row.system == base.system;
        let mut texts = vec![Text::new(&row.title)];
        for figure in &figures {
            let (ours, theirs) = (figure.of(row), figure.printed(row));
            texts.push(plain(ours, figure.write));
            texts.push(plain(theirs, figure.write));
            if figure.compares && is_base {
                texts.extend([ours, theirs].map(|value| match value {
                    Some(_) => Text::new("1").tone(Tone::Faint),
                    None => plain(None, number::ratio),
                }));
            } else if figure.compares {
                texts.push(plain(over(ours, figure.of(base)), number::ratio));
                texts.push(plain(over(theirs, figure.printed(base)), number::ratio));
            }
        }
        if adds {
            let added = |one: Option<f64>, base: Option<f64>| {
                one.zip(base).filter(|_| !is_base).map(|(one, base)| (one - base) / proxies)
            };
            texts.push(plain(added(MEAN.of(row), MEAN.of(base)), number::time));
            texts.push(plain(added(MEAN.printed(row), MEAN.printed(base)), number::time));
        }
        texts
    };
    let groups = section.cells.iter().filter_map(|cell| {
        let base = base(cell, baseline)?;
        let rows = cell.rows.iter().filter(|row| row.published.is_some());
        let rows = rows.map(|row| row_of(cell, base, row)).collect();
        Some(Group { title: Some(cell.title.clone()), rows })
    });
    Some(Table {
        caption: format!("{}: beside the original", section.title),
        columns,
        groups: groups.collect(),
        footnotes: vec![
            "Ratios are to the row that says 1: machines differ, so absolute figures do not carry over."
                .to_owned(),
        ],
    })
}

/// Returns the row that the cell's ratios refer to; `None` if the original published nothing for this cell.
fn base<'a>(cell: &'a CellReport, baseline: Option<&str>) -> Option<&'a Row> {
    let printed = || cell.rows.iter().filter(|row| row.published.is_some());
    printed().find(|row| Some(row.system.as_str()) == baseline).or_else(|| printed().next())
}

/// Returns whether this is a run without a system.
fn is_direct(row: &Row) -> bool {
    row.figures().is_some_and(|figures| figures.cores.is_none())
}

fn over(one: Option<f64>, base: Option<f64>) -> Option<f64> {
    one.zip(base).map(|(one, base)| one / base).filter(|ratio| ratio.is_finite())
}

fn plain(value: Option<f64>, write: fn(f64) -> String) -> Text {
    value.map_or_else(|| Text::new("–").tone(Tone::Faint), |value| Text::new(write(value)))
}
