//! The result of a load as one self-contained page: a table, and charts of the seconds and of the latencies.

use super::summary::{failures, latencies, latency_kind};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::fmt::Write as _;
use tollgate_lab_load::Plan;
use tollgate_lab_record::LoadResult;
use tollgate_lab_report::number::{plain, time, whole};

/// Width and height of a chart, in pixels.
const SIZE: (f64, f64) = (720.0, 180.0);

/// Space for the labels of the vertical axis and of the horizontal one.
const MARGIN: (f64, f64) = (70.0, 22.0);

const STYLE: &str = "
:root { color-scheme: light dark; --line: #2563eb; --grid: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.3em; overflow-wrap: anywhere; } h2 { font-size: 1.05em; margin-top: 2em; }
table { border-collapse: collapse; } td, th { padding: .15em 1.2em .15em 0; text-align: left; font-weight: normal; }
td { text-align: right; font-variant-numeric: tabular-nums; } .bad { color: #dc2626; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
polyline { fill: none; stroke: var(--line); stroke-width: 1.6; } .grid { stroke: var(--grid); }
";

/// Returns the page.
pub fn page(title: &str, about: &str, load: &LoadResult, plan: &Plan) -> String {
    let failed = load.failures.total();
    let seconds: Vec<f64> = load.windows.iter().map(|window| window.start + window.seconds).collect();
    let rates: Vec<(f64, f64)> = seconds
        .iter()
        .zip(&load.windows)
        .map(|(end, window)| (*end, window.ok as f64 / window.seconds.max(1e-9)))
        .collect();
    let p99: Vec<(f64, f64)> =
        seconds.iter().zip(&load.windows).filter_map(|(end, window)| Some((*end, window.p99_us?))).collect();
    let errors: Vec<(f64, f64)> =
        seconds.iter().zip(&load.windows).map(|(end, window)| (*end, window.failed as f64)).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Load on " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Load on " (title) }
                p { (about) }
                table {
                    tr { th { "duration" } td { (plain(load.seconds)) " s" } }
                    tr { th { "good" } td { (whole(load.ok as f64)) } }
                    tr { th { "failed" } td class=[(failed > 0).then_some("bad")] { (whole(failed as f64)) } }
                    @for (kind, count) in failures(&load.failures) {
                        tr { th { "– " (kind) } td class="bad" { (whole(count as f64)) } }
                    }
                    tr { th { "rate" } td { (plain(load.rps())) "/s" } }
                    @if let Some(rps) = load.model.rps() {
                        tr { th { "offered" } td { (plain(rps)) "/s" } }
                    }
                    @for (status, count) in &load.statuses {
                        tr { th { "status " (status) } td { (whole(*count as f64)) } }
                    }
                }
                @if let Some(times) = load.latency().filter(|times| times.count > 0) {
                    h2 { "Latency" }
                    p { (latency_kind(load, plan)) }
                    table {
                        @for (name, time) in latencies(times) {
                            tr { th { (name) } td { (time) } }
                        }
                    }
                }
                h2 { "Good answers a second" }
                (chart(&rates, whole))
                h2 { "99th percentile of latency, by the second" }
                (chart(&p99, time))
                @if failed > 0 {
                    h2 { "Failed requests, by the second" }
                    (chart(&errors, whole))
                }
                h2 { "Command" }
                pre { (load.command.join(" ")) }
                p { "Tollgate's generator " (load.tool_version) }
            }
        }
    };
    page.into_string()
}

/// Draws a line over seconds. `label` formats the values of its axis.
fn chart(points: &[(f64, f64)], label: fn(f64) -> String) -> Markup {
    let highest = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let last = points.last().map_or(0.0, |(at, _)| *at);
    if points.is_empty() || last <= 0.0 {
        return html! { p { "none" } };
    }
    let top = if highest > 0.0 { highest * 1.1 } else { 1.0 };
    let (width, height) = (SIZE.0 - MARGIN.0, SIZE.1 - MARGIN.1);
    let x = |at: f64| MARGIN.0 + width * at / last;
    let y = |value: f64| height * (1.0 - value / top);
    let mut line = String::new();
    // A single second is drawn as a level line.
    if let [(_, only)] = points {
        let _ = write!(line, "{:.1},{:.1} ", x(0.0), y(*only));
    }
    for (at, value) in points {
        let _ = write!(line, "{:.1},{:.1} ", x(*at), y(*value));
    }
    html! {
        svg viewBox=(format!("0 0 {} {}", SIZE.0, SIZE.1)) role="img" {
            @for share in [0.0, 0.5, 1.0] {
                @let value = highest * share;
                line class="grid" x1=(MARGIN.0) x2=(SIZE.0) y1=(format!("{:.1}", y(value))) y2=(format!("{:.1}", y(value))) {}
                text x=(MARGIN.0 - 6.0) y=(format!("{:.1}", y(value) + 4.0)) text-anchor="end" { (label(value)) }
            }
            text x=(MARGIN.0) y=(SIZE.1 - 6.0) { "0 s" }
            text x=(SIZE.0) y=(SIZE.1 - 6.0) text-anchor="end" { (plain(last)) " s" }
            polyline points=(line.trim_end()) {}
        }
    }
}
