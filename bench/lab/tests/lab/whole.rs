//! Tests complete runs of studies.

use crate::bench::{Answer, Bench, reason};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tollgate_lab_record::{LoadModel, Metric, Verification};

const STUDY: &str = "
title: What a wire costs
about: Two cells.
baseline: wire
control: wire
settings: {origin: builtin, rounds: 2, warm_up: 0.2}
sections:
  - title: In turn
    systems: [direct, wire]
    # One request at a time is nobody's limit, however busy the machine is.
    points: [{title: One connection, set: {connections: 1, seconds: 1}}]
  - title: By the clock
    systems: [direct, wire]
    points: [{title: 400 a second, set: {connections: 4, rate: 400, seconds: 0.5, ramp: 0.2, sources: 2}}]
notes: [A sentence that the report prints.]
";

#[test]
fn a_study_runs_whole_and_its_file_and_reports_say_everything() {
    let bench = Bench::new();
    bench.study("cost", STUDY);
    let (html, markdown) = (bench.path("r.html"), bench.path("r.md"));
    let files = [html.to_str().unwrap(), markdown.to_str().unwrap()];
    let answer = bench
        .run(&["run", "cost", "--out", "r.jsonl", "--seed", "9", "--html", files[0], "--markdown", files[1]])
        .well();
    let results = bench.results("r.jsonl");

    assert_eq!((results.header.study.as_str(), results.header.seed), ("cost", 9));
    assert_eq!(results.header.command, "tollgate bench run cost --seed 9");
    assert_eq!(results.header.baseline.as_deref(), Some("wire"));
    assert!(results.end.is_some_and(|seconds| seconds > 0.0), "{:?}", results.end);

    let names: BTreeSet<&str> = results.systems.iter().map(|system| system.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["direct", "wire"]));
    let wire = results.systems.iter().find(|system| system.name == "wire").unwrap();
    assert_eq!((wire.title.as_str(), wire.version.as_str()), ("The wire", env!("CARGO_PKG_VERSION")));
    assert!(wire.missing.is_none());
    assert!(wire.command.iter().any(|word| word == "relay"), "{:?}", wire.command);
    assert_eq!(wire.files.len(), 1);
    assert!(wire.files[0].text.contains("127.0.0.1"), "{:?}", wire.files);

    let cells: Vec<(&str, &str)> =
        results.cells.iter().map(|cell| (cell.section.as_str(), cell.title.as_str())).collect();
    assert_eq!(cells, [("In turn", "One connection"), ("By the clock", "400 a second")]);
    for received in &results.received {
        assert_eq!(received.version, "HTTP/1.1");
        assert_eq!((received.connections, received.requests), (1, 8), "{received:?}");
        assert!(received.differences.is_empty(), "a wire changes nothing: {received:?}");
    }
    assert_eq!(results.received.len(), 2);

    for cell in &results.cells {
        let rounds: Vec<u32> = results
            .ceilings
            .iter()
            .filter(|ceiling| ceiling.cell == cell.id && ceiling.rps > 0.0 && ceiling.generator_us > 0.0)
            .map(|ceiling| ceiling.round)
            .collect();
        assert_eq!(rounds, [1, 2]);
        for name in ["direct", "wire", "wire#2"] {
            let rounds: BTreeSet<u32> = results.trials_of(&cell.id, name).map(|trial| trial.round).collect();
            assert_eq!(rounds, BTreeSet::from([1, 2]), "{name} in {}", cell.title);
        }
    }
    assert_eq!(results.trials.len(), 2 * 3 * 2);
    // The kernel counts run time by its ticks. It may miss a few requests completely, but not all of them.
    let booked: f64 = results.trials.iter().filter_map(|trial| trial.cost).map(|cost| cost.total_us()).sum();
    assert!(booked > 0.0, "no trial cost anything");
    for trial in &results.trials {
        let rate = trial.cell == results.cells[1].id;
        // A busy machine may not keep the rate; the trial is then not attributed, but all its data is there.
        let unkept = rate && reason(trial) == Some("nobody was seen at a limit: not attributed");
        assert!(trial.is_good() || unkept, "{trial:?}");
        let load = trial.load.as_ref().unwrap();
        assert!(load.ok > 0 && load.failures.total() == 0, "{load:?}");
        assert_eq!((load.tool.as_str(), load.verification), ("builtin", Verification::Full));
        assert_eq!(load.model, if rate { LoadModel::Constant { rps: 400.0 } } else { LoadModel::Closed });
        assert_eq!(load.response_time.is_some(), rate, "only a rate has intended times");
        let kept = load.model.rps().is_none() || load.keeps_its_rate();
        assert_eq!(trial.cost.is_some(), trial.system != "direct" && kept);
        // If the machine stalled during the trial, there is next to nothing to see.
        if trial.evidence.wall_us < 100_000.0 {
            continue;
        }
        assert!(
            trial.evidence.upstream.requests.is_some_and(|requests| requests > 0),
            "{:?}",
            trial.evidence
        );
        assert!(trial.evidence.origin.cpu_us() > 0.0, "{:?}", trial.evidence);
        assert!(trial.evidence.generator.cpu_us() > 0.0, "{:?}", trial.evidence);
    }

    assert_eq!(results.verdicts.len(), 4, "the control's copy has none of its own");
    for verdict in &results.verdicts {
        assert!(!verdict.findings.is_empty(), "{verdict:?}");
        if verdict.cell == results.cells[0].id {
            assert!(verdict.kind.has_figures(), "{verdict:?}");
            assert!(verdict.control.is_some(), "the noise of the cell: {verdict:?}");
        }
    }
    let direct = results.verdict_of(&results.cells[0].id, "direct").unwrap();
    assert!(direct.ratios.contains_key("rps/wire"), "{:?}", direct.ratios.keys());

    let (html, markdown) = (fs::read_to_string(html).unwrap(), fs::read_to_string(markdown).unwrap());
    for report in [&answer.stdout, &html, &markdown] {
        for word in
            ["What a wire costs", "In turn", "By the clock", "The wire", "Nobody between", "A sentence that"]
        {
            assert!(report.contains(word), "{word:?} is not in {report}");
        }
    }
    assert!(answer.stderr.contains("wire 0.") && answer.stderr.contains("100 %"), "{}", answer.stderr);

    let again = bench.run(&["report", "r.jsonl"]).well();
    assert_eq!(again.stdout, answer.stdout, "the report comes from the file alone");
}

