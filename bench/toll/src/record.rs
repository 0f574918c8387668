//! The results file: everything that was measured, as JSON.

use crate::result::{CellResult, Row, Run, SUBJECT, Sample, Verdict, cpu};
use serde_json::{Map, Value, json};

/// Version of the file's layout; raised when a reader of the old one would go wrong.
pub const LAYOUT: u64 = 1;

/// The whole run as JSON.
pub fn of(run: &Run) -> Value {
    let facts: Map<String, Value> =
        run.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let idle: Vec<Value> = run
        .idle
        .iter()
        .map(|idle| match &idle.missing {
            Some(why) => json!({ "target": idle.name, "missing": why }),
            None => json!({
                "target": idle.name,
                "connections": idle.connections,
                "before_kib": idle.base,
                "held_kib": idle.held,
                "after_burst_kib": idle.after,
                "kib_per_connection": idle.per_connection(),
            }),
        })
        .collect();
    let transfers: Vec<Value> = run
        .transfers
        .iter()
        .map(|transfer| {
            json!({
                "target": transfer.name,
                "direction": transfer.direction,
                "bytes": transfer.bytes,
                "peak_kib": transfer.peak,
                "seconds": transfer.seconds,
                "problem": transfer.problem,
            })
        })
        .collect();
    json!({
        "layout": LAYOUT,
        "facts": facts,
        "cells": run.cells.iter().map(cell).collect::<Vec<_>>(),
        "idle_connections": idle,
        "transfers": transfers,
    })
}

fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::NoBar | Verdict::Unknown => Value::Null,
        Verdict::Pass => json!("pass"),
        Verdict::Miss(_) => json!("miss"),
    }
}

fn cell(result: &CellResult) -> Value {
    json!({
        "id": result.cell.id,
        "title": result.cell.title,
        "connections": result.cell.connections,
        "body_bytes": result.cell.body,
        "offered_per_second": result.rate,
        "cpu": {
            "ratio": result.cpu_ratio(),
            "ratios": result.ratios_to_better_peer(SUBJECT, cpu),
            "bar": result.cell.bars.cpu,
            "verdict": verdict(&result.cpu_verdict()),
        },
        "p99": {
            "ratio": result.p99_ratio(),
            "bar": result.cell.bars.p99,
            "verdict": verdict(&result.p99_verdict()),
        },
        "notes": result.notes,
        "targets": result.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    json!({
        "name": row.name,
        "missing": row.missing,
        "cpu_us_per_request": row.median(cpu),
        "ready_ms": row.ready_ms,
        "rss_kib": row.memory.map(|memory| memory.rss),
        "pss_kib": row.memory.map(|memory| memory.pss),
        "rounds": row.samples.iter().map(sample).collect::<Vec<_>>(),
    })
}

fn sample(sample: &Sample) -> Value {
    let parts = sample.cpu_per_request();
    let latency = sample.outcome.latency;
    json!({
        "ok": sample.outcome.ok,
        "failed": sample.outcome.failed,
        "seconds": sample.outcome.seconds,
        "cpu_us": parts.map(|parts| parts[0]),
        "user_us": parts.map(|parts| parts[1]),
        "system_us": parts.map(|parts| parts[2]),
        "clock": sample.cpu.map(|cpu| cpu.clock.name()),
        "latency_us": { "mean": latency.mean, "p50": latency.p50, "p99": latency.p99 },
        "problem": sample.problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::cell_result;

    #[test]
    fn every_round_and_the_ratio_are_kept() {
        let run = Run { facts: vec![("cpu", "x".into())], cells: vec![cell_result()], ..Run::default() };
        let value = of(&run);
        assert_eq!(value["facts"]["cpu"], "x");
        let cell = &value["cells"][0];
        assert_eq!(cell["id"], "2b-64");
        assert!((cell["cpu"]["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(cell["cpu"]["verdict"], "pass");
        assert_eq!(cell["targets"][1]["name"], "nginx");
        assert_eq!(cell["targets"][1]["rounds"].as_array().unwrap().len(), 3);
        assert_eq!(cell["targets"][0]["rounds"][0]["ok"], 1_000);
        assert_eq!(value["layout"], LAYOUT);
    }
}
