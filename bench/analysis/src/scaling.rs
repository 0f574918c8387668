//! Tests whether throughput grows linearly with the workers. (Asked by study `apisix-envoy`.)
//!
//! [`lines`] fits a line to each system's medians and to the published rates. It writes one table with the
//! lines, and one with every point, its residual and its efficiency. A note names the points that another
//! component limited, since these bend the line.

use crate::number::{NONE, decimals, fixed};
use crate::outcome::{Outcome, cells, gateways, rates, title, workers};
use crate::{note, table};
use tollgate_lab_record::{Cell, Line, Results, VerdictKind};
use tollgate_lab_stats::{fit, median};
use tollgate_lab_study::Study;

/// Workers and requests/s of one system, each with the index of its cell in the section.
#[derive(Default)]
struct Series(Vec<(usize, u32, f64)>);

impl Series {
    fn points(&self) -> Vec<(f64, f64)> {
        self.0.iter().map(|(_, workers, rps)| (f64::from(*workers), *rps)).collect()
    }

    fn place(&self, cell: usize) -> Option<usize> {
        self.0.iter().position(|(at, ..)| *at == cell)
    }

    fn rps(&self, cell: usize) -> Option<f64> {
        self.place(cell).map(|at| self.0[at].2)
    }

    /// Returns QPS(W) / (W QPS(1)).
    fn efficiency(&self, cell: usize) -> Option<f64> {
        let points: Vec<(u32, f64)> = self.0.iter().map(|(_, workers, rps)| (*workers, *rps)).collect();
        fit::efficiency(&points)?.get(self.place(cell)?).copied()
    }

    fn line(&self) -> Result<fit::Line, fit::FitError> {
        fit::line(&self.points())
    }
}

pub(crate) fn lines(study: &Study, results: &Results, section: &str) -> Vec<Line> {
    let cells = cells(results, section);
    let (mut fits, mut points) = (Vec::new(), Vec::new());
    let mut elsewhere = Vec::new();
    for name in gateways(study, &cells) {
        let system = System::of(study, results, &cells, name);
        fits.push(fitted(&system.title, &system.measured, &system.published));
        points.extend(system.points());
        elsewhere.extend(system.limited_elsewhere());
    }
    let mut lines = vec![
        table(section, FIT_COLUMNS.map(str::to_owned), fits),
        table(section, POINT_COLUMNS.map(str::to_owned), points),
        note(
            section,
            "The line is an ordinary least-squares fit; a residual is measured minus fitted. The efficiency of W workers is \
             rps(W) / (W × rps(1)): 1 is perfect scaling. The published columns are computed from the published rates."
                .to_owned(),
        ),
    ];
    if !elsewhere.is_empty() {
        lines.push(note(
            section,
            format!(
                "Not limited by the gateway or its quota, so that these points bend the line for another's sake: {}.",
                elsewhere.join("; ")
            ),
        ));
    }
    lines
}

/// The head of the table with a row for each system.
const FIT_COLUMNS: [&str; 7] = [
    "Line through the workers",
    "Requests/s a further worker",
    "Requests/s at no worker",
    "R²",
    "Published: a further worker",
    "at no worker",
    "published R²",
];

/// The head of the table with a row for each system and cell.
const POINT_COLUMNS: [&str; 9] = [
    "Each point",
    "Workers",
    "Requests/s, median of the rounds",
    "On the line",
    "Residual",
    "Efficiency",
    "Limited by, or why there is no figure",
    "Published requests/s",
    "Published efficiency",
];

/// A system in the cells of a section.
struct System<'a> {
    title: String,
    /// The cells, with the workers and the outcome of the system in each.
    cells: Vec<(&'a Cell, Option<u32>, Outcome<'a>)>,
    measured: Series,
    published: Series,
}

