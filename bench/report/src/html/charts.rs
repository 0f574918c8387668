//! Which charts a section gets, and what stands in them.

use super::chart::Look;
use super::chart::bars::{Bar, Bars};
use super::chart::lines::{Axis, Lines, Point, Series};
use super::chart::scale::Kind;
use crate::figures::{CellReport, Figures, Metric, Report, Row, Section};
use crate::{number, table};
use maud::{Markup, html};
use tollgate_lab_record::{Summary, VerdictKind};
use tollgate_lab_stats::knee;

/// More toll charts than this in one section tell nothing that its table does not.
const MOST_TOLL_CHARTS: usize = 4;
/// Points of a percentile curve worth drawing; fewer come from a tool that lists only some percentiles.
const FEWEST_CURVE_POINTS: usize = 5;

/// All charts of a section.
pub(super) struct Charts<'a> {
    pub(super) report: &'a Report,
    pub(super) section: &'a Section,
    /// Prefix of ids, unique on the page.
    pub(super) id: String,
}

impl Charts<'_> {
    /// As figures in reading order; those of one group stand side by side.
    pub(super) fn draw(&self) -> Vec<Vec<Markup>> {
        let first = match self.section.axis() {
            Some("feature") => Vec::new(),
            Some("rate") => self.along_rate(),
            Some(axis) => self.along(axis),
            None => self.tolls(),
        };
        let mut groups = vec![first, self.prices(), self.curves(), self.traces()];
        for group in &mut groups {
            group.retain(|figure| !figure.0.is_empty());
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    fn look(&self, system: &str) -> Look {
        let names: Vec<String> = self.report.systems.iter().map(|used| used.name.clone()).collect();
        Look::of(system, &names)
    }

    fn tolls(&self) -> Vec<Markup> {
        let equal = self.section.cells.iter().filter(|cell| cell.offered.is_some());
        let cells = equal
            .filter(|cell| cell.rows.iter().any(|row| row.figures().is_some_and(|f| f.cpu_us.is_some())));
        cells.take(MOST_TOLL_CHARTS).enumerate().map(|(at, cell)| self.toll(at, cell)).collect()
    }

    fn toll(&self, at: usize, cell: &CellReport) -> Markup {
        let baseline = self.report.baseline.as_ref();
        let mut rows: Vec<&Row> = cell
            .rows
            .iter()
            .filter(|row| row.figures().is_none_or(|figures| figures.cpu_us.is_some()))
            .collect();
        let cost = |row: &Row| row.figures().and_then(|figures| figures.of(Metric::Cpu)).unwrap_or(f64::MAX);
        rows.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let rule = baseline.and_then(|(name, title)| {
            let cpu = cell.row(name)?.figures()?.cpu_us?;
            Some((cpu.estimate, title.clone()))
        });
        let bars = rows.into_iter().map(|row| self.toll_bar(row)).collect();
        Bars {
            id: format!("{}-toll{at}", self.id),
            title: format!("CPU a request: {}", cell.title),
            about: table::terms(cell),
            axis: "µs of CPU a request",
            key: vec![("user", "in user mode"), ("system", "in the kernel")],
            bars,
            rule,
        }
        .draw()
    }

    fn toll_bar(&self, row: &Row) -> Bar {
        let base = Bar {
            system: row.system.clone(),
            label: row.title.clone(),
            heading: None,
            parts: Vec::new(),
            whisker: None,
            value: String::new(),
            beside: String::new(),
            absent: None,
            says: String::new(),
        };
        let Some(figures) = row.figures() else {
            let why = row.why_not().unwrap_or_default();
            return Bar { absent: Some(format!("{}: {why}", row.verdict_name())), ..base };
        };
        let (user, system) = (figures.user_us.unwrap_or(0.0), figures.system_us.unwrap_or(0.0));
        let ratio = row.ratio(Metric::Cpu).and_then(|ratio| ratio.ours);
        let says = format!(
            "{}: {} µs in user mode, {} µs in the kernel",
            row.title,
            number::plain(user),
            number::plain(system)
        );
        Bar {
            parts: vec![("user", user), ("system", system)],
            whisker: figures.cpu_us.filter(|cpu| cpu.low < cpu.high).map(|cpu| (cpu.low, cpu.high)),
            value: number::plain(user + system),
            beside: ratio.map_or_else(String::new, |ratio| format!("× {}", number::ratio(ratio.estimate))),
            says,
            ..base
        }
    }

    /// A line a system along the section's axis.
    fn series(&self, of: impl Fn(&Figures) -> Option<Summary>, unit: impl Fn(f64) -> String) -> Vec<Series> {
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
                    let others = matches!(row.verdict, Some(VerdictKind::Origin | VerdictKind::Generator));
                    Some(Point {
                        x: *x,
                        y: value.estimate,
                        whisker: (value.low < value.high).then_some((value.low, value.high)),
                        hollow: others,
                        says: format!(
                            "{title}, {}: {} (limited by: {})",
                            cell.title,
                            unit(value.estimate),
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

    fn along_rate(&self) -> Vec<Markup> {
        let single = |value: Option<f64>| {
            value.map(|value| Summary { estimate: value, low: value, high: value, rounds: 1 })
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
            // The figure is that of all requests; the whisker is how the rounds scatter around it.
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

    fn along(&self, axis: &str) -> Vec<Markup> {
        let kind = if axis == "workers" { Kind::Linear } else { Kind::Log };
        let label = match axis {
            "connections" => "connections",
            "workers" => "workers",
            "quota" => "CPU quota, cores",
            "body" => "body, bytes",
            _ => "value of the axis",
        };
        let x = Axis { label, kind, ends: None };
        let open = self.section.cells.iter().any(|cell| cell.offered.is_some());
        let rps = |value: f64| format!("{} requests/s", number::whole(value));
        let mut throughput = self.series(|figures| Some(figures.rps), rps);
        for series in &mut throughput {
            let end = series.points.last().map_or(1.0, |point| point.x);
            series.fit = self
                .section
                .scaling
                .iter()
                .find(|one| one.system == series.system)
                .map(|one| [(0.0, one.intercept.max(0.0)), (end, one.intercept + one.slope * end)]);
        }
        let about = if axis == "workers" {
            "Straight lines are least-squares fits; whiskers are intervals."
        } else {
            "Whiskers are intervals. A hollow point was limited by the origin or the generator, not by the system."
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
            value.map(|value| Summary { estimate: value, low: value, high: value, rounds: 1 })
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

    fn prices(&self) -> Vec<Markup> {
        let chart = |name: &str,
                     title: &str,
                     axis: &'static str,
                     of: &dyn Fn(&crate::figures::Price) -> Option<Summary>,
                     write: &dyn Fn(f64) -> String| {
            let mut seen = String::new();
            let bars = self
                .section
                .prices
                .iter()
                .filter_map(|price| {
                    let found = of(price)?;
                    let value = found.estimate;
                    let none = found.low <= 0.0 && found.high >= 0.0;
                    let heading = (price.feature != seen).then(|| price.feature.clone());
                    seen.clone_from(&price.feature);
                    let text = table::signed(value, write);
                    Some(Bar {
                        system: price.system.clone(),
                        label: price.title.clone(),
                        heading,
                        parts: vec![(
                            if none { PALE } else { COLOUR }
                                [self.look(&price.system).colour.min(COLOUR.len() - 1)],
                            value,
                        )],
                        whisker: (found.low < found.high).then_some((found.low, found.high)),
                        says: format!("{}, {}: {text}", price.title, price.feature),
                        value: text,
                        beside: String::new(),
                        absent: None,
                    })
                })
                .collect();
            Bars {
                id: format!("{}-{name}", self.id),
                title: title.to_owned(),
                about: "Beside the same system without the feature. Pale: the interval holds 0, so no price was shown.".to_owned(),
                axis,
                key: Vec::new(),
                bars,
                rule: None,
            }
            .draw()
        };
        if self.section.prices.is_empty() {
            return Vec::new();
        }
        vec![
            chart(
                "price-cpu",
                "CPU that a feature adds",
                "µs of CPU a request",
                &|price| price.cpu_us,
                &number::plain,
            ),
            chart(
                "price-p99",
                "99th percentile that a feature adds",
                "µs",
                &|price| price.p99_us,
                &number::time,
            ),
        ]
    }

    /// The cell of this section whose raw data is drawn: the decision table's when it is here, else the first that has any.
    fn drawn_cell<'a, T>(
        &self,
        all: &'a std::collections::BTreeMap<String, Vec<T>>,
    ) -> Option<(&CellReport, &'a Vec<T>)> {
        let decided = self.report.decision.as_ref().map(|decision| decision.cell.as_str());
        let here = || self.section.cells.iter().filter(|cell| all.contains_key(&cell.id));
        let cell = here().find(|cell| Some(cell.id.as_str()) == decided).or_else(|| here().next())?;
        Some((cell, &all[&cell.id]))
    }

    fn curves(&self) -> Vec<Markup> {
        // Along an axis the percentiles stand in the charts and the table already.
        if self.section.axis().is_some() {
            return Vec::new();
        }
        let Some((cell, curves)) = self.drawn_cell(&self.report.curves) else { return Vec::new() };
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
        let chart = |name: &str,
                     title: String,
                     about: &str,
                     of: &dyn Fn(&crate::figures::Curve) -> Vec<(f64, f64)>| {
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
                        .collect(),
                    markers: false,
                    ring: None,
                    fit: None,
                })
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

    fn traces(&self) -> Vec<Markup> {
        if self.section.axis().is_some() {
            return Vec::new();
        }
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
                title: format!("The first run by the second: {}", cell.title),
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

    fn warm_up_table(&self, traces: &[crate::figures::Trace]) -> Markup {
        let rows: Vec<(&str, String)> = traces
            .iter()
            .filter_map(|trace| Some((self.report.title_of(&trace.system), table::steady(trace.steady)?)))
            .collect();
        html! {
            @if !rows.is_empty() {
                figure class="beside" {
                    table {
                        caption { "Warm-up" }
                        thead { tr { th scope="col" { "System" } th scope="col" { "Steady" } } }
                        tbody { @for (title, text) in rows { tr { th scope="row" { (title) } td { (text) } } } }
                    }
                }
            }
        }
    }
}

const PALE: [&str; 8] = [
    "fill pale c0",
    "fill pale c1",
    "fill pale c2",
    "fill pale c3",
    "fill pale c4",
    "fill pale c5",
    "fill pale c6",
    "fill pale c7",
];
const COLOUR: [&str; 8] =
    ["fill c0", "fill c1", "fill c2", "fill c3", "fill c4", "fill c5", "fill c6", "fill c7"];

/// Largest x of all points.
fn ends(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.points).map(|point| point.x).fold(0.0, f64::max)
}
