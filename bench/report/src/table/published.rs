//! The figures that the original published, next to the measured ones.

use super::{Column, Group, Table, Text, Tone, column};
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
/// system's: a group of rows for each figure of a cell. That system is the baseline, or the first one of the cell if the
/// original has no run of the baseline. Systems that are missing here are included. Returns `None` if nothing was
/// published.
pub fn of_published(report: &Report, section: &Section) -> Option<Table> {
    let baseline = report.baseline.as_ref().map(|(name, _)| name.as_str());
    let mut groups = Vec::new();
    for cell in &section.cells {
        let Some(base) = base(cell, baseline) else { continue };
        let title = |name: &str| match section.cells.len() {
            1 => name.to_owned(),
            _ => format!("{}: {name}", cell.title),
        };
        let rows = || cell.rows.iter().filter(|row| row.published.is_some());
        // Failures that neither had say nothing.
        let says = |figure: &&Figure| {
            let found =
                || rows().filter_map(|row| figure.printed(row).map(|theirs| (figure.of(row), theirs)));
            found().any(|(ours, theirs)| theirs != 0.0 || ours.is_some_and(|ours| ours != 0.0))
        };
        for figure in FIGURES.iter().filter(says) {
            let compared = rows().filter(|row| figure.of(row).or(figure.printed(row)).is_some());
            let compared = compared.map(|row| figure_row(figure, row, base)).collect();
            groups.push(Group { title: Some(title(figure.name)), rows: compared });
        }
        if is_direct(base) && MEAN.printed(base).is_some() {
            let others = rows().filter(|row| row.system != base.system);
            let added: Vec<_> = others.map(|row| added_row(cell, row, base)).collect();
            if !added.is_empty() {
                groups.push(Group { title: Some(title("Mean added a proxy")), rows: added });
            }
        }
    }
    // A single group has no heading of its own.
    let what = match groups.as_slice() {
        [] => return None,
        [Group { title: Some(title), .. }] => format!(", {title}"),
        _ => String::new(),
    };
    let caption = format!("Beside the original{what}");
    Some(Table { caption, columns: columns(), groups, footnotes: Vec::new() })
}

fn columns() -> Vec<Column> {
    vec![
        column("System", false, 0),
        column("Here", true, 0),
        column("Published", true, 0),
        column("Ratio to the 1, here", true, 1),
        column("Published", true, 1),
    ]
}

/// Returns a figure here and in the original, and its ratios to the base.
fn figure_row(figure: &Figure, row: &Row, base: &Row) -> Vec<Text> {
    let (ours, theirs) = (figure.of(row), figure.printed(row));
    let ratios = if !figure.compares {
        [None, None].map(|none| plain(none, number::ratio))
    } else if row.system == base.system {
        [ours, theirs].map(|value| match value {
            Some(_) => Text::new("1").tone(Tone::Faint),
            None => plain(None, number::ratio),
        })
    } else {
        [over(ours, figure.of(base)), over(theirs, figure.printed(base))]
            .map(|value| plain(value, number::ratio))
    };
    let mut texts = vec![Text::new(&row.title), plain(ours, figure.write), plain(theirs, figure.write)];
    texts.extend(ratios);
    texts
}

/// Returns the mean latency that each proxy on the path adds, here and in the original.
fn added_row(cell: &CellReport, row: &Row, base: &Row) -> Vec<Text> {
    let proxies = cell.settings.get("chain").and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let added = |one: Option<f64>, base: Option<f64>| {
        one.zip(base).map(|(one, base): (f64, f64)| (one - base) / proxies)
    };
    let mut texts = vec![
        Text::new(&row.title),
        plain(added(MEAN.of(row), MEAN.of(base)), number::time),
        plain(added(MEAN.printed(row), MEAN.printed(base)), number::time),
    ];
    texts.extend([None, None].map(|none| plain(none, number::ratio)));
    texts
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
