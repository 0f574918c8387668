//! Derives the verdict and the ratios of each system from all rounds of a cell. Only good trials count, and
//! ratios are taken within rounds, so that a slow minute of the machine affects both systems. The A/A
//! control's ratio is part of every verdict.

use crate::arm::original;
use std::collections::BTreeMap;
use tollgate_lab_record::{CONTROL, Finding, Metric, Rounds, Status, Summary, Trial, Verdict, VerdictKind};
use tollgate_lab_stats::bootstrap::Bootstrap;
use tollgate_lab_stats::paired::usable_ratio;

/// The metrics for which ratios are computed.
const FIGURES: [Metric; 5] = [Metric::Cpu, Metric::Rps, Metric::Mean, Metric::P50, Metric::P99];

/// The peers that every system is compared with, in addition to the baseline and the direct run.
const PEERS: [&str; 2] = ["nginx", "haproxy"];

/// Returns the ratio of two systems' figures over the rounds that count; `None` with too few such rounds.
pub fn compare(
    trials: &[&Trial],
    counted: &Rounds,
    (a, b): (&str, &str),
    metric: Metric,
    seed: u64,
) -> Option<Summary> {
    let of = |system: &str, round: u32| {
        trials
            .iter()
            .find(|trial| trial.system == system && trial.round == round && counted.counts(trial))
            .and_then(|trial| trial.figure(metric))
    };
    let rounds: Vec<(f64, f64)> = trials
        .iter()
        .filter(|trial| trial.system == a && counted.counts(trial))
        .filter_map(|trial| Some((trial.figure(metric)?, of(b, trial.round)?)))
        .collect();
    let (interval, rounds) = usable_ratio(&rounds, &Bootstrap { seed, ..Bootstrap::default() })?;
    Some(Summary { estimate: interval.estimate, low: interval.low, high: interval.high, rounds })
}

/// The attributions of the trials by system and round, kept until the cell's verdicts are derived.
pub type Attributed = BTreeMap<(String, u32), (VerdictKind, Vec<Finding>)>;

/// Derives a cell's verdicts: for each system the limit that most of its rounds met, with the findings of the
/// last such round.
pub fn verdicts(
    cell: &str,
    systems: &[String],
    baseline: Option<&str>,
    trials: &[&Trial],
    attributed: &Attributed,
    seed: u64,
) -> Vec<Verdict> {
    let kind_of = |system: &str| most_common(system, trials, attributed).0;
    let counted = Rounds::of(trials.iter().copied(), |system| kind_of(system).has_figures());
    let control = systems.iter().find_map(|name| {
        let pair = (name.strip_suffix(CONTROL)?, name.as_str());
        compare(trials, &counted, pair, Metric::Cpu, seed)
            .or_else(|| compare(trials, &counted, pair, Metric::Rps, seed))
    });
    systems
        .iter()
        .filter(|name| original(name) == name.as_str())
        .map(|system| {
            let (kind, findings) = most_common(system, trials, attributed);
            let mut ratios = BTreeMap::new();
            if kind.has_figures() {
                let others = baseline.into_iter().chain(["direct"]).chain(PEERS);
                let sound = |other: &&str| {
                    *other != system.as_str()
                        && systems.iter().any(|name| name == other)
                        && kind_of(other).has_figures()
                };
                let offered = trials.iter().any(|trial| {
                    trial.system == *system
                        && trial.load.as_ref().is_some_and(|load| load.model.rps().is_some())
                });
                for other in others.filter(sound) {
                    let latency = !offered || (kind.has_latency() && kind_of(other).has_latency());
                    for metric in FIGURES.into_iter().filter(|metric| latency || !metric.is_latency()) {
                        let pair = (system.as_str(), other);
                        if let Some(summary) = compare(trials, &counted, pair, metric, seed) {
                            ratios.insert(format!("{}/{other}", metric.key()), summary);
                        }
                    }
                }
            }
            Verdict { cell: cell.to_owned(), system: system.clone(), kind, findings, control, ratios }
        })
        .collect()
}