#[test]
fn nginx_is_measured_by_wrk_from_the_projects_own_descriptions() {
    let bench = Bench::new();
    let study = "
title: One turn
about: Any.
settings: {tool: wrk, connections: 8, seconds: 1, rounds: 1, warm_up: 0, response_body: 1000}
sections:
  - title: A kilobyte
    systems: [direct, nginx]
    points: [{}]
";
    bench.write("own.yaml", study);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let answer =
        Answer::from(bench.command_on(data, &["run", "own.yaml", "--out", "r.jsonl"]).output().unwrap())
            .well();
    bench.no_process_is_left();
    let results = bench.results("r.jsonl");
    assert_eq!(results.trials.len(), 2);
    // On a busy machine a closed loop may not be attributed, which makes a trial bad; its figures are
    // recorded all the same.
    for trial in &results.trials {
        let load = trial.load.as_ref().unwrap();
        assert!(load.tool == "wrk" && load.tool_version.contains('.') && load.ok > 0, "{load:?}");
        assert_eq!(load.failures.total(), 0, "{load:?}");
        let counted = trial.evidence.upstream.requests.unwrap();
        assert!(counted >= load.ok, "the origin saw {counted}, wrk {}", load.ok);
    }
    let nginx = results.trials_of("1-1", "nginx").next().unwrap();
    // The total: the split comes from ticks, and a starved second may have none in the kernel.
    assert!(nginx.cost.unwrap().total_us() > 0.0);
    let used = results.systems.iter().find(|system| system.name == "nginx").unwrap();
    assert!(used.files.iter().any(|file| file.text.contains("proxy_pass")), "{:?}", used.files);
    assert!(answer.stdout.contains("nginx"), "{}", answer.stdout);
}

