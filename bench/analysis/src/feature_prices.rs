//! Computes what each feature adds to a request, compared with the point without any feature. (Study
//! `features`.)
//!
//! The plan runs each system of a cell twice in a row: with the feature, and as a copy without it (`PLAIN`).
//! [`lines`] takes the difference within each such pair, so that both ran in the same conditions. A system
//! that was at a limit has no price, since a saturated system batches more and looks cheaper. Instruction
//! counts, if the study asks for them, are subtracted from each other without an interval.

use crate::note;
use crate::number::promise;
use crate::outcome::{Outcome, bootstrap, cells, gateways, title, typical};
use tollgate_lab_record::{
    Cell, Known, Line, LoadResult, Metric, PLAIN, Price, Results, Summary, Trial, VerdictKind,
};
use tollgate_lab_stats::bootstrap::Interval;
use tollgate_lab_stats::paired;
use tollgate_lab_study::Study;

pub(crate) fn lines(study: &Study, results: &Results, section: &str) -> Vec<Line> {
    let cells = cells(results, section);
    let Some((plain, others)) = cells.split_first() else { return Vec::new() };
    let names = gateways(study, &cells);
    let mut intervals = Vec::new();
    let mut lines = Vec::new();
    for cell in &cells {
        for name in &names {
            lines.push(Line::Price(price(results, section, (plain, cell), name, &mut intervals)));
        }
    }
    let mut text = format!(
        "What a feature adds is the difference to \"{}\" at the same offered rate that both kept, each trial against one without \
         the feature right before or after it: a system at its limit batches more and looks cheaper, so that it has no price. \
         Where the generator sent late there is none of the latency. An interval that holds 0 is no proof of a price. \
         \"cannot\" says that the system lacks the feature or did not start with it.",
        plain.title
    );
    if results.instructions.iter().any(|one| others.iter().any(|cell| cell.id == one.cell)) {
        text.push_str(
            " Instructions are counted (valgrind's callgrind) for one and the same sequence of requests over one connection, \
             with one worker: they tell of what is too small for a clock, and nothing of what waiting or a cache miss costs.",
        );
    }
    if let Some(noise) = noise(study, results, plain, &names) {
        text.push(' ');
        text.push_str(&noise);
    }
    if let Some(promise) = promise(&intervals) {
        text.push(' ');
        text.push_str(&promise);
    }
    lines.push(note(section, text));
    lines
}

/// Returns the price of a cell; for the plain cell, its whole cost.
fn price(
    results: &Results,
    section: &str,
    (plain, cell): (&Cell, &Cell),
    name: &str,
    intervals: &mut Vec<Interval>,
) -> Price {
    let is_plain = plain.id == cell.id;
    let mut of = |metric: Metric| {
        let found = if is_plain {
            whole(results, &Outcome::of(results, plain, name), metric)
        } else {
            added(results, cell, name, metric)
        };
        found.map_or_else(Known::Not, |(interval, rounds)| {
            intervals.push(interval);
            let Interval { estimate, low, high, .. } = interval;
            Known::Is(Summary { estimate, low, high, rounds })
        })
    };
    Price {
        section: section.to_owned(),
        system: name.to_owned(),
        feature: cell.title.clone(),
        whole: is_plain,
        cpu_us: of(Metric::Cpu),
        p99_us: of(Metric::P99),
        instructions: instructions(results, (plain, cell), name),
    }
}

/// Returns the instructions of a request, or what the feature adds to them.
fn instructions(results: &Results, (plain, cell): (&Cell, &Cell), name: &str) -> Known<f64> {
    let counted = |cell: &Cell| {
        let found = results.instructions.iter().find(|one| one.cell == cell.id && one.system == name);
        found.map_or_else(|| Known::Not("not counted".to_owned()), |one| one.each.clone())
    };
    match (counted(cell), counted(plain)) {
        (with, _) if plain.id == cell.id => with,
        (Known::Is(with), Known::Is(without)) => Known::Is(with - without),
        (Known::Not(why), _) => Known::Not(why),
        (_, Known::Not(why)) => Known::Not(format!("{}: {why}", plain.title)),
    }
}

/// Returns the trials of a system that kept the offered rate, or the reason why there are none. A component
/// that was late or full distorts the latency, but not the cost of a request if the rate was kept.
fn kept<'a>(outcome: &'a Outcome<'a>, metric: Metric) -> Result<&'a [&'a Trial], String> {
    let keeps = |trial: &&Trial| trial.load.as_ref().is_some_and(LoadResult::keeps_its_rate);
    match outcome {
        Outcome::Measured { trials, kind: VerdictKind::Nothing } => Ok(trials),
        Outcome::Measured { trials, kind }
            if matches!(
                kind,
                VerdictKind::Generator | VerdictKind::LoadSide | VerdictKind::Origin | VerdictKind::Quota
            ) && (metric == Metric::Cpu || kind.has_latency())
                && trials.iter().all(keeps) =>
        {
            Ok(trials)
        }
        Outcome::Measured { kind, .. } => Err(format!("limited by: {}", kind.name())),
        Outcome::Cannot => Err("cannot".to_owned()),
        Outcome::None(why) => Err(why.clone()),
    }
}

