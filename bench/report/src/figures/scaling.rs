//! How throughput grows with workers: a straight line through the points, and what each point keeps of one worker's
//! throughput times their number.

use super::Section;
use serde::Serialize;
use tollgate_lab_stats::fit;

/// One system along `workers`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// The system.
    pub system: String,
    /// Its title.
    pub title: String,
    /// Workers and requests a second.
    pub points: Vec<(f64, f64)>,
    /// Requests a second that a further worker brings, by least squares.
    pub slope: f64,
    /// Requests a second of the line at no worker.
    pub intercept: f64,
    /// Share of the variance that the line explains, 0 to 1.
    pub r_squared: f64,
    /// Largest distance of a point from the line, as a share of that point.
    pub residual: f64,
    /// rps(W) / (W rps(1)) at the most workers; `None` without a point at one worker.
    pub efficiency: Option<f64>,
}

impl Scaling {
    pub(super) fn of(section: &Section) -> Vec<Self> {
        if section.axis() != Some("workers") {
            return Vec::new();
        }
        section.systems().into_iter().filter_map(|(system, title)| one(section, system, title)).collect()
    }
}

fn one(section: &Section, system: &str, title: &str) -> Option<Scaling> {
    let mut points: Vec<(f64, f64)> = section
        .cells
        .iter()
        .filter_map(|cell| {
            let (_, workers) = cell.axis.as_ref()?;
            Some((*workers, cell.row(system)?.figures()?.rps.estimate))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let line = fit::line(&points).ok()?;
    let residual =
        points.iter().zip(&line.residuals).map(|((_, y), left)| (left / y).abs()).fold(0.0, f64::max);
    let whole: Vec<(u32, f64)> = points.iter().map(|(workers, rps)| (*workers as u32, *rps)).collect();
    Some(Scaling {
        system: system.to_owned(),
        title: title.to_owned(),
        efficiency: fit::efficiency(&whole).and_then(|all| all.last().copied()),
        slope: line.slope,
        intercept: line.intercept,
        r_squared: line.r_squared,
        residual,
        points,
    })
}
