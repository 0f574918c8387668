//! Horizontal bars: the two parts of the toll by system, and what features add.

use super::scale::{Kind, Scale};
use super::{at, clip};
use maud::{Markup, html};

const WIDTH: f64 = 760.0;
/// The room at the right that a value takes.
pub(in crate::html) const ROOM: f64 = 120.0;
/// Width of a label's letter, at the size for phones.
const LETTER: f64 = 8.3;
/// The longest label in letters; longer ones are cut.
const LONGEST: usize = 32;
const TOP: f64 = 30.0;
const ROW: f64 = 21.0;
const BAR: f64 = 12.0;

/// One bar.
#[derive(Debug, Clone)]
pub(in crate::html) struct Bar {
    pub(in crate::html) system: String,
    pub(in crate::html) label: String,
    /// A heading above it, if it starts a group.
    pub(in crate::html) heading: Option<String>,
    /// The parts with their CSS classes, drawn end to end.
    pub(in crate::html) parts: Vec<(&'static str, f64)>,
    /// The ends of the interval of the sum.
    pub(in crate::html) whisker: Option<(f64, f64)>,
    /// The text at its end.
    pub(in crate::html) value: String,
    /// Fainter text after `value`.
    pub(in crate::html) beside: String,
    /// Why there is no bar.
    pub(in crate::html) absent: Option<String>,
    /// The tooltip.
    pub(in crate::html) says: String,
}

/// A chart of bars.
#[derive(Debug, Clone)]
pub(in crate::html) struct Bars {
    /// Unique on the page.
    pub(in crate::html) id: String,
    pub(in crate::html) title: String,
    pub(in crate::html) about: String,
    pub(in crate::html) axis: &'static str,
    /// Classes and names of the parts, for the key.
    pub(in crate::html) key: Vec<(&'static str, &'static str)>,
    pub(in crate::html) bars: Vec<Bar>,
    /// A value to mark by a line, with its name.
    pub(in crate::html) rule: Option<(f64, String)>,
    /// The room at the right for the texts after the longest bar.
    pub(in crate::html) room: f64,
}

impl Bars {
    /// Draws the chart as a figure; empty if there is no bar to draw.
    pub(in crate::html) fn draw(&self) -> Markup {
        if self.bars.iter().all(|bar| bar.absent.is_some()) {
            return html! {};
        }
        let letters = self.bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0).min(LONGEST);
        let left = 14.0 + (letters.max(8) as f64) * LETTER;
        let right = WIDTH - self.room;
        let ends = self.bars.iter().flat_map(|bar| {
            let sum: f64 = bar.parts.iter().map(|(_, value)| value).sum();
            [sum].into_iter().chain(bar.whisker.into_iter().flat_map(|(low, high)| [low, high]))
        });
        let x = Scale::around(Kind::Linear, &ends.collect::<Vec<_>>(), left, right);
        let mut y = TOP;
        let mut places = Vec::new();
        for bar in &self.bars {
            if bar.heading.is_some() {
                y += if places.is_empty() { 14.0 } else { 26.0 };
            }
            places.push(y);
            y += ROW;
        }
        let bottom = y + 2.0;
        html! {
            figure class="chart" {
                figcaption { (self.title) @if !self.about.is_empty() { span { (self.about) } } }
                @if !self.key.is_empty() {
                    ul class="key" {
                        @for (class, name) in &self.key { li { i class=(class) {} (name) } }
                    }
                }
                div class="plot" { svg viewBox={ "0 0 " (WIDTH) " " (at(bottom + 44.0)) } tabindex="0" role="img" aria-labelledby={ (self.id) "-t" } {
                    title id={ (self.id) "-t" } { (self.title) ". " (self.about) }
                    g class="grid" {
                        @for tick in x.ticks() { path d={ "M" (at(x.at(tick))) " " (TOP - 8.0) "V" (at(bottom)) } {} }
                    }
                    g class="axis" {
                        path d={ "M" (at(x.at(0.0))) " " (TOP - 8.0) "V" (at(bottom)) } {}
                        @for tick in x.ticks() {
                            text x=(at(x.at(tick))) y=(at(bottom + 17.0)) text-anchor="middle" { (x.label(tick)) }
                        }
                        text class="name" x=(at((left + right) / 2.0)) y=(at(bottom + 38.0)) text-anchor="middle" { (self.axis) }
                    }
                    @if let Some((value, name)) = self.rule.as_ref().filter(|(value, _)| *value <= x.high()) {
                        g class="rule" {
                            path d={ "M" (at(x.at(*value))) " " (TOP - 8.0) "V" (at(bottom)) } {}
                            text x=(at(x.at(*value))) y=(TOP - 14.0) text-anchor="middle" { (name) }
                        }
                    }
                    @for (bar, y) in self.bars.iter().zip(places) { (draw_bar(bar, x, left, y)) }
                } }
            }
        }
    }
}

fn draw_bar(bar: &Bar, x: Scale, left: f64, y: f64) -> Markup {
    let top = y + (ROW - BAR) / 2.0;
    let middle = y + ROW / 2.0;
    let mut sum = 0.0;
    let parts: Vec<(&str, f64, f64)> = bar
        .parts
        .iter()
        .map(|(class, value)| {
            let from = x.at(sum);
            sum += value;
            let to = x.at(sum);
            (*class, from.min(to), (to - from).abs().max(0.8))
        })
        .collect();
    let end = x.at(sum).max(x.at(0.0)).max(bar.whisker.map_or(0.0, |(_, high)| x.at(high)));
    html! {
        @if let Some(heading) = &bar.heading {
            text class="heading" x="2" y=(at(y - 3.0)) { (heading) }
        }
        g class="bar" data-system=(bar.system) {
            text class="label" x=(at(left - 9.0)) y=(at(middle + 4.5)) text-anchor="end" { (clip(&bar.label, LONGEST)) }
            @if let Some(why) = &bar.absent {
                text class="absent" x=(at(left + 7.0)) y=(at(middle + 4.5)) { (clip(why, 64)) title { (why) } }
            } @else {
                @for (class, from, width) in parts {
                    rect class=(class) x=(at(from)) y=(at(top)) width=(at(width)) height=(BAR) { title { (bar.says) } }
                }
                @if let Some((low, high)) = bar.whisker {
                    path class="whisker" d={
                        "M" (at(x.at(low))) " " (at(middle)) "H" (at(x.at(high)))
                        "M" (at(x.at(low))) " " (at(middle - 4.0)) "v8M" (at(x.at(high))) " " (at(middle - 4.0)) "v8"
                    } {}
                }
                text class="value" x=(at(end + 8.0)) y=(at(middle + 4.5)) {
                    (bar.value)
                    @if !bar.beside.is_empty() { tspan class="beside" dx="7" { (bar.beside) } }
                }
            }
        }
    }
}
