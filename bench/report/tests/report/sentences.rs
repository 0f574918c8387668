//! The sentences at the head of a report: they name a winner only where the figures show one, and say one thing each.
//! `tests/sentences.txt` has those of every kept result file and of each cell of the canned one, for people to read. To
//! write it again after a change, run these tests with `BLESS=1`.

use crate::canned;
use regex::Regex;
use std::path::Path;
use tollgate_lab_record::{Results, Status, VerdictKind};
use tollgate_lab_report::figures::{Call, Headline, Metric};
use tollgate_lab_report::{FEWEST_ROUNDS, Report, comment, html, markdown, svg, table, terminal};

/// Returns the headline as text.
fn said(results: &Results) -> String {
    let decision = Report::new(results).decision.expect("a decision");
    let sentences = table::sentences(&decision).into_iter();
    let texts = sentences.map(|pieces| pieces.into_iter().map(|piece| piece.text).collect());
    texts.collect::<Vec<String>>().join(" ")
}

fn kind(results: &Results) -> Headline {
    Report::new(results).decision.expect("a decision").headline
}

/// Reads a kept result file of a published study.
fn kept(study: &str) -> Results {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/studies/results/{study}.jsonl"));
    tollgate_lab_record::read(&std::fs::read(&path).unwrap()[..]).unwrap()
}

/// Returns the canned results with only the first rounds.
fn rounds(most: u32) -> Results {
    let mut results = canned::results();
    results.trials.retain(|trial| trial.round <= most);
    results
}

/// Multiplies the costs of a system.
fn more_expensive(results: &mut Results, system: &str, factor: f64) {
    for trial in results.trials.iter_mut().filter(|trial| trial.system == system) {
        if let Some(cost) = &mut trial.cost {
            cost.user_us *= factor;
            cost.system_us *= factor;
        }
    }
}

#[test]
fn a_winner_has_a_ratio_to_the_next_that_excludes_1() {
    let results = canned::results();
    let text = said(&results);
    assert!(text.starts_with("Tollgate needs the least CPU time per request: "), "{text}");
    let much = Regex::new(concat!(
        r"That is 0\.7\d times the 1\d\.\d µs of nginx, which comes next\. ",
        r"With 95 % confidence this ratio is between 0\.7\d and 0\.7\d \(6 rounds\)\. ",
        r"Every other system needs more, beyond chance\."
    ));
    let much = much.unwrap();
    assert!(much.is_match(&text), "{text}");
    assert!(
        text.ends_with(
            "Each system got 10,000 requests/s, over 64 kept connections of HTTP/1.1, in 6 rounds."
        ),
        "{text}"
    );
    for out in [terminal(&results, 200, false), html(&results)] {
        assert!(out.contains("needs the least"), "{out}");
    }
    assert!(markdown(&results).contains("- **Tollgate** needs the least CPU time per request: **"));
}

#[test]
fn no_winner_is_named_within_the_noise() {
    // Tollgate at the cost of nginx, which HAProxy has too.
    let mut results = canned::results();
    more_expensive(&mut results, "tollgate", 13.0 / 9.9);
    let text = said(&results);
    let (first, rest) = text.split_once(" by CPU time per request. ").expect("a tie");
    assert!(first.contains(" is not told apart from "), "{text}");
    assert!(first.contains("Tollgate (1") && first.contains("nginx (1"), "{text}");
    assert!(!first.contains("Pingora"), "Pingora is far more expensive: {text}");
    assert!(rest.starts_with("The differences are within what chance explains"), "{text}");
    assert!(rest.contains(" other systems need more, beyond chance. The next of them is "), "{text}");
}

