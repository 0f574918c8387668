//! Tests that each failure during a study becomes a row with a reason, and that the rest continues.

use crate::bench::{Answer, Bench, reason};
use std::fs;
use tollgate_lab_record::{Results, VerdictKind};

/// Returns a study of one short cell.
fn study(systems: &str, settings: &str) -> String {
    format!(
        "
title: Trouble
about: Any.
settings: {{origin: builtin, connections: 1, seconds: 1, rounds: 2, warm_up: 0{settings}}}
sections:
  - title: Short
    systems: [{systems}]
    points: [{{title: Once}}]
"
    )
}

/// Returns the reasons of a system's trials, all of which must be bad.
#[track_caller]
fn reasons<'a>(results: &'a Results, system: &'a str) -> Vec<&'a str> {
    let all: Vec<&str> = results
        .trials_of("1-1", system)
        .map(|trial| {
            assert!(trial.load.is_none() && trial.cost.is_none(), "{trial:?}");
            reason(trial).expect("a bad trial")
        })
        .collect();
    assert!(!all.is_empty(), "{system} has no trial");
    all
}

#[track_caller]
fn all_good(results: &Results, system: &str, trials: usize) {
    assert_eq!(results.trials_of("1-1", system).count(), trials);
    for trial in results.trials_of("1-1", system) {
        assert!(trial.is_good() && trial.load.as_ref().is_some_and(|load| load.ok > 0), "{trial:?}");
    }
    assert!(results.verdict_of("1-1", system).unwrap().kind.has_figures());
}

/// Requires that the system is invalid, with these words, and without a figure.
#[track_caller]
fn invalid(results: &Results, system: &str, words: &str) {
    let verdict = results.verdict_of("1-1", system).unwrap();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert!(verdict.ratios.is_empty() && verdict.control.is_none(), "{verdict:?}");
    assert!(verdict.findings.iter().any(|finding| finding.text.contains(words)), "{verdict:?}");
}

#[test]
fn systems_that_are_missing_are_rows_with_the_reason_and_the_way_to_get_them() {
    let bench = Bench::new();
    bench.write(
        "data/systems/ghost/system.yaml",
        "title: The ghost\nabout: Not here.\nhomepage: https://www.rfc-editor.org/\n\
         programs: {ghost: {names: [no-such-program-here]}}\nstart: {command: [\"{{ programs.ghost }}\"]}\n\
         missing: {reason: Ghosts are in no package., get: wait until midnight}\n",
    );
    bench.write(
        "data/systems/parcel/system.yaml",
        "title: The parcel\nabout: Not here yet.\nhomepage: https://www.rfc-editor.org/\n\
         programs: {parcel: {names: [no-such-parcel-here]}}\nstart: {command: [\"{{ programs.parcel }}\"]}\n\
         install: {with: apt, script: install.sh, takes: 1 s}\n",
    );
    bench.write("data/systems/parcel/install.sh", "exit 0\n");
    bench.wrapped("stillborn", "echo no luck today; exit 7\n");
    bench.study("gaps", &study("direct, ghost, parcel, stillborn", ", rounds: 1").replace("rounds: 2, ", ""));
    let answer = bench.run(&["run", "gaps", "--out", "r.jsonl", "--markdown", "r.md"]).well();
    let results = bench.results("r.jsonl");
    let missing = |name: &str| {
        let system = results.systems.iter().find(|system| system.name == name).unwrap();
        system.missing.clone().expect("missing")
    };
    assert_eq!(missing("ghost").reason, "Ghosts are in no package.");
    assert_eq!(missing("ghost").get, "wait until midnight");
    assert_eq!(missing("parcel").get, "tollgate bench install parcel");
    let died = missing("stillborn").reason;
    assert!(
        died.contains("ended during its start (exit status: 7)") && died.contains("no luck today"),
        "{died}"
    );
    assert!(results.trials.iter().all(|trial| trial.system == "direct"), "nobody invents a trial");
    // A system that could not run gets a verdict without figures, with the reason.
    for verdict in results.verdicts.iter().filter(|verdict| verdict.system != "direct") {
        assert!(!verdict.kind.has_figures() && verdict.ratios.is_empty(), "{verdict:?}");
        assert_eq!(verdict.findings[0].text, missing(&verdict.system).reason);
    }

    // A terminal wraps lines.
    let terminal = answer.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let markdown = fs::read_to_string(bench.path("r.md")).unwrap();
    for (name, report) in [("terminal", &terminal), ("Markdown", &markdown)] {
        for words in
            ["The ghost", "Ghosts are in no package.", "wait until midnight", "The parcel", "not installed"]
        {
            assert!(report.contains(words), "{words:?} is not in the {name}: {report}");
        }
    }
    assert!(answer.stderr.contains("ghost is missing: Ghosts are in no package."), "{}", answer.stderr);
}

/// It ends shortly after it was resumed for its first turn, and never before: systems are paused between
/// their turns.
const FRAIL: &str = "\"$@\" &\ntrap 'sleep 0.3; kill $!; exit 3' CONT\nwait $!\n";

#[test]
fn a_gateway_that_dies_in_its_trial_alone_loses_its_figures() {
    let bench = Bench::new();
    bench.wrapped("frail", FRAIL);
    bench.study("death", &study("direct, frail, wire", ""));
    let answer = bench.run(&["run", "death", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    let reasons = reasons(&results, "frail");
    assert_eq!(reasons.len(), 2);
    assert!(reasons[0].contains("frail ended in the middle of the trial (exit status: 3)"), "{reasons:?}");
    assert!(reasons[1].contains("frail had ended before the trial (exit status: 3)"), "{reasons:?}");
    invalid(&results, "frail", "frail ");
    all_good(&results, "direct", 2);
    all_good(&results, "wire", 2);
    assert!(results.end.is_some());
    assert!(answer.stdout.contains("invalid"), "{}", answer.stdout);
}

#[test]
fn what_a_tool_prints_unexpectedly_is_said_with_what_was_expected() {
    let bench = Bench::new();
    bench.program("wrk", "#!/bin/sh\necho 'wrk 9.9: the weather is fine'\n");
    bench.study("rubbish", &study("direct, wire", ", tool: wrk"));
    let answer = bench.run(&["run", "rubbish", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    for system in ["direct", "wire"] {
        let reasons = reasons(&results, system);
        assert_eq!(reasons.len(), 2);
        assert!(
            reasons.iter().all(|reason| reason.contains("wrk: expected a line 'lab-summary'")),
            "{reasons:?}"
        );
        assert!(reasons.iter().all(|reason| reason.contains("the weather is fine")), "{reasons:?}");
        invalid(&results, system, "wrk: expected");
    }
    assert!(answer.stdout.contains("invalid"), "{}", answer.stdout);
}

#[test]
fn a_tool_that_is_not_installed_is_said_with_the_way_to_get_it() {
    let bench = Bench::new();
    bench.study("lacking", &study("direct", ", tool: wrk").replace("rounds: 2", "rounds: 1"));
    let mut command = bench.command(&["run", "lacking", "--out", "r.jsonl"]);
    Answer::from(command.env("PATH", bench.path("bin")).output().unwrap()).well();
    bench.no_process_is_left();
    let results = bench.results("r.jsonl");
    let reasons = reasons(&results, "direct");
    assert!(
        reasons[0].contains("the load tool wrk is not installed: run bench/tools/install/"),
        "{reasons:?}"
    );
}