impl<'a> System<'a> {
    fn of(study: &Study, results: &'a Results, cells: &[&'a Cell], name: &'a str) -> Self {
        let cells: Vec<_> = cells
            .iter()
            .map(|cell| (*cell, workers(study, cell, name), Outcome::of(results, cell, name)))
            .collect();
        let (mut measured, mut published) = (Series::default(), Series::default());
        for (at, (cell, workers, outcome)) in cells.iter().enumerate() {
            let Some(workers) = *workers else { continue };
            if let Outcome::Measured { trials, .. } = outcome {
                measured.0.extend(median::median(&rates(trials)).map(|rps| (at, workers, rps)));
            }
            published.0.extend(printed(cell, name).map(|rps| (at, workers, rps)));
        }
        Self { title: title(study, results, name), cells, measured, published }
    }

    /// Returns a row for each cell.
    fn points(&self) -> Vec<[String; 9]> {
        let line = self.measured.line().ok();
        let number =
            |value: Option<f64>, places| value.map_or_else(|| NONE.to_owned(), |value| fixed(value, places));
        let row = |(at, (_, workers, outcome)): (usize, &(&Cell, Option<u32>, Outcome<'_>))| {
            let place = self.measured.place(at);
            let residual = place.and_then(|place| line.as_ref()?.residuals.get(place).copied());
            let rps = self.measured.rps(at);
            let limit = match outcome {
                Outcome::Measured { kind, .. } => kind.name(),
                other => other.why(),
            };
            [
                self.title.clone(),
                workers.map_or_else(|| NONE.to_owned(), |workers| workers.to_string()),
                number(rps, 0),
                number(rps.zip(residual).map(|(rps, residual)| rps - residual), 0),
                number(residual, residual.map_or(0, decimals)),
                number(self.measured.efficiency(at), 3),
                limit.to_owned(),
                number(self.published.rps(at), 0),
                number(self.published.efficiency(at), 3),
            ]
        };
        self.cells.iter().enumerate().map(row).collect()
    }

    /// Returns the measured points that neither the system nor its quota limited.
    fn limited_elsewhere(&self) -> impl Iterator<Item = String> {
        self.cells.iter().filter_map(|(cell, workers, outcome)| match outcome {
            Outcome::Measured { kind, .. } if workers.is_some() && !own_limit(*kind) => {
                Some(format!("{}, {} ({})", self.title, cell.title, kind.name()))
            }
            _ => None,
        })
    }
}

/// Returns whether further workers, with their share of the quota, would raise this limit.
fn own_limit(kind: VerdictKind) -> bool {
    matches!(kind, VerdictKind::Gateway | VerdictKind::HotWorker | VerdictKind::Quota)
}

/// Returns the median of the runs that the original published.
fn printed(cell: &Cell, system: &str) -> Option<f64> {
    median::median(&cell.published.get(system)?.rps)
}

/// Returns the row of a system: its own line, and the published one.
fn fitted(title: &str, measured: &Series, published: &Series) -> [String; 7] {
    let [slope, intercept, r_squared] = in_words(measured);
    let [their_slope, their_intercept, their_r_squared] = in_words(published);
    [title.to_owned(), slope, intercept, r_squared, their_slope, their_intercept, their_r_squared]
}

