//! The toll as a picture for a README: horizontal bars of the CPU time for each request, in each cell.
//!
//! The SVG is written directly. It needs no program to draw, loads no font, and follows the reader's light or
//! dark theme. A system that a cell names but that has no figure gets a line with the reason. Cells that are
//! far more expensive than the others have a panel and an axis of their own.

use crate::figures::{CellReport, Figures, Report, Row, pair};
use crate::{number, table};
use std::fmt::Write as _;
use tollgate_lab_record::{Metric, Results, Summary};

/// The systems to draw, with their CSS classes. The printed ratio is the first system's to the better of the
/// others.
const SERIES: [(&str, &str); 4] = [("tollgate", "t"), ("nginx", "n"), ("haproxy", "h"), ("envoy", "e")];

const WIDTH: f64 = 760.0;
const LABELS: f64 = 236.0;
/// The right side, for the ratio and its interval.
const RATIOS: f64 = 178.0;
/// The room for a value at the end of the longest bar.
const VALUE: f64 = 40.0;
const BAR: f64 = 11.0;
const GROUP_GAP: f64 = 12.0;
const HEADING: f64 = 20.0;
const TOP: f64 = 66.0;
/// The letters that fit in place of a bar.
const REASON: usize = 64;
/// The multiple of the median from which the cells have a panel of their own.
const APART: f64 = 8.0;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}\
.head{font-weight:600}.small{font-size:11px;fill:#57606a}.none{font-style:italic}.t{fill:#0969da}.n{fill:#8c959f}\
.h{fill:#c4a35a}.e{fill:#a475c9}.ratio{font-weight:600}.grid{stroke:#d8dee4;fill:none}.span{stroke:#24292f;fill:none}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.t{fill:#4493f8}.n{fill:#6e7681}.h{fill:#9a7b3a}\
.e{fill:#8957b8}.grid{stroke:#30363d}.span{stroke:#e6edf3}}";

/// A cell with the file that it is from.
struct Drawn<'a> {
    results: &'a Results,
    section: &'a str,
    cell: &'a CellReport,
}

/// Draws the cells of a result file; `None` if no cell has a cost.
pub fn svg(results: &Results) -> Option<String> {
    svg_of(&[results])
}

/// Draws the cells of several result files in one picture; `None` if no cell has a cost.
pub fn svg_of(files: &[&Results]) -> Option<String> {
    let reports: Vec<(&Results, Report)> =
        files.iter().map(|results| (*results, Report::new(results))).collect();
    let cells = reports.iter().flat_map(|(results, report)| {
        report.sections.iter().flat_map(move |section| {
            section.cells.iter().map(move |cell| Drawn { results, section: &section.title, cell })
        })
    });
    let cells: Vec<Drawn<'_>> = cells.filter(|drawn| longest(drawn.cell).is_some()).collect();
    let mut costs: Vec<f64> = cells.iter().filter_map(|drawn| longest(drawn.cell)).collect();
    costs.sort_by(f64::total_cmp);
    let apart = APART * costs.get(costs.len() / 2).copied().filter(|median| *median > 0.0)?;
    let is_apart = |drawn: &&Drawn<'_>| longest(drawn.cell).is_some_and(|cost| cost > apart);
    let usual: Vec<&Drawn<'_>> = cells.iter().filter(|drawn| !is_apart(drawn)).collect();
    let others: Vec<&Drawn<'_>> = cells.iter().filter(is_apart).collect();
    let mut body = String::new();
    let mut y = TOP;
    for panel in [usual, others] {
        y = draw_panel(&mut body, &panel, y);
    }
    let drawn = |name: &str| cells.iter().any(|drawn| drawn.cell.row(name).is_some());
    let title = |name: &str| {
        let titles = reports.iter().map(|(_, report)| report.title_of(name));
        titles.into_iter().find(|title| *title != name).unwrap_or(name).to_owned()
    };
    let titles: Vec<(String, &str)> = SERIES
        .into_iter()
        .filter(|(name, _)| drawn(name))
        .map(|(name, class)| (title(name), class))
        .collect();
    Some(framed(&body, &titles, y))
}

/// Draws cells on one scale, with an axis below. Returns the y position below it.
fn draw_panel(body: &mut String, cells: &[&Drawn<'_>], top: f64) -> f64 {
    let Some(longest) = cells.iter().filter_map(|drawn| longest(drawn.cell)).reduce(f64::max) else {
        return top;
    };
    let scale = (WIDTH - LABELS - RATIOS - VALUE) / longest;
    let mut out = String::new();
    let mut y = top;
    let mut section = "";
    for drawn in cells {
        if drawn.section != section {
            section = drawn.section;
            let label = escaped(section);
            let _ = writeln!(out, "<text class=\"head\" x=\"12\" y=\"{:.1}\">{label}</text>", y + 10.0);
            y += HEADING;
        }
        y = draw_cell(&mut out, drawn, scale, y);
    }
    let step = step(longest);
    let bottom = y;
    let mut tick = 0.0;
    while tick <= longest * 1.001 {
        let x = LABELS + tick * scale;
        let _ = writeln!(body, "<path class=\"grid\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", top - 4.0);
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 14.0,
            number::short(tick)
        );
        tick += step;
    }
    let _ = writeln!(
        out,
        "<text class=\"small\" x=\"{:.0}\" y=\"{:.1}\">µs a request</text>",
        WIDTH - RATIOS,
        bottom + 14.0
    );
    body.push_str(&out);
    bottom + 34.0
}

/// Draws the bars of a cell. Returns the y position below them.
fn draw_cell(out: &mut String, drawn: &Drawn<'_>, scale: f64, top: f64) -> f64 {
    let cell = drawn.cell;
    let rows: Vec<(&Row, &str)> =
        SERIES.iter().filter_map(|(name, class)| Some((cell.row(name)?, *class))).collect();
    let middle = top + BAR * rows.len() as f64 / 2.0 + 4.0;
    let label = escaped(&cell.title);
    let x = LABELS - 10.0;
    let _ = writeln!(out, "<text x=\"{x:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{label}</text>");
    for (at, (row, class)) in rows.iter().enumerate() {
        let y = top + BAR * at as f64;
        match row.figures().and_then(|figures| Some((figures, figures.cpu_us?))) {
            Some((figures, cost)) => draw_bar(out, figures, &cost, class, scale, y),
            None => {
                let why = row.why_not().unwrap_or_else(|| "no CPU time was measured".to_owned());
                let why = format!("{}, {}: {why}", row.title, row.verdict_name());
                let short: String = why.chars().take(REASON).collect();
                let short = if short.len() < why.len() { format!("{short}…") } else { short };
                let _ = writeln!(
                    out,
                    "<text class=\"small none\" x=\"{:.1}\" y=\"{:.1}\"><title>{}</title>{}</text>",
                    LABELS + 4.0,
                    y + BAR - 2.0,
                    escaped(&why),
                    escaped(&short)
                );
            }
        }
    }
    draw_ratio(out, drawn, middle);
    top + BAR * rows.len() as f64 + GROUP_GAP
}

fn draw_bar(out: &mut String, figures: &Figures, cost: &Summary, class: &str, scale: f64, top: f64) {
    let length = cost.estimate * scale;
    let has_interval = cost.rounds > 1 && cost.low < cost.high;
    let end = if has_interval { cost.high * scale } else { length }.max(length);
    let one = if figures.rounds == 1 { " (one round)" } else { "" };
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{LABELS:.0}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
         <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{}{one}</text>",
        BAR - 1.0,
        LABELS + end + 4.0,
        top + BAR - 2.0,
        number::plain(cost.estimate)
    );
    if has_interval {
        let (from, to, y) = (LABELS + cost.low * scale, LABELS + cost.high * scale, top + BAR / 2.0 - 0.5);
        let _ = writeln!(
            out,
            "<path class=\"span\" d=\"M{from:.1} {y:.1}H{to:.1}M{from:.1} {:.1}v4M{to:.1} {:.1}v4\"/>",
            y - 2.0,
            y - 2.0
        );
    }
}

/// Writes the first system's cost divided by the cost of the better of the others, within rounds.
fn draw_ratio(out: &mut String, drawn: &Drawn<'_>, middle: f64) {
    let [(ours, _), peers @ ..] = SERIES;
    let Some(own) = cost(drawn.cell, ours) else { return };
    let better = peers
        .into_iter()
        .filter_map(|(name, _)| Some((cost(drawn.cell, name)?, name)))
        .min_by(|(one, _), (other, _)| one.total_cmp(other));
    let x = WIDTH - RATIOS + 46.0;
    let Some((peer_cost, peer)) = better else {
        let text = "no peer has a figure";
        let _ = writeln!(out, "<text class=\"small\" x=\"{x:.0}\" y=\"{middle:.1}\">{text}</text>");
        return;
    };
    let measured = pair(drawn.results, &drawn.cell.id, ours, peer, Metric::Cpu);
    // Condensed files may lack the ratio within rounds.
    let (ratio, range) = measured
        .map_or((own / peer_cost, "no interval".to_owned()), |ratio| (ratio.estimate, table::range(&ratio)));
    let title = drawn.cell.row(peer).map_or(peer, |row| &row.title);
    let _ = writeln!(
        out,
        "<text class=\"ratio\" x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{ratio:.2} x</text>\
         <text class=\"small\" x=\"{:.0}\" y=\"{middle:.1}\">{} ({range})</text>",
        x,
        x + 6.0,
        escaped(title)
    );
}

/// Returns the CPU time for each request in microseconds.
fn cost(cell: &CellReport, system: &str) -> Option<f64> {
    cell.row(system)?.figures()?.cpu_us.map(|cpu| cpu.estimate)
}

/// Returns the end of the longest bar of a cell, with its interval.
fn longest(cell: &CellReport) -> Option<f64> {
    let costs = SERIES.iter().filter_map(|(name, _)| cell.row(name)?.figures()?.cpu_us);
    costs.map(|cost| cost.high.max(cost.estimate)).reduce(f64::max)
}

/// Returns a round distance of ticks that gives about five of them.
fn step(longest: f64) -> f64 {
    let rough = longest / 5.0;
    let decade = 10.0_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|multiple| multiple * decade)
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

fn framed(body: &str, titles: &[(String, &str)], height: f64) -> String {
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
        x += 76.0;
    }
    let title = "CPU time per request, in microseconds (less is better)";
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"12\" y=\"24\">{title}</text>\n{legend}\n\
         <text class=\"small\" x=\"{:.0}\" y=\"51\">to the better peer</text>\n{body}</svg>\n",
        WIDTH - RATIOS
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
