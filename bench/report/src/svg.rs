//! The toll as a picture for a README: horizontal bars of the CPU time for each request, in each cell.
//!
//! The SVG is written directly. It needs no program to draw, loads no font, and follows the reader's light or
//! dark theme.

use crate::figures::{CellReport, Report};
use crate::number;
use std::fmt::Write as _;
use tollgate_lab_record::Results;

/// The systems to draw, with their CSS classes. The printed ratio is the first system's to the better of the
/// others.
const SERIES: [(&str, &str); 3] = [("tollgate", "t"), ("nginx", "n"), ("haproxy", "h")];

const WIDTH: f64 = 760.0;
const LABELS: f64 = 250.0;
const FIGURES: f64 = 130.0;
const BAR: f64 = 11.0;
const GROUP_GAP: f64 = 13.0;
const TOP: f64 = 66.0;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}\
.small{font-size:11px;fill:#57606a}.t{fill:#0969da}.n{fill:#8c959f}.h{fill:#c4a35a}.ratio{font-weight:600}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.t{fill:#4493f8}.n{fill:#6e7681}.h{fill:#9a7b3a}}";

/// Draws the cells of a result file; `None` if no cell has a cost.
pub fn svg(results: &Results) -> Option<String> {
    let report = Report::new(results);
    let cells: Vec<&CellReport> = report
        .sections
        .iter()
        .flat_map(|section| &section.cells)
        .filter(|cell| SERIES.iter().any(|(name, _)| cost(cell, name).is_some()))
        .collect();
    let longest = cells
        .iter()
        .flat_map(|cell| SERIES.iter().filter_map(|(name, _)| cost(cell, name)))
        .reduce(f64::max)
        .filter(|longest| *longest > 0.0)?;
    let scale = (WIDTH - LABELS - FIGURES) / longest;
    let mut body = String::new();
    let mut y = TOP;
    for cell in cells {
        let present: Vec<(f64, &str)> =
            SERIES.iter().filter_map(|(name, class)| Some((cost(cell, name)?, *class))).collect();
        let middle = y + BAR * present.len() as f64 / 2.0 + 4.0;
        let label = escaped(&cell.title);
        let x = LABELS - 10.0;
        let _ = writeln!(body, "<text x=\"{x:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{label}</text>");
        for (at, (value, class)) in present.iter().enumerate() {
            let top = y + BAR * at as f64;
            let length = value * scale;
            let _ = writeln!(
                body,
                "<rect class=\"{class}\" x=\"{LABELS:.0}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
                 <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                BAR - 1.0,
                LABELS + length + 4.0,
                top + BAR - 2.0,
                number::plain(*value)
            );
        }
        if let Some(ratio) = ratio(results, cell) {
            let x = WIDTH - 12.0;
            let _ = writeln!(
                body,
                "<text class=\"ratio\" x=\"{x:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{ratio:.2} x</text>"
            );
        }
        y += BAR * present.len() as f64 + GROUP_GAP;
    }
    let titles = SERIES.map(|(name, class)| (report.title_of(name), class));
    Some(framed(&body, &titles, y + 4.0))
}

/// Returns the CPU time for each request in microseconds.
fn cost(cell: &CellReport, system: &str) -> Option<f64> {
    cell.row(system)?.figures()?.cpu_us.map(|cpu| cpu.estimate)
}

/// Returns the first system's cost divided by the cost of the better of the others, within rounds.
fn ratio(results: &Results, cell: &CellReport) -> Option<f64> {
    let [(ours, _), peers @ ..] = SERIES;
    let (_, better) = peers
        .into_iter()
        .filter_map(|(name, _)| Some((cost(cell, name)?, name)))
        .min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let verdict = results.verdict_of(&cell.id, ours)?;
    verdict.ratios.get(&format!("cpu/{better}")).map(|ratio| ratio.estimate)
}

fn framed(body: &str, titles: &[(&str, &str)], height: f64) -> String {
    let mut legend = String::new();
    let mut x = LABELS;
    for (label, class) in titles {
        let _ = write!(
            legend,
            "<rect class=\"{class}\" x=\"{x:.0}\" y=\"42\" width=\"10\" height=\"10\"/>\
             <text class=\"small\" x=\"{:.0}\" y=\"51\">{}</text>",
            x + 14.0,
            escaped(label)
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
