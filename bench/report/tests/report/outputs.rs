use crate::canned;
use std::path::{Path, PathBuf};
use tollgate_lab_record::{Metric, Status, Summary, Trial, Verdict, VerdictKind};
use tollgate_lab_report::{Report, comment, html, markdown, svg, terminal};

/// Returns the path at which an output is kept for people to look at.
fn left(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The canned file is kept next to the tests for people to look at; it must equal the generator's output. The
/// test compares reports, not bytes, because the last digit of an exponential depends on the C library.
#[test]
fn the_kept_file_is_what_its_seed_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/canned.jsonl");
    if std::env::var_os("REWRITE_CANNED").is_some() {
        std::fs::write(&path, canned::bytes()).unwrap();
    }
    let kept = tollgate_lab_record::read(&std::fs::read(&path).unwrap()[..]).unwrap();
    let made = canned::results();
    assert_eq!(
        markdown(&kept),
        markdown(&made),
        "{path:?} is old: run this test again with REWRITE_CANNED=1"
    );
    assert_eq!(kept.trials.len(), made.trials.len());
    std::fs::write(left("canned.md"), markdown(&kept)).unwrap();
    std::fs::write(left("canned.txt"), terminal(&kept, 120, false)).unwrap();
    std::fs::write(left("canned.html"), html(&kept)).unwrap();
}

#[test]
fn no_line_of_the_terminal_is_wider_than_it() {
    let results = canned::results();
    for width in [60, 80, 100, 120, 200] {
        let text = terminal(&results, width, false);
        for line in text.lines() {
            let columns = unicode_width::UnicodeWidthStr::width(line);
            assert!(columns <= width, "{columns} columns at {width}: {line}");
        }
        for must in
            ["µs/req", "Limited by", "0.7", "invalid: it kept 81 %", "missing: no package", "tie", "Kong"]
        {
            assert!(text.contains(must), "at {width}: {must} is lacking");
        }
    }
    assert!(!terminal(&results, 100, false).contains('\u{1b}'));
    assert!(terminal(&results, 100, true).contains('\u{1b}'));
}

