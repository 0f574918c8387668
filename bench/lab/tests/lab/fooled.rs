//! Tests that systems and tools which try to fool the laboratory are named. Each fake does one thing that
//! once got a wrong verdict. Counts decide these tests; time decides none.

use crate::bench::{Bench, reason};
use std::fs;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_record::{Results, Trial, VerdictKind};

/// The gateway that cheats; its first argument says how.
const FAKE: &str = include_str!("fake.py");

const SYSTEM: &str = r#"title: The fake
about: It cheats.
homepage: https://www.rfc-editor.org/
ready_within_seconds: 30
programs:
  python: {names: [python3]}
version:
  command: ["{{ programs.python }}", --version]
  pattern: 'Python ([0-9.]+)'
start:
  command: ["{{ programs.python }}", "{{ system }}/fake.py", MODE, "{{ host }}", "{{ port }}",
            "{{ origins[0].host }}", "{{ origins[0].port }}"]
missing: {reason: It needs Python 3., get: apt-get install python3}
"#;

/// Adds a fake that cheats in this way, as a system of this name.
fn add(bench: &Bench, mode: &str) {
    bench.write(&format!("data/systems/{mode}/system.yaml"), &SYSTEM.replace("MODE", mode));
    bench.write(&format!("data/systems/{mode}/fake.py"), FAKE);
}

/// Returns a study of short cells; `settings` replace or complete the usual ones.
fn study(systems: &str, settings: &[(&str, &str)], points: &str) -> String {
    let usual =
        [("origin", "builtin"), ("connections", "4"), ("seconds", "1"), ("rounds", "1"), ("warm_up", "0")];
    let usual = usual.iter().filter(|(key, _)| settings.iter().all(|(other, _)| other != key));
    let all: Vec<String> = usual.chain(settings).map(|(key, value)| format!("{key}: {value}")).collect();
    format!(
        "
title: Fooled
about: Any.
baseline: wire
settings: {{{}}}
sections:
  - title: Short
    systems: [{systems}]
    points: [{points}]
",
        all.join(", ")
    )
}

