//! Embeds the figures in the page as JSON, for scripts and for the test that compares the page with the
//! result file. A row of the JSON is a system in a cell; its values have the order of `columns`. The rows of the page's
//! tables name their place in it.

use crate::figures::{Call, Metric, Report, Row};
use crate::number::behind;
use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value, json};

/// The places of cells and systems in the JSON.
pub(super) struct Places(Vec<(String, String)>);

impl Places {
    pub(super) fn new(report: &Report) -> Self {
        Self(report.rows().map(|(cell, row)| (cell.id.clone(), row.system.clone())).collect())
    }

    /// Returns the place of a system in a cell.
    pub(super) fn of(&self, cell: &str, system: &str) -> Option<usize> {
        self.0.iter().position(|(one, other)| one == cell && other == system)
    }
}

/// Returns the block `<script type="application/json" id="figures">`, with a row for each cell and system.
pub(super) fn figures(report: &Report) -> Markup {
    let found: Vec<Map<String, Value>> = report.rows().map(|(cell, row)| figures_of(&cell.id, row)).collect();
    let mut columns: Vec<&String> = Vec::new();
    for name in found.iter().flat_map(Map::keys) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let rows: Vec<Vec<Value>> = found
        .iter()
        .map(|row| {
            let mut values: Vec<Value> =
                columns.iter().map(|name| row.get(*name).cloned().unwrap_or(Value::Null)).collect();
            while values.last().is_some_and(Value::is_null) {
                values.pop();
            }
            values
        })
        .collect();
    let all = json!({
        "study": report.header.study,
        "seed": report.header.seed,
        "baseline": report.baseline.as_ref().map(|(name, _)| name),
        "columns": columns,
        "rows": rows,
    });
    // "</script>" within a text would end the block; JSON permits `<` as an escape.
    let text = all.to_string().replace('<', "\\u003c");
    html! { script type="application/json" id="figures" { (PreEscaped(text)) } }
}

fn figures_of(cell: &str, row: &Row) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("cell".into(), json!(cell));
    out.insert("system".into(), json!(row.system));
    out.insert("verdict".into(), json!(row.verdict_name()));
    if let Some(figures) = row.figures() {
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                out.insert(name.into(), json!(behind(value)));
            }
        };
        put("cpu_us", figures.cpu_us.map(|cpu| cpu.estimate));
        put("user_us", figures.user_us);
        put("system_us", figures.system_us);
        put("rps", Some(figures.rps.estimate));
        put("mean_us", figures.mean_us);
        put("p50_us", figures.p50_us);
        put("p99_us", figures.of(Metric::P99));
        put("max_us", figures.max_us);
        put("p99_uncorrected_us", figures.p99_uncorrected_us);
        put("memory_kib", figures.memory_kib);
        put("cores", figures.cores);
        put("rps_a_core", figures.cores.map(|cores| figures.rps.estimate / cores));
        put("origin_cores", Some(figures.origin_cores));
        put("upstream_peak", Some(figures.upstream_peak as f64));
        put("client_connections", figures.client_connections);
        put("upstream_connections", figures.upstream_connections);
        put("failed", Some(figures.failed as f64));
        put("throttled", figures.throttled);
        for (name, one) in [("cpu_us", figures.cpu_us), ("rps", Some(figures.rps))] {
            if let Some(one) = one.filter(|one| one.low < one.high) {
                out.insert(format!("{name}-interval"), json!([behind(one.low), behind(one.high)]));
            }
        }
        out.insert("rounds".into(), json!(figures.rounds));
        if figures.dropped > 0 {
            out.insert("dropped".into(), json!(figures.dropped));
        }
        out.insert("corrected".into(), json!(figures.corrected));
    }
    for ratio in &row.ratios {
        let stands = row.figures().is_some() && ratio.call != Some(Call::Beyond);
        if let Some(ours) = ratio.ours.filter(|_| stands) {
            out.insert(format!("ratio-{}", ratio.metric.key()), json!(behind(ours.estimate)));
            // One round has no interval.
            if ours.rounds > 1 && ours.low < ours.high {
                out.insert(
                    format!("ratio-{}-interval", ratio.metric.key()),
                    json!([behind(ours.low), behind(ours.high)]),
                );
            }
        }
        if let Some(published) = ratio.published {
            out.insert(format!("published-{}", ratio.metric.key()), json!(behind(published)));
        }
    }
    out
}
