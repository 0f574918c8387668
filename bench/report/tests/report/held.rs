//! Tests of comparisons, the gate and capacity.

use crate::canned;
use tollgate_lab_record::{Finding, Results, Status, VerdictKind};
use tollgate_lab_report::capacity::{NoCapacity, in_words, sizes};
use tollgate_lab_report::figures::{Call, Metric};
use tollgate_lab_report::{Choice, FEWEST_ROUNDS, Gate, capacity, gate};

/// Compares two files with the default choices.
fn compare(first: &Results, second: &Results) -> tollgate_lab_report::compare::Comparison {
    tollgate_lab_report::compare(first, second, &Choice::default())
}

/// Returns the canned result with one system's costs multiplied.
fn more_expensive(system: &str, factor: f64) -> Results {
    let mut results = canned::results();
    for trial in results.trials.iter_mut().filter(|trial| trial.system == system) {
        if let Some(cost) = &mut trial.cost {
            cost.user_us *= factor;
            cost.system_us *= factor;
        }
    }
    results
}

#[test]
fn a_result_ties_with_itself() {
    let results = canned::results();
    let same = compare(&results, &results);
    assert!(same.changes.len() > 60);
    // The closed loops have four rounds, from which no difference is named.
    let calls = |change: &&tollgate_lab_report::compare::Change| {
        let few = change.ratio.rounds < FEWEST_ROUNDS;
        change.call == if few { Call::Open } else { Call::Tie }
    };
    assert!(
        same.changes.iter().all(|change| calls(&change)),
        "{:?}",
        same.changes.iter().find(|c| !calls(c))
    );
    assert!(same.changes.iter().filter(|change| change.call == Call::Tie).count() > 30);
    assert!(same.doubts.is_empty() && same.only_in_one.is_empty());
    let text = same.terminal(100, false);
    assert!(text.contains("Tollgate") && text.contains("tie"), "{text}");
}

#[test]
fn a_change_is_called_for_the_system_that_changed() {
    let comparison = compare(&canned::results(), &more_expensive("tollgate", 1.2));
    let costs = |system: &str| {
        comparison
            .changes
            .iter()
            .filter(|one| one.metric == Metric::Cpu && one.system == system)
            .filter(|one| one.ratio.rounds >= FEWEST_ROUNDS)
            .collect::<Vec<_>>()
    };
    assert!(costs("tollgate").len() > 1 && costs("nginx").len() > 1);
    assert!(
        costs("tollgate")
            .iter()
            .all(|one| one.call == Call::Higher && (one.ratio.estimate - 1.2).abs() < 1e-6)
    );
    assert!(costs("nginx").iter().all(|one| one.call == Call::Tie));
    let back = compare(&more_expensive("tollgate", 1.2), &canned::results());
    assert!(back.changes.iter().any(|one| one.call == Call::Lower));
}

#[test]
fn throughput_is_compared_only_where_the_loop_is_closed() {
    let results = canned::results();
    let same = compare(&results, &results);
    assert!(
        same.changes.iter().filter(|one| one.metric == Metric::Rps).all(|one| !one.cell.starts_with("toll"))
    );
    assert!(
        same.changes
            .iter()
            .filter(|one| one.metric == Metric::Cpu)
            .all(|one| !one.cell.starts_with("connections"))
    );
}

#[test]
fn what_only_one_file_holds_is_named() {
    let whole = canned::results();
    let mut part = canned::results();
    part.header.host.cpu = "Another CPU".into();
    for trial in part.trials.iter_mut().filter(|trial| trial.cell == "toll-64" && trial.system == "hyper") {
        trial.status = Status::Bad { reason: "it died".into() };
    }
    part.cells.retain(|cell| cell.id != "stats");
    let comparison = compare(&whole, &part);
    let all = comparison.only_in_one.join("\n");
    assert!(all.contains("hyper") && all.contains("it died"), "{all}");
    assert!(all.contains("not in the second file"), "{all}");
    assert!(comparison.doubts.iter().any(|doubt| doubt.contains("Another CPU")), "{:?}", comparison.doubts);
}

