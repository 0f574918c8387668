//! `--help` and wrong commands: every way out of a dead end is named.

use std::fs;
use std::process::Command;

use super::{Ran, arg, file, run};

#[test]
fn commands_are_in_groups() {
    for args in [&["--help"][..], &["help"]] {
        let ran = run(args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let place = |text: &str| ran.out.find(text).unwrap_or_else(|| panic!("{text} in {}", ran.out));
        let order =
            ["\nServer:\n", "\nA running gateway:\n", "\nLaboratory:\n", "\nOther:\n", "\nOptions:\n"];
        assert!(order.map(place).is_sorted(), "{}", ran.out);
        assert!(place("  run  ") < place("\nA running gateway:"), "{}", ran.out);
        assert!(place("  reload  ") > place("\nA running gateway:"), "{}", ran.out);
        assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
        assert!(!ran.out.contains('\u{1b}'), "no colours outside of a terminal");
    }
}

#[test]
fn signals_are_not_broken_in_the_middle_of_a_line() {
    let ran = run(&["run", "--help"]);
    let signals: Vec<&str> = ran.out.lines().skip_while(|line| *line != "Signals:").skip(1).collect();
    for line in signals.iter().take_while(|line| !line.is_empty()) {
        assert!(line.starts_with("  SIG") || line.starts_with(&" ".repeat(19)), "{line:?} in {}", ran.out);
    }
}

#[test]
fn explain_shows_its_file_as_optional() {
    for flag in ["-h", "--help"] {
        let ran = run(&["explain", flag]);
        assert!(ran.out.contains("Usage: tollgate explain [OPTIONS] [FILE] <METHOD> <URL>\n"), "{}", ran.out);
        assert!(ran.out.contains("`[FILE] METHOD URL`") && !ran.out.contains("<FILE>"), "{}", ran.out);
    }
}

#[test]
fn an_unknown_command_gets_a_sensible_suggestion() {
    for (word, suggestion) in [
        ("chekc", "did you mean `tollgate check`?"),
        ("validate", "did you mean `tollgate check`?"),
        ("start", "did you mean `tollgate run`?"),
    ] {
        let ran = run(&[word]);
        assert!(ran.code == Some(2) && ran.err.contains(suggestion), "{ran:?}");
    }
    let ran = run(&["nosuch"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(2), "error: there is no command `nosuch`\n\n`tollgate --help` lists the commands.\n")
    );
}

/// Runs a copy of the program that finds no laboratory.
fn without_laboratory(args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("tollgate");
    if fs::hard_link(env!("CARGO_BIN_EXE_tollgate"), &program).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_tollgate"), &program).expect("copied");
    }
    Ran::from(Command::new(program).args(args).env("PATH", folder.path()).output().expect("it starts"))
}

#[test]
fn bench_helps_without_the_laboratory() {
    for args in [&["bench", "--help"][..], &["bench", "-h"], &["bench", "help"]] {
        let ran = without_laboratory(args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
        for text in ["run  ", "systems", "compare", "cargo build --release -p tollgate-lab"] {
            assert!(ran.out.contains(text), "{text} in {ran:?}");
        }
    }
    let ran = without_laboratory(&["bench", "run", "quick"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.starts_with("error: the laboratory `tollgate-lab` was found neither"), "{ran:?}");
}

#[test]
fn check_gives_a_hint_about_a_port_alone() {
    let config = |listen: &str| file(&format!("listen: {listen}\nroutes: [{{match: /x, respond: 204}}]\n"));
    for listen in ["8080", "\":8080\"", "[127.0.0.1:8081, {bind: 8080}]"] {
        let config = config(listen);
        let ran = run(&["check", arg(&config)]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.err.contains("hint: ") && ran.err.contains("`127.0.0.1:8080`"), "{listen}: {ran:?}");
        assert!(ran.err.contains(&format!("{}:1:", arg(&config))), "{listen}: {ran:?}");
    }
    for listen in ["127.0.0.1:8080", "\"[::]:8080\"", "\"0.0.0.0:8080\""] {
        let ran = run(&["check", arg(&config(listen))]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{listen}: {ran:?}");
    }
}

#[test]
fn routes_may_be_left_out_with_a_source_that_may_have_some() {
    let check = |text: &str| run(&["check", arg(&file(&format!("listen: 127.0.0.1:8080\n{text}")))]);
    for source in
        ["store: store\n", "etcd: {endpoints: [\"http://127.0.0.1:1\"]}\n", "store: store\nroutes: []\n"]
    {
        let ran = check(source);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{source}: {ran:?}");
    }
    let ran = check("include: no-such-folder/*.yaml\n");
    assert!(ran.code == Some(0) && ran.err.contains("no routes"), "{ran:?}");
    let ran = check("");
    assert!(ran.code == Some(1) && ran.err.contains("no routes"), "{ran:?}");
}
