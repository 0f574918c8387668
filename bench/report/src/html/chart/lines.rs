//! Line charts: latency against rate, throughput against connections, percentile curves, runs by the second.
//! [`Lines::draw`] writes one SVG figure. Labels stand at the ends of the lines and are moved apart until
//! none overlap.

use super::scale::{Kind, Scale};
use super::{Look, at, clip, marker, path};
use maud::{Markup, html};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 32.0;
const BOTTOM: f64 = 282.0;
/// Width of a label's letter, at the size for phones.
const LETTER: f64 = 8.9;
/// The longest label in letters; longer ones are cut.
const LONGEST: usize = 32;
/// The largest distance between the marks of two systems at one x.
const DODGE: f64 = 7.0;
/// The smallest distance between two labels at the ends of lines.
const LABEL: f64 = 17.0;

/// A measured point.
#[derive(Debug, Clone, Default)]
pub(in crate::html) struct Point {
    pub(in crate::html) x: f64,
    pub(in crate::html) y: f64,
    /// The ends of its interval.
    pub(in crate::html) whisker: Option<(f64, f64)>,
    /// Whether another component was at its limit, so that the point is no figure of the system.
    pub(in crate::html) hollow: bool,
    /// The tooltip.
    pub(in crate::html) says: String,
}

/// The line of a system.
#[derive(Debug, Clone)]
pub(in crate::html) struct Series {
    pub(in crate::html) system: String,
    pub(in crate::html) label: String,
    pub(in crate::html) look: Look,
    pub(in crate::html) points: Vec<Point>,
    /// Whether each point has a marker.
    pub(in crate::html) markers: bool,
    /// A point to mark with a ring, such as the knee, with its tooltip.
    pub(in crate::html) ring: Option<(f64, f64, String)>,
    /// A thin straight line, such as a fit.
    pub(in crate::html) fit: Option<[(f64, f64); 2]>,
}

/// The description of an axis.
#[derive(Debug, Clone, Copy)]
pub(in crate::html) struct Axis {
    pub(in crate::html) label: &'static str,
    pub(in crate::html) kind: Kind,
    /// Fixed ends, if several charts share them.
    pub(in crate::html) ends: Option<(f64, f64)>,
}

/// A chart of lines.
#[derive(Debug, Clone)]
pub(in crate::html) struct Lines {
    /// Unique on the page.
    pub(in crate::html) id: String,
    pub(in crate::html) title: String,
    pub(in crate::html) about: String,
    pub(in crate::html) x: Axis,
    pub(in crate::html) y: Axis,
    /// Whether the ticks of x are at the measured values instead of round ones.
    pub(in crate::html) x_at_points: bool,
    pub(in crate::html) series: Vec<Series>,
}

impl Lines {
    /// Draws the chart as a figure; empty if there is no point.
    pub(in crate::html) fn draw(&self) -> Markup {
        if self.series.iter().all(|series| series.points.is_empty()) {
            return html! {};
        }
        let letters =
            self.series.iter().map(|series| series.label.chars().count()).max().unwrap_or(0).min(LONGEST);
        // Marks that are moved sideways must not reach the labels.
        let is_marked = self.series.iter().any(|series| series.markers);
        let moved = if is_marked { DODGE * (self.series.len() as f64 - 1.0) / 2.0 } else { 0.0 };
        let labels = WIDTH - 24.0 - (letters.max(8) as f64) * LETTER;
        let right = labels - moved;
        let x = self.scale_x(right);
        let y = self.scale_y();
        let label_places = self.label_places(y);
        html! {
            figure class="chart" {
                figcaption { (self.title) @if !self.about.is_empty() { span { (self.about) } } }
                div class="plot" {
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } tabindex="0" role="img" aria-labelledby={ (self.id) "-t" } {
                        title id={ (self.id) "-t" } { (self.title) ". " (self.about) }
                        (self.grid(x, y, right))
                        @for ((at, series), place) in self.series.iter().enumerate().zip(label_places) {
                            (draw_series(series, x, y, labels, place, self.shift(at, x)))
                        }
                    }
                }
            }
        }
    }

    /// Returns how far the marks of a series are moved along x, so that the intervals of several systems at one
    /// value stand side by side.
    fn shift(&self, at: usize, x: Scale) -> f64 {
        let drawn = self.series.iter().filter(|series| !series.points.is_empty()).count();
        if drawn < 2 || self.series.iter().all(|series| !series.markers) {
            return 0.0;
        }
        let mut places: Vec<f64> =
            self.series.iter().flat_map(|series| &series.points).map(|point| x.at(point.x)).collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.5);
        let gap = gaps.fold(f64::INFINITY, f64::min);
        let step = DODGE.min(gap * 0.6 / drawn as f64);
        (at as f64 - (self.series.len() as f64 - 1.0) / 2.0) * step
    }

    fn scale_x(&self, right: f64) -> Scale {
        let values: Vec<f64> =
            self.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
        if let Some((low, high)) = self.x.ends {
            return Scale::exactly(self.x.kind, low, high, LEFT, right);
        }
        if self.x.kind == Kind::Log && self.x_at_points {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            return Scale::exactly(Kind::Log, low * 0.85, high * 1.15, LEFT, right);
        }
        Scale::around(self.x.kind, &values, LEFT, right)
    }

    fn scale_y(&self) -> Scale {
        if let Some((low, high)) = self.y.ends {
            return Scale::around(self.y.kind, &[low, high], BOTTOM, TOP);
        }
        let points = self.series.iter().flat_map(|series| &series.points);
        let values: Vec<f64> = points
            .flat_map(|point| [point.y].into_iter().chain(point.whisker.map(|(_, high)| high)))
            .collect();
        Scale::around(self.y.kind, &values, BOTTOM, TOP)
    }

    fn grid(&self, x: Scale, y: Scale, right: f64) -> Markup {
        let x_ticks = if self.x_at_points {
            let mut all: Vec<f64> =
                self.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            spaced(all, x)
        } else {
            spaced(x.ticks(), x)
        };
        html! {
            g class="grid" {
                @for tick in y.ticks() {
                    path d={ "M" (LEFT) " " (at(y.at(tick))) "H" (at(right)) } {}
                }
            }
            g class="axis" {
                path d={ "M" (LEFT) " " (BOTTOM) "H" (at(right)) } {}
                @for tick in y.ticks() {
                    text x=(LEFT - 7.0) y=(at(y.at(tick) + 4.5)) text-anchor="end" { (y.label(tick)) }
                }
                @for tick in &x_ticks {
                    path d={ "M" (at(x.at(*tick))) " " (BOTTOM) "v5" } {}
                    text x=(at(x.at(*tick))) y=(BOTTOM + 21.0) text-anchor="middle" { (x.label(*tick)) }
                }
                text class="name" x=(at((LEFT + right) / 2.0)) y=(HEIGHT - 6.0) text-anchor="middle" { (self.x.label) }
                text class="name" x="2" y="14" { (self.y.label) }
            }
        }
    }

    /// Returns the y positions of the labels at the ends of the lines: as near to the end as the other labels
    /// permit.
    fn label_places(&self, y: Scale) -> Vec<f64> {
        let ends: Vec<f64> = self
            .series
            .iter()
            .map(|series| series.points.last().map_or(BOTTOM, |point| y.at(point.y)))
            .collect();
        spread(&ends, LABEL, TOP - 4.0, BOTTOM + 4.0)
    }
}