#[test]
fn what_is_invalid_has_no_number_anywhere() {
    let results = canned::results();
    // Pingora in the 64 KiB cell and Envoy at 6,400 connections.
    let text = terminal(&results, 200, false);
    let line = text.lines().find(|line| line.contains("invalid:")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let why = "Pingora invalid: it kept 81 % of the rate while no core, thread or quota was at a limit";
    assert_eq!(words.join(" "), why);
    let page = html(&results);
    for (cell, system) in [("toll-64k", "pingora"), ("connections-6400", "envoy")] {
        assert_eq!(canned::embedded(&page, cell, system, "rps"), None, "{system} has figures in {cell}");
    }
    assert!(canned::embedded(&page, "toll-64k", "nginx", "rps").is_some());
}

fn row(results: &tollgate_lab_record::Results, system: &str) -> tollgate_lab_report::figures::Row {
    let report = Report::new(results);
    let found = report.rows().find(|(cell, row)| cell.id == "toll-64" && row.system == system);
    found.unwrap().1.clone()
}

#[test]
fn one_bad_round_is_a_wide_interval_and_not_the_p99() {
    let mut results = canned::results();
    let place =
        |trial: &&mut Trial| trial.cell == "toll-64" && trial.system == "tollgate" && trial.round == 3;
    let usual = row(&results, "tollgate").figures().unwrap().p99_rounds_us.unwrap().estimate;
    let bad = results.trials.iter_mut().find(place).unwrap();
    for (_, us) in &mut bad.load.as_mut().unwrap().response_time.as_mut().unwrap().percentiles {
        *us *= 40.0;
    }
    let figures = row(&results, "tollgate").figures().unwrap().clone();
    let shown = figures.p99_rounds_us.unwrap();
    assert!(shown.estimate < 2.0 * usual && shown.high > shown.estimate, "{shown:?} beside {usual}");
    assert_eq!(figures.of(Metric::P99), Some(shown.estimate), "the head table sorts by what it shows");
    let head = Report::new(&results).decision.unwrap();
    let table = tollgate_lab_report::table::of_decision(&Report::new(&results), &head);
    let at = table.columns.iter().position(|column| column.head == "p99").unwrap();
    let text = &table.groups[0].rows.iter().find(|row| row[0].text == "Tollgate").unwrap()[at];
    assert!(text.beside.as_ref().is_some_and(|range| range.contains('–')), "{text:?}");
}

#[test]
fn a_round_is_dropped_for_all_systems_and_the_rows_count_it() {
    let mut results = canned::results();
    let place = |trial: &&mut Trial| trial.cell == "toll-64" && trial.system == "nginx" && trial.round == 2;
    results.trials.iter_mut().find(place).unwrap().status = Status::Bad { reason: "it stalled".into() };
    for system in ["nginx", "tollgate", "haproxy"] {
        let figures = row(&results, system).figures().unwrap().clone();
        assert_eq!((figures.rounds, figures.dropped), (5, 1), "{system}");
    }
    let text = terminal(&results, 200, false);
    assert!(text.contains("nothing (5 of 6 rounds)"), "{text}");
    assert!(markdown(&results).contains("dropped for all of its cell"));
}

#[test]
fn latency_stands_nowhere_if_the_generator_side_was_full() {
    let mut results = canned::results();
    let place = |one: &&mut Verdict| one.cell == "toll-64" && one.system == "tollgate";
    results.verdicts.iter_mut().find(place).unwrap().kind = VerdictKind::LoadSide;
    let row = row(&results, "tollgate");
    let figures = row.figures().unwrap();
    assert!(figures.cpu_us.is_some() && figures.p50_us.is_none() && figures.max_us.is_none());
    assert!(figures.p99_us.is_none() && figures.p99_rounds_us.is_none());
    assert!(row.ratio(Metric::Cpu).is_some_and(|ratio| ratio.ours.is_some()));
    assert!(row.ratio(Metric::P99).is_none());
    let page = html(&results);
    for figure in ["p50_us", "p99_us", "max_us"] {
        assert_eq!(canned::embedded(&page, "toll-64", "tollgate", figure), None, "{figure}");
        assert!(canned::embedded(&page, "toll-64", "nginx", figure).is_some(), "{figure}");
    }
    assert!(page.contains("generator side full") && page.contains("that latency is not the system's"));
}

#[test]
fn published_figures_stand_beside_ours_as_ratios() {
    let results = canned::results();
    let report = tollgate_lab_report::Report::new(&results);
    let (_, row) =
        report.rows().find(|(cell, row)| cell.id == "connections-640" && row.system == "envoy").unwrap();
    let ratio = row.ratio(tollgate_lab_report::figures::Metric::Rps).unwrap();
    assert!(
        (ratio.published.unwrap() - 84_067.0 / 95_653.0).abs() < 1e-9,
        "the median of three runs is the baseline"
    );
    assert!(ratio.ours.unwrap().estimate < 0.35);
    let text = markdown(&results);
    // Here, published, and both as ratios to nginx.
    assert!(text.contains("| System | Here | Published | Ratio to the 1, here | Published |"), "{text}");
    assert!(text.lines().any(|line| line.contains("| Envoy |") && line.ends_with("| 0.88 |")), "{text}");
}

#[test]
fn what_the_original_printed_stands_there_for_systems_that_are_missing_too() {
    let text = markdown(&canned::results());
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| *line == "Beside the original, req/s:");
    let at = at.expect("a table");
    let row = lines[at..].iter().find(|line| line.contains("| Kong |")).expect("a row");
    // Measured, published, and both as ratios to nginx, the baseline: 42,242, the median of three runs.
    assert!(row.ends_with("| Kong | – | 32,576 | – | 0.77 |"), "{row}");
}

#[test]
fn markdown_tables_have_equal_rows_and_nothing_is_lost() {
    let text = markdown(&canned::results());
    assert!(text.len() < 60_000, "{} bytes are not small", text.len());
    let mut columns = 0;
    for line in text.lines() {
        if line.starts_with('|') {
            let here = line.replace("\\|", "").matches('|').count();
            assert!(columns == 0 || columns == here, "{line}");
            columns = here;
        } else {
            columns = 0;
        }
    }
    for must in [
        "made-up figures",
        "Missing rows",
        "Kong",
        "Equal terms",
        "x-request-id",
        "Scaled:",
        "--seed 7",
        "338.8",
    ] {
        assert!(text.contains(must), "{must} is lacking");
    }
}

