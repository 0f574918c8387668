//! Tests that systems and tools which try to fool the laboratory are named. Each fake does one thing that
//! once got a wrong verdict. Counts decide these tests; time decides none.

use crate::bench::{Bench, reason};
use std::fs;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_record::{Metric, Results, Trial, VerdictKind};

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
    add(&bench, "half");
    add(&bench, "twice");
    // A number of requests, so that a busy machine does not hide the difference within the requests in flight.
    let settings = [("requests", "2000")];
    let results = run(&bench, &study("direct, wire, cache, half, twice", &settings, "{title: Once}"));
    // By the count; on a machine so busy that the counter is read late, by the probe before.
    named(&results, "1-1", "cache", VerdictKind::OwnAnswers, "from a cache");
    named(&results, "1-1", "half", VerdictKind::OwnAnswers, "from a cache");
    named(&results, "1-1", "twice", VerdictKind::ExtraRequests, "the origin received ");
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
    assert!(terms("cache").contains("adds the response header x-fake (3 of 4 do)"), "{}", terms("cache"));
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

/// A substitute for Gatling, which takes minutes to install: one connection, with figures in Gatling's form.
const GATLING: &str = r#"#!/usr/bin/env python3
import http.client, time, urllib.parse
load = dict(line.split(" ", 1) for line in open("load").read().splitlines())
to = urllib.parse.urlsplit(load["url"])
link = http.client.HTTPConnection(to.hostname, to.port)
begun, count = time.monotonic(), 0
while time.monotonic() - begun < float(load["time-ms"]) / 1000:
    link.request("GET", "/")
    answer = link.getresponse()
    answer.read()
    count += answer.status == 200
print("lab-seconds", time.monotonic() - begun)
print("---- Global Information ----")
print(f"> request count | {count} | {count} | -")
print("> mean response time (ms) | 1 | 1 | -")
"#;