fn most_common(system: &str, trials: &[&Trial], attributed: &Attributed) -> (VerdictKind, Vec<Finding>) {
    let mut counts: BTreeMap<VerdictKind, (usize, Vec<Finding>)> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.system == system && trial.round > 0) {
        let (kind, findings) = match (attributed.get(&(trial.system.clone(), trial.round)), &trial.status) {
            (Some((kind, findings)), _) => (*kind, findings.clone()),
            (None, Status::Bad { reason }) => (VerdictKind::Invalid, vec![Finding { text: reason.clone() }]),
            (None, Status::Good) => continue,
        };
        let entry = counts.entry(kind).or_default();
        entry.0 += 1;
        entry.1 = findings;
    }
    let all: usize = counts.values().map(|(count, _)| count).sum();
    // The rounds first decide whether there are figures; then the most common kind wins. A tie goes to the
    // graver kind: [`VerdictKind`] is ordered by gravity.
    let void: usize =
        counts.iter().filter(|(kind, _)| !kind.has_figures()).map(|(_, (count, _))| count).sum();
    let figures = 2 * void < all;
    let most = counts
        .into_iter()
        .filter(|(kind, _)| kind.has_figures() == figures)
        .max_by_key(|(kind, (count, _))| (*count, *kind));
    match most {
        None => (VerdictKind::Invalid, vec![Finding { text: "not measured".into() }]),
        Some((kind, (count, mut findings))) => {
            if count < all {
                findings.push(Finding { text: format!("so in {count} of {all} rounds") });
            }
            (kind, findings)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_lab_record::{Cost, Distribution, Evidence, Failures, LoadModel, LoadResult, Verification};

    fn trial(system: &str, round: u32, cpu: f64) -> Trial {
        Trial {
            cell: "1-1".into(),
            system: system.into(),
            round,
            turn: 1,
            at: 0.0,
            load: Some(LoadResult {
                tool: "builtin".into(),
                tool_version: String::new(),
                command: vec![],
                threads: 1,
                connections: 64,
                keep_alive: true,
                model: LoadModel::Constant { rps: 1_000.0 },
                verification: Verification::Full,
                seconds: 1.0,
                sent: Some(1_000),
                ok: 1_000,
                failures: Failures::default(),
                statuses: BTreeMap::new(),
                body_bytes: None,
                connections_opened: None,
                response_time: Some(Distribution {
                    count: 1_000,
                    mean_us: cpu * 10.0,
                    percentiles: vec![(50.0, cpu * 9.0), (99.0, cpu * 30.0)],
                    ..Default::default()
                }),
                service_time: None,
                send_lag: None,
                windows: vec![],
            }),
            evidence: Evidence::default(),
            cost: Some(Cost { user_us: cpu / 4.0, system_us: cpu * 0.75 }),
            warm_up: 0.3,
            status: Status::Good,
        }
    }

    fn cell() -> (Vec<String>, Vec<Trial>) {
        let systems = ["tollgate", "nginx", "haproxy", "nginx#2"].map(str::to_owned).to_vec();
        // The machine runs at half speed in every other round; the ratios must not change.
        let trials = (1..=8)
            .flat_map(|round| {
                let slow = f64::from(1 + round % 2);
                [("tollgate", 8.0), ("nginx", 10.0), ("haproxy", 16.0), ("nginx#2", 10.0)]
                    .map(|(system, cpu)| trial(system, round, cpu * slow))
            })
            .collect();
        (systems, trials)
    }

    fn nothing(trials: &[Trial]) -> Attributed {
        trials
            .iter()
            .map(|trial| ((trial.system.clone(), trial.round), (VerdictKind::Nothing, vec![])))
            .collect()
    }

    #[test]
    fn ratios_pair_the_rounds() {
        let (systems, trials) = cell();
        let refs: Vec<&Trial> = trials.iter().collect();
        let verdicts = verdicts("1-1", &systems, Some("nginx"), &refs, &nothing(&trials), 1);
        assert_eq!(verdicts.len(), 3, "the control's copy is no row");
        let tollgate = &verdicts[0];
        let near = |key: &str, wanted: f64| {
            let found = tollgate.ratios[key].estimate;
            assert!((found - wanted).abs() < 1e-6, "{key}: {found}");
        };
        near("cpu/nginx", 0.8);
        near("cpu/haproxy", 0.5);
        near("p99/nginx", 0.8);
        assert!((tollgate.control.unwrap().estimate - 1.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_without_figures_outvote_together() {
        let (systems, trials) = cell();
        let refs: Vec<&Trial> = trials.iter().collect();
        let mut attributed = nothing(&trials);
        for (round, kind) in [
            (1, VerdictKind::Errors),
            (2, VerdictKind::Errors),
            (3, VerdictKind::Invalid),
            (4, VerdictKind::Invalid),
        ] {
            attributed.insert(("nginx".into(), round), (kind, vec![]));
        }
        let verdicts = verdicts("1-1", &systems, Some("nginx"), &refs, &attributed, 1);
        assert!(!verdicts[1].kind.has_figures(), "4 of 8 rounds have none: {:?}", verdicts[1].kind);
        assert!(!verdicts[0].ratios.contains_key("cpu/nginx"), "no ratio to a system without figures");
    }

    #[test]
    fn a_round_that_voids_one_system_is_dropped_for_all() {
        let (systems, mut trials) = cell();
        for trial in trials.iter_mut().filter(|trial| trial.round == 3) {
            match trial.system.as_str() {
                "haproxy" => trial.status = Status::Bad { reason: "it stalled".into() },
                // A disturbed minute, which a table must not hold against one of them.
                "nginx" => trial.cost = Some(Cost { user_us: 900.0, system_us: 0.0 }),
                _ => {}
            }
        }
        let refs: Vec<&Trial> = trials.iter().collect();
        let verdicts = verdicts("1-1", &systems, Some("nginx"), &refs, &nothing(&trials), 1);
        let ratio = verdicts[0].ratios["cpu/nginx"];
        assert!((ratio.estimate - 0.8).abs() < 1e-6 && ratio.rounds == 7, "{ratio:?}");
    }

    #[test]
    fn latency_that_is_not_the_systems_has_no_ratio() {
        let (systems, trials) = cell();
        let refs: Vec<&Trial> = trials.iter().collect();
        let mut attributed = nothing(&trials);
        for ((system, _), (kind, _)) in &mut attributed {
            if system == "nginx" {
                *kind = VerdictKind::LoadSide;
            }
        }
        let verdicts = verdicts("1-1", &systems, Some("nginx"), &refs, &attributed, 1);
        let keys: Vec<&str> = verdicts[0].ratios.keys().map(String::as_str).collect();
        assert!(keys.contains(&"cpu/nginx") && !keys.contains(&"p99/nginx"), "{keys:?}");
        assert!(keys.contains(&"p99/haproxy"), "{keys:?}");
    }

    #[test]
    fn bad_rounds_do_not_count_and_may_be_the_verdict() {
        let (systems, mut trials) = cell();
        for trial in trials.iter_mut().filter(|trial| trial.system == "tollgate" && trial.round > 2) {
            trial.status = Status::Bad { reason: "it died".into() };
        }
        let refs: Vec<&Trial> = trials.iter().collect();
        let mut attributed = nothing(&trials);
        attributed.retain(|(system, round), _| system != "tollgate" || *round <= 2);
        let verdicts = verdicts("1-1", &systems, Some("nginx"), &refs, &attributed, 1);
        assert_eq!(verdicts[0].kind, VerdictKind::Invalid);
        assert!(verdicts[0].ratios.is_empty());
        assert!(verdicts[0].findings.iter().any(|finding| finding.text == "it died"));
        assert!(verdicts[0].findings.iter().any(|finding| finding.text == "so in 6 of 8 rounds"));
    }
}