fn in_words(series: &Series) -> [String; 3] {
    match series.line() {
        Err(_) if series.0.is_empty() => [NONE, NONE, NONE].map(str::to_owned),
        Err(error) => [format!("{NONE} ({error})"), NONE.to_owned(), NONE.to_owned()],
        Ok(line) => {
            let sure = if series.0.len() == 2 {
                format!("{NONE} (two points always fit)")
            } else {
                fixed(line.r_squared, 4)
            };
            [fixed(line.slope, 0), fixed(line.intercept, 0), sure]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse, made};
    use tollgate_lab_record::{Missing, Published};

    const STUDY: &str = "
title: T
about: A
analyses: [{kind: scaling, section: Workers}]
sections: [{title: Workers, systems: [direct, envoy, apisix], points: [{}]}]
";

    fn results() -> Results {
        let print = |rps: f64| Published { rps: vec![rps], ..Published::default() };
        let cell = |workers: &str, envoy: f64, apisix: f64| Cell {
            published: [("envoy".to_owned(), print(envoy)), ("apisix".to_owned(), print(apisix))].into(),
            ..made::cell(workers, "Workers", &[("workers", workers)], &["direct", "envoy", "apisix"])
        };
        let cells = vec![
            cell("1", 15_625.56, 18_608.4),
            cell("2", 29_058.135, 34_975.8),
            cell("3", 42_561.125, 52_334.8),
        ];
        let mut results = made::results(&["direct", "envoy", "apisix"], cells);
        results.systems[2].missing = Some(Missing { reason: "in no registry".into(), get: String::new() });
        // Medians 1000, 2100, 2900: mean 2000, slope (2900 - 1000) / 2 = 950, intercept 2000 - 2 x 950 = 100;
        // fitted 1050, 2000, 2950; residuals -50, 100, -50; R2 = 1 - 15000 / (1000^2 + 100^2 + 900^2) =
        // 0.99176.
        for (cell, rps) in [("1", 1_000.0), ("2", 2_100.0), ("3", 2_900.0)] {
            let rounds = [rps, rps + 1.0, rps - 300.0].map(|rps| (rps, 10.0, 1.0));
            made::measured(&mut results, cell, "envoy", VerdictKind::Quota, &rounds);
        }
        results
    }

    #[test]
    fn the_line_its_residuals_and_the_efficiency_by_hand() {
        let lines = analyse(&made::study(STUDY), &results());
        let tables = made::tables(&lines);
        assert_eq!(tables[0].len(), 3, "a direct run has no workers");
        assert_eq!(tables[0][1][..4], ["The envoy", "950", "100", "0.9918"]);
        let points = &tables[1];
        assert_eq!(points[1][1..7], ["1", "1,000", "1,050", "-50.0", "1.000", "CPU quota"]);
        assert_eq!(points[2][1..7], ["2", "2,100", "2,000", "100", "1.050", "CPU quota"]);
        assert_eq!(points[3][1..7], ["3", "2,900", "2,950", "-50.0", "0.967", "CPU quota"]);
        assert!(!made::notes(&lines).contains("bend the line"));
    }

    #[test]
    fn published_efficiencies_are_computed_and_stand_beside_a_missing_system() {
        let tables = made::tables(&analyse(&made::study(STUDY), &results()));
        let published: Vec<&str> = tables[1][1..].iter().map(|row| row[8].as_str()).collect();
        assert_eq!(published, ["1.000", "0.930", "0.908", "1.000", "0.940", "0.937"]);
        assert_eq!(tables[0][2][..5], ["The apisix", "-", "-", "-", "16,863"]);
        assert_eq!(tables[1][4][2..8], ["-", "-", "-", "-", "missing: in no registry", "18,608"]);
    }

    #[test]
    fn void_cells_leave_two_points_or_one_and_foreign_limits_are_named() {
        let mut results = results();
        results.verdicts[0].kind = VerdictKind::Errors;
        results.verdicts[2].kind = VerdictKind::Generator;
        let lines = analyse(&made::study(STUDY), &results);
        let tables = made::tables(&lines);
        assert_eq!(tables[0][1][1..4], ["800", "500", "- (two points always fit)"]);
        assert_eq!(tables[1][1][2..7], ["-", "-", "-", "-", "no figures: errors"]);
        assert_eq!(tables[1][2][5], "-", "nothing to scale from without one worker");
        assert!(made::notes(&lines).contains("The envoy, cell 3 (generator)"));
        results.verdicts[1].kind = VerdictKind::Invalid;
        let tables = made::tables(&analyse(&made::study(STUDY), &results));
        assert_eq!(tables[0][1][1], "- (a line needs at least two points)");
        assert_eq!(tables[1][3][2..5], ["2,900", "-", "-"]);
    }
}
