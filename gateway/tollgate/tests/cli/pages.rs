//! Commands that print what is built into the binary, and `check`.

use std::fs;

use serde_json::{Value, json};

use super::{arg, file, run, run_with_input};

const GOOD: &str = "listen: 127.0.0.1:8080\nroutes: [{match: /x, respond: 204}]\n";

#[test]
fn the_schema_is_one() {
    let ran = run(&["schema"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let schema: Value = serde_json::from_str(&ran.out).expect("JSON");
    let problems = jsonschema::meta::validate(&schema).map_err(|error| error.to_string());
    assert_eq!(problems, Ok(()));
    let validator = jsonschema::validator_for(&schema).expect("it compiles");
    assert!(validator.is_valid(&json!({ "listen": ":8080", "routes": [{ "match": "/x", "respond": 204 }] })));
    assert!(!validator.is_valid(&json!({ "listn": ":8080" })));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert!(ran.code == Some(0) && ran.out.contains("explain"), "{shell}: {ran:?}");
    }
    assert_eq!(run(&["completions", "abacus"]).code, Some(2));
}

#[test]
fn manual_pages() {
    let whole = run(&["man"]);
    assert!(whole.code == Some(0) && whole.out.contains(".TH tollgate 1"), "{whole:?}");
    let explain = run(&["man", "explain"]);
    assert!(
        explain.out.contains(".TH tollgate-explain 1") && explain.out.contains("tollgate explain"),
        "{explain:?}"
    );
    assert_eq!(run(&["man", "bake"]).code, Some(2));

    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let all = run(&["man", "--all", &path("")]);
    assert!(all.code == Some(0) && all.out.is_empty() && all.err.is_empty(), "{all:?}");
    assert_eq!(fs::read_to_string(path("tollgate.1")).expect("a page"), whole.out);
    assert_eq!(fs::read_to_string(path("tollgate-explain.1")).expect("a page"), explain.out);
    assert_eq!(run(&["man", "--all", &path("missing")]).code, Some(1));
}

#[test]
fn help_is_what_no_command_gets() {
    let ran = run(&[]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("Usage: tollgate <COMMAND>") && ran.err.contains("explain"), "{ran:?}");
    for command in ["run", "check", "explain", "demo", "schema", "completions", "man"] {
        let ran = run(&["help", command]);
        assert!(ran.code == Some(0) && ran.out.contains(&format!("tollgate {command} ")), "{ran:?}");
    }
}

#[test]
fn check_takes_many_files_and_standard_input() {
    let (one, two, bad) =
        (file(GOOD), file(GOOD), file("listen: 127.0.0.1:8080\nroutes: [{match: /x, two: y}]"));
    let ran = run_with_input(&["check", arg(&one), "-", arg(&two)], GOOD);
    assert_eq!(
        (ran.code, ran.out.matches("is good: 1 route, 0 upstreams\n").count()),
        (Some(0), 3),
        "{ran:?}"
    );
    let ran = run(&["check", arg(&one), arg(&bad), arg(&two)]);
    assert_eq!((ran.code, ran.out.matches("is good").count()), (Some(1), 2), "{ran:?}");
    assert!(ran.err.contains(&format!("{}:2:", arg(&bad))), "{ran:?}");
    let ran = run_with_input(&["check", "-"], "listen: [");
    assert!(ran.code == Some(1) && ran.err.contains("standard input:1"), "{ran:?}");
}
