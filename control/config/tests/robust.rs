//! Property tests: no input may panic, and every reported problem must be consistent.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_config::{Severity, from_text};

const GOOD: &[&str] = &[
    include_str!("good/full.yaml"),
    include_str!("good/short-forms.yaml"),
    include_str!("good/anchors.yaml"),
    include_str!("good/environment.yaml"),
    include_str!("good/json.json"),
    include_str!("bad/star.yaml"),
    include_str!("bad/bracket.yaml"),
    include_str!("bad/flow.yaml"),
    include_str!("bad/routes.yaml"),
    include_str!("bad/match.yaml"),
];

/// Fragments that may damage YAML or a value.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\t",
    "\r",
    ":",
    ": ",
    "- ",
    "*",
    "&a ",
    "*a",
    "<<: *a",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "#",
    "!x ",
    "%",
    "@",
    "?",
    "? ",
    "---\n",
    "...\n",
    "${X}",
    "${",
    "$${",
    "\u{feff}",
    "é",
    "日本",
    "\u{e000}",
    "\u{e006}",
    "\u{1b}",
    "\0",
    "\u{2028}",
    "0",
    "-1",
    "99999999999999999999",
    "on",
    "off",
    "null",
    "~",
    "[::]:80",
    "*.a.b",
    "{client} x",
    "/*",
    "/",
    "..",
    "%zz",
    "://",
    "1.5",
    "10MiB",
    "5s",
];

fn check(text: &str) {
    let loaded = from_text("f.yaml", text, &|name| (name == "X").then(|| "hunter2 [".to_owned()));
    assert_eq!(loaded.config.is_none(), loaded.problems.has_errors());
    let lines = text.replace("\r\n", "\n").replace('\r', "\n").matches('\n').count() + 1;
    for problem in &loaded.problems {
        assert!(problem.at.line as usize <= lines, "{problem:?} of {lines}");
        assert!(problem.related.iter().all(|(at, _)| at.line as usize <= lines), "{problem:?} of {lines}");
        assert!(!problem.message.is_empty() && problem.at.file == 0);
    }
    let shown = loaded.problems.render(false);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\0'), "{shown}");
    let errors = shown.lines().filter(|line| line.starts_with("error: ")).count();
    assert!(errors >= loaded.problems.count(Severity::Error));
    if !text.contains("hunter2") {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..12_usize, prop::sample::select(PIECES));
    (prop::sample::select(GOOD), prop::collection::vec(edit, 1..6)).prop_map(|(text, edits)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, remove, insert) in edits {
            let start = at.index(chars.len() + 1);
            let end = (start + remove).min(chars.len());
            chars.splice(start..end, insert.chars());
        }
        chars.into_iter().collect()
    })
}