#[test]
fn no_difference_is_named_from_few_rounds() {
    for most in 1..FEWEST_ROUNDS {
        let results = rounds(most);
        let text = said(&results);
        assert!(text.starts_with("No winner is named by CPU time per request."), "{most} rounds: {text}");
        let report = Report::new(&results);
        let calls = report.rows().flat_map(|(_, row)| &row.ratios).filter_map(|ratio| ratio.call);
        assert!(calls.into_iter().all(|call| call == Call::Open), "{most} rounds");
    }
    assert!(said(&rounds(1)).contains("The run has one round, and a comparison needs 6."));
    assert!(said(&rounds(5)).contains("The run has 5 rounds, and a comparison needs 6."));
}

#[test]
fn one_round_has_no_interval_anywhere() {
    let mut results = rounds(1);
    for verdict in &mut results.verdicts {
        // The control of one round.
        if let Some(control) = &mut verdict.control {
            (control.low, control.high, control.rounds) = (control.estimate, control.estimate, 1);
        }
    }
    // The prices of the canned study are of four rounds, in a range with an "en dash" of their own.
    results.prices.clear();
    let page = html(&results);
    let outputs = [terminal(&results, 200, false), markdown(&results), page.clone(), svg(&results).unwrap()];
    // A range between equal numbers, and a range beside a ratio.
    let range = Regex::new(r"\d\.\d+–\d").unwrap();
    for out in &outputs {
        assert!(range.find(out).is_none(), "{:?}", range.find(out));
        assert!(out.contains("one round"), "{out}");
    }
    assert!(!page.contains("-interval\""), "the page's JSON has an interval of one round");
}

#[test]
fn nothing_is_faster_than_the_direct_run() {
    let mut results = canned::results();
    results.header.baseline = Some("direct".into());
    for trial in results.trials.iter_mut().filter(|trial| trial.system == "tollgate") {
        if let Some(load) = &mut trial.load {
            load.ok *= 2;
        }
    }
    let report = Report::new(&results);
    let (_, row) =
        report.rows().find(|(cell, row)| cell.id == "connections-64" && row.system == "tollgate").unwrap();
    let ratio = row.ratio(Metric::Rps).unwrap();
    assert!(ratio.ours.unwrap().low > 1.0);
    assert_eq!(ratio.call, Some(Call::Beyond));
    let page = html(&results);
    let ratio = |system: &str| canned::embedded(&page, "connections-64", system, "ratio-rps");
    assert_eq!(ratio("tollgate"), None, "a ratio beyond direct has a number");
    assert!(ratio("nginx").is_some());
    assert!(
        page.contains("beyond direct")
            && page.contains("no gateway is faster than the same load without one")
    );
    assert!(terminal(&results, 200, false).contains("limit (beyond direct)"));
}

#[test]
fn a_split_below_the_clock_ticks_is_not_shown() {
    let mut results = canned::results();
    for trial in
        results.trials.iter_mut().filter(|trial| trial.system == "tollgate" && trial.cell == "toll-64")
    {
        // 6 rounds of 1,500 requests at 10 µs are 9 ticks.
        let load = trial.load.as_mut().unwrap();
        (load.ok, load.seconds) = (1_500, 0.15);
        if let Some(cost) = &mut trial.cost {
            (cost.user_us, cost.system_us) = (0.0, cost.total_us());
        }
    }
    let report = Report::new(&results);
    let row = |system: &str| {
        let (_, row) =
            report.rows().find(|(cell, row)| cell.id == "toll-64" && row.system == system).unwrap();
        row.figures().unwrap().clone()
    };
    assert_eq!((row("tollgate").user_us, row("tollgate").system_us), (None, None));
    assert!(row("tollgate").cpu_us.is_some() && row("nginx").user_us.is_some());
    let artefact = Regex::new(r"[^\d.]0 \+ |\+ 0[^.\d]").unwrap();
    for out in [terminal(&results, 200, false), markdown(&results), html(&results)] {
        assert!(out.contains("too few ticks"), "{out}");
        assert!(artefact.find(&out).is_none(), "{:?}", artefact.find(&out));
    }
}

