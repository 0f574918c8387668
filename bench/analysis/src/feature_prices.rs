//! What each feature adds to a request, against the point without any. (Study `features`.)

use crate::note;
use crate::number::{NONE, decimals, interval, promise};
use crate::outcome::{Outcome, bootstrap, cells, gateways, title, typical};
use tollgate_lab_record::{Cell, Line, Results, Trial, VerdictKind};
use tollgate_lab_stats::bootstrap::Interval;
use tollgate_lab_stats::paired;
use tollgate_lab_study::Study;

/// A figure of a trial, microseconds.
type Figure = fn(&Trial) -> Option<f64>;

/// What is told of each feature: the table's first head, and the figure.
const FIGURES: [(&str, Figure); 2] = [
    ("CPU, µs a request", |trial| trial.cost.map(|cost| cost.total_us())),
    ("99th percentile, µs", |trial| trial.load.as_ref()?.latency()?.percentile(99.0)),
];

pub(crate) fn lines(study: &Study, results: &Results, section: &str) -> Vec<Line> {
    let cells = cells(results, section);
    let Some((plain, others)) = cells.split_first() else { return Vec::new() };
    let names = gateways(study, &cells);
    let mut intervals = Vec::new();
    let mut lines = Vec::new();
    for (what, figure) in FIGURES {
        let mut rows = vec![row(
            format!("{}: the whole", plain.title),
            &names,
            |name| whole(results, &Outcome::of(results, plain, name), figure),
            &mut intervals,
        )];
        for cell in others {
            let title = format!("+ {}", cell.title);
            rows.push(row(title, &names, |name| added(results, plain, cell, name, figure), &mut intervals));
        }
        let titles = names.iter().map(|name| title(study, results, name));
        lines.push(Line::Table {
            section: section.to_owned(),
            head: std::iter::once(what.to_owned()).chain(titles).collect(),
            rows,
        });
    }
    let mut text = format!(
        "What a feature adds is the difference to \"{}\", round by round, at the same offered rate that both kept: a system at \
         its limit batches more and looks cheaper, so that it has no price. An interval that holds 0 is no proof of a price. \
         \"cannot\" says that the system lacks the feature or did not start with it.",
        plain.title
    );
    if let Some(promise) = promise(&intervals) {
        text.push(' ');
        text.push_str(&promise);
    }
    lines.push(note(section, text));
    lines
}

fn row(
    title: String,
    names: &[&str],
    price: impl Fn(&str) -> Result<Interval, String>,
    intervals: &mut Vec<Interval>,
) -> Vec<String> {
    let cells = names.iter().map(|name| match price(name) {
        Ok(found) => {
            intervals.push(found);
            interval(&found, decimals(found.estimate))
        }
        Err(why) => why,
    });
    std::iter::once(title).chain(cells).collect()
}

/// Trials of a system that kept the offered rate, or what to say in their place.
fn kept<'a>(outcome: &'a Outcome<'a>, place: &str) -> Result<&'a [&'a Trial], String> {
    match outcome {
        Outcome::Measured { trials, kind: VerdictKind::Nothing } => Ok(trials),
        Outcome::Measured { kind, .. } => Err(format!("{NONE} ({place}limited by: {})", kind.name())),
        Outcome::Cannot => Err(format!("{place}cannot")),
        Outcome::None(why) => Err(format!("{NONE} ({place}{why})")),
    }
}

fn whole(results: &Results, outcome: &Outcome<'_>, figure: Figure) -> Result<Interval, String> {
    let values: Vec<f64> = kept(outcome, "")?.iter().filter_map(|trial| figure(trial)).collect();
    typical(results, &values).ok_or_else(|| format!("{NONE} (not measured)"))
}

/// The difference of the two cells' figures, each round of the one against the same round of the other. The cells ran one
/// after the other, so that a pair shares no more than its number; the interval is honest all the same.
fn added(
    results: &Results,
    plain: &Cell,
    cell: &Cell,
    name: &str,
    figure: Figure,
) -> Result<Interval, String> {
    let (with, without) = (Outcome::of(results, cell, name), Outcome::of(results, plain, name));
    let with = kept(&with, "")?;
    let without = kept(&without, &format!("{}: ", plain.title))?;
    let offered = |trial: &Trial| trial.load.as_ref().and_then(|load| load.model.rps());
    let same_round = |trial: &&&Trial| {
        without.iter().find(|other| other.round == trial.round && offered(other) == offered(trial))
    };
    let pairs: Vec<(f64, f64)> = with
        .iter()
        .filter_map(|trial| Some((figure(trial)?, figure(same_round(&trial)?)?)))
        .filter(|(with, without)| with.is_finite() && without.is_finite())
        .collect();
    paired::difference(&pairs, &bootstrap(results))
        .map_err(|_| format!("{NONE} (no round in which both were measured at one rate)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse, made};
    use tollgate_lab_record::LoadModel;

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
        // The log adds 1.5, 2.5 and 2 us, and takes 10 us off the p99.
        made::measured(
            &mut results,
            "log",
            "nginx",
            VerdictKind::Nothing,
            &rounds([21.5, 24.5, 23.0], 390.0),
        );
        for trial in &mut results.trials {
            trial.load.as_mut().unwrap().model = LoadModel::Constant { rps: 16_000.0 };
        }
        results
    }

    #[test]
    fn differences_are_paired_by_round() {
        let lines = analyse(&made::study(STUDY), &results());
        let tables = made::tables(&lines);
        assert_eq!(tables[0][0], ["CPU, µs a request", "The nginx", "The haproxy"]);
        assert!(tables[0][1][1].starts_with("21.0 (20.0 to 22.0)"), "{:?}", tables[0][1]);
        assert_eq!(tables[0][2], ["+ cell log", "2.00 (1.50 to 2.50)", "cannot"]);
        assert_eq!(tables[1][0][0], "99th percentile, µs");
        assert_eq!(tables[1][2][1], "-10.0 (-10.0 to -10.0)");
        assert!(made::notes(&lines).contains("probability of 75 %"));
    }

    #[test]
    fn a_round_without_its_pair_does_not_count() {
        let mut results = results();
        results.trials.retain(|trial| !(trial.cell == "plain" && trial.round == 2));
        let tables = made::tables(&analyse(&made::study(STUDY), &results));
        assert_eq!(tables[0][2][1], "1.75 (1.50 to 2.00)", "rounds 1 and 3");
        results.trials.retain(|trial| trial.cell == "log" || trial.round == 3);
        let tables = made::tables(&analyse(&made::study(STUDY), &results));
        assert_eq!(tables[0][2][1], "2.00", "round 3 alone, without an interval");
    }

    #[test]
    fn a_system_at_its_limit_or_at_another_rate_has_no_price() {
        let mut results = results();
        for trial in results.trials.iter_mut().filter(|trial| trial.cell == "log") {
            trial.load.as_mut().unwrap().model = LoadModel::Constant { rps: 8_000.0 };
        }
        let price = |results: &Results| made::tables(&analyse(&made::study(STUDY), results))[0][2][1].clone();
        assert_eq!(price(&results), "- (no round in which both were measured at one rate)");
        results.verdicts[2].kind = VerdictKind::Gateway;
        assert_eq!(price(&results), "- (limited by: gateway)");
        results.verdicts[2].kind = VerdictKind::Nothing;
        results.verdicts[0].kind = VerdictKind::Errors;
        assert_eq!(price(&results), "- (cell plain: no figures: errors)");
    }
}
