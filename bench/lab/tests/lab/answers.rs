//! Tests the answers from result files: comparisons, the gate, capacity.

use crate::bench::{Bench, results};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tollgate_lab_record::{FORMAT, Line, append};

/// Returns the complete result file with which the reports are tested.
fn canned() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/canned.jsonl")
}

/// Copies it to this test's folder, with each cost of a system multiplied.
fn put(bench: &Bench, name: &str, system: &str, factor: f64) {
    let text = fs::read_to_string(canned()).unwrap();
    let mut out = Vec::new();
    for line in text.lines() {
        let mut line: Line = serde_json::from_str(line).unwrap();
        if let Line::Trial(trial) = &mut line
            && trial.system == system
            && let Some(cost) = &mut trial.cost
        {
            cost.user_us *= factor;
            cost.system_us *= factor;
        }
        append(&mut out, &line).unwrap();
    }
    fs::write(bench.path(name), out).unwrap();
}

#[test]
fn the_gate_tells_by_its_exit_status() {
    let bench = Bench::new();
    put(&bench, "before", "tollgate", 1.0);
    put(&bench, "after", "tollgate", 1.2);
    let gate =
        |file: &str, more: &[&str]| bench.run(&[&["gate", file, "--baseline", "before"], more].concat());

    let same = gate("before", &[]).well();
    assert!(same.stdout.starts_with("passed: "), "{same:?}");
    let dearer = gate("after", &[]);
    assert_eq!(dearer.code, Some(1), "{dearer:?}");
    assert!(
        dearer.stdout.starts_with("failed: more CPU a request than 3.00 % above the baseline"),
        "{dearer:?}"
    );
    assert!(dearer.stdout.contains("Tollgate, ") && dearer.stdout.contains("1.2"), "{dearer:?}");
    assert!(!dearer.stdout.contains("nginx, "), "nobody else grew: {dearer:?}");
    gate("after", &["--allow", "25%"]).well();
    gate("after", &["--systems", "nginx,haproxy"]).well();
    assert_eq!(gate("after", &["--systems", "nginx,tollgate"]).code, Some(1));

    let nothing = gate("after", &["--systems", "direct"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    assert!(nothing.stdout.starts_with("nothing to compare: expected"), "{nothing:?}");
    // A lower cost is no failure.
    bench.run(&["gate", "before", "--baseline", "after"]).well();

    // The exit status still reports a failure if the reader has closed the output, as after `| head`.
    let mut command = bench.command(&["gate", "after", "--baseline", "before"]);
    let mut unread = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().unwrap().code(), Some(1));
}

#[test]
fn a_comparison_calls_what_changed_and_ties_the_rest() {
    let bench = Bench::new();
    put(&bench, "before", "tollgate", 1.0);
    put(&bench, "after", "tollgate", 1.2);
    let table = bench.run(&["compare", "before", "after"]).well().stdout;
    let calls = |system: &str| -> Vec<&str> {
        let rows = table.lines().filter(|line| line.starts_with(system) && line.contains("CPU"));
        rows.filter_map(|row| row.split_whitespace().last()).collect()
    };
    // No difference is named from the cells with "too few rounds".
    let from_enough =
        |system: &str| calls(system).into_iter().filter(|call| *call != "rounds").collect::<Vec<_>>();
    let (ours, theirs) = (from_enough("Tollgate"), from_enough("nginx"));
    assert!(ours.len() > 1 && ours.iter().all(|call| *call == "higher"), "{table}");
    assert!(theirs.len() > 1 && theirs.iter().all(|call| *call == "tie"), "{table}");
}

#[test]
fn capacity_is_cost_times_rate_over_utilisation() {
    let bench = Bench::new();
    put(&bench, "r", "tollgate", 1.0);
    let cores = |arguments: &[&str]| -> f64 {
        let table = bench.run(&[&["capacity", "--from", "r"], arguments].concat()).well().stdout;
        let row =
            table.lines().find(|line| line.starts_with("Tollgate")).unwrap_or_else(|| panic!("{table}"));
        row.split_whitespace().nth(2).unwrap().parse().unwrap_or_else(|_| panic!("{row}"))
    };
    let one = cores(&["--rps", "1M", "--utilisation", "50%"]);
    assert!(one > 0.0);
    assert!((cores(&["--rps", "3M", "--utilisation", "0.5"]) / one - 3.0).abs() < 0.02);
    assert!((cores(&["--rps", "1000k", "--utilisation", "25%"]) / one - 2.0).abs() < 0.02);
    assert_eq!(results(&bench.path("r")).header.format, FORMAT);
    bench
        .run(&["capacity", "--from", "r", "--rps", "1M", "--cell", "9-9"])
        .refused(1, &["capacity: no such cell", "there are: toll-64, "]);
}

#[test]
fn the_schema_is_json_and_names_the_lines() {
    let schema = Bench::new().run(&["schema"]).well().stdout;
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert!(schema.to_string().contains("\"verdict\""));
}
