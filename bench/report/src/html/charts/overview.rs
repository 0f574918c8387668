//! The plot at the head of the page.

use super::{FILL, PALE, look};
use crate::figures::Report;
use crate::html::chart::bars::{Bar, Bars};
use crate::number;
use crate::table::{Plot, PlotBar};
use maud::Markup;

/// The room for a value and its remark.
const ROOM: f64 = 250.0;

/// Draws the plot of the decision.
pub(in crate::html) fn overview(report: &Report, plot: &Plot) -> Markup {
    let bar = |bar: &PlotBar| {
        let colours = if bar.pale { PALE } else { FILL };
        let range = bar.range.map_or_else(String::new, |(low, high)| {
            format!(" ({} to {})", number::plain(low), number::plain(high))
        });
        Bar {
            system: bar.system.clone(),
            label: bar.label.clone(),
            heading: None,
            parts: vec![(colours[look(report, &bar.system).colour.min(FILL.len() - 1)], bar.value)],
            whisker: bar.range,
            value: bar.text.clone(),
            beside: bar.remark.clone(),
            absent: None,
            says: format!("{}: {} {}{range}", bar.label, bar.text, plot.axis),
        }
    };
    Bars {
        id: "overview".to_owned(),
        title: plot.title.clone(),
        about: String::new(),
        axis: plot.axis,
        key: Vec::new(),
        bars: plot.bars.iter().map(bar).collect(),
        rule: None,
        room: ROOM,
    }
    .draw()
}