#[test]
fn the_gate_fails_only_when_the_interval_excludes_the_allowance() {
    let baseline = canned::results();
    let of = |factor: f64, allowance: f64| {
        gate(&more_expensive("tollgate", factor), &baseline, allowance, &["tollgate".to_owned()], None)
    };
    // The cells of six rounds.
    assert!(matches!(of(1.0, 0.0), Gate::Passed { checked, .. } if checked >= 2));
    assert_eq!(of(1.02, 0.03).exit_code(), 0);
    // Its estimate is beyond the allowance, its interval is not.
    let near = of(1.031, 0.03);
    assert_eq!(near.exit_code(), 0, "{near}");
    let far = of(1.12, 0.03);
    assert_eq!(far.exit_code(), 1, "{far}");
    assert!(far.to_string().contains("more CPU a request than 3.00 % above the baseline"), "{far}");
    assert_eq!(of(0.5, 0.03).exit_code(), 0, "cheaper is never a failure");
}

#[test]
fn a_gate_without_anything_to_hold_is_no_pass() {
    let baseline = canned::results();
    let mut other = canned::results();
    for cell in &mut other.cells {
        cell.id.push_str("-new");
    }
    let outcome = gate(&other, &baseline, 0.03, &[], None);
    assert_eq!(outcome.exit_code(), 2);
    assert!(outcome.to_string().contains("run the same study for both"), "{outcome}");
    assert_eq!(gate(&baseline, &baseline, 0.03, &["unknown".to_owned()], None).exit_code(), 2);
}

/// Voids every trial of a system in the cells that `which` names.
fn fail(results: &mut Results, system: &str, which: impl Fn(&str) -> bool) {
    for trial in results.trials.iter_mut().filter(|trial| trial.system == system && which(&trial.cell)) {
        trial.status = Status::Bad { reason: "of 5000 requests 5000 could not connect".into() };
        trial.cost = None;
    }
    for verdict in results.verdicts.iter_mut().filter(|one| one.system == system && which(&one.cell)) {
        verdict.kind = VerdictKind::Errors;
        verdict.findings = vec![Finding { text: "of 5000 requests 5000 could not connect".into() }];
        verdict.ratios.clear();
    }
}

#[test]
fn a_gate_does_not_pass_a_build_that_fails_every_request() {
    let baseline = canned::results();
    // All cells but one failed, as an audit showed.
    let mut new = canned::results();
    fail(&mut new, "tollgate", |cell| cell != "toll-64");
    let outcome = gate(&new, &baseline, 0.03, &[], None);
    assert_eq!(outcome.exit_code(), 1, "{outcome}");
    let text = outcome.to_string();
    assert!(
        text.contains("figures of the baseline are lost") && text.contains("could not connect"),
        "{text}"
    );
    assert_eq!(
        gate(&new, &baseline, 0.03, &["nginx".to_owned()], None).exit_code(),
        0,
        "others did not fail"
    );
    // All cells failed: the file is of the same study all the same.
    fail(&mut new, "tollgate", |_| true);
    assert_eq!(gate(&new, &baseline, 0.03, &["tollgate".to_owned()], None).exit_code(), 1);
    // A run that was stopped before its end, and a cell that is not there any more.
    let mut part = canned::results();
    part.cells.retain(|cell| cell.id == "toll-64");
    let outcome = gate(&part, &baseline, 0.03, &["tollgate".to_owned()], None);
    assert_eq!(outcome.exit_code(), 1, "{outcome}");
    assert!(outcome.to_string().contains("not in the second file"), "{outcome}");
    // A cell whose settings changed cannot be compared with the baseline.
    let mut eased = canned::results();
    for cell in eased.cells.iter_mut().filter(|cell| cell.id != "toll-64") {
        cell.settings.insert("rate".into(), "1/s".into());
    }
    let outcome = gate(&eased, &baseline, 0.03, &["tollgate".to_owned()], None);
    assert_eq!(outcome.exit_code(), 1, "{outcome}");
    assert!(outcome.to_string().contains("set otherwise in the first file"), "{outcome}");
    // The last cell of a run that was stopped has too few rounds.
    let mut stopped = canned::results();
    stopped.trials.retain(|trial| trial.cell == "toll-64" || trial.round < FEWEST_ROUNDS);
    let outcome = gate(&stopped, &baseline, 0.03, &["tollgate".to_owned()], None);
    assert_eq!(outcome.exit_code(), 1, "{outcome}");
    assert!(outcome.to_string().contains("CPU in 5 of 5 rounds of the second file"), "{outcome}");
    // A rate that the new build does not keep has no cost.
    let mut slow = canned::results();
    for trial in slow.trials.iter_mut().filter(|one| one.system == "tollgate" && one.cell == "toll-64") {
        trial.load.as_mut().unwrap().ok /= 2;
    }
    let outcome = gate(&slow, &baseline, 0.03, &["tollgate".to_owned()], None);
    assert_eq!(outcome.exit_code(), 1, "{outcome}");
    assert!(outcome.to_string().contains("CPU in 0 of 6 rounds"), "{outcome}");
}