#[test]
fn bars_are_held_and_memory_and_large_bodies_are_measured() {
    let bench = Bench::new();
    let study = "
title: The bars
about: Any.
# Six rounds decide. Rounds that something else on the machine disturbed do not count, so there are more.
settings: {origin: builtin, connections: 2, rate: 100, seconds: 0.2, rounds: 14, warm_up: 0}
analyses:
  - {kind: bars, system: haproxy, peers: [nginx]}
  - {kind: idle-memory, systems: [nginx], connections: 300, bars: {whole_mib: 0.1}}
  - {kind: large-body, systems: [nginx, haproxy], bytes: 20000003}
sections:
  - {title: Plain, systems: [nginx, haproxy], points: [{title: One, bars: {cpu: 1000, p99: 0.000001}}]}
";
    bench.write("own.yaml", study);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let run = bench.command_on(data, &["run", "own.yaml", "--out", "r.jsonl"]).output().unwrap();
    let answer = Answer::from(run).well();
    bench.no_process_is_left();
    let results = bench.results("r.jsonl");
    let rows = |title: &str| {
        let table = results.tables.iter().find(|(section, ..)| section == title);
        table.unwrap_or_else(|| panic!("no table {title:?}: {}", answer.stderr)).2.clone()
    };
    // A busy machine may leave a cell without figures; the bar's row then says so. A figure may also be
    // missing in some rounds (a rate that was not kept, a latency that the generator's side caused), and
    // five rounds decide nothing. Only rounds in which both systems have the figure count.
    let rounds_with = |system: &str, metric: Metric| -> BTreeSet<u32> {
        let rounds = results.rounds("1-1");
        let trials = results.trials_of("1-1", system).filter(|trial| rounds.counts(trial));
        trials.filter(|trial| trial.figure(metric).is_some()).map(|trial| trial.round).collect()
    };
    for (row, (metric, word)) in rows("").iter().zip([(Metric::Cpu, "PASS"), (Metric::P99, "MISS")]) {
        let rounds = rounds_with("nginx", metric).intersection(&rounds_with("haproxy", metric)).count();
        let open = rounds < 6 && row[5].starts_with("OPEN");
        assert!(
            row[0] == "Plain: One" && (row[5].starts_with(word) || row[5].contains("not judged") || open),
            "{row:?}, {rounds} rounds"
        );
    }
    let idle = &rows("Memory of idle connections")[0];
    // The amount is not checked, since pages that other tests' nginx share count in part.
    let number = |at: usize| idle[at].parse::<f64>().unwrap_or_else(|_| panic!("{idle:?}"));
    assert_eq!((idle[0].as_str(), idle[1].as_str()), ("nginx", "300"));
    assert!(number(2) > 0.0 && number(3) > 0.0 && number(4).abs() < 100.0 && number(6) > 0.0, "{idle:?}");
    assert!(idle[7].starts_with("MISS: MiB with them by "), "{idle:?}");
    let large = rows("A large body up and down");
    assert!(large.iter().all(|row| row[6].is_empty()), "no bar was given: {large:?}");
    let seen: Vec<(&str, &str)> = large.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(seen, [("nginx", "up"), ("nginx", "down"), ("haproxy", "up"), ("haproxy", "down")]);
    assert!(large.iter().all(|row| row[3] == "exact" && row[4].parse::<f64>().unwrap() > 0.0), "{large:?}");
    assert!(
        answer.stdout.contains("haproxy meets") || answer.stdout.contains("HAProxy meets"),
        "{}",
        answer.stdout
    );

    let only = ["run", "own.yaml", "--out", "s.jsonl", "--sections", "large body", "--systems", "haproxy"];
    Answer::from(bench.command_on(data, &only).output().unwrap()).well();
    let results = bench.results("s.jsonl");
    assert!(results.trials.is_empty() && results.tables.len() == 1, "{:?}", results.tables);
    assert_eq!(results.tables[0].2.len(), 2, "{:?}", results.tables);
}

