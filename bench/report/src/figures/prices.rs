//! What features add: the difference between a system with a feature and the same system without it.

use super::{Figures, Section};
use serde::Serialize;
use tollgate_lab_record::Summary;

/// What one feature, or one stack of them, adds to one system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// Name of the system without the feature.
    pub system: String,
    /// Title of that system.
    pub title: String,
    /// The feature.
    pub feature: String,
    /// Microseconds of CPU that a request costs more, with an interval.
    pub cpu_us: Option<Summary>,
    /// Microseconds that the 99th percentile grows, with an interval.
    pub p99_us: Option<Summary>,
}

/// Prices along an axis `feature`, where 0 is the plain cell, and of arms named `SYSTEM+FEATURE` beside `SYSTEM` in one
/// cell.
pub(super) fn of(section: &Section) -> Vec<Price> {
    let mut prices = Vec::new();
    if section.axis() == Some("feature") {
        let at = |cell: &super::CellReport| cell.axis.as_ref().map_or(f64::NAN, |(_, value)| *value);
        if let Some(plain) = section.cells.iter().find(|cell| at(cell) == 0.0) {
            for cell in section.cells.iter().filter(|cell| at(cell) != 0.0) {
                for row in &cell.rows {
                    let without = plain.row(&row.system).and_then(|row| row.figures());
                    if let (Some(with), Some(without)) = (row.figures(), without) {
                        prices.push(price(&row.system, &row.title, &cell.title, with, without));
                    }
                }
            }
        }
    }
    for cell in &section.cells {
        // A closed loop gives each arm its own rate, and costs at different rates do not subtract.
        if cell.offered.is_none() {
            continue;
        }
        for row in &cell.rows {
            let Some((system, feature)) = row.system.split_once('+') else { continue };
            let Some(base) = cell.row(system) else { continue };
            if let (Some(with), Some(without)) = (row.figures(), base.figures()) {
                let feature = if section.cells.len() > 1 {
                    format!("{feature} ({})", cell.title)
                } else {
                    feature.to_owned()
                };
                prices.push(price(system, &base.title, &feature, with, without));
            }
        }
    }
    prices
}

fn price(system: &str, title: &str, feature: &str, with: &Figures, without: &Figures) -> Price {
    Price {
        system: system.to_owned(),
        title: title.to_owned(),
        feature: feature.to_owned(),
        cpu_us: with.cpu_us.zip(without.cpu_us).map(|(with, without)| difference(with, without)),
        p99_us: with
            .p99_rounds_us
            .zip(without.p99_rounds_us)
            .map(|(with, without)| difference(with, without)),
    }
}

/// The half-widths of independent estimates add as squares.
fn difference(with: Summary, without: Summary) -> Summary {
    let estimate = with.estimate - without.estimate;
    Summary {
        estimate,
        low: estimate - (with.estimate - with.low).hypot(without.high - without.estimate),
        high: estimate + (with.high - with.estimate).hypot(without.estimate - without.low),
        rounds: with.rounds.min(without.rounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_less_certain_than_either_side() {
        let of = |estimate: f64, half: f64| Summary {
            estimate,
            low: estimate - half,
            high: estimate + half,
            rounds: 6,
        };
        let price = difference(of(10.0, 0.3), of(8.0, 0.4));
        assert!((price.estimate - 2.0).abs() < 1e-12);
        assert!((price.low - 1.5).abs() < 1e-12 && (price.high - 2.5).abs() < 1e-12, "{price:?}");
    }
}