#[test]
fn no_difference_is_named_and_no_build_fails_from_few_rounds() {
    let few = |factor: f64| {
        let mut results = more_expensive("tollgate", factor);
        results.trials.retain(|trial| trial.round < FEWEST_ROUNDS);
        results
    };
    let comparison = compare(&few(1.0), &few(3.0));
    assert!(!comparison.changes.is_empty());
    assert!(comparison.changes.iter().all(|change| change.call == Call::Open));
    let outcome = gate(&few(3.0), &few(1.0), 0.03, &[], None);
    assert_eq!(outcome.exit_code(), 2, "{outcome}");
    assert!(outcome.to_string().contains("from 6 rounds on"), "{outcome}");
}

#[test]
fn a_condensed_file_is_not_held() {
    let results = canned::results();
    let mut condensed = canned::results();
    condensed.trials.clear();
    for line in tollgate_lab_report::condense(&results) {
        if let tollgate_lab_record::Line::Condensed(one) = line {
            condensed.condensed.push(*one);
        }
    }
    assert_eq!(gate(&condensed, &results, 0.03, &[], None).exit_code(), 2);
}

/// Multiplies a latency of every system, as another day on the same machine does.
fn drifted(seed: u64, factor: f64) -> Results {
    let mut results = canned::results();
    let mut random = seed;
    let mut scatter = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) as f64 / f64::from(u32::MAX >> 1) - 0.5) * 0.1
    };
    let mut of_round: std::collections::BTreeMap<(String, u32), f64> = Default::default();
    for trial in &mut results.trials {
        let key = (trial.cell.clone(), trial.round);
        let machine = factor * of_round.entry(key).or_insert_with(|| 1.0 + scatter()).to_owned();
        let own = 1.0 + scatter() * 0.3;
        let Some(load) = &mut trial.load else { continue };
        for times in [&mut load.response_time, &mut load.service_time].into_iter().flatten() {
            for (_, us) in &mut times.percentiles {
                *us *= machine * own;
            }
        }
    }
    results
}

#[test]
fn identical_programs_on_two_days_show_no_difference() {
    // One machine is a third slower than on the other day. Against each system's own past, that is a
    // difference of all.
    for seed in 1..=2 {
        let comparison = compare(&drifted(seed, 1.0), &drifted(seed + 100, 0.7));
        let tails: Vec<_> = comparison.changes.iter().filter(|one| one.metric == Metric::P99).collect();
        assert!(tails.len() > 20);
        let called: Vec<_> =
            tails.iter().filter(|one| matches!(one.call, Call::Lower | Call::Higher)).collect();
        assert!(called.is_empty(), "{seed}: {called:?}");
        let reference = tails.iter().find(|one| one.system == "nginx").unwrap();
        // It stands for the machine: whatever it shows is no difference of nginx.
        assert!(matches!(reference.call, Call::Reference | Call::Tie), "{reference:?}");
        assert!(reference.against.is_none(), "{reference:?}");
        assert!(tails.iter().any(|one| one.against.as_deref() == Some("nginx")));
    }
}