/// Returns the whole figure and the number of its rounds.
fn whole(results: &Results, outcome: &Outcome<'_>, metric: Metric) -> Result<(Interval, u32), String> {
    let values: Vec<f64> = kept(outcome, metric)?.iter().filter_map(|trial| trial.figure(metric)).collect();
    typical(results, &values)
        .map(|interval| (interval, values.len() as u32))
        .ok_or_else(|| "not measured".to_owned())
}

/// Returns the additional cost of the system in this cell compared with its copy without the feature. Each
/// trial is compared with the copy's trial right before or after it, so that both ran in the same conditions.
/// In the plain cell, the system is compared with its own copy.
fn added(results: &Results, cell: &Cell, name: &str, metric: Metric) -> Result<(Interval, u32), String> {
    let with = Outcome::of(results, cell, name);
    let with = kept(&with, metric)?;
    let beside = format!("{name}{PLAIN}");
    let counted = results.rounds(&cell.id);
    let without: Vec<&Trial> = results
        .trials_of(&cell.id, &beside)
        .filter(|trial| counted.counts(trial) && trial.load.as_ref().is_some_and(LoadResult::keeps_its_rate))
        .collect();
    let pairs: Vec<(f64, f64)> = with
        .iter()
        .filter_map(|trial| {
            let other = without.iter().find(|other| other.round == trial.round)?;
            Some((trial.figure(metric)?, other.figure(metric)?))
        })
        .filter(|(with, without)| with.is_finite() && without.is_finite())
        .collect();
    paired::difference(&pairs, &bootstrap(results))
        .map(|interval| (interval, pairs.len() as u32))
        .map_err(|_| "no round in which it was measured without beside it".to_owned())
}

