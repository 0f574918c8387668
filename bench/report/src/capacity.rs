//! Converts costs to cores: what a rate requires of each system.

use crate::figures::{CellReport, Report};
use crate::table::{Column, Group, Table, Text};
use crate::{estimate, number, terminal};
use serde::Serialize;
use tollgate_lab_record::{Results, Summary};
use tollgate_lab_stats::advice::{self, Advice, Basis, NoAdvice, Point};
use tollgate_lab_stats::capacity::{NotPossible, cores_needed};

/// The cores that a system needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need {
    /// The system's name.
    pub system: String,
    /// The system's title.
    pub title: String,
    /// CPU time for each request, in microseconds.
    pub cost_us: Summary,
    /// The number of cores, with the interval of the cost.
    pub cores: Summary,
}

/// The cores that a rate needs, by the costs of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// The id of the cell.
    pub cell: String,
    /// The title of the cell.
    pub title: String,
    /// The rate in requests per second.
    pub rps: f64,
    /// The share of each core that may be used, 0 to 1.
    pub utilisation: f64,
    /// The systems, the one with the fewest cores first.
    pub needs: Vec<Need>,
    /// The systems of the cell that have no cost, each with the reason.
    pub without: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub enum NoCapacity {
    /// No cell has a cost at an offered rate, or the requested cell has none.
    NoCell {
        /// The ids of the cells that can be used.
        usable: Vec<String>,
    },
    /// An input is out of range.
    Input(NotPossible),
}

impl std::fmt::Display for NoCapacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCell { usable } if usable.is_empty() => write!(
                f,
                "capacity: expected a result with a cell at an offered rate, which alone gives a cost that can be planned with; \
                 run a study that has one, such as `toll`"
            ),
            Self::NoCell { usable } => {
                write!(f, "capacity: no such cell at an offered rate; there are: {}", usable.join(", "))
            }
            Self::Input(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NoCapacity {}

/// Returns the cores that each system needs for `rps` requests per second if each core may be used up to
/// `utilisation` (0 to 1). Uses the costs of the cell `cell`, or of the decision table's cell.
///
/// # Errors
/// If there is no such cell, or the rate or the utilisation is out of range.
pub fn capacity(
    results: &Results,
    rps: f64,
    utilisation: f64,
    cell: Option<&str>,
) -> Result<Capacity, NoCapacity> {
    let report = Report::new(results);
    let usable = |cell: &&CellReport| {
        cell.offered.is_some()
            && cell.rows.iter().any(|row| row.figures().is_some_and(|figures| figures.cpu_us.is_some()))
    };
    let cells: Vec<&CellReport> =
        report.sections.iter().flat_map(|section| &section.cells).filter(usable).collect();
    let wanted = cell.or(report.decision.as_ref().map(|decision| decision.cell.as_str()));
    let Some(cell) = cells.iter().find(|cell| Some(cell.id.as_str()) == wanted) else {
        return Err(NoCapacity::NoCell { usable: cells.iter().map(|cell| cell.id.clone()).collect() });
    };
    let mut needs = Vec::new();
    let mut without = Vec::new();
    for row in cell.rows.iter().filter(|row| row.system != "direct") {
        let Some(cost) = row.figures().and_then(|figures| figures.cpu_us) else {
            let why = row.why_not().unwrap_or_else(|| "no CPU cost was measured".to_owned());
            without.push(format!("{}: {why}", row.title));
            continue;
        };
        let cores =
            cores_needed(rps, &estimate::as_interval(cost), utilisation).map_err(NoCapacity::Input)?;
        needs.push(Need {
            system: row.system.clone(),
            title: row.title.clone(),
            cost_us: cost,
            cores: Summary {
                estimate: cores.estimate,
                low: cores.low,
                high: cores.high,
                rounds: cost.rounds,
            },
        });
    }
    needs.sort_by(|a, b| a.cores.estimate.total_cmp(&b.cores.estimate));
    Ok(Capacity { cell: cell.id.clone(), title: cell.title.clone(), rps, utilisation, needs, without })
}

impl Capacity {
    /// Formats the plan for a terminal, as [`crate::terminal()`] does.
    pub fn terminal(&self, width: usize, colour: bool) -> String {
        let rows = self
            .needs
            .iter()
            .map(|need| {
                vec![
                    Text::new(&need.title),
                    Text::new(number::plain(need.cost_us.estimate)),
                    Text {
                        beside: Some(format!(
                            "{}–{}",
                            number::plain(need.cores.low),
                            number::plain(need.cores.high)
                        )),
                        ..Text::new(number::plain(need.cores.estimate))
                    },
                ]
            })
            .collect();
        let table = Table {
            caption: format!(
                "{} requests/s with each core used to {} %, by the cost at {}",
                number::whole(self.rps),
                number::plain(self.utilisation * 100.0),
                self.title
            ),
            columns: vec![column("System", false), column("CPU µs/req", true), column("Cores", true)],
            groups: vec![Group { title: None, rows }],
            footnotes: self.without.clone(),
        };
        terminal::draw(&table, width, colour)
    }
}

fn column(head: &str, number: bool) -> Column {
    Column { head: head.to_owned(), number, drop: 0 }
}

/// Returns the CPU limit and the workers that a rate needs, for each system of each quota sweep.
pub fn sizes(results: &Results, rps: f64) -> Vec<(String, Result<Advice, NoAdvice>)> {
    let report = Report::new(results);
    let mut out = Vec::new();
    for section in report.sections.iter().filter(|section| section.axis() == Some("quota")) {
        for (system, title) in section.systems().into_iter().filter(|(system, _)| *system != "direct") {
            let points: Vec<Point> = section
                .cells
                .iter()
                .filter_map(|cell| {
                    let (_, quota) = cell.axis.as_ref()?;
                    let workers =
                        cell.settings.get("workers").and_then(|text| text.parse().ok()).unwrap_or(1);
                    let max_rps = cell.row(system)?.figures()?.rps.estimate;
                    Some(Point { cpu_limit: *quota, workers, max_rps })
                })
                .collect();
            out.push((title.to_owned(), advice::advise(&points, rps)));
        }
    }
    out
}

/// Describes an advice in a sentence.
pub fn in_words(title: &str, rps: f64, advice: &Result<Advice, NoAdvice>) -> String {
    match advice {
        Err(none) => format!("{title}: {none}"),
        Ok(advice) => {
            let basis = match &advice.basis {
                Basis::Measured { max_rps } => format!("measured: {} requests/s", number::whole(*max_rps)),
                Basis::Interpolated { below, above } => format!(
                    "between {} requests/s at {} cores and {} at {}, both measured",
                    number::whole(below.max_rps),
                    below.cpu_limit,
                    number::whole(above.max_rps),
                    above.cpu_limit
                ),
            };
            format!(
                "{title}: {} requests/s need a limit of {} cores with {} workers ({basis})",
                number::whole(rps),
                number::plain(advice.cpu_limit),
                advice.workers
            )
        }
    }
}