/// Keys, each with the open brackets around it.
const KEYS: &[&str] = &[
    "listen",
    "workers",
    "admin",
    "access_log",
    "request_id",
    "metrics",
    "include",
    "forwarded: {via",
    "forwarded: {trusted_proxies",
    "limits: {body",
    "timeouts: {idle",
    "paths: {encoded_slash",
    "errors: {json",
    "access_log: {to: stdout, format",
    "routes: [{match",
    "routes: [{to",
    "routes: [{redirect",
    "routes: [{respond",
    "routes: [{to: a, name",
    "routes: [{to: a, upgrade",
    "routes: [{to: a, rewrite: {path",
    "routes: [{to: a, rewrite: {regex: '(a)', replace",
    "routes: [{to: a, rewrite: {host",
    "routes: [{to: a, match: {host",
    "routes: [{to: a, match: {path",
    "routes: [{to: a, match: {path: {regex",
    "routes: [{to: a, match: {method",
    "routes: [{to: a, match: {headers: {a",
    "upstreams: {a",
    "routes: [{respond: {content_type",
    "upstreams: {a: {balance",
    "upstreams: {a: {balance: {policy",
    "upstreams: {a: {balance: {policy: hash, by",
    "upstreams: {a: {balance: {policy: hash, by: {header",
    "upstreams: {a: {balance: {policy: hash, by: {cookie",
    "upstreams: {a: {balance: {sticky: {cookie",
    "upstreams: {a: {balance: {sticky: {ttl",
    "upstreams: {a: {balance: {sticky: {path",
    "upstreams: {a: {balance: {sticky: {secret",
    "upstreams: {a: {balance: {panic_threshold",
    "upstreams: {a: {balance: {slow_start",
    "upstreams: {a: {limits: {connections",
    "upstreams: {a: {queue",
    "upstreams: {a: {breaker",
    "upstreams: {a: {breaker: {failures",
    "upstreams: {a: {retry",
    "upstreams: {a: {retry: {on",
    "upstreams: {a: {retry: {methods",
    "upstreams: {a: {retry: {per_try",
    "upstreams: {a: {retry: {backoff",
    "upstreams: {a: {hedge",
    "upstreams: {a: {health",
    "upstreams: {a: {health: {http",
    "upstreams: {a: {health: {http: /, status",
    "upstreams: {a: {health: {http: /, host",
    "upstreams: {a: {health: {port",
    "upstreams: {a: {outlier",
    "upstreams: {a: {discover",
    "upstreams: {a: {discover: {dns",
    "upstreams: {a: {discover: {srv",
    "upstreams: {a: {discover: {file",
    "upstreams: {a: {discover: {dns: a, port: 1, servers",
    "upstreams: {a: {adaptive",
    "upstreams: {a: {adaptive: {min",
    "upstreams: {a: {endpoints: [{address: 'a:1', zone",
    "upstreams: {a: {endpoints: [{address: 'a:1', priority",
    "overload: {memory",
    "overload: {files",
    "zone",
    "watch",
    "routes: [{to: a, priority",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        check(&pieces.concat());
        check(&format!("listen: :80\nroutes:\n  - match: {}\n    to: a\n", pieces.concat()));
    }

    #[test]
    fn mutated_files(text in mutated()) {
        check(&text);
    }

    #[test]
    fn any_value_of_any_key(value in "\\PC{0,20}") {
        let value = serde_json::Value::from(value).to_string();
        for open in KEYS {
            let close: String = open.chars().rev().filter_map(|c| match c { '{' => Some('}'), '[' => Some(']'), _ => None }).collect();
            // Brackets within the key's own text are balanced.
            check(&format!("{open}: {value}{close}\n"));
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

/// Processor time of this thread. The time by the clock would depend on what else the machine does.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the thread's times");
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("nanoseconds"))
}

#[test]
fn large_and_odd_inputs_take_no_time() {
    let started = processor_time();
    for text in [
        "[".repeat(200_000),
        "- ".repeat(50_000),
        "a: ".repeat(50_000),
        "{a: ".repeat(50_000),
        "*\n".repeat(20_000),
        "- *x\n".repeat(20_000),
        "\"".repeat(100_001),
        format!("listen: {}", "x".repeat(1_000_000)),
        format!("listen: [{}]", "':80',".repeat(20_000)),
        (0..5_000).fold(String::new(), |text, i| text + &format!("k{i}: 1\n")),
        format!("routes: [{}]", "{match: {headers: {a: b}}},".repeat(5_000)),
        format!(
            "routes: [{{to: a, match: {{method: [{}]}}}}]",
            (0..20_000).map(|i| format!("M{i},")).collect::<String>()
        ),
        format!("upstreams: {{a: {{retry: {{on: [{}]}}}}}}", "400-599,".repeat(20_000)),
        format!("upstreams: {{a: {{health: {{http: /, status: [{}]}}}}}}", "200-299,".repeat(20_000)),
        format!(
            "upstreams: {{a: {{discover: {{dns: a, port: 1, servers: [{}]}}}}}}",
            "10.0.0.1,".repeat(20_000)
        ),
        format!("access_log: {{to: stdout, format: '{}'}}", "{client}".repeat(50_000)),
    ] {
        check(&text);
    }
    // Quadratic work on these inputs would take minutes.
    let took = processor_time() - started;
    assert!(took.as_secs() < 60, "{took:?}");
}
