//! Bars: the highest permitted ratio of a system's cost to the better of its peers, in the cells whose points
//! set one. The whole interval decides: the bar is met, missed, or open if it lies within the interval.
//!
//! The ratio is taken within rounds, as everywhere. The better peer is the one with the lower typical figure
//! over the whole run, which the tables show. The better of two disturbed figures in each round would be
//! better by luck.

use crate::number::{self, NONE};
use crate::outcome::{Outcome, bootstrap, title};
use crate::{note, table};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tollgate_lab_record::{Cell, Line, Metric, Results, Trial};
use tollgate_lab_stats::bar::{Held, hold};
use tollgate_lab_stats::bootstrap::Interval;
use tollgate_lab_stats::paired;
use tollgate_lab_study::{Analysis, Bar, Study};

/// The title of the whole report, as opposed to a section.
const WHOLE: &str = "";

pub(crate) fn lines(
    study: &Study,
    results: &Results,
    system: &str,
    peers: &[String],
    sections: &[String],
) -> Vec<Line> {
    let mut rows = Vec::new();
    let (mut held, mut met, mut missed) = (0, 0, 0);
    for cell in results.cells.iter().filter(|cell| judges(study, sections, &cell.section)) {
        for (bar, most) in bars(study, cell) {
            held += 1;
            let metric = metric(bar);
            let place = format!("{}: {}", cell.section, cell.title);
            let judged = better(results, cell, peers, metric)
                .and_then(|peer| Ok((peer, ratio(results, cell, system, peer, metric)?)));
            rows.push(match judged {
                Err(why) => [place, metric.title().to_owned(), NONE.into(), NONE.into(), bound(most), why],
                Ok((peer, (ratio, rounds))) => {
                    let verdict = hold(&ratio, most, rounds);
                    met += u32::from(verdict == Held::Met);
                    missed += u32::from(verdict == Held::Missed);
                    [
                        place,
                        metric.title().to_owned(),
                        title(study, results, peer),
                        number::interval(&ratio, 2),
                        bound(most),
                        in_words(verdict, ratio.estimate, most),
                    ]
                }
            });
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let titles: Vec<String> = peers.iter().map(|peer| title(study, results, peer)).collect();
    let all = titles.join(" and ");
    let (peer, than) = match titles.len() {
        1 => (format!("Beside {all}"), all),
        _ => (format!("Better of {all}"), format!("the better of {all}")),
    };
    let name = title(study, results, system);
    let ratio = format!("Ratio of {name}");
    // The names are in the head as well: of several tables with the same head, the result file keeps only the
    // last.
    let head = ["Cell", "Figure", &peer, &ratio, "Bar", "Result"].map(str::to_owned);
    let open = held - met - missed;
    let text = format!(
        "{name} meets {met} of {held} bars, misses {missed}, and leaves {open} open. The ratio is to {than} over the run, within rounds; \
         a bar is met or missed when the whole 95 % interval is on one side of it, for which it takes 6 rounds or more."
    );
    vec![table(WHOLE, head, rows), note(WHOLE, text)]
}

/// Returns whether an analysis that names these sections judges the cells of this section.
fn judges(study: &Study, sections: &[String], section: &String) -> bool {
    let named = |analysis: &Analysis| match analysis {
        Analysis::Bars { sections, .. } => sections.contains(section),
        _ => false,
    };
    if sections.is_empty() { !study.analyses.iter().any(named) } else { sections.contains(section) }
}

fn in_words(held: Held, estimate: f64, most: f64) -> String {
    let over = estimate / most - 1.0;
    let by = format!("{:.1} %", over.abs() * 100.0);
    let side = if over > 0.0 { "above" } else { "below" };
    match held {
        Held::Met => format!("PASS, {by} below"),
        Held::Missed => format!("MISS by {by}"),
        Held::Undecided { rounds: Some(rounds) } => {
            format!("OPEN, {by} {side}; about {rounds} rounds would tell")
        }
        Held::Undecided { rounds: None } => format!("OPEN, {by} {side}"),
    }
}

fn bound(most: f64) -> String {
    format!("<= {most:.2}")
}

fn metric(bar: Bar) -> Metric {
    match bar {
        Bar::Cpu => Metric::Cpu,
        Bar::P99 => Metric::P99,
    }
}

/// Returns the bars of a cell's point.
fn bars(study: &Study, cell: &Cell) -> BTreeMap<Bar, f64> {
    let place = cell.id.split_once('-').and_then(|(section, point)| {
        let (section, point): (usize, usize) = (section.parse().ok()?, point.parse().ok()?);
        study.sections.get(section.checked_sub(1)?)?.points.get(point.checked_sub(1)?)
    });
    place.map(|point| point.bars.clone()).unwrap_or_default()
}

/// Returns the peer with the lower typical figure in this cell, or the reason why there is none.
fn better<'a>(
    results: &'a Results,
    cell: &'a Cell,
    peers: &'a [String],
    metric: Metric,
) -> Result<&'a str, String> {
    let mut best: Option<(f64, &str)> = None;
    let mut lacking = Vec::new();
    for peer in peers {
        let found = figures(results, cell, peer, metric);
        let typical = found.map(|rounds| {
            paired::usable_typical(&rounds.into_values().collect::<Vec<_>>(), &bootstrap(results))
        });
        match typical {
            Ok(Some((typical, _))) => {
                let figure = typical.estimate;
                if best.is_none_or(|(least, _)| figure.partial_cmp(&least) == Some(Ordering::Less)) {
                    best = Some((figure, peer));
                }
            }
            Ok(None) => lacking.push(format!("{peer}: no figure")),
            Err(why) => lacking.push(format!("{peer}: {why}")),
        }
    }
    // If one peer has no figure, the better of them is unknown.
    match best.filter(|_| lacking.is_empty()) {
        Some((_, peer)) => Ok(peer),
        None => Err(format!("not judged ({})", lacking.join("; "))),
    }
}

