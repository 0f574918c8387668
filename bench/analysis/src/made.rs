//! Builds small results for this crate's tests.

use std::collections::BTreeMap;
use tollgate_lab_record::{
    Cell, Cost, Distribution, Evidence, FORMAT, Failures, Header, Host, Line, LoadModel, LoadResult, Results,
    Status, SystemUsed, Tree, Trial, Verdict, VerdictKind, Verification,
};
use tollgate_lab_study::Study;

/// Duration of each trial in seconds.
const SECONDS: f64 = 10.0;

pub(crate) fn study(yaml: &str) -> Study {
    serde_saphyr::from_str(yaml).unwrap()
}

pub(crate) fn results(systems: &[&str], cells: Vec<Cell>) -> Results {
    Results {
        header: Header {
            format: FORMAT,
            study: "made".into(),
            title: "Made".into(),
            about: String::new(),
            seed: 1,
            command: String::new(),
            started: String::new(),
            version: String::new(),
            host: Host::default(),
            scaled: vec![],
            baseline: None,
            decides: None,
            planned_seconds: 1.0,
        },
        systems: systems.iter().map(|name| used(name)).collect(),
        cells,
        received: vec![],
        ceilings: vec![],
        trials: vec![],
        condensed: vec![],
        verdicts: vec![],
        instructions: vec![],
        prices: vec![],
        notes: vec![],
        tables: vec![],
        end: None,
    }
}

fn used(name: &str) -> SystemUsed {
    SystemUsed {
        name: name.into(),
        title: format!("The {name}"),
        version: "1".into(),
        missing: None,
        marked: None,
        terms: vec![],
        command: vec![],
        files: vec![],
    }
}

pub(crate) fn cell(id: &str, section: &str, settings: &[(&str, &str)], systems: &[&str]) -> Cell {
    Cell {
        id: id.into(),
        title: format!("cell {id}"),
        section: section.into(),
        axis: None,
        settings: settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        systems: systems.iter().map(|name| (*name).into()).collect(),
        published: BTreeMap::new(),
    }
}

/// Adds a verdict and one good trial for each round, given as (requests/s, CPU us per response, p99 us).
pub(crate) fn measured(
    results: &mut Results,
    cell: &str,
    system: &str,
    kind: VerdictKind,
    rounds: &[(f64, f64, f64)],
) {
    trials_only(results, cell, system, rounds);
    results.verdicts.push(Verdict {
        cell: cell.into(),
        system: system.into(),
        kind,
        findings: vec![],
        control: None,
        ratios: BTreeMap::new(),
    });
}

/// Adds one good trial for each round, given as (requests/s, CPU us per response, p99 us), without a verdict,
/// for a system without a row in the report.
pub(crate) fn trials_only(results: &mut Results, cell: &str, system: &str, rounds: &[(f64, f64, f64)]) {
    for (at, (rps, cpu_us, p99_us)) in rounds.iter().enumerate() {
        results.trials.push(trial(cell, system, at as u32 + 1, *rps, *cpu_us, *p99_us));
    }
}

fn trial(cell: &str, system: &str, round: u32, rps: f64, cpu_us: f64, p99_us: f64) -> Trial {
    let ok = (rps * SECONDS).round();
    Trial {
        cell: cell.into(),
        system: system.into(),
        round,
        turn: 1,
        at: 0.0,
        load: Some(LoadResult {
            tool: "builtin".into(),
            tool_version: String::new(),
            command: vec![],
            threads: 1,
            connections: 64,
            keep_alive: true,
            model: LoadModel::Closed,
            verification: Verification::Full,
            seconds: SECONDS,
            sent: None,
            ok: ok as u64,
            failures: Failures::default(),
            statuses: BTreeMap::new(),
            body_bytes: None,
            connections_opened: None,
            response_time: Some(Distribution { percentiles: vec![(99.0, p99_us)], ..Default::default() }),
            service_time: None,
            send_lag: None,
            windows: vec![],
        }),
        evidence: Evidence {
            wall_us: SECONDS * 1e6,
            target: Tree { user_us: ok * cpu_us, ..Default::default() },
            ..Default::default()
        },
        cost: Some(Cost { user_us: cpu_us, system_us: 0.0 }),
        warm_up: 1.0,
        status: Status::Good,
    }
}

/// Returns the tables among the lines, each with its head first. Asserts that every row is as long as the
/// head.
pub(crate) fn tables(lines: &[Line]) -> Vec<Vec<Vec<String>>> {
    lines
        .iter()
        .filter_map(|line| match line {
            Line::Table { head, rows, .. } => {
                assert!(rows.iter().all(|row| row.len() == head.len()));
                Some(std::iter::once(head).chain(rows).cloned().collect())
            }
            _ => None,
        })
        .collect()
}

/// Returns the notes among the lines, joined.
pub(crate) fn notes(lines: &[Line]) -> String {
    let texts = lines.iter().filter_map(|line| match line {
        Line::Note { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