#[test]
fn a_system_that_another_part_limited_loses_to_none() {
    // In the closed loops of the canned file, the generator limited Tollgate.
    let mut results = canned::results();
    results.header.decides = Some(tollgate_lab_record::Decides { cell: "connections-64".into(), by: None });
    let text = said(&results);
    assert!(text.starts_with("No winner is named by throughput. Tollgate ("), "{text}");
    assert!(text.contains(" did not reach its own limit. It may carry more. nginx ("), "{text}");
    assert!(text.contains("The bottleneck of Tollgate was the load generator."), "{text}");
    assert!(text.contains("The bottleneck of nginx, HAProxy and Envoy was their own CPU."), "{text}");
    for verdict in results.verdicts.iter_mut().filter(|one| one.system == "tollgate") {
        verdict.kind = VerdictKind::Gateway;
    }
    assert!(matches!(kind(&results), Headline::Winner { .. } | Headline::NoDifference { .. }));
}

#[test]
fn a_system_that_did_not_keep_the_rate_does_not_take_part() {
    let mut results = canned::results();
    for trial in results.trials.iter_mut().filter(|one| one.system == "tollgate" && one.cell == "toll-64") {
        trial.load.as_mut().unwrap().ok /= 2;
    }
    let text = said(&results);
    assert!(text.starts_with("nginx needs the least CPU time per request: "), "{text}");
    assert!(text.contains("Tollgate did not keep the offered rate."), "{text}");
}

#[test]
fn a_cell_without_good_trials_has_no_headline_of_its_own() {
    let mut results = canned::results();
    results.header.decides = Some(tollgate_lab_record::Decides { cell: "toll-64".into(), by: None });
    for trial in results.trials.iter_mut().filter(|trial| trial.cell == "toll-64") {
        trial.status = Status::Bad { reason: "it died".into() };
    }
    let decision = Report::new(&results).decision.unwrap();
    assert_ne!(decision.cell, "toll-64", "a cell without figures decides nothing");
}

/// The four headlines that an earlier rule got wrong, on the figures of the published studies.
#[test]
fn the_false_headlines_of_the_published_studies_are_gone() {
    let text = said(&kept("four-gateways"));
    assert!(!text.contains("Undertow carries"), "{text}");
    let few = "No winner is named by throughput. The run has one round, and a comparison needs 6.";
    assert!(text.starts_with(few) && text.contains("Tollgate (146,266 requests/s)"), "{text}");

    // A closed loop of one connection, in which the origin was the limit of nearly all.
    let text = said(&kept("kong-envoy-nginx"));
    assert!(!text.contains("5,533"), "{text}");
    let few = "No winner is named by throughput. The run has 3 rounds, and a comparison needs 6.";
    assert!(text.starts_with(few) && text.contains("Tollgate (21,792 requests/s)"), "{text}");

    // Every system was limited by the generator in that cell; here two are.
    let text = said(&kept("ingress"));
    assert!(
        text.starts_with(
            "No winner is named by throughput. Tollgate (50,924 requests/s) and nginx (43,093 requests/s) did not reach "
        ),
        "{text}"
    );

    // One round.
    let text = said(&kept("sidecar"));
    assert!(!text.contains("lowest"), "{text}");
    assert!(text.starts_with("No winner ") && !text.contains("11.7"), "{text}");
}

/// A program that passes bytes on without reading them is no gateway, and neither wins nor ties.
#[test]
fn the_floor_takes_no_part() {
    let mut results = canned::results();
    let rename = |name: &mut String| {
        if name == "hyper" {
            *name = "floor".to_owned();
        }
    };
    results.systems.iter_mut().for_each(|used| rename(&mut used.name));
    results.trials.iter_mut().for_each(|trial| rename(&mut trial.system));
    results.verdicts.iter_mut().for_each(|verdict| rename(&mut verdict.system));
    results.cells.iter_mut().flat_map(|cell| &mut cell.systems).for_each(rename);
    more_expensive(&mut results, "floor", 0.1);
    let text = said(&results);
    assert!(text.starts_with("Tollgate needs the least"), "{text}");
    let decision = Report::new(&results).decision.unwrap();
    let first: Vec<&str> = decision.rows.iter().take(3).map(|entry| entry.row.system.as_str()).collect();
    assert_eq!(first, ["direct", "floor", "tollgate"]);
}

