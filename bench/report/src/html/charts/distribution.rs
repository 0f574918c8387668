//! Charts of one cell's raw data: percentile curves, and the warm-up by the second.

use super::{Charts, ends};
use crate::figures::{CellReport, Curve};
use crate::html::chart::lines::{Axis, Lines, Point, Series};
use crate::html::chart::scale::Kind;
use crate::{number, table};
use maud::{Markup, html};

/// The fewest points of a percentile curve that is drawn. A tool that lists only some percentiles has fewer.
const FEWEST_CURVE_POINTS: usize = 5;

/// The percentiles at which a curve shows its value.
const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Gives the points next to some percentiles a tooltip.
fn with_values(mut series: Series, furthest: f64) -> Series {
    for percent in SHOWN.into_iter().filter(|percent| *percent <= furthest) {
        let near = |point: &&mut Point| (point.x - percent).abs();
        let label = &series.label;
        if let Some(point) = series.points.iter_mut().min_by(|a, b| near(a).total_cmp(&near(b))) {
            point.says = format!("{label}, {:.2} % of the requests: {}", point.x, number::time(point.y));
        }
    }
    series
}

impl Charts<'_> {
    pub(super) fn curves(&self) -> Vec<Markup> {
        self.drawn_cell(&self.report.curves)
            .map_or_else(Vec::new, |(cell, curves)| self.curves_of(cell, curves))
    }

    /// Returns the percentile curves of a cell.
    fn curves_of(&self, cell: &CellReport, curves: &[Curve]) -> Vec<Markup> {
        let rich = |points: &[(f64, f64)]| points.len() >= FEWEST_CURVE_POINTS;
        let all: Vec<f64> = curves
            .iter()
            .flat_map(|curve| curve.corrected.iter().chain(&curve.uncorrected))
            .map(|(_, us)| *us)
            .filter(|us| *us > 0.0)
            .collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        if high <= 0.0 {
            return Vec::new();
        }
        let furthest = curves
            .iter()
            .flat_map(|curve| curve.corrected.iter().chain(&curve.uncorrected))
            .map(|(percent, _)| *percent)
            .filter(|percent| *percent < 100.0)
            .fold(99.0, f64::max)
            .min(99.999);
        let chart = |name: &str, title: String, about: &str, of: &dyn Fn(&Curve) -> Vec<(f64, f64)>| {
            let series = curves
                .iter()
                .filter(|curve| rich(&of(curve)))
                .map(|curve| Series {
                    system: curve.system.clone(),
                    label: self.report.title_of(&curve.system).to_owned(),
                    look: self.look(&curve.system),
                    points: of(curve)
                        .into_iter()
                        .filter(|(percent, us)| *percent <= furthest && *us > 0.0)
                        .map(|(x, y)| Point { x, y, ..Point::default() })
                        .collect::<Vec<Point>>(),
                    markers: false,
                    ring: None,
                    fit: None,
                })
                .map(|series| with_values(series, furthest))
                .collect();
            Lines {
                id: format!("{}-{name}", self.id),
                title,
                about: about.to_owned(),
                x: Axis { label: "percentile", kind: Kind::Percentile, ends: Some((0.0, furthest)) },
                y: Axis { label: "µs, log scale", kind: Kind::Log, ends: Some((low, high)) },
                x_at_points: false,
                series,
            }
            .draw()
        };
        vec![
            chart(
                "corrected",
                format!("Percentiles, corrected: {}", cell.title),
                "From the intended send time: a request that had to wait for its turn counts its wait.",
                &|curve| curve.corrected.clone(),
            ),
            chart(
                "uncorrected",
                format!("Percentiles, uncorrected: {}", cell.title),
                "From the real send time, on the same scale: what a generator sees that waits politely.",
                &|curve| curve.uncorrected.clone(),
            ),
        ]
    }

    pub(super) fn traces(&self) -> Vec<Markup> {
        let Some((cell, traces)) = self.drawn_cell(&self.report.traces) else { return Vec::new() };
        let series: Vec<Series> = traces
            .iter()
            .map(|trace| {
                let points: Vec<Point> = trace
                    .windows
                    .iter()
                    .filter(|window| window.seconds > 0.0)
                    .map(|window| Point {
                        x: window.start + window.seconds,
                        y: window.ok as f64 / window.seconds,
                        ..Point::default()
                    })
                    .collect();
                let title = self.report.title_of(&trace.system);
                let ring = match trace.steady {
                    crate::figures::Steady::After { seconds } => {
                        points.iter().find(|point| point.x >= seconds).map(|point| {
                            (point.x, point.y, format!("{title}: steady after {}", number::duration(seconds)))
                        })
                    }
                    _ => None,
                };
                Series {
                    system: trace.system.clone(),
                    label: title.to_owned(),
                    look: self.look(&trace.system),
                    points,
                    markers: false,
                    ring,
                    fit: None,
                }
            })
            .collect();
        let end = ends(&series);
        let never: Vec<&str> = traces
            .iter()
            .filter(|trace| trace.steady == crate::figures::Steady::Never)
            .map(|trace| self.report.title_of(&trace.system))
            .collect();
        let never =
            if never.is_empty() { String::new() } else { format!(" Never steady: {}.", never.join(", ")) };
        vec![
            Lines {
                id: format!("{}-trace", self.id),
                title: format!("Warm-up by the second: {}", cell.title),
                about: format!("A ring marks where a system was called steady.{never}"),
                x: Axis { label: "seconds", kind: Kind::Linear, ends: Some((0.0, end)) },
                y: Axis { label: "requests/s", kind: Kind::Linear, ends: None },
                x_at_points: false,
                series,
            }
            .draw(),
            self.warm_up_table(traces),
        ]
    }

    pub(super) fn warm_up_table(&self, traces: &[crate::figures::Trace]) -> Markup {
        let rows: Vec<(&str, String)> = traces
            .iter()
            .filter_map(|trace| Some((self.report.title_of(&trace.system), table::steady(trace.steady)?)))
            .collect();
        html! {
            @if !rows.is_empty() {
                figure class="beside" {
                    table {
                        caption { "When each was steady" }
                        thead { tr { th scope="col" class="t" { "System" } th scope="col" class="t" { "Steady" } } }
                        tbody { @for (title, text) in rows { tr { th scope="row" { (title) } td class="t" { (text) } } } }
                    }
                }
            }
        }
    }
}
