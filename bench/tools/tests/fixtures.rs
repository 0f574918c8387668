//! Tests the parsers with recorded outputs of the tools, and with outputs that no tool should print, which
//! must be refused without a panic.

use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_lab_record::{Distribution, Failures, LoadModel, LoadResult};
use tollgate_lab_tools::{Length, Misunderstood, Output, Request, Tool};

fn folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(case)
}

fn request() -> Request {
    Request {
        threads: 2,
        model: LoadModel::Constant { rps: 100.0 },
        ..Request::new("http://127.0.0.1/", 9, Length::Time(Duration::from_secs(2)))
    }
}

fn output(dir: PathBuf, stdout: String, stderr: String) -> Output {
    Output { version: "1".into(), command: vec!["x".into()], stdout, stderr, exit: Some(0), dir }
}

fn parse(case: &str) -> Result<LoadResult, Misunderstood> {
    let read = |name: &str| fs::read_to_string(folder(case).join(name)).unwrap();
    let (name, _) = case.split_once('/').unwrap();
    let tool = Tool::from_name(name).unwrap();
    tool.parse(&request(), &output(folder(case), read("stdout"), read("stderr")))
}

fn read(case: &str) -> LoadResult {
    parse(case).unwrap_or_else(|error| panic!("{error}"))
}

fn connect(count: u64) -> Failures {
    Failures { connect: count, ..Failures::default() }
}

fn broken(count: u64) -> Failures {
    Failures { read: count, ..Failures::default() }
}

fn status(count: u64) -> Failures {
    Failures { status: count, ..Failures::default() }
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= expected.abs() * 1e-6 + 1e-9, "{value} is not {expected}");
}

#[track_caller]
fn times(distribution: Option<&Distribution>, count: u64, mean: f64, p99: Option<f64>, max: Option<f64>) {
    let reported = distribution.expect("a distribution");
    assert_eq!(reported.count, count);
    near(reported.mean_us, mean);
    assert_eq!(reported.percentile(99.0).map(f64::round), p99);
    assert_eq!(reported.max_us.map(f64::round), max);
}

#[test]
fn counts_and_failures_are_as_printed() {
    for (case, ok, failures, sent) in [
        ("wrk/errors", 178_044, status(177_524), None),
        ("wrk/broken", 0, broken(72_044), None),
        ("wrk2/composed", 19_995, Failures { status: 7, timeout: 1, ..broken(2) }, None),
        ("ab/close", 2_000, status(0), None),
        ("ab/errors", 163_379, status(163_062), None),
        ("siege/errors", 29_128, status(29_128), Some(58_256)),
        ("siege/refused", 0, connect(6), Some(6)),
        ("h2load/errors", 95, status(105), Some(200)),
        ("h2load/broken", 0, Failures { read: 10, ..connect(90) }, Some(10)),
        ("hey/errors", 973, status(1_027), None),
        ("hey/refused", 0, connect(10), None),
        ("vegeta/errors", 192, status(208), Some(400)),
        ("vegeta/refused", 0, connect(50), Some(50)),
        ("oha/errors", 99, status(101), Some(200)),
        ("oha/broken", 0, broken(20), Some(20)),
        ("fortio/errors", 99, status(101), Some(200)),
        ("fortio/refused", 0, connect(10), Some(10)),
        ("bombardier/errors", 110_754, status(110_756), Some(221_510)),
        ("bombardier/refused", 0, connect(10), Some(10)),
        ("k6/mixed", 71, Failures { status: 65, read: 133, ..connect(132) }, Some(401)),
        ("gatling/errors", 6_184, status(6_194), Some(12_378)),
        ("gatling/refused", 0, connect(10_559), Some(10_559)),
    ] {
        let result = read(case);
        assert_eq!((result.ok, &result.failures, result.sent), (ok, &failures, sent), "{case}");
    }
}

#[test]
fn seconds_are_the_tools_own() {
    for (case, seconds) in [
        ("wrk/errors", 2.099583),
        ("wrk2/composed", 20_003.0 / 2000.10),
        ("ab/close", 2000.0 / 59_740.73),
        ("siege/errors", 1.63),
        ("h2load/errors", 2.0),
        ("hey/errors", 0.0324),
        ("vegeta/errors", 1.995023637),
        ("oha/errors", 2.000879431),
        ("fortio/errors", 2.000729821),
        ("bombardier/errors", 1.99992277),
        ("k6/mixed", 2.000981812),
        ("gatling/errors", 2.015835),
    ] {
        near(read(case).seconds, seconds);
    }
}

#[test]
fn times_are_in_microseconds() {
    let service = |case| read(case).service_time;
    times(service("ab/errors").as_ref(), 326_441, 123.0, Some(180.0), Some(4945.0));
    times(service("siege/errors").as_ref(), 29_128, 7.23 * 1.63e6 / 29_128.0, None, Some(10_000.0));
    times(service("hey/errors").as_ref(), 2_000, 200.0, Some(1000.0), Some(1900.0));
    times(service("vegeta/errors").as_ref(), 400, 62.219, Some(205.0), Some(2183.0));
    times(service("bombardier/errors").as_ref(), 221_510, 35.07415466570358, Some(107.0), Some(8710.0));
    times(service("k6/mixed").as_ref(), 401, 150.21365336658346, Some(1495.0), Some(4881.0));
    times(service("wrk2/composed").as_ref(), 19_750, 333.0, Some(1020.0), Some(4508.0));
    times(read("wrk2/composed").response_time.as_ref(), 19_750, 1250.0, Some(2660.0), Some(9840.0));
    let oha = read("oha/errors");
    times(oha.response_time.as_ref(), 200, 24.31641, Some(126.0), Some(323.0));
    assert_eq!(oha.service_time, None);
    let fortio = read("fortio/errors");
    near(fortio.service_time.unwrap().mean_us, 180.07408);
    assert_eq!((fortio.connections, fortio.connections_opened), (4, Some(106)));
}