fn draw_series(series: &Series, x: Scale, y: Scale, labels: f64, label_y: f64, shift: f64) -> Markup {
    let places: Vec<(f64, f64)> =
        series.points.iter().map(|point| (x.at(point.x) + shift, y.at(point.y))).collect();
    let Some(last) = places.last() else { return html! {} };
    html! {
        g class={ "series c" (series.look.colour) } data-system=(series.system) {
            @if let Some([from, to]) = series.fit {
                path class="fit" d=(path(&[(x.at(from.0), y.at(from.1)), (x.at(to.0), y.at(to.1))])) {}
            } @else {
                path class="line" d=(path(&places)) stroke-dasharray=[series.look.dashes()] {}
            }
            @for (point, (px, py)) in series.points.iter().zip(&places) {
                @if let Some((low, high)) = point.whisker {
                    path class="whisker" d={
                        "M" (at(*px)) " " (at(y.at(low))) "V" (at(y.at(high)))
                        "M" (at(*px - 2.5)) " " (at(y.at(low))) "h5M" (at(*px - 2.5)) " " (at(y.at(high))) "h5"
                    } {}
                }
                @if series.markers {
                    path class=(if point.hollow { "dot hollow" } else { "dot" }) d=(marker(series.look.shape, *px, *py, 3.8)) {
                        title { (point.says) }
                    }
                } @else if !point.says.is_empty() {
                    circle class="hit" cx=(at(*px)) cy=(at(*py)) r="6" { title { (point.says) } }
                }
            }
            @if let Some((rx, ry, says)) = &series.ring {
                circle class="ring" cx=(at(x.at(*rx) + shift)) cy=(at(y.at(*ry))) r="9" { title { (says) } }
            }
            path class="lead" d={ "M" (at(last.0 + 5.0)) " " (at(last.1)) "L" (at(labels + 12.0)) " " (at(label_y)) } {}
            text class="label" x=(at(labels + 16.0)) y=(at(label_y + 4.5)) { (clip(&series.label, LONGEST)) }
        }
    }
}

/// Leaves out ticks that would touch their neighbour.
fn spaced(ticks: Vec<f64>, x: Scale) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    let mut free = f64::NEG_INFINITY;
    for tick in ticks {
        let half = x.label(tick).chars().count() as f64 * 4.3 + 3.0;
        if x.at(tick) - half >= free {
            free = x.at(tick) + half;
            kept.push(tick);
        }
    }
    kept
}

/// Moves positions apart until neighbours have this distance. Stays within the bounds if there is room.
pub(super) fn spread(wanted: &[f64], distance: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let distance = distance.min((high - low) / wanted.len().max(1) as f64);
    let mut places = wanted.to_vec();
    let mut free = low;
    for index in &order {
        places[*index] = places[*index].max(free);
        free = places[*index] + distance;
    }
    let mut free = high;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(free);
        free = places[*index] - distance;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_touch() {
        let places = spread(&[100.0, 101.0, 99.0, 280.0, 281.0], 17.0, 28.0, 286.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 16.999), "{sorted:?}");
        assert!(sorted[0] >= 28.0 && sorted[4] <= 286.0, "{sorted:?}");
        assert!(places[2] < places[0] && places[0] < places[1], "the order of the ends is kept");
    }

    #[test]
    fn too_many_labels_still_stand_within_the_chart() {
        let places = spread(&[100.0; 40], 17.0, 0.0, 200.0);
        assert!(places.iter().all(|place| (-1e-9..=200.000_1).contains(place)));
    }
}