/// Returns the sentences of a file as lines.
fn lines(title: &str, results: &Results) -> String {
    let Some(decision) = Report::new(results).decision else { return format!("{title}\n- nothing\n\n") };
    let mut out = format!("{title}: {}\n", decision.at);
    for pieces in table::sentences(&decision) {
        let text: String = pieces.into_iter().map(|piece| piece.text).collect();
        out.push_str(&format!("- {text}\n"));
    }
    out + "\n"
}

/// Returns the sentences of every kept result file and of each kind of cell of the canned one.
fn all_lines() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/results");
    let mut studies: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    studies.sort();
    let mut text: String = studies.iter().map(|study| lines(study, &kept(study))).collect();
    let cells = [
        "toll-64",
        "toll-64k",
        "rate-20300",
        "connections-64",
        "connections-6400",
        "workers-2",
        "quota-500",
        "feature-1",
        "stats",
    ];
    for cell in cells {
        let mut results = canned::results();
        let by = (cell == "rate-20300").then_some(Metric::P99);
        results.header.decides = Some(tollgate_lab_record::Decides { cell: cell.into(), by });
        text.push_str(&lines("canned", &results));
    }
    let mut prices = canned::results();
    prices.cells.retain(|cell| cell.section == "What features add");
    text.push_str(&lines("canned, prices", &prices));
    text
}

#[test]
fn the_sentences_of_every_study_are_those_that_a_person_has_read() {
    let text = all_lines();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sentences.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        text,
        "read the new sentences, then run this test with BLESS=1"
    );
}

/// Short sentences without a word that needs the list of terms.
#[test]
fn a_sentence_says_one_thing_in_plain_words() {
    let remark = Regex::new(r"\([^()]*\)").unwrap();
    for line in all_lines().lines().filter_map(|line| line.strip_prefix("- ")) {
        assert!(line.ends_with('.') && !line.contains("  "), "{line}");
        for word in ["closed loop", "A/A", "uncorrected", "usable", "verdict", "told apart from 0"] {
            assert!(!line.contains(word), "{word}: {line}");
        }
        // Names and figures of a list aside.
        let bare = remark.replace_all(line, "").into_owned();
        let most = if bare.contains(" and ") { 40 } else { 25 };
        assert!(bare.split_whitespace().count() <= most, "{} words: {line}", bare.split_whitespace().count());
    }
}

#[test]
fn the_page_leads_with_what_the_figures_say_and_then_with_what_was_learned() {
    let mut results = kept("sidecar");
    let commentary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/commentary/sidecar.md");
    comment(&mut results, &std::fs::read_to_string(commentary).unwrap()).unwrap();
    let page = html(&results);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is lacking"));
    // Sentences, the plot, the cell of the study, and only then what a person wrote.
    let order = ["No winner is named</strong>", "<svg", "<table", "What was learned", "The study</h2>"];
    let places: Vec<usize> = order.iter().map(|text| at(text)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("class=\"contents\"") && page.contains("href=\"#p2\""));
    assert!(page.contains("Only the direct run was measured here"));
    let (first, rest) = page.split_once("id=\"p1\"").unwrap();
    assert!(!first.contains("Usable cells") && rest.contains("Usable cells") && rest.contains("Most req/s"));
    // Each chart takes the focus, and its marks have values.
    assert_eq!(page.matches("tabindex=\"0\" role=\"img\"").count(), page.matches("role=\"img\"").count());
    assert!(page.contains("(limited by: CPU quota)</title>"));
}