#[test]
fn prices_stand_in_every_report_with_the_reason_where_there_is_none() {
    let results = canned::results();
    let page = html(&results);
    for text in [&terminal(&results, 200, false), &markdown(&results), &page] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for must in [
            "Instructions/req added",
            "plain: the whole",
            // 2.9 µs in user mode, 4,000 instructions each: the whole, and 6 % of it for the log.
            "11,600",
            "+696",
            "cannot; instructions: valgrind is not installed",
        ] {
            assert!(text.contains(must), "{must} is lacking in {text}");
        }
    }
    for chart in ["price-cpu", "price-p99", "price-instructions"] {
        assert!(page.contains(chart), "{chart}");
    }
}

#[test]
fn a_run_that_has_just_begun_can_be_printed() {
    let mut results = canned::results();
    results.trials.clear();
    results.verdicts.clear();
    results.end = None;
    for text in [terminal(&results, 80, false), markdown(&results), html(&results)] {
        assert!(text.contains("The run has not come to its end; it can be continued."), "{text}");
        assert!(text.contains("the run ended before its turn"));
    }
    results.cells.clear();
    results.systems.clear();
    assert!(html(&results).contains("Nothing was measured yet."));
}

#[test]
fn a_machine_that_was_busy_at_the_start_is_said_at_the_head() {
    let mut results = canned::results();
    let words = "A busy machine: other programs used 0.60 cores, load average 1.50.";
    results.header.host.load_at_start = 1.5;
    for (cores, said) in [(None, false), (Some(0.1), false), (Some(0.6), true)] {
        results.header.host.busy_at_start = cores;
        for out in [terminal(&results, 200, false), markdown(&results), html(&results)] {
            assert_eq!(out.contains(words), said, "{cores:?}: {:.900}", out);
        }
    }
}

#[test]
fn the_picture_has_a_bar_for_each_cost_and_the_ratio_to_the_better_peer() {
    let mut results = canned::results();
    let place =
        |verdict: &tollgate_lab_record::Verdict| verdict.cell == "toll-64" && verdict.system == "tollgate";
    let verdict = results.verdicts.iter_mut().find(|verdict| place(verdict)).unwrap();
    for (peer, estimate) in [("nginx", 0.61), ("haproxy", 0.52)] {
        let ratio = Summary { estimate, low: estimate, high: estimate, rounds: 7 };
        verdict.ratios.insert(format!("cpu/{peer}"), ratio);
    }
    let report = Report::new(&results);
    let cell = report.sections.iter().flat_map(|section| &section.cells).find(|cell| cell.id == "toll-64");
    let cost = |peer: &str| cell.unwrap().row(peer).unwrap().figures().unwrap().cpu_us.unwrap().estimate;
    let (ratio, other) = if cost("nginx") < cost("haproxy") { ("0.61", "0.52") } else { ("0.52", "0.61") };
    let picture = svg(&results).unwrap();
    std::fs::write(left("canned.svg"), &picture).unwrap();
    assert!(picture.contains(&format!(">{ratio} x</text>")), "{picture}");
    assert!(!picture.contains(&format!(">{other} x</text>")), "{picture}");
    assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
    assert!(picture.contains("prefers-color-scheme:dark") && picture.contains(">Tollgate</text>"));
    results.cells[0].title = "a < b & c".into();
    assert!(svg(&results).unwrap().contains("a &lt; b &amp; c"));
    results.trials.clear();
    assert!(svg(&results).is_none());
}

#[test]
fn a_commentary_is_merged_once_and_only_into_its_own_run() {
    let mut results = canned::results();
    let started = results.header.started.clone();
    let own = |text: &str| format!("Run: {started}\n\n{text}\n");
    comment(&mut results, &own("- Nothing at all.")).unwrap();
    comment(&mut results, &own("- One thing.")).unwrap();
    let page = markdown(&results);
    let expected = format!("**What was learned** from the run of {started}\n\n- One thing.");
    assert!(page.contains(&expected) && !page.contains("Nothing at all"), "{page}");
    let error = comment(&mut results, "Run: 2001-01-01T00:00:00Z\n- Old.").unwrap_err();
    assert!(error.contains("the run of 2001-01-01T00:00:00Z") && error.contains(&started), "{error}");
    let error = comment(&mut results, "- No run.").unwrap_err();
    assert!(error.contains(&format!("expected `Run: {started}`")), "{error}");
}
