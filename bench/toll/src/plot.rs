//! The toll as a picture: horizontal bars of CPU time a request, drawn from a results file.
//!
//! SVG written by hand: it needs no program to draw, no font to load, and follows the reader's light or dark theme.

use serde_json::Value;
use std::fmt::Write as _;

/// The targets drawn, with the class that gives their colour.
const SERIES: [(&str, &str, &str); 3] =
    [("tollgate", "tollgate", "t"), ("nginx", "nginx", "n"), ("haproxy", "HAProxy", "h")];

const WIDTH: f64 = 760.0;
const LABELS: f64 = 250.0;
const FIGURES: f64 = 130.0;
const BAR: f64 = 11.0;
const GROUP_GAP: f64 = 13.0;
const TOP: f64 = 66.0;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}\
.small{font-size:11px;fill:#57606a}.t{fill:#0969da}.n{fill:#8c959f}.h{fill:#c4a35a}.ratio{font-weight:600}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.t{fill:#4493f8}.n{fill:#6e7681}.h{fill:#9a7b3a}}";

/// Draws the cells of a results file; `None` when it has no measured cell.
pub fn draw(results: &Value) -> Option<String> {
    let figure = |cell: &Value, name: &str| -> Option<f64> {
        let target = cell["targets"].as_array()?.iter().find(|target| target["name"] == name)?;
        target["cpu_us_per_request"].as_f64()
    };
    let cells: Vec<&Value> = results["cells"]
        .as_array()?
        .iter()
        .filter(|cell| SERIES.iter().any(|(name, ..)| figure(cell, name).is_some()))
        .collect();
    let longest = cells
        .iter()
        .flat_map(|cell| SERIES.iter().filter_map(|(name, ..)| figure(cell, name)))
        .reduce(f64::max)
        .filter(|longest| *longest > 0.0)?;
    let scale = (WIDTH - LABELS - FIGURES) / longest;
    let mut body = String::new();
    let mut y = TOP;
    for cell in &cells {
        let present: Vec<_> = SERIES
            .iter()
            .filter_map(|(name, _, class)| figure(cell, name).map(|value| (value, class)))
            .collect();
        let middle = y + BAR * present.len() as f64 / 2.0 + 4.0;
        let _ = writeln!(
            body,
            "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
            LABELS - 10.0,
            escaped(cell["title"].as_str().unwrap_or_default())
        );
        for (at, (value, class)) in present.iter().enumerate() {
            let top = y + BAR * at as f64;
            let length = value * scale;
            let _ = writeln!(
                body,
                "<rect class=\"{class}\" x=\"{LABELS:.0}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
                 <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{value:.1}</text>",
                BAR - 1.0,
                LABELS + length + 4.0,
                top + BAR - 2.0
            );
        }
        if let Some(ratio) = cell["cpu"]["ratio"].as_f64() {
            let _ = writeln!(
                body,
                "<text class=\"ratio\" x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{ratio:.2} x</text>",
                WIDTH - 12.0
            );
        }
        y += BAR * present.len() as f64 + GROUP_GAP;
    }
    Some(framed(&body, y + 4.0))
}

fn framed(body: &str, height: f64) -> String {
    let mut legend = String::new();
    let mut x = LABELS;
    for (_, label, class) in SERIES {
        let _ = write!(
            legend,
            "<rect class=\"{class}\" x=\"{x:.0}\" y=\"42\" width=\"10\" height=\"10\"/>\
             <text class=\"small\" x=\"{:.0}\" y=\"51\">{label}</text>",
            x + 14.0
        );
        x += 82.0;
    }
    let title = "CPU time a request, in microseconds (less is better)";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"12\" y=\"24\">{title}</text>\n{legend}\n\
         <text class=\"small\" x=\"{:.0}\" y=\"51\" text-anchor=\"end\">to the better peer</text>\n{body}</svg>\n",
        WIDTH - 12.0
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;
    use crate::result::Run;
    use crate::result::tests::cell_result;
    use serde_json::json;

    #[test]
    fn every_target_gets_a_bar_and_the_ratio_is_written() {
        let run = Run { cells: vec![cell_result()], ..Run::default() };
        let svg = draw(&record::of(&run)).unwrap();
        // One legend square and one bar a target.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.contains(">0.80 x</text>") && svg.contains("2 B, 64 connections"));
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn nothing_measured_draws_nothing() {
        assert_eq!(draw(&json!({})), None);
        assert_eq!(draw(&json!({ "cells": [{ "title": "x", "targets": [{ "name": "nginx" }] }] })), None);
    }

    #[test]
    fn titles_cannot_break_the_picture() {
        assert_eq!(escaped("a < b & c > d"), "a &lt; b &amp; c &gt; d");
    }
}
