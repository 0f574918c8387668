//! Tests the lists of systems and tools, and their installation.

use crate::bench::{Answer, Bench};
use std::fs;

const MADE: &str = r#"title: Made
about: Its script makes it.
homepage: https://www.rfc-editor.org/
programs:
  made: {paths: ["{{ home }}/made/made"]}
version: {command: ["{{ programs.made }}"], pattern: 'made ([0-9.]+)'}
start: {command: ["{{ programs.made }}"]}
install: {with: pip, script: install.sh, takes: 1 s, needs: [sh]}
"#;

const INSTALL: &str = "set -e\necho making it\nmkdir -p \"$TOLLGATE_LAB_HOME/made\"\ncd \"$TOLLGATE_LAB_HOME/made\"\n\
                       printf '#!/bin/sh\\necho made 4.2\\n' > made\nchmod +x made\n";

/// Returns the words of a system's line.
#[track_caller]
fn line<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .into_iter()
        .find(|words| words.first() == Some(&name))
        .unwrap_or_else(|| panic!("no {name} in {table}"))
}

#[test]
fn each_system_is_ready_installable_missing_or_broken_with_the_reason() {
    let bench = Bench::new();
    bench.write("data/systems/made/system.yaml", MADE);
    bench.write("data/systems/made/install.sh", INSTALL);
    let away = MADE.replace("install: {with: pip, script: install.sh, takes: 1 s, needs: [sh]}", "");
    bench.write(
        "data/systems/away/system.yaml",
        &format!("{away}missing: {{reason: In no registry., get: ask around}}\n"),
    );
    bench.write(
        "data/systems/mute/system.yaml",
        &format!("{away}missing: {{reason: No., get: No.}}\n").replace("{{ home }}/made/made", "/bin/true"),
    );

    let table = bench.run(&["systems"]).well().stdout;
    assert_eq!(line(&table, "wire"), ["wire", "ready", env!("CARGO_PKG_VERSION")]);
    assert_eq!(line(&table, "direct"), ["direct", "ready"]);
    assert_eq!(line(&table, "made")[..4], ["made", "installable", "from", "pip,"]);
    assert!(table.contains("tollgate bench install made"), "{table}");
    assert_eq!(line(&table, "away")[..2], ["away", "missing"]);
    assert!(table.contains("In no registry. Get it: ask around"), "{table}");
    assert_eq!(line(&table, "mute")[..2], ["mute", "broken"]);
    assert!(table.contains("no version in what `/bin/true` prints"), "{table}");

    bench.run(&["install", "away"]).refused(1, &["away: In no registry. To get it: ask around"]);
    bench.run(&["install", "mute"]).refused(1, &["mute is installed and does not work: no version"]);
    bench.run(&["install", "maed"]).refused(1, &["maed", "did you mean `made`?"]);
}

#[test]
fn installing_makes_a_system_ready() {
    let bench = Bench::new();
    bench.write("data/systems/made/system.yaml", MADE);
    bench.write("data/systems/made/install.sh", INSTALL);
    let answer = bench.run(&["install", "made"]).well();
    assert!(answer.stdout.starts_with("made: installing, about 1 s\n"), "{answer:?}");
    assert!(answer.stderr.contains("making it"), "{answer:?}");
    assert_eq!(line(&bench.run(&["systems"]).well().stdout, "made"), ["made", "ready", "4.2"]);
    assert_eq!(bench.run(&["install", "made"]).well().stdout, "made is ready: 4.2\n");
}

#[test]
fn an_installation_that_fails_says_why_and_the_system_stays_installable() {
    let bench = Bench::new();
    bench.write("data/systems/made/system.yaml", MADE);
    for (script, words) in [
        (
            "echo no route to the registry; exit 3\n",
            ["install.sh failed (exit status: 3)", "no route to the registry"],
        ),
        ("echo done\n", ["ended well, but made cannot be found", "`programs`"]),
    ] {
        bench.write("data/systems/made/install.sh", script);
        let answer = bench.run(&["install", "made"]);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert!(words.iter().all(|word| answer.stderr.contains(word)), "{answer:?}");
        assert_eq!(line(&bench.run(&["systems"]).well().stdout, "made")[1], "installable");
    }
}

#[test]
fn tools_are_listed_as_ready_or_with_the_way_to_get_them() {
    let bench = Bench::new();
    bench.program("wrk", "#!/bin/sh\necho 'wrk 9.9 [epoll]'\n");
    let mut command = bench.command(&["tools"]);
    let table = Answer::from(command.env("PATH", bench.path("bin")).output().unwrap()).well().stdout;
    assert_eq!(line(&table, "builtin")[..2], ["builtin", "ready"]);
    assert_eq!(line(&table, "wrk"), ["wrk", "ready", "9.9"]);
    assert_eq!(line(&table, "siege")[..2], ["siege", "missing"]);
    assert!(table.contains("bench/tools/install/siege.sh"), "{table}");
}

#[test]
fn a_tool_is_installed_by_the_script_beside_the_data() {
    let bench = Bench::new();
    // The data folder is the project's `bench`; paths of scripts are relative to the project's root.
    let script = "bench/tools/install/siege.sh";
    bench.write(script, "echo siege > \"$TOLLGATE_LAB_HOME/siege-was-here\"\n");
    bench.run(&["install", "siege"]).well();
    assert_eq!(fs::read_to_string(bench.path("home/siege-was-here")).unwrap(), "siege\n");
    bench.write(script, "exit 4\n");
    bench.run(&["install", "siege"]).refused(1, &[script, "exit status: 4"]);
    bench.run(&["install", "wrk2"]).refused(1, &["wrk2 is in no package registry"]);
}