/// Returns the ratio and the number of its rounds.
fn ratio(
    results: &Results,
    cell: &Cell,
    system: &str,
    peer: &str,
    metric: Metric,
) -> Result<(Interval, u32), String> {
    let not = |why: String| format!("not judged ({system}: {why})");
    let (ours, theirs) = (
        figures(results, cell, system, metric).map_err(not)?,
        figures(results, cell, peer, metric).map_err(not)?,
    );
    let pairs: Vec<(f64, f64)> =
        ours.iter().filter_map(|(round, value)| Some((*value, *theirs.get(round)?))).collect();
    let ratio = paired::ratio(&pairs, &bootstrap(results)).map_err(|error| not(error.to_string()))?;
    Ok((ratio, u32::try_from(pairs.len()).unwrap_or(u32::MAX)))
}

/// Returns a figure of each round that counts, by the number of the round.
fn figures(
    results: &Results,
    cell: &Cell,
    system: &str,
    metric: Metric,
) -> Result<BTreeMap<u32, f64>, String> {
    let name = cell.systems.iter().find(|name| *name == system).map_or(system, String::as_str);
    match Outcome::of(results, cell, name) {
        Outcome::Measured { trials, kind }
            if metric.is_latency()
                && !kind.has_latency()
                && trials
                    .iter()
                    .any(|trial| trial.load.as_ref().is_some_and(|load| load.model.rps().is_some())) =>
        {
            Err(format!("the latency is not its own: {}", kind.name()))
        }
        Outcome::Measured { trials, .. } => {
            let figure =
                |trial: &&Trial| Some((trial.round, trial.figure(metric).filter(|value| *value > 0.0)?));
            Ok(trials.iter().filter_map(figure).collect())
        }
        other => Err(other.why().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use tollgate_lab_record::VerdictKind;

    const STUDY: &str = "
title: T
about: A
analyses: [{kind: bars, system: us, peers: [a, b]}]
sections:
  - title: One
    systems: [us, a, b]
    points:
      - {bars: {cpu: 0.86, p99: 1}}
      - {}
      - {bars: {cpu: 0.5}}
";

    /// Each tuple is (requests/s, CPU us per response, p99 us), the same in six rounds, which give a level of
    /// 95 %.
    fn results(ours: (f64, f64, f64)) -> Results {
        let cells = ["1-1", "1-2", "1-3"].map(|id| made::cell(id, "One", &[], &["us", "a", "b"]));
        let mut results = made::results(&["us", "a", "b"], cells.to_vec());
        for (system, figures) in [("us", ours), ("a", (100.0, 20.0, 90.0)), ("b", (100.0, 10.0, 100.0))] {
            made::measured(&mut results, "1-1", system, VerdictKind::Nothing, &[figures; 6]);
        }
        results
    }

    fn rows(results: &Results) -> Vec<Vec<String>> {
        let study = made::study(STUDY);
        let tables = made::tables(&crate::analyse(&study, results));
        tables.into_iter().next().map(|table| table[1..].to_vec()).unwrap_or_default()
    }

    #[test]
    fn each_figure_is_held_against_the_better_peer_for_it() {
        let rows = rows(&results((100.0, 8.0, 95.0)));
        assert_eq!(rows[0][..3], ["One: cell 1-1", "CPU", "The b"]);
        assert!(rows[0][3].starts_with("0.80") && rows[0][4] == "<= 0.86", "{rows:?}");
        assert_eq!(rows[0][5], "PASS, 7.0 % below");
        assert_eq!(rows[1][1..3], ["p99", "The a"]);
        assert_eq!(rows[1][5], "MISS by 5.6 %");
    }

    #[test]
    fn the_better_peer_is_the_one_that_the_tables_show_as_such() {
        let mut results = results((100.0, 8.0, 95.0));
        // Its median is lower, its typical round is not.
        let uneven = [9.5, 10.0, 10.0, 10.1, 11.5, 12.0].map(|cpu| (100.0, cpu, 90.0));
        results.trials.retain(|trial| trial.system == "us");
        results.verdicts.retain(|verdict| verdict.system == "us");
        made::measured(&mut results, "1-1", "a", VerdictKind::Nothing, &uneven);
        made::measured(&mut results, "1-1", "b", VerdictKind::Nothing, &[(100.0, 10.1, 100.0); 6]);
        assert_eq!(rows(&results)[0][..3], ["One: cell 1-1", "CPU", "The b"]);
    }

    #[test]
    fn sections_that_are_named_have_peers_of_their_own() {
        let two = STUDY.replace(
            "peers: [a, b]}]",
            "peers: [a, b]}, {kind: bars, system: us, peers: [a], sections: [One]}]",
        );
        let lines = crate::analyse(&made::study(&two), &results((100.0, 8.0, 95.0)));
        let tables = made::tables(&lines);
        assert_eq!(tables.len(), 1, "the other judges nothing: {tables:?}");
        assert_eq!(tables[0][1][..3], ["One: cell 1-1", "CPU", "The a"]);
    }

    #[test]
    fn what_two_have_judged_stands_in_two_tables() {
        let two = STUDY.replace(
            "peers: [a, b]}]",
            "peers: [a, b]}, {kind: bars, system: us, peers: [a], sections: [Two]}]",
        ) + "  - {title: Two, systems: [us, a, b], points: [{bars: {cpu: 0.7}}]}\n";
        let mut results = results((100.0, 8.0, 95.0));
        results.cells.push(made::cell("2-1", "Two", &[], &["us", "a", "b"]));
        for (system, figures) in [("us", (100.0, 8.0, 95.0)), ("a", (100.0, 16.0, 95.0))] {
            made::measured(&mut results, "2-1", system, VerdictKind::Nothing, &[figures; 6]);
        }
        let tables = made::tables(&crate::analyse(&made::study(&two), &results));
        let heads: Vec<_> = tables.iter().map(|table| table[0][2].as_str()).collect();
        assert_eq!(heads, ["Better of The a and The b", "Beside The a"]);
    }

    #[test]
    fn a_ratio_that_is_the_bar_passes_and_what_was_not_measured_says_so() {
        let rows = rows(&results((100.0, 8.6, 90.0)));
        assert!(rows[0][5].starts_with("PASS"), "{rows:?}");
        assert!(rows[2][5].starts_with("not judged (a: the run ended before"), "{rows:?}");
        let study = made::study(STUDY);
        let notes = made::notes(&crate::analyse(&study, &results((100.0, 8.0, 80.0))));
        assert!(notes.starts_with("The us meets 2 of 3 bars, misses 0, and leaves 1 open."), "{notes}");
    }

    #[test]
    fn a_bar_inside_the_interval_stays_open() {
        let mut results = results((100.0, 8.0, 95.0));
        let ours = results.trials.iter_mut().filter(|trial| trial.system == "us");
        for (at, trial) in ours.enumerate() {
            let cost = trial.cost.as_mut().unwrap();
            cost.user_us += [0.0, 3.0][at % 2];
        }
        let rows = rows(&results);
        assert_eq!(
            rows[0][3..],
            ["0.94 (0.80 to 1.10)", "<= 0.86", "OPEN, 9.1 % above; about 21 rounds would tell"],
            "{rows:?}"
        );
    }
}
