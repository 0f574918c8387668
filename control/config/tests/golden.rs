//! Compares the results of good and bad configuration files with golden files. `BLESS=1 cargo test -p
//! tollgate-config --test golden` rewrites the golden files; read the difference before committing it.

use std::fmt::{Debug, Write as _};
use std::path::{Path, PathBuf};

use regex::Regex;
use tollgate_config::{Config, Loaded, load_with};

/// The environment that the files see.
fn variables(name: &str) -> Option<String> {
    match name {
        "BACKEND" => Some("10.9.9.9".to_owned()),
        "PORT" => Some("8081".to_owned()),
        "ONE_WORD" => Some("hunter2".to_owned()),
        "EMPTY" => Some(String::new()),
        "SECRET" => Some("hunter2 hunter2\n: [hunter2](".to_owned()),
        "TOKEN" => Some("to:ken: {x: y}".to_owned()),
        _ => None,
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(Path::new("tests").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "yaml" || kind == "json"))
        .collect();
    files.sort();
    assert!(files.len() > 5);
    files
}

fn compare(path: &Path, expected: &Path, got: &str) -> Result<(), String> {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(expected, got).unwrap();
        return Ok(());
    }
    let want = std::fs::read_to_string(expected).unwrap_or_default();
    if want == got {
        return Ok(());
    }
    Err(format!("{}: expected\n{want}\ngot\n{got}\n", path.display()))
}