#[test]
fn wrong_bodies_are_found_beside_tools_that_do_not_read_them() {
    let bench = Bench::new();
    add(&bench, "wrong");
    bench.program("gatling", GATLING);
    let points = "{set: {tool: wrk}}, {set: {tool: ab}}, {set: {tool: siege}}, {set: {tool: h2load}}, \
                  {set: {tool: gatling}}";
    let results =
        run(&bench, &study("wire, wrong", &[("connections", "2"), ("response_body", "300")], points));
    for cell in ["1-1", "1-2", "1-3", "1-4", "1-5"] {
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
    assert!(times.count > load.ok, "{times:?}");
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

/// An oha that keeps its rate and fills its cores all the time, as a generator that polls does.
const BUSY_TOOL: &str = r#"#!/usr/bin/env python3
import http.client, json, os, sys, time, urllib.parse
url = sys.argv[-1]
if not url.startswith("http"):
    print("oha 9.9.0")
    sys.exit()
option = lambda name: sys.argv[sys.argv.index(name) + 1]
seconds, rate = float(option("-z")[:-2]) / 1000, int(option("-q"))
to = urllib.parse.urlsplit(url)
link = http.client.HTTPConnection(to.hostname, to.port)
begun, times = time.monotonic(), []
for _ in range(len(os.sched_getaffinity(0)) - 1):
    if os.fork() == 0:
        while time.monotonic() - begun < seconds + 1:
            pass
        os._exit(0)
for number in range(int(rate * seconds)):
    while time.monotonic() - begun < number / rate:
        pass
    sent = time.monotonic()
    link.request("GET", "/")
    link.getresponse().read()
    times.append(time.monotonic() - sent)
while time.monotonic() - begun < seconds:
    pass
times.sort()
print(json.dumps({
    "summary": {"total": seconds, "slowest": times[-1], "fastest": times[0], "average": sum(times) / len(times),
                "totalData": 2 * len(times)},
    "latencyPercentiles": {"p50": times[len(times) // 2], "p99": times[-1]},
    "statusCodeDistribution": {"200": len(times)},
    "errorDistribution": {},
}))
"#;

#[test]
fn a_full_generator_side_shows_the_cost_and_no_latency() {
    let bench = Bench::new();
    bench.program("oha", BUSY_TOOL);
    // Few requests: while the tool waits for an answer it polls nothing, and a busy machine answers late.
    let settings = [("tool", "oha"), ("rate", "3"), ("connections", "1"), ("seconds", "2")];
    let results = run(&bench, &study("wire", &settings, "{title: Once}"));
    let trial = only(&results, "wire");
    let evidence = &trial.evidence;
    let own = (evidence.generator.cpu_us() + evidence.origin.cpu_us()) / evidence.wall_us;
    if own < 0.75 {
        eprintln!("SKIPPED: other programs use the generator's core, of which it had {own:.2}");
        return;
    }
    let words = "busy: the cost is the system's, the latency is not";
    named(&results, "1-1", "wire", VerdictKind::LoadSide, words);
    assert!(trial.load.as_ref().unwrap().keeps_its_rate(), "{trial:?}");
    assert!(trial.figure(Metric::Cpu).is_some() && trial.figure(Metric::P99).is_none(), "{trial:?}");
}

#[test]
fn a_generator_that_stalls_has_no_latency_of_the_system() {
    let bench = Bench::new();
    add(&bench, "freeze");
    let results = run(&bench, &study("freeze", &[("rate", "50"), ("seconds", "7")], "{title: Once}"));
    named(&results, "1-1", "freeze", VerdictKind::Generator, "the generator sent late");
    let trial = only(&results, "freeze");
    assert!(trial.figure(Metric::Cpu).is_some() && trial.figure(Metric::P99).is_none(), "{trial:?}");
}

#[test]
fn a_round_that_one_system_spoils_counts_for_none() {
    let bench = Bench::new();
    add(&bench, "spell");
    // The second trial has the requests 51 to 100.
    let settings = [("rate", "100"), ("seconds", "0.5"), ("rounds", "6")];
    let results = run(&bench, &study("wire, spell", &settings, "{title: Once}"));
    let spoilt: Vec<u32> = results
        .trials_of("1-1", "spell")
        .filter(|trial| reason(trial).is_some_and(|reason| reason.contains("another status")))
        .map(|trial| trial.round)
        .collect();
    assert_eq!(spoilt, [2]);
    let rounds = results.rounds("1-1");
    assert!(rounds.dropped()[&2].starts_with("spell: "), "{:?}", rounds.dropped());
    let of_wire = results.trials_of("1-1", "wire").find(|trial| trial.round == 2).unwrap();
    assert!(!rounds.counts(of_wire), "{of_wire:?}");
    let report = bench.run(&["report", "r.jsonl", "--markdown", "r.md"]).well();
    assert!(report.stderr.contains("written"), "{report:?}");
    let markdown = fs::read_to_string(bench.path("r.md")).unwrap();
    assert!(markdown.contains("dropped for all of its cell"), "{markdown}");
}

/// A relay that leaves the process tree and the control group of its system, so that neither counts it. It ends with
/// the system.
const OUTSIDER: &str = r#"
keeper=$$
groups=/sys/fs/cgroup/cgroup.procs
[ -e $groups ] || groups=$(echo /sys/fs/cgroup/*/cgroup.procs)
relay='for group in $groups; do echo $$ > "$group"; done 2>/dev/null
"$@" &
started=$!
while kill -0 $keeper 2>/dev/null; do sleep 0.1; done
kill $started'
export keeper groups relay
setsid sh -c 'sh -c "$relay" sh "$@" & exit 0' sh "$@"
exec sleep 1000
"#;

#[test]
fn answers_without_cpu_time_are_of_processes_that_are_not_counted() {
    let bench = Bench::new();
    bench.wrapped("outsider", OUTSIDER);
    let results = run(&bench, &study("wire, outsider", &[("requests", "4500")], "{title: Once}"));
    let words = "answers: other processes than the counted ones served them";
    named(&results, "1-1", "outsider", VerdictKind::Invalid, words);
    assert!(only(&results, "outsider").load.as_ref().unwrap().ok >= 4_500);
    assert!(results.verdict_of("1-1", "wire").unwrap().findings.iter().all(|one| !one.text.contains(words)));
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
