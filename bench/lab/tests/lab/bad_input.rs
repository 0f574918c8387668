//! Tests that wrong input is refused at once, on standard error, with what was expected.

use crate::bench::Bench;
use std::fs;

const STUDY: &str = "title: Small
about: Any.
settings: {origin: builtin}
sections:
  - title: One
    systems: [direct, wire]
    settings:
      tool: wrk
      connections: 4
    points: [{}]
";

/// Returns a bench with the study `small`, in which one text is replaced by another.
fn with(wrong: (&str, &str)) -> Bench {
    let bench = Bench::new();
    assert!(STUDY.contains(wrong.0));
    bench.study("small", &STUDY.replace(wrong.0, wrong.1));
    bench
}

#[test]
fn an_unknown_study_is_refused_with_the_nearest_name_and_all_of_them() {
    let bench = with(("Small", "Small"));
    bench.study("large", STUDY);
    bench
        .run(&["run", "smal"])
        .refused(1, &["smal.yaml", "did you mean `small`?", "the studies are large, small"]);
    bench.run(&["run", "own/smal.yaml"]).refused(1, &["own/smal.yaml: No such file"]);
}

#[test]
fn unknown_names_in_a_study_are_refused_with_file_line_and_the_nearest() {
    for (wrong, words) in [
        (("wire]", "wrie]"), ":6:23: section \"One\": no system is called `wrie`, did you mean `wire`?"),
        (("wrk", "wkr"), ":8:13: section \"One\": no load tool is called `wkr`, did you mean `wrk`?"),
        (("connections", "conections"), ":9:7: unknown key `conections`, did you mean `connections`?"),
        (("about", "abuot"), ":2:1: unknown key `abuot`, did you mean `about`?"),
        (("builtin", "bultin"), ":3:20: unknown value `bultin`, did you mean `builtin`?"),
        (("connections: 4", "connections: many"), ":9:20: "),
        (("connections: 4", "connections: 0"), ": section \"One\": `connections` is 0: expected at least 1"),
    ] {
        with(wrong).run(&["run", "small"]).refused(1, &[&format!("small.yaml{words}")]);
    }
}

#[test]
fn choices_that_fit_nothing_are_refused_with_what_there_is() {
    let bench = with(("Small", "Small"));
    bench.run(&["run", "small", "--systems", "wier"]).refused(1, &["wier", "did you mean `wire`?"]);
    bench
        .run(&["run", "small", "--sections", "two"])
        .refused(1, &["nothing would be measured; the sections of small are: One"]);
    assert!(!bench.path("tollgate-bench").exists(), "nothing was begun");
    let nowhere = bench.path("nowhere");
    bench
        .run(&["run", "small", "--data", nowhere.to_str().unwrap()])
        .refused(1, &["nowhere: expected a folder with `systems` and `studies`"]);
}

#[test]
fn a_wrong_description_of_a_system_is_refused_with_file_line_and_the_nearest_key() {
    let bench = with(("Small", "Small"));
    bench.write(
        "data/systems/bent/system.yaml",
        "title: Bent\nabout: Wrong.\nhompage: https://www.rfc-editor.org/\n",
    );
    for arguments in [&["run", "small"][..], &["systems"]] {
        bench
            .run(arguments)
            .refused(1, &["bent/system.yaml:3:1: unknown key `hompage`: did you mean `homepage`?"]);
    }
}

#[test]
fn numbers_that_are_none_are_a_misuse_of_the_command_line() {
    let bench = Bench::new();
    let rates = ["expected requests a second, such as 3M, 250k or 12000"];
    for rps in ["many", "3G", "0", "-5", "NaN", "1e400", ""] {
        bench.run(&["capacity", "--from", "r.jsonl", &format!("--rps={rps}")]).refused(2, &rates);
    }
    let shares = ["expected a share, such as 60% or 0.6"];
    for share in ["all", "-3%", "NaN%", "1e9"] {
        let allow = format!("--allow={share}");
        bench.run(&["gate", "r.jsonl", "--baseline", "r.jsonl", &allow]).refused(2, &shares);
    }
    for option in ["--seconds=0", "--seconds=-1", "--seconds=NaN", "--rounds=0"] {
        bench.run(&["run", "small", option]).refused(2, &[option.split_once('=').unwrap().0, "expected"]);
    }
    bench.run(&["rum"]).refused(2, &["rum", "run"]);
}

/// The first line of a complete file.
const HEADER: &str = r#"{"line":"header","format":2,"study":"other","title":"T","about":"","seed":1,"command":"","started":"","version":"","host":{"cpu":"","cores":2.0,"memory_kib":1,"kernel":"","open_files":1,"own_quota":null,"placement":""},"scaled":[],"baseline":null,"planned_seconds":1.0}"#;

#[test]
fn result_files_that_are_none_are_refused_by_name_and_line() {
    let bench = with(("Small", "Small"));
    for (text, words) in [
        ("", "line 1: expected the header of a result file"),
        ("hello\n", "line 1: not a line of a result file"),
        (
            "{\"line\":\"note\",\"section\":\"\",\"text\":\"\"}\n",
            "line 1: expected the header of a result file",
        ),
        ("\u{0}\u{1}\u{2}", "line 1: not a line of a result file"),
        (
            &HEADER.replace("\"format\":2", "\"format\":999"),
            "written in format 999; this version reads format 2 alone",
        ),
        (&format!("{HEADER}\n{{\"line\":\"weather\"}}\n{HEADER}\n"), "line 2: not a line of a result file"),
    ] {
        bench.write("r.jsonl", text);
        let words = ["r.jsonl: ", words];
        bench.run(&["report", "r.jsonl"]).refused(1, &words);
        bench.run(&["compare", "r.jsonl", "r.jsonl"]).refused(1, &words);
        // 1 would mean that a cost has grown.
        bench.run(&["gate", "r.jsonl", "--baseline", "r.jsonl"]).refused(2, &words);
        bench.run(&["capacity", "--from", "r.jsonl", "--rps", "3M"]).refused(1, &words);
        if !text.is_empty() {
            bench.run(&["run", "small", "--out", "r.jsonl"]).refused(1, &words);
            assert_eq!(fs::read_to_string(bench.path("r.jsonl")).unwrap(), text, "it is left as it was");
        }
    }
    bench.run(&["report", "nowhere.jsonl"]).refused(1, &["nowhere.jsonl: No such file"]);
}

#[test]
fn a_result_file_of_another_study_is_not_written_to() {
    let bench = with(("Small", "Small"));
    bench.write("r.jsonl", &format!("{HEADER}\n"));
    let words = ["r.jsonl holds the study other", "--out", "--fresh"];
    bench.run(&["run", "small", "--out", "r.jsonl"]).refused(1, &words);
    assert_eq!(fs::read_to_string(bench.path("r.jsonl")).unwrap(), format!("{HEADER}\n"));
}
