//! Charts of throughput, cost and latency along the setting that a section varies.

use super::{Charts, ends};
use crate::figures::Figures;
use crate::html::chart::lines::{Axis, Lines, Point, Series};
use crate::html::chart::scale::Kind;
use crate::number;
use maud::Markup;
use tollgate_lab_record::{Summary, VerdictKind};
use tollgate_lab_stats::{fit, knee};

/// Returns the interval of a value for a tooltip; empty without one.
fn interval_of(value: &Summary, unit: impl Fn(f64) -> String) -> String {
    if value.low < value.high {
        format!(", {} to {}", unit(value.low), unit(value.high))
    } else if value.rounds == 1 {
        ", one round".to_owned()
    } else {
        String::new()
    }
}

impl Charts<'_> {
    /// Returns a line for each system along the section's axis.
    pub(super) fn series(
        &self,
        of: impl Fn(&Figures) -> Option<Summary>,
        unit: impl Fn(f64) -> String,
    ) -> Vec<Series> {
        let systems = self.section.systems();
        let series = systems.into_iter().map(|(system, title)| {
            let mut points: Vec<Point> = self
                .section
                .cells
                .iter()
                .filter_map(|cell| {
                    let (_, x) = cell.axis.as_ref()?;
                    let row = cell.row(system)?;
                    let value = of(row.figures()?)?;
                    let others = matches!(
                        row.verdict,
                        Some(VerdictKind::Origin | VerdictKind::Generator | VerdictKind::LoadSide)
                    );
                    Some(Point {
                        x: *x,
                        y: value.estimate,
                        whisker: (value.low < value.high).then_some((value.low, value.high)),
                        hollow: others,
                        says: format!(
                            "{title}, {}: {}{} (limited by: {})",
                            cell.title,
                            unit(value.estimate),
                            interval_of(&value, &unit),
                            row.verdict_name()
                        ),
                    })
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series {
                system: system.to_owned(),
                label: title.to_owned(),
                look: self.look(system),
                points,
                markers: true,
                ring: None,
                fit: None,
            }
        });
        series.filter(|series| !series.points.is_empty()).collect()
    }

    pub(super) fn along_rate(&self) -> Vec<Markup> {
        let single = |value: Option<f64>| {
            value.map(|value| Summary { estimate: value, low: value, high: value, rounds: 0 })
        };
        let x = Axis { label: "offered requests/s", kind: Kind::Linear, ends: None };
        let chart = |name: &str, title: &str, about: &str, series: Vec<Series>| {
            Lines {
                id: format!("{}-{name}", self.id),
                title: title.to_owned(),
                about: about.to_owned(),
                x,
                y: Axis { label: "µs, log scale", kind: Kind::Log, ends: None },
                x_at_points: false,
                series,
            }
            .draw()
        };
        let tail_of = |figures: &Figures| {
            let rounds = figures.p99_rounds_us.filter(|rounds| rounds.low < rounds.high);
            // The figure is over all requests; the whisker shows how the rounds scatter around it.
            figures.p99_us.map(|us| Summary {
                estimate: us,
                low: rounds.map_or(us, |rounds| rounds.low.min(us)),
                high: rounds.map_or(us, |rounds| rounds.high.max(us)),
                rounds: figures.rounds,
            })
        };
        let mut tail = self.series(tail_of, number::time);
        let mut found = false;
        for series in &mut tail {
            let points: Vec<(f64, f64)> = series.points.iter().map(|point| (point.x, point.y)).collect();
            if let Some(knee) = knee::knee(&points) {
                found = true;
                let says = format!("{}: knee at {} requests/s", series.label, number::whole(knee.rate));
                series.ring = Some((knee.rate, knee.latency, says));
            }
        }
        let about = if found {
            "A ring marks the knee, where latency starts to climb."
        } else {
            "No knee within these rates."
        };
        vec![
            chart("p99", "99th percentile against offered rate", about, tail),
            chart(
                "p50",
                "Median against offered rate",
                "The dashed line is the direct path: what origin and generator alone take.",
                self.series(|figures| single(figures.p50_us), number::time),
            ),
        ]
    }

    pub(super) fn along(&self, axis: &str) -> Vec<Markup> {
        let kind = if axis == "workers" { Kind::Linear } else { Kind::Log };
        let label = match axis {
            "connections" => "connections, log scale",
            "workers" => "workers",
            "quota" => "CPU quota, cores, log scale",
            "response_body" => "body, bytes, log scale",
            "chain" => "proxies in a row",
            "timeout" => "timeout, s",
            "routes" => "routes",
            _ => "value of the axis",
        };
        let x = Axis { label, kind, ends: None };
        let open = self.section.cells.iter().any(|cell| cell.offered.is_some());
        let rps = |value: f64| format!("{} requests/s", number::whole(value));
        let mut throughput = self.series(|figures| Some(figures.rps), rps);
        for series in throughput.iter_mut().filter(|_| axis == "workers") {
            let end = series.points.last().map_or(1.0, |point| point.x);
            let points: Vec<(f64, f64)> = series.points.iter().map(|point| (point.x, point.y)).collect();
            series.fit = fit::line(&points)
                .ok()
                .map(|line| [(0.0, line.intercept.max(0.0)), (end, line.intercept + line.slope * end)]);
        }
        let about = if axis == "workers" {
            "Straight lines are least-squares fits; whiskers are intervals, moved sideways where they would overlap."
        } else {
            "Whiskers are intervals, moved sideways where they would overlap. A hollow point was limited by the origin or the generator, not by the system."
        };
        let throughput = Lines {
            id: format!("{}-rps", self.id),
            title: format!("Throughput against {}", label.split(',').next().unwrap_or(label)),
            about: about.to_owned(),
            x: Axis { ends: (axis == "workers").then(|| (0.0, ends(&throughput))), ..x },
            y: Axis { label: "requests/s", kind: Kind::Linear, ends: None },
            x_at_points: true,
            series: throughput,
        };
        let cost = self.series(|figures| figures.cpu_us, |us| format!("{} µs", number::plain(us)));
        let cost = Lines {
            id: format!("{}-cpu", self.id),
            title: format!("CPU a request against {}", label.split(',').next().unwrap_or(label)),
            about: "At equal rates; whiskers are intervals.".to_owned(),
            x,
            y: Axis { label: "µs of CPU a request", kind: Kind::Linear, ends: None },
            x_at_points: true,
            series: cost,
        };
        let single = |value: Option<f64>| {
            value.map(|value| Summary { estimate: value, low: value, high: value, rounds: 0 })
        };
        let tail = Lines {
            id: format!("{}-p99", self.id),
            title: format!("99th percentile against {}", label.split(',').next().unwrap_or(label)),
            about: if open {
                "From the intended send time.".to_owned()
            } else {
                "From the real send time, in a closed loop.".to_owned()
            },
            x,
            y: Axis { label: "µs, log scale", kind: Kind::Log, ends: None },
            x_at_points: true,
            series: self.series(|figures| single(figures.p99_us), number::time),
        };
        vec![if open { cost.draw() } else { throughput.draw() }, tail.draw()]
    }
}
