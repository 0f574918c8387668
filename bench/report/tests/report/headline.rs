//! The headline names a winner only where the figures show one.

use crate::canned;
use regex::Regex;
use std::path::Path;
use tollgate_lab_record::{Results, Status, VerdictKind};
use tollgate_lab_report::figures::{Call, Headline, Metric};
use tollgate_lab_report::{FEWEST_ROUNDS, Report, comment, html, markdown, svg, table, terminal};

/// Returns the headline as text.
fn said(results: &Results) -> String {
    let decision = Report::new(results).decision.expect("a decision");
    table::headline(&decision).into_iter().map(|piece| piece.text).collect()
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
    assert!(
        text.starts_with("Tollgate has the lowest CPU time per request at 10,000 requests/s: "),
        "{text}"
    );
    assert!(
        Regex::new(r"0\.7\d \(0\.7\d–0\.7\d\) × nginx, the next with 1\d\.\d µs\.$").unwrap().is_match(&text),
        "{text}"
    );
    for out in [terminal(&results, 200, false), html(&results)] {
        assert!(out.contains("has the lowest"), "{out}");
    }
    assert!(markdown(&results).contains("**Tollgate** has the lowest CPU time per request"));
}

#[test]
fn no_winner_is_named_within_the_noise() {
    // Tollgate at the cost of nginx, which HAProxy has too.
    let mut results = canned::results();
    more_expensive(&mut results, "tollgate", 13.0 / 9.9);
    let text = said(&results);
    assert!(text.starts_with("No difference can be shown in CPU time per request"), "{text}");
    assert!(text.contains("Tollgate (1") && text.contains("nginx (1"), "{text}");
    assert!(!text.contains("Pingora"), "Pingora is far more expensive: {text}");
    assert!(text.contains("include 1"), "{text}");
}

#[test]
fn no_difference_is_named_from_few_rounds() {
    for most in 1..FEWEST_ROUNDS {
        let results = rounds(most);
        let text = said(&results);
        assert!(text.starts_with("No difference can be shown"), "{most} rounds: {text}");
        let report = Report::new(&results);
        let calls = report.rows().flat_map(|(_, row)| &row.ratios).filter_map(|ratio| ratio.call);
        assert!(calls.into_iter().all(|call| call == Call::Open), "{most} rounds");
    }
    assert!(said(&rounds(1)).contains("one round has no interval, and a comparison needs 6 rounds"));
    assert!(said(&rounds(5)).contains("5 rounds are too few, a comparison needs 6"));
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
    assert!(!page.contains("-interval\":"), "the page's JSON has an interval of one round");
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
    let figure = "data-cell=\"connections-64\" data-system=\"tollgate\" data-figure=\"ratio-rps\"";
    assert!(!page.contains(figure), "a ratio beyond direct has a number");
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
    assert!(
        text.starts_with("No winner can be named by throughput: another component limited Tollgate ("),
        "{text}"
    );
    assert!(text.contains("generator), so its own figure is not known."), "{text}");
    assert!(text.contains("The figures of the others are their own: nginx ("), "{text}");
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
    assert!(!text.contains("Tollgate"), "{text}");
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
    assert!(
        text.starts_with("No difference can be shown in throughput between Tollgate (146,266 requests/s)"),
        "{text}"
    );

    // A closed loop of one connection, in which the origin was the limit of nearly all.
    let results = kept("kong-envoy-nginx");
    let text = said(&results);
    assert!(!text.contains("5,533"), "{text}");
    assert!(
        text.starts_with("No difference can be shown in throughput between Tollgate (21,792 requests/s)"),
        "{text}"
    );

    // Every system was limited by the generator in that cell; here two are.
    let text = said(&kept("ingress"));
    assert!(
        text.starts_with("No winner can be named by throughput: another component limited Tollgate (50,92"),
        "{text}"
    );

    // One round.
    let text = said(&kept("sidecar"));
    assert!(!text.contains("lowest"), "{text}");
    assert!(text.starts_with("No ") && !text.contains("11.7"), "{text}");
}

#[test]
fn the_page_leads_with_what_was_learned_and_keeps_its_contents_in_view() {
    let mut results = kept("sidecar");
    let commentary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/commentary/sidecar.md");
    comment(&mut results, &std::fs::read_to_string(commentary).unwrap()).unwrap();
    let page = html(&results);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is lacking"));
    assert!(at("No winner can be named") < at("What was learned") && at("What was learned") < at("<table"));
    assert!(page.contains("<nav class=\"contents\"") && page.contains("Back to top"));
    assert!(page.contains("Only the direct run was measured here"));
    // At an offered rate, throughput only repeats the rate.
    assert!(!page.contains("Most req/s"));
    assert!(html(&kept("kong-envoy-nginx")).contains("Most req/s"));
    // Each chart takes the focus, and its marks have values.
    assert_eq!(page.matches("tabindex=\"0\" role=\"img\"").count(), page.matches("role=\"img\"").count());
    assert!(page.contains("(limited by: CPU quota)</title>"));
}
