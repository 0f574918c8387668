//! Tests of comparisons, the gate and capacity.

use crate::canned;
use tollgate_lab_record::{Results, Status};
use tollgate_lab_report::capacity::{NoCapacity, in_words, sizes};
use tollgate_lab_report::figures::{Call, Metric};
use tollgate_lab_report::{Gate, capacity, compare, gate};

/// Returns the canned result with one system's costs multiplied.
fn dearer(system: &str, factor: f64) -> Results {
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
    assert!(
        same.changes.iter().all(|change| change.call == Call::Tie),
        "{:?}",
        same.changes.iter().find(|c| c.call != Call::Tie)
    );
    assert!(same.doubts.is_empty() && same.only_in_one.is_empty());
    let text = same.terminal(100, false);
    assert!(text.contains("Tollgate") && text.contains("tie"), "{text}");
}

#[test]
fn a_change_is_called_for_the_system_that_changed() {
    let comparison = compare(&canned::results(), &dearer("tollgate", 1.2));
    let costs = |system: &str| {
        comparison
            .changes
            .iter()
            .filter(|one| one.metric == Metric::Cpu && one.system == system)
            .collect::<Vec<_>>()
    };
    assert!(
        costs("tollgate")
            .iter()
            .all(|one| one.call == Call::Higher && (one.ratio.estimate - 1.2).abs() < 1e-6)
    );
    assert!(costs("nginx").iter().all(|one| one.call == Call::Tie));
    let back = compare(&dearer("tollgate", 1.2), &canned::results());
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
        gate(&dearer("tollgate", factor), &baseline, allowance, &["tollgate".to_owned()])
    };
    assert!(matches!(of(1.0, 0.0), Gate::Passed { checked, .. } if checked > 5));
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
    let outcome = gate(&other, &baseline, 0.03, &[]);
    assert_eq!(outcome.exit_code(), 2);
    assert!(outcome.to_string().contains("run the same study for both"), "{outcome}");
    assert_eq!(gate(&baseline, &baseline, 0.03, &["unknown".to_owned()]).exit_code(), 2);
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
