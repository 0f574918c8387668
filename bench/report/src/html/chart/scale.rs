//! Maps values to positions, and chooses the ticks. Axes are linear, logarithmic, or by percentile, which
//! gives each further nine the same distance.

use crate::number;

/// The kind of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::html) enum Kind {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal factors.
    Log,
    /// Equal distances between 0, 90, 99 and 99.9 %.
    Percentile,
}

/// An axis: maps a range of values to a range of positions.
#[derive(Debug, Clone, Copy)]
pub(in crate::html) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    /// The distance of the ticks of a linear scale.
    step: f64,
}

impl Scale {
    /// Returns a scale that includes all values and ends at round numbers. Positions run from `start` to
    /// `end`.
    pub(in crate::html) fn around(kind: Kind, values: &[f64], start: f64, end: f64) -> Self {
        let mut known = values.iter().copied().filter(|value| value.is_finite());
        let first = known.next().unwrap_or(1.0);
        let (mut low, mut high) = known.fold((first, first), |(low, high), v| (low.min(v), high.max(v)));
        let mut between = 0.0;
        match kind {
            Kind::Linear => {
                // Bars and throughputs start at 0; otherwise their lengths would mislead.
                low = low.min(0.0);
                if high <= low {
                    high = low + 1.0;
                }
                let step = step(high - low, 5.0);
                between = step;
                low = (low / step).floor() * step;
                high = (high / step - 1e-9).ceil() * step;
            }
            Kind::Log => {
                low = low.max(1e-9);
                high = high.max(low * 1.01);
                low = [1.0, 2.0, 5.0, 10.0]
                    .map(|m| m * decade(low))
                    .into_iter()
                    .filter(|v| *v <= low * 1.0001)
                    .fold(decade(low), f64::max);
                high = [1.0, 2.0, 5.0, 10.0]
                    .map(|m| m * decade(high))
                    .into_iter()
                    .find(|v| *v >= high * 0.9999)
                    .unwrap_or(high);
            }
            Kind::Percentile => {
                low = 0.0;
                high = high.clamp(99.0, 99.9999);
            }
        }
        Self { kind, low, high, start, end, step: between }
    }

    /// Returns a scale between exactly these values.
    pub(in crate::html) fn exactly(kind: Kind, low: f64, high: f64, start: f64, end: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { kind, low, high, start, end, step: step(high - low, 5.0) }
    }

    fn warp(self, value: f64) -> f64 {
        match self.kind {
            Kind::Linear => value,
            Kind::Log => value.max(1e-9).log10(),
            Kind::Percentile => -(1.0 - value.min(self.high) / 100.0).log10(),
        }
    }

    /// Returns the position of a value. Values beyond the ends are placed at the ends.
    pub(in crate::html) fn at(self, value: f64) -> f64 {
        let (low, high) = (self.warp(self.low), self.warp(self.high));
        let part = ((self.warp(value) - low) / (high - low)).clamp(0.0, 1.0);
        self.start + part * (self.end - self.start)
    }

    /// Returns the largest value of the scale.
    pub(in crate::html) fn high(self) -> f64 {
        self.high
    }

    /// Returns the values of the ticks.
    pub(in crate::html) fn ticks(self) -> Vec<f64> {
        let slack = (self.high - self.low) * 1e-6;
        let inside = |value: &f64| (self.low - slack..=self.high + slack).contains(value);
        match self.kind {
            Kind::Linear => {
                let first = (self.low / self.step - 1e-9).ceil() as i64;
                (first..).map(|n| n as f64 * self.step).take_while(inside).collect()
            }
            Kind::Log => {
                let decades = (self.high / self.low).log10();
                let multiples: &[f64] = if decades <= 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let mut ticks = Vec::new();
                let mut power = decade(self.low);
                while power <= self.high * 1.0001 {
                    ticks.extend(multiples.iter().map(|multiple| multiple * power).filter(inside));
                    power *= 10.0;
                }
                ticks
            }
            Kind::Percentile => {
                [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999].into_iter().filter(inside).collect()
            }
        }
    }

    /// Returns a tick's text.
    pub(in crate::html) fn label(self, value: f64) -> String {
        match self.kind {
            Kind::Percentile if value == 0.0 => "0 %".to_owned(),
            Kind::Percentile => format!("{value} %"),
            Kind::Linear | Kind::Log => number::short(value),
        }
    }
}

fn decade(value: f64) -> f64 {
    10.0_f64.powf(value.log10().floor())
}

/// Returns a round step that divides a span into about `parts` parts.
fn step(span: f64, parts: f64) -> f64 {
    let rough = span / parts;
    let base = decade(rough);
    let multiple = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|multiple| multiple * base >= rough * 0.999);
    multiple.unwrap_or(10.0) * base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_start_at_nothing_and_end_round() {
        let scale = Scale::around(Kind::Linear, &[31_000.0, 84_000.0], 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0]);
        assert_eq!(scale.at(50_000.0), 50.0);
        assert_eq!(scale.label(20_000.0), "20k");
        let below = Scale::around(Kind::Linear, &[-1.2, 6.0], 0.0, 1.0);
        assert!(below.ticks().contains(&0.0) && below.ticks()[0] <= -1.2);
    }

    #[test]
    fn log_scales_have_equal_factors() {
        let scale = Scale::around(Kind::Log, &[16.0, 6400.0], 0.0, 90.0);
        assert_eq!(scale.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        assert!((scale.at(100.0) - 30.0).abs() < 1e-9);
        let narrow = Scale::around(Kind::Log, &[60.0, 400.0], 0.0, 1.0);
        assert_eq!(narrow.ticks(), [50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn percentiles_spread_the_tail() {
        let scale = Scale::around(Kind::Percentile, &[99.9, 50.0], 0.0, 3.0);
        assert_eq!(scale.ticks(), [0.0, 50.0, 90.0, 99.0, 99.9]);
        assert!((scale.at(99.0) - 2.0).abs() < 1e-9);
        assert_eq!(scale.at(100.0), 3.0);
    }

    #[test]
    fn odd_values_do_not_break_a_scale() {
        for kind in [Kind::Linear, Kind::Log, Kind::Percentile] {
            for values in [&[][..], &[0.0], &[5.0, 5.0], &[f64::NAN, 3.0]] {
                let scale = Scale::around(kind, values, 0.0, 10.0);
                assert!(scale.at(3.0).is_finite(), "{kind:?} {values:?}");
                assert!(scale.ticks().len() < 20, "{kind:?} {values:?}");
            }
        }
    }
}