#[test]
fn histograms_agree_with_the_tools_own_summaries() {
    let wrk = read("wrk/errors").service_time.unwrap();
    near(wrk.mean_us.round(), 132.0);
    near(wrk.stdev_us.unwrap().round(), 442.0);
    assert_eq!(
        (wrk.percentile(50.0), wrk.percentile(75.0), wrk.percentile(90.0)),
        (Some(22.0), Some(26.0), Some(126.0))
    );
    assert!(wrk.histogram.is_some());
    let h2load = read("h2load/errors");
    let times = h2load.service_time.unwrap();
    assert_eq!(
        (times.min_us, times.max_us.map(|us| (us / 10.0).round()), times.count),
        (Some(109.0), Some(3562.0), 200)
    );
    assert_eq!(h2load.windows.iter().map(|window| window.ok + window.failed).sum::<u64>(), 200);
    assert_eq!(h2load.statuses.get(&503), Some(&105));
    assert_eq!(h2load.body_bytes, Some(1265));
}

#[test]
fn what_a_tool_does_not_tell_stays_open() {
    assert_eq!(read("wrk/errors").connections, 8);
    for silent in ["wrk/broken", "siege/refused", "hey/refused", "oha/broken", "h2load/broken"] {
        assert_eq!(read(silent).latency(), None, "{silent}");
    }
    let ab = read("ab/close");
    assert!(!ab.keep_alive && read("ab/errors").keep_alive);
    assert_eq!((ab.statuses.len(), ab.body_bytes), (0, Some(20_000)));
}

#[test]
fn a_tool_that_gave_up_is_quoted() {
    let error = parse("ab/refused").unwrap_err().to_string();
    assert_eq!(
        error,
        "ab: expected a line 'Complete requests:' with a number; it ended with code 0 and printed: \
         \"apr_socket_recv: Connection refused (111)\""
    );
}

#[test]
fn an_expected_error_status_is_good() {
    let case = |name: &str, tool: Tool| {
        let text = fs::read_to_string(folder(name).join("stdout")).unwrap();
        let request = Request { status: Some(503), ..request() };
        tool.parse(&request, &output(folder(name), text, String::new())).unwrap()
    };
    assert_eq!(case("h2load/errors", Tool::H2load).ok, 105);
    assert_eq!(case("fortio/errors", Tool::Fortio).ok, 101);
    let wrk = case("wrk/errors", Tool::Wrk);
    assert_eq!((wrk.ok, wrk.failures.status), (177_524, 178_044));
    assert_eq!(wrk.verification, tollgate_lab_record::Verification::Presence);
}

/// Returns every fixture's text, to be modified.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for tool in
        fs::read_dir(folder("")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        for case in fs::read_dir(tool).unwrap() {
            let file = case.unwrap().path().join("stdout");
            texts.push(fs::read_to_string(file).unwrap());
        }
    }
    texts.sort();
    texts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn odd_text_is_refused_by_every_tool(text in "\\PC{0,200}") {
        for tool in Tool::ALL {
            let reported = tool.parse(&request(), &output(PathBuf::from("/nowhere"), text.clone(), String::new()));
            let error = reported.unwrap_err().to_string();
            let start = format!("{tool}: expected ");
            prop_assert!(error.starts_with(&start), "{}", error);
        }
    }

    #[test]
    fn odd_files_never_panic(text in "[0-9\\t,.{}\":a-z\n-]{0,120}") {
        let dir = tempfile::tempdir().unwrap();
        for (tool, file) in [(Tool::H2load, "requests.tsv"), (Tool::K6, "summary.json"), (Tool::Ab, "percentiles.csv")] {
            fs::write(dir.path().join(file), &text).unwrap();
            let case = if tool == Tool::K6 { "k6/mixed".to_owned() } else { format!("{tool}/errors") };
            let stdout = fs::read_to_string(folder(&case).join("stdout")).unwrap();
            if let Err(error) = tool.parse(&request(), &output(dir.path().to_path_buf(), stdout, String::new())) {
                prop_assert!(error.to_string().contains(file), "{}", error);
            }
        }
    }

    #[test]
    fn bent_output_never_panics(pick in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
            number in prop::sample::select(vec!["18446744073709551615", "-1", "1e308", "NaN", "", "0", "9.9"]),
            digit in any::<prop::sample::Index>()) {
        let texts = texts();
        let text = &texts[pick.index(texts.len())];
        let runs: Vec<_> = text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let from = runs[digit.index(runs.len())];
        let to = text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| from + length);
        let bent = format!("{}{number}{}", &text[..from], &text[to..]);
        let mut end = cut.index(2 * bent.len()).min(bent.len());
        while !bent.is_char_boundary(end) {
            end -= 1;
        }
        for tool in Tool::ALL {
            for case in ["h2load/errors", "k6/mixed", "ab/errors"] {
                let reported = tool.parse(&request(), &output(folder(case), bent[..end].to_owned(), String::new()));
                if let Err(error) = reported {
                    prop_assert!(error.to_string().contains("expected"));
                }
            }
        }
    }
}