#[test]
fn tls_and_http_2_are_measured_at_the_front_door() {
    let bench = Bench::new();
    let study = "
title: At the door
about: Any.
settings: {connections: 3, seconds: 1, rounds: 1, warm_up: 0.5, rate: 60, features: [forwarded_headers, tls]}
sections:
  - {title: Kept, systems: [direct, nginx, haproxy], points: [{set: {response_body: 40000}}]}
  - {title: Close, systems: [nginx, haproxy], points: [{set: {keep_alive: false}}]}
  - {title: Two, systems: [direct, nginx, haproxy], points: [{set: {http: 2, streams: 4, tool: h2load}}]}
";
    bench.write("own.yaml", study);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let run = bench.command_on(data, &["run", "own.yaml", "--out", "r.jsonl"]).output().unwrap();
    let answer = Answer::from(run).well();
    bench.no_process_is_left();
    let results = bench.results("r.jsonl");
    assert_eq!(results.trials.len(), 3 + 2 + 2, "{}", answer.stderr);
    for trial in &results.trials {
        let load = trial.load.as_ref().unwrap();
        assert!(load.ok > 0 && load.failures.total() == 0, "{load:?}");
        assert!(trial.evidence.generator.cpu_us() > 0.0, "{:?}", trial.evidence);
        match trial.cell.as_str() {
            "2-1" => assert!(load.connections_opened.is_some_and(|opened| opened >= load.ok), "{load:?}"),
            "3-1" => assert!(load.command.contains(&"--npn-list=h2".to_owned()), "{load:?}"),
            _ => assert_eq!(load.body_bytes, Some(40_000 * load.ok), "{load:?}"),
        }
        // The origin speaks HTTP/1, so it counts the requests that arrived at the system by HTTP/2.
        assert!(trial.evidence.upstream.requests.is_some_and(|requests| requests > 0), "{trial:?}");
    }
    let direct = results.verdict_of("3-1", "direct").unwrap();
    assert!(direct.findings[0].text.contains("only HTTP/1"), "{direct:?}");
    let files = |name: &str| &results.systems.iter().rfind(|system| system.name == name).unwrap().files;
    assert!(files("nginx").iter().any(|file| file.text.contains("ssl http2")));
    assert!(files("haproxy").iter().any(|file| file.text.contains("alpn h2,http/1.1")));
}

#[test]
fn instructions_are_counted_and_a_feature_is_priced_by_them() {
    let bench = Bench::new();
    let study = "
title: A price
about: Any.
settings: {origin: builtin, connections: 1, rate: 100, seconds: 0.3, rounds: 1, warm_up: 0}
analyses: [{kind: feature-prices, section: Features, instructions: [nginx]}]
sections:
  - title: Features
    systems: [nginx]
    points: [{title: plain}, {title: access log, set: {features: [access_log]}}]
";
    bench.write("own.yaml", study);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let run = bench.command_on(data, &["run", "own.yaml", "--out", "r.jsonl"]).output().unwrap();
    let answer = Answer::from(run).well();
    bench.no_process_is_left();
    let results = bench.results("r.jsonl");
    let counted: Vec<f64> =
        results.instructions.iter().map(|one| *one.each.figure().expect("a count")).collect();
    let [plain, log] = counted[..] else { panic!("{counted:?}") };
    assert!(plain > 1_000.0 && log > plain, "a line of log costs instructions: {counted:?}");
    let prices: Vec<(&str, bool)> =
        results.prices.iter().map(|price| (price.feature.as_str(), price.whole)).collect();
    assert_eq!(prices, [("plain", true), ("access log", false)]);
    for (price, wanted) in results.prices.iter().zip([plain, log - plain]) {
        // A number's last digit may change when it is written and read.
        assert!(price.instructions.figure().is_some_and(|each| (each - wanted).abs() < 1e-6), "{price:?}");
    }
    assert!(answer.stdout.contains("Instructions/req added"), "{}", answer.stdout);
    // The copy without the log ran right before or after; the file has its trials, but the report no row.
    let beside: Vec<&str> = results.trials.iter().map(|trial| trial.system.as_str()).collect();
    assert_eq!(beside.iter().filter(|name| **name == "nginx#plain").count(), 2, "{beside:?}");
    assert!(!answer.stdout.contains("#plain"), "{}", answer.stdout);
    assert!(results.prices[1].cpu_us.figure().is_some(), "{:?}", results.prices[1]);
}

#[test]
fn a_dry_run_says_what_would_be_measured_and_measures_nothing() {
    let bench = Bench::new();
    bench.study("cost", STUDY);
    let answer = bench.run(&["run", "cost", "--dry-run", "--rounds", "1"]).well();
    assert!(answer.stderr.contains("What a wire costs: 2 cells, about "), "{}", answer.stderr);
    assert!(answer.stderr.contains("2 rounds became 1, as asked"), "{}", answer.stderr);
    for line in [
        "In turn\n",
        "  One connection  1 connection, as fast as answers come, 1 round of 1 s: direct, wire\n",
        "By the clock\n",
        "  400 a second    4 connections, 400 requests/s, 1 round of 0.5 s: direct, wire\n",
    ] {
        assert!(answer.stdout.contains(line), "{line:?} in {}", answer.stdout);
    }
    assert!(!bench.path("tollgate-bench").exists());
    let list = bench.run(&["studies"]).well();
    assert!(list.stdout.starts_with("cost ") && list.stdout.contains("What a wire costs"), "{}", list.stdout);
}