#[test]
fn good_files() {
    tollgate_policy::register();
    let mut failures = String::new();
    for path in files("good") {
        let Loaded { config, problems, .. } = load_with(&path, &variables);
        let Some(config) = config else {
            let _ = writeln!(failures, "{}: refused\n{}", path.display(), problems.render(false));
            continue;
        };
        let got = summary(&config) + &problems.render(false);
        if let Err(failure) = compare(&path, &path.with_extension("summary"), &got) {
            failures += &failure;
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn bad_files() {
    tollgate_policy::register();
    let mut failures = String::new();
    for path in files("bad") {
        let Loaded { config, problems, .. } = load_with(&path, &variables);
        let got = problems.render(false);
        if config.is_some() {
            let _ = writeln!(failures, "{}: accepted\n{got}", path.display());
        }
        assert!(!got.contains("hunter2"), "{}: a secret was printed\n{got}", path.display());
        if let Err(failure) = compare(&path, &path.with_extension("stderr"), &got) {
            failures += &failure;
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn colour_is_only_added_when_asked_for() {
    tollgate_policy::register();
    let problems = load_with(Path::new("tests/bad/five.yaml"), &variables).problems;
    let escape = Regex::new("\x1b\\[[0-9;]*m").unwrap();
    let coloured = problems.render(true);
    assert!(escape.is_match(&coloured));
    assert_eq!(escape.replace_all(&coloured, ""), problems.render(false));
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem() {
    tollgate_policy::register();
    let folder = std::env::temp_dir().join(format!("tollgate-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bytes = folder.join("bytes.yaml");
    std::fs::write(&bytes, b"listen: :80\nx-y: \xff\n").unwrap();
    let message = |path: &Path| {
        let loaded = tollgate_config::load(path);
        assert!(loaded.config.is_none());
        loaded.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(message(&bytes), ["cannot read the file: line 2 is not UTF-8"]);
    assert_eq!(message(&folder.join("none.yaml")), ["cannot read the file: there is no such file"]);
    assert_eq!(message(&folder), ["cannot read the file: it is a directory"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Summarizes the settings that differ from the defaults, without source positions.
fn summary(config: &Config) -> String {
    let mut out = String::new();
    let default = Config::default();
    let places = Regex::new(r"(, )?\bat: At \{[^}]*\}").unwrap();
    let spanned = Regex::new(r"Spanned \{ value: (.*?) \}").unwrap();
    let text = |value: &dyn Debug| {
        let text = format!("{value:?}");
        let text = places.replace_all(&text, "").replace("{ , ", "{ ");
        spanned.replace_all(&text, "$1").into_owned()
    };
    let mut line = |name: &str, value: &dyn Debug, default: &dyn Debug| {
        let (value, default) = (text(value), text(default));
        if value != default {
            let _ = writeln!(out, "{name}: {value}");
        }
    };
    for listener in &config.listen {
        line("listen", &listener.bind, &());
        line("  name", &listener.name, &None::<()>);
        line("  protocol", &listener.protocol, &tollgate_config::ListenerProtocol::Http);
        line("  to", &listener.to.as_ref().map(|own| &own.to), &None::<()>);
        line("  tls", &listener.tls, &None::<()>);
        line("  http2", &listener.http2, &tollgate_config::Http2::On);
        line("  proxy_protocol", &listener.proxy_protocol, &Vec::<tollgate_config::Cidr>::new());
        line("  redirect_to_https", &listener.redirect_to_https, &None::<()>);
    }
    line("workers", &config.workers, &default.workers);
    line("admin", &config.admin, &default.admin);
    line("document_files", &config.document_files, &default.document_files);
    line("access_log", &config.access_log, &default.access_log);
    line("log", &config.log, &default.log);
    line("request_id", &config.request_id, &default.request_id);
    line("metrics", &config.metrics, &default.metrics);
    line("forwarded", &config.forwarded, &default.forwarded);
    line("limits", &config.limits, &default.limits);
    line("timeouts", &config.timeouts, &default.timeouts);
    line("paths", &config.paths, &default.paths);
    line("errors", &config.errors, &default.errors);
    line("zone", &config.zone, &default.zone);
    line("watch", &config.watch, &default.watch);
    line("overload", &config.overload, &default.overload);
    line("consumers", &config.consumers, &default.consumers);
    line("certificates", &config.certificates, &default.certificates);
    line("policy_sets", &config.policy_sets, &default.policy_sets);
    line("use", &config.policies.sets, &default.policies.sets);
    for upstream in &config.upstreams {
        line("upstream", &upstream.name.value, &());
        line("  endpoints", &upstream.endpoints, &());
        line("  discover", &upstream.discover, &None::<()>);
        line("  timeouts", &upstream.timeouts, &tollgate_config::RouteTimeouts::default());
        line("  tls", &upstream.tls, &None::<()>);
        line("  pool", &upstream.pool, &tollgate_config::Pool::default());
        line("  proxy_protocol", &upstream.proxy_protocol, &None::<()>);
        let (rules, usual) = (&upstream.rules, tollgate_config::Rules::default());
        line("  balance", &rules.balance, &usual.balance);
        line("  caps", &rules.caps, &usual.caps);
        line("  queue", &rules.queue, &usual.queue);
        line("  breaker", &rules.breaker, &usual.breaker);
        line("  retry", &rules.retry, &usual.retry);
        line("  hedge", &rules.hedge, &usual.hedge);
        line("  health", &rules.health, &usual.health);
        line("  outlier", &rules.outlier, &usual.outlier);
        line("  adaptive", &rules.adaptive, &usual.adaptive);
    }
    for route in &config.routes {
        line("route", &route.name, &None::<()>);
        line("  match", &route.matches, &());
        line("  listeners", &route.listeners, &Vec::<()>::new());
        line("  enabled", &route.enabled, &true);
        line("  action", &route.action, &());
        line("  rewrite", &route.rewrite, &tollgate_config::Rewrite::default());
        line("  timeouts", &route.timeouts, &tollgate_config::RouteTimeouts::default());
        line("  body_limit", &route.body_limit, &None::<u64>);
        line("  buffer", &route.buffer, &tollgate_config::RouteBuffer::default());
        line("  upgrade", &route.upgrade, &["websocket"]);
        line("  retry", &route.retry, &None::<()>);
        line("  fallback", &route.fallback, &Vec::<tollgate_config::Fallback>::new());
        line("  stay", &route.stay, &tollgate_config::RouteStay::default());
        line("  priority", &route.priority, &tollgate_config::Priority::Normal);
        line("  use", &route.policies.sets, &Vec::<tollgate_config::UsedSet>::new());
        line("  grpc_web", &route.grpc_web, &false);
    }
    for stream in &config.streams {
        line("stream", &stream.display_name(), &());
        line("  listeners", &stream.listeners, &Vec::<()>::new());
        line("  server_names", &stream.server_names, &Vec::<()>::new());
        line("  to", &stream.to, &());
        line("  respond", &stream.respond, &None::<()>);
        line("  timeouts", &stream.timeouts, &tollgate_config::StreamTimeouts::default());
        line("  limits", &stream.limits, &tollgate_config::StreamLimits::default());
    }
    let _ = writeln!(
        out,
        "files: {}",
        config.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(" ")
    );
    out
}