/// Describes the difference between the plain point and its own copy, which is pure noise.
fn noise(study: &Study, results: &Results, plain: &Cell, names: &[&str]) -> Option<String> {
    let reported: Vec<String> = names
        .iter()
        .filter_map(|name| {
            let (Interval { estimate, low, high, .. }, _) = added(results, plain, name, Metric::Cpu).ok()?;
            Some(format!("{} {estimate:.1} us ({low:.1} to {high:.1})", title(study, results, name)))
        })
        .collect();
    (!reported.is_empty()).then(|| {
        format!(
            "\"{}\" against its own copy, measured the same way, is what no difference looks like: {}.",
            plain.title,
            reported.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse, made};
    use tollgate_lab_record::{Instructions, LoadModel};

    const STUDY: &str = "
title: T
about: A
analyses: [{kind: feature-prices, section: Features}]
sections: [{title: Features, systems: [nginx, haproxy], points: [{}]}]
";

    fn results() -> Results {
        let cell = |id: &str| made::cell(id, "Features", &[], &["nginx", "haproxy"]);
        let mut results = made::results(&["nginx", "haproxy"], vec![cell("plain"), cell("log")]);
        let rounds = |cpu: [f64; 3], p99: f64| cpu.map(|cpu| (16_000.0, cpu, p99));
        made::measured(
            &mut results,
            "plain",
            "nginx",
            VerdictKind::Nothing,
            &rounds([20.0, 22.0, 21.0], 400.0),
        );
        made::measured(&mut results, "plain", "haproxy", VerdictKind::Nothing, &rounds([30.0; 3], 300.0));
        // The machine is slower in this cell. The log adds 1.5, 2.5 and 2 us, and takes 10 us off the p99.
        let log = rounds([26.5, 29.5, 28.0], 390.0);
        made::measured(&mut results, "log", "nginx", VerdictKind::Nothing, &log);
        made::trials_only(&mut results, "log", "nginx#plain", &rounds([25.0, 27.0, 26.0], 400.0));
        made::trials_only(&mut results, "plain", "nginx#plain", &rounds([20.5, 21.5, 21.0], 400.0));
        for trial in &mut results.trials {
            trial.load.as_mut().unwrap().model = LoadModel::Constant { rps: 16_000.0 };
        }
        results
    }

    fn prices(results: &Results) -> Vec<Price> {
        let lines = analyse(&made::study(STUDY), results);
        lines
            .into_iter()
            .filter_map(|line| match line {
                Line::Price(price) => Some(price),
                _ => None,
            })
            .collect()
    }

    /// Returns the price of the log for nginx.
    fn log(results: &Results) -> Price {
        prices(results).remove(2)
    }

    #[track_caller]
    fn near(known: &Known<Summary>, wanted: (f64, f64, f64), rounds: u32) {
        let Known::Is(found) = known else { panic!("{known:?}") };
        for (found, wanted) in [(found.estimate, wanted.0), (found.low, wanted.1), (found.high, wanted.2)] {
            assert!((found - wanted).abs() < 0.05, "{known:?} is not {wanted:?}");
        }
        assert_eq!(found.rounds, rounds);
    }

    #[track_caller]
    fn lacks<T: std::fmt::Debug>(known: &Known<T>, why: &str) {
        assert!(matches!(known, Known::Not(text) if text == why), "{known:?} is not {why:?}");
    }

    #[test]
    fn differences_are_to_what_stood_beside() {
        let results = results();
        let prices = prices(&results);
        let of: Vec<(&str, &str, bool)> =
            prices.iter().map(|price| (price.feature.as_str(), price.system.as_str(), price.whole)).collect();
        assert_eq!(
            of,
            [
                ("cell plain", "nginx", true),
                ("cell plain", "haproxy", true),
                ("cell log", "nginx", false),
                ("cell log", "haproxy", false)
            ]
        );
        near(&prices[0].cpu_us, (21.0, 20.0, 22.0), 3);
        near(&prices[2].cpu_us, (2.0, 1.5, 2.5), 3);
        near(&prices[2].p99_us, (-10.0, -10.0, -10.0), 3);
        lacks(&prices[3].cpu_us, "cannot");
        let lines = analyse(&made::study(STUDY), &results);
        assert!(made::notes(&lines).contains("are 75 % confidence intervals"));
        assert!(made::notes(&lines).contains("The nginx 0.0 us (-0.5 to 0.5)."), "{}", made::notes(&lines));
        assert!(!made::notes(&lines).contains("callgrind"), "nothing was counted");
    }

    #[test]
    fn counted_instructions_are_told_as_they_are_and_as_differences() {
        let mut results = results();
        let counted = |cell: &str, system: &str, each: Known<f64>| Instructions {
            cell: cell.into(),
            system: system.into(),
            requests: 1_000,
            each,
        };
        lacks(&log(&results).instructions, "not counted");
        results.instructions = vec![
            counted("plain", "nginx", Known::Is(20_000.0)),
            counted("log", "nginx", Known::Is(22_500.0)),
            counted("plain", "haproxy", Known::Not("valgrind is not installed".into())),
            counted("log", "haproxy", Known::Is(1.0)),
        ];
        let prices = prices(&results);
        assert_eq!(prices[0].instructions, Known::Is(20_000.0));
        assert_eq!(prices[2].instructions, Known::Is(2_500.0));
        lacks(&prices[1].instructions, "valgrind is not installed");
        lacks(&prices[3].instructions, "cell plain: valgrind is not installed");
        assert!(made::notes(&analyse(&made::study(STUDY), &results)).contains("callgrind"));
    }

    #[test]
    fn a_round_without_its_pair_does_not_count() {
        let mut results = results();
        let without = |trial: &Trial| trial.cell == "log" && trial.system == "nginx#plain";
        results.trials.retain(|trial| !(without(trial) && trial.round == 2));
        near(&log(&results).cpu_us, (1.75, 1.5, 2.0), 2);
        results.trials.retain(|trial| !without(trial));
        lacks(&log(&results).cpu_us, "no round in which it was measured without beside it");
    }

    #[test]
    fn a_generator_that_sends_late_spoils_the_latency_alone() {
        let mut results = results();
        results.verdicts[2].kind = VerdictKind::Generator;
        near(&log(&results).cpu_us, (2.0, 1.5, 2.5), 3);
        lacks(&log(&results).p99_us, "limited by: generator");
        for trial in results.trials.iter_mut().filter(|trial| trial.cell == "log") {
            trial.load.as_mut().unwrap().model = LoadModel::Constant { rps: 17_000.0 };
        }
        lacks(&log(&results).cpu_us, "limited by: generator");
    }

    #[test]
    fn a_system_at_its_limit_has_no_price() {
        let mut results = results();
        for trial in results.trials.iter_mut().filter(|trial| trial.system == "nginx#plain") {
            trial.load.as_mut().unwrap().model = LoadModel::Constant { rps: 17_000.0 };
        }
        lacks(&log(&results).cpu_us, "no round in which it was measured without beside it");
        results.verdicts[2].kind = VerdictKind::Gateway;
        lacks(&log(&results).cpu_us, "limited by: gateway");
        results.verdicts[2].kind = VerdictKind::Errors;
        lacks(&log(&results).cpu_us, "no figures: errors");
    }
}