/// One of many conclusions is wrong by chance more often than a single one, so that each needs a wider interval.
#[test]
fn a_conclusion_among_many_needs_a_larger_difference() {
    let called = |factor: f64, systems: &[String]| {
        let choice = Choice { reference: Some("nginx"), systems };
        let after = more_expensive("tollgate", factor);
        let comparison = tollgate_lab_report::compare(&canned::results(), &after, &choice);
        let cost = comparison.changes.into_iter().find(|one| {
            (one.cell.as_str(), one.system.as_str(), one.metric) == ("toll-64", "tollgate", Metric::Cpu)
        });
        cost.expect("a cost").call == Call::Higher
    };
    let factors = (0..20).map(|step| 1.01 + 0.002 * f64::from(step));
    let seen: Vec<(bool, bool)> =
        factors.map(|factor| (called(factor, &["tollgate".to_owned()]), called(factor, &[]))).collect();
    assert!(seen.contains(&(true, false)), "alone and among all others: {seen:?}");
    assert!(!seen.contains(&(false, true)) && seen.last() == Some(&(true, true)), "{seen:?}");
}

#[test]
fn the_reference_can_be_chosen() {
    let after = more_expensive("nginx", 1.3);
    let choice = Choice { reference: Some("haproxy"), systems: &[] };
    let comparison = tollgate_lab_report::compare(&canned::results(), &after, &choice);
    let costs = |system: &str| {
        let costs = comparison.changes.iter().filter(|one| one.metric == Metric::Cpu && one.system == system);
        costs.filter(|one| one.ratio.rounds >= FEWEST_ROUNDS).collect::<Vec<_>>()
    };
    assert!(costs("nginx").iter().any(|one| one.call == Call::Higher), "{:?}", costs("nginx"));
    assert!(costs("tollgate").iter().all(|one| one.call == Call::Tie));
    // By default it is the baseline, whose change counts as the machine's.
    let default = compare(&canned::results(), &after);
    let of_nginx = default.changes.iter().filter(|one| one.metric == Metric::Cpu && one.system == "nginx");
    let of_nginx: Vec<Call> =
        of_nginx.filter(|one| one.ratio.rounds >= FEWEST_ROUNDS).map(|one| one.call).collect();
    assert!(of_nginx.len() > 1 && of_nginx.iter().all(|call| *call == Call::Reference), "{of_nginx:?}");
    // A gate that holds the baseline itself measures it against another system.
    let outcome = gate(&after, &canned::results(), 0.03, &["nginx".to_owned()], None);
    assert_eq!(outcome.exit_code(), 1, "{outcome}");
}

#[test]
fn cores_for_a_rate_follow_from_the_cost() {
    let results = canned::results();
    let plan = capacity(&results, 3e6, 0.6, None).unwrap();
    assert_eq!(plan.cell, "toll-64");
    let first = &plan.needs[0];
    assert_eq!(first.system, "tollgate");
    // About 9.9 us per request: 3e6 x 9.9e-6 / 0.6 = 49.5 cores.
    assert!((first.cores.estimate - 3.0 * first.cost_us.estimate / 0.6).abs() < 1e-9);
    assert!((45.0..54.0).contains(&first.cores.estimate), "{first:?}");
    assert!(first.cores.low < first.cores.estimate && first.cores.estimate < first.cores.high);
    assert!(plan.without.iter().any(|text| text.starts_with("Kong")), "{:?}", plan.without);
    assert!(plan.terminal(100, false).contains("3,000,000 requests/s with each core used to 60.0 %"));
    assert!(matches!(capacity(&results, -1.0, 0.6, None), Err(NoCapacity::Input(_))));
    let unknown = capacity(&results, 3e6, 0.6, Some("connections-64")).unwrap_err();
    assert!(unknown.to_string().contains("toll-64"), "{unknown}");
}

#[test]
fn a_quota_sweep_advises_a_size() {
    let all = sizes(&canned::results(), 20_000.0);
    let (title, advice) = &all[0];
    assert_eq!(title, "Tollgate");
    let found = advice.as_ref().unwrap();
    assert!((0.125..0.25).contains(&found.cpu_limit), "{found:?}");
    assert!(in_words(title, 20_000.0, advice).contains("both measured"));
    let (title, advice) = all.iter().find(|(title, _)| title == "Envoy").unwrap();
    assert!(in_words(title, 90_000.0, advice).contains("Envoy"));
    assert!(sizes(&canned::results(), 1e7).iter().all(|(_, advice)| advice.is_err()));
}