/// Runs a study of one fake and returns its results.
fn run(bench: &Bench, study: &str) -> Results {
    bench.study("fooled", study);
    let answer = bench.run(&["run", "fooled", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    assert!(results.end.is_some(), "{}", answer.stderr);
    results
}

#[track_caller]
fn named(results: &Results, cell: &str, system: &str, kind: VerdictKind, words: &str) {
    let verdict = results.verdict_of(cell, system).expect("a verdict");
    let reported: Vec<&str> = verdict.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(verdict.kind, kind, "{reported:?}");
    assert!(reported.iter().any(|text| text.contains(words)), "{words:?} is not in {reported:?}");
    let foreign = |key: &String| !key.starts_with("rps");
    assert!(kind.has_figures() || !verdict.ratios.keys().any(foreign), "{verdict:?}");
}

fn only<'a>(results: &'a Results, system: &'a str) -> &'a Trial {
    results.trials_of("1-1", system).next().expect("a trial")
}

#[test]
fn a_cache_and_copies_are_named_by_what_the_origin_received() {
    let bench = Bench::new();
    add(&bench, "cache");
    add(&bench, "twice");
    let results = run(&bench, &study("direct, wire, cache, twice", &[], "{title: Once}"));
    let words = "the origin received ";
    named(&results, "1-1", "cache", VerdictKind::OwnAnswers, words);
    named(&results, "1-1", "twice", VerdictKind::ExtraRequests, words);
    for system in ["direct", "wire"] {
        assert!(
            results.verdict_of("1-1", system).unwrap().kind.has_figures(),
            "{:?}",
            only(&results, system)
        );
    }
    // A change of the response is an unequal term.
    let terms = |system: &str| {
        results.received.iter().find(|one| one.system == system).unwrap().differences.join("; ")
    };
    assert!(terms("cache").contains("adds the response header x-fake (2 of 3 do)"), "{}", terms("cache"));
    assert!(terms("wire").is_empty(), "{}", terms("wire"));
}

#[test]
fn answers_in_advance_are_named_although_the_origin_is_asked_as_often() {
    let bench = Bench::new();
    add(&bench, "early");
    let results = run(&bench, &study("wire, early", &[("rate", "50")], "{title: Once}"));
    named(&results, "1-1", "early", VerdictKind::OwnAnswers, "answered before the origin answered");
    let asked = only(&results, "early").evidence.upstream.requests.unwrap();
    let answers = only(&results, "early").load.as_ref().unwrap().ok;
    assert!(answers > 0 && asked + 8 >= answers, "the count alone shows nothing: {asked} of {answers}");
    let terms = |system: &str| {
        results.received.iter().find(|one| one.system == system).unwrap().differences.join("; ")
    };
    assert!(terms("early").contains("answers before the origin does"), "{}", terms("early"));
    assert!(terms("wire").is_empty(), "{}", terms("wire"));
    assert!(results.verdict_of("1-1", "wire").unwrap().kind.has_figures(), "{:?}", only(&results, "wire"));
}

#[test]
fn wrong_bodies_are_found_beside_tools_that_do_not_read_them() {
    let bench = Bench::new();
    add(&bench, "wrong");
    let points = "{set: {tool: wrk}}, {set: {tool: ab}}, {set: {tool: siege}}, {set: {tool: h2load}}";
    let results =
        run(&bench, &study("wire, wrong", &[("connections", "2"), ("response_body", "300")], points));
    for cell in ["1-1", "1-2", "1-3", "1-4"] {
        named(&results, cell, "wrong", VerdictKind::Errors, "a body with other bytes");
        let trial = results.trials_of(cell, "wrong").next().unwrap();
        assert!(reason(trial).unwrap().contains("verified requests before and after"), "{trial:?}");
        let tool = trial.load.as_ref().unwrap();
        assert!(tool.ok > 0 && tool.failures.total() == 0, "the tool saw nothing: {tool:?}");
        let checks = results.trials_of(cell, "wire").next().unwrap().evidence.checks.as_ref().unwrap();
        assert!(checks.ok == 32 && checks.failures.total() == 0, "{checks:?}");
    }
}

#[test]
fn a_rate_that_is_not_kept_has_no_cost_and_no_ratio_of_costs() {
    let bench = Bench::new();
    add(&bench, "slow");
    let results = run(&bench, &study("wire, slow", &[("rate", "400")], "{title: Once}"));
    let trial = only(&results, "slow");
    let load = trial.load.as_ref().unwrap();
    assert!(!load.keeps_its_rate() && load.ok > 0, "{load:?}");
    assert!(trial.cost.is_none() && trial.evidence.target.cpu_us() > 0.0, "{trial:?}");
    let ratios = &results.verdict_of("1-1", "slow").unwrap().ratios;
    assert!(!ratios.contains_key("cpu/wire"), "{ratios:?}");
}

#[test]
fn a_request_that_hangs_counts_with_the_time_it_was_held() {
    let bench = Bench::new();
    add(&bench, "hang");
    let results = run(&bench, &study("hang", &[("connections", "2"), ("timeout", "0.5")], "{title: Once}"));
    let load = only(&results, "hang").load.as_ref().unwrap();
    assert_eq!(load.failures.timeout, 1, "{load:?}");
    let times = load.service_time.as_ref().unwrap();
    assert_eq!(times.count, load.ok + 1);
    assert!(times.max_us.unwrap() >= 500_000.0, "{:?}", times.max_us);
}

#[test]
fn a_quota_that_throttles_is_named_although_the_rate_is_kept() {
    if Quota::account("probe").is_err() {
        eprintln!("SKIPPED: no control groups can be made here");
        return;
    }
    let bench = Bench::new();
    add(&bench, "burn");
    let results =
        run(&bench, &study("burn", &[("rate", "20"), ("quota", "0.3"), ("seconds", "2")], "{title: Once}"));
    named(&results, "1-1", "burn", VerdictKind::Quota, "held back by a quota of 0.3 cores");
}

/// Leaves its process tree, as a daemon does: the relay's parent is no process of this system.
pub const DAEMON: &str = "setsid sh -c '\"$@\" & exit 0' sh \"$@\"\nexec sleep 1000\n";

#[test]
fn a_daemon_that_leaves_its_process_tree_is_accounted_for() {
    if Quota::account("probe").is_err() {
        eprintln!("SKIPPED: no control groups can be made here");
        return;
    }
    let bench = Bench::new();
    bench.wrapped("daemon", DAEMON);
    let results = run(&bench, &study("wire, daemon", &[("seconds", "2")], "{title: Once}"));
    let cost = |trial: &Trial| trial.cost.map_or(0.0, |cost| cost.total_us());
    let trial = only(&results, "daemon");
    let (wire, daemon) = (cost(only(&results, "wire")), cost(trial));
    assert!(wire > 0.0 && daemon > 0.0, "{trial:?}");
    // The same program does the same work; a supervisor's own CPU time would be a hundredth of it.
    assert!(daemon > wire / 4.0, "{daemon} us beside {wire} us");
    assert!(trial.evidence.target.thread_count >= 2, "the shell and the relay: {trial:?}");
    assert!(trial.evidence.target.rss_kib > 1_000, "{trial:?}");
}

/// A wrk that starts late, sends for a second, and burns a second of CPU time to print what it saw.
const SLOW_TOOL: &str = r#"#!/usr/bin/env python3
import http.client, os, sys, time, urllib.parse
launched = time.monotonic()
url = sys.argv[-1]
if not url.startswith("http"):
    print("wrk 9.9 [fake]")
    sys.exit()
time.sleep(1)
to = urllib.parse.urlsplit(url)
link = http.client.HTTPConnection(to.hostname, to.port)
begun, times = time.monotonic(), {}
while time.monotonic() - begun < 1:
    sent = time.monotonic()
    link.request("GET", "/")
    link.getresponse().read()
    us = int((time.monotonic() - sent) * 1e6)
    times[us] = times.get(us, 0) + 1
seconds, worked = time.monotonic() - begun, time.process_time()
while time.process_time() - worked < 1:
    pass
print("lab-summary", int(seconds * 1e6), sum(times.values()), 0, 0, 0, 0, 0, 0)
print("lab-times", *(f"{us}:{count}" for us, count in times.items()))
with open(os.environ["TOLLGATE_LAB_HOME"] + "/life", "w") as file:
    file.write(str(time.monotonic() - launched))
"#;

#[test]
fn a_tools_start_and_read_out_are_not_load() {
    let bench = Bench::new();
    bench.program("wrk", SLOW_TOOL);
    let results = run(&bench, &study("wire", &[("tool", "wrk")], "{title: Once}"));
    let trial = only(&results, "wire");
    let life: f64 = fs::read_to_string(bench.path("home/life")).unwrap().parse().unwrap();
    let evidence = &trial.evidence;
    assert!(evidence.wall_us / 1e6 < life - 0.5, "{} us of {life} s", evidence.wall_us);
    assert!(evidence.generator.cpu_us() < 1e6, "its read-out counts: {:?}", evidence.generator);
    let load = trial.load.as_ref().unwrap();
    assert!(evidence.upstream.requests.unwrap() >= load.ok, "{trial:?}");
    assert!(trial.cost.is_some(), "{trial:?}");
}

#[test]
fn a_file_says_what_its_figures_depend_on() {
    let bench = Bench::new();
    let results = run(&bench, &study("wire", &[("seconds", "0.2")], "{title: Once}"));
    let host = &results.header.host;
    assert!(host.busy_at_start.is_some_and(|cores| cores >= 0.0), "{host:?}");
    assert!(host.mitigations.iter().all(|reported| reported.contains(": ")), "{host:?}");
    let report = bench.run(&["report", "r.jsonl", "--markdown", "r.md"]).well();
    assert!(report.stderr.contains("written"), "{report:?}");
    let markdown = fs::read_to_string(bench.path("r.md")).unwrap();
    for words in ["Interrupts: ", "Frequency: ", "Hypervisor: ", "Mitigations: ", "At the start: "] {
        assert!(markdown.contains(words), "{words:?} is not in {markdown}");
    }
}
