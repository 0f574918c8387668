//! The founding capacity plan (study `kong-envoy-nginx`): what a gateway's machine could forward, and the
//! gateway cores of a cluster, computed from runs in which the upstream was saturated.
//!
//! [`lines`] writes one table with three groups of rows: the published figures with the original's rounding,
//! the exact figures from the published inputs, and our own. Our rows come from the cell in which the
//! upstream was saturated for most gateways, because the formula compares cores at one common rate. A note
//! names the gateways for which that does not hold.

use crate::number::{NONE, fixed, interval, plain, promise};
use crate::outcome::{Outcome, cells, gateways, title, typical};
use crate::{note, table};
use std::cmp::Reverse;
use tollgate_lab_record::{Cell, Line, Results, Trial, VerdictKind};
use tollgate_lab_stats::bootstrap::Interval;
use tollgate_lab_stats::capacity::{Cluster, NotPossible, Plan, WHY_PRINTED_DIFFERS, ceiling};
use tollgate_lab_study::{PublishedCapacity, Study};

/// The parameters that the study sets.
pub(crate) struct Asked<'a> {
    /// The section of its cell.
    pub(crate) section: &'a str,
    /// The services behind the gateways.
    pub(crate) cluster: Cluster,
    /// The cores of a gateway's machine.
    pub(crate) cores: f64,
    /// The input of the original's plan.
    pub(crate) published: Option<&'a PublishedCapacity>,
}

const COLUMNS: usize = 9;

pub(crate) fn lines(study: &Study, results: &Results, asked: &Asked<'_>) -> Vec<Line> {
    let cells = cells(results, asked.section);
    let names = gateways(study, &cells);
    let mut rows = Vec::new();
    for (group, rounded) in [("published, as printed", true), ("published inputs, exactly", false)] {
        rows.extend(published(study, results, asked, &names, group, rounded));
    }
    let mut notes = Vec::new();
    if asked.published.is_some() {
        notes.push(WHY_PRINTED_DIFFERS.to_owned());
    }
    match start(results, &cells, &names, asked) {
        None => notes.push("No gateway has figures in this section, so there is no plan of ours.".to_owned()),
        Some(cell) => {
            let mut intervals = Vec::new();
            for name in &names {
                let outcome = Outcome::of(results, cell, name);
                rows.push(ours(results, asked, title(study, results, name), &outcome, &mut intervals));
            }
            notes.push(premise(study, results, cell, &names, asked));
            notes.extend(promise(&intervals));
        }
    }
    let share = plain(asked.cluster.utilisation * 100.0);
    let head = [
        "Figures".to_owned(),
        "System".to_owned(),
        "Requests/s".to_owned(),
        "Cores used".to_owned(),
        format!("Ceiling on {} cores, k requests/s", plain(asked.cores)),
        format!("Gateway cores for {}/s", plain(asked.cluster.cores * asked.cluster.rps_per_core)),
        format!("Gateway cores at {share} %"),
        "Share of the upstream cores".to_owned(),
        "Limited by, or why there is no figure".to_owned(),
    ];
    std::iter::once(table(asked.section, head, rows))
        .chain(notes.into_iter().map(|text| note(asked.section, text)))
        .collect()
}

/// Returns the rows of the original's gateways, in our order.
fn published(
    study: &Study,
    results: &Results,
    asked: &Asked<'_>,
    order: &[&str],
    group: &str,
    rounded: bool,
) -> Vec<[String; COLUMNS]> {
    let Some(published) = asked.published else { return Vec::new() };
    let place = |name: &str| order.iter().position(|other| *other == name).unwrap_or(order.len());
    let mut used: Vec<(&String, &f64)> = published.cores_used.iter().collect();
    used.sort_by_key(|(name, _)| place(name));
    used.into_iter()
        .map(|(name, used)| {
            let title = title(study, results, name);
            let planned = ceiling(published.rps, *used, asked.cores).and_then(|most| {
                let plan = if rounded {
                    asked.cluster.plan_as_printed(most, asked.cores)
                } else {
                    asked.cluster.plan(most, asked.cores)
                };
                Ok((most, plan?))
            });
            let decimals = usize::from(!rounded);
            match planned {
                Err(error) => absent(group, title, &error.to_string()),
                Ok((most, plan)) => [
                    group.to_owned(),
                    title,
                    fixed(published.rps, 0),
                    fixed(*used, 1),
                    fixed(most / 1e3, 1),
                    fixed(plan.cores, decimals),
                    fixed(plan.cores_in_use, decimals),
                    format!("{} %", fixed(plan.share * 100.0, decimals)),
                    String::new(),
                ],
            }
        })
        .collect()
}

fn absent(group: &str, title: String, why: &str) -> [String; COLUMNS] {
    let none = || NONE.to_owned();
    [group.to_owned(), title, none(), none(), none(), none(), none(), none(), why.to_owned()]
}

/// Returns the cell for our plan. It is the cell in which the upstream was saturated for most gateways, since
/// the formula compares cores at one rate. Of equal cells, the original's wins, then the one with most
/// figures, then the first.
fn start<'a>(
    results: &'a Results,
    cells: &[&'a Cell],
    names: &[&str],
    asked: &Asked<'_>,
) -> Option<&'a Cell> {
    let worth = |cell: &Cell| {
        let outcomes: Vec<Outcome<'_>> = names.iter().map(|name| Outcome::of(results, cell, name)).collect();
        let measured = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Measured { .. })).count();
        (outcomes.iter().filter(|outcome| upstream_full(outcome)).count(), originals(cell, asked), measured)
    };
    cells
        .iter()
        .map(|cell| (worth(cell), *cell))
        .filter(|((.., measured), _)| *measured > 0)
        .min_by_key(|(worth, _)| Reverse(*worth))
        .map(|(_, cell)| cell)
}

fn originals(cell: &Cell, asked: &Asked<'_>) -> bool {
    asked
        .published
        .is_some_and(|published| cell.axis.as_ref().is_some_and(|(_, value)| *value == published.at))
}

fn upstream_full(outcome: &Outcome<'_>) -> bool {
    matches!(outcome, Outcome::Measured { kind: VerdictKind::Origin, .. })
}

fn ours(
    results: &Results,
    asked: &Asked<'_>,
    title: String,
    outcome: &Outcome<'_>,
    intervals: &mut Vec<Interval>,
) -> [String; COLUMNS] {
    const GROUP: &str = "measured here";
    let Outcome::Measured { trials, kind } = outcome else { return absent(GROUP, title, outcome.why()) };
    let rounds: Vec<(f64, f64)> = trials.iter().filter_map(|trial| forwarded(trial)).collect();
    let most: Vec<f64> =
        rounds.iter().filter_map(|(rps, used)| ceiling(*rps, *used, asked.cores).ok()).collect();
    let over = |values: Vec<f64>| typical(results, &values);
    let (Some(rps), Some(used), Some(most)) = (
        over(rounds.iter().map(|(rps, _)| *rps).collect()),
        over(rounds.iter().map(|(_, used)| *used).collect()),
        over(most),
    ) else {
        return absent(GROUP, title, "its CPU time was not measured");
    };
    let wanted = |value: fn(&Plan) -> f64| inverse(asked, &most, value);
    match (wanted(|plan| plan.cores), wanted(|plan| plan.cores_in_use), wanted(|plan| plan.share)) {
        (Ok(cores), Ok(in_use), Ok(share)) => {
            intervals.push(most);
            [
                GROUP.to_owned(),
                title,
                interval(&rps, 0),
                interval(&used, 3),
                interval(&most.map(|most| most / 1e3), 1),
                interval(&cores, 1),
                interval(&in_use, 1),
                format!("{} %", fixed(share.estimate * 100.0, 1)),
                kind.name().to_owned(),
            ]
        }
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => absent(GROUP, title, &error.to_string()),
    }
}

/// Returns a trial's requests/s and the cores that the gateway used. Both refer to the generator's clock. A
/// tool that is started for each trial begins later than the reading of the CPU time, and the readings' own
/// clock would make the gateway look cheaper by that difference.
fn forwarded(trial: &Trial) -> Option<(f64, f64)> {
    let load = trial.load.as_ref()?;
    let used = trial.evidence.target.cpu_us() / 1e6 / load.seconds;
    (load.rps() > 0.0 && used.is_finite() && used > 0.0).then(|| (load.rps(), used))
}

/// Returns a figure of the plan with its interval. The figure falls as the ceiling rises, so the ends are
/// swapped.
fn inverse(asked: &Asked<'_>, most: &Interval, value: fn(&Plan) -> f64) -> Result<Interval, NotPossible> {
    let at = |ceiling: f64| asked.cluster.plan(ceiling, asked.cores).map(|plan| value(&plan));
    Ok(Interval { estimate: at(most.estimate)?, low: at(most.high)?, high: at(most.low)?, ..*most })
}

fn premise(study: &Study, results: &Results, cell: &Cell, names: &[&str], asked: &Asked<'_>) -> String {
    let mut full = 0;
    let mut others = Vec::new();
    for name in names {
        match Outcome::of(results, cell, name) {
            Outcome::Measured { kind: VerdictKind::Origin, .. } => full += 1,
            Outcome::Measured { kind, .. } => {
                others.push(format!("{} ({})", title(study, results, name), kind.name()));
            }
            _ => {}
        }
    }
    let mut text = format!(
        "Ours starts from the cell \"{}\", where the origin was the limit of {full} of the {} gateways that have figures there.",
        cell.title,
        full + others.len()
    );
    if let Some(published) = asked.published.filter(|_| !originals(cell, asked)) {
        text.push_str(&format!(
            " The original took {}; there the origin was full for fewer, or there are no figures.",
            plain(published.at)
        ));
    }
    if !others.is_empty() {
        text.push_str(&format!(
            " The plan compares cores at the one rate of a full upstream; that does not hold for {}.",
            others.join(", ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse, made};
    use tollgate_lab_record::Missing;

    const STUDY: &str = "
title: T
about: A
analyses:
  - kind: capacity
    section: Low
    upstream_cores: 2000
    rps_per_core: 1500
    utilisation: 0.3
    gateway_cores: 32
    published: {at: 32, rps: 36000, cores_used: {nginx: 3.4, kong: 7.3, envoy: 5.0}}
sections: [{title: Low, systems: [direct, nginx, kong, envoy], points: [{}]}]
";

    fn results() -> Results {
        let cell = |id: &str, connections: f64| Cell {
            axis: Some(("connections".into(), connections)),
            ..made::cell(id, "Low", &[], &["direct", "nginx", "kong", "envoy"])
        };
        let mut results =
            made::results(&["direct", "nginx", "kong", "envoy"], vec![cell("1-1", 16.0), cell("1-2", 32.0)]);
        results.systems[2].missing = Some(Missing { reason: "not installed".into(), get: String::new() });
        for cell in ["1-1", "1-2"] {
            made::measured(&mut results, cell, "direct", VerdictKind::Origin, &[(9_000.0, 0.0, 1.0)]);
            // 10,000/s at 20 us: 0.2 core; on 32 cores 1,600k/s; 3,000k/s take 60 cores, 18 at 30 %, 0.9 % of
            // 2,000.
            made::measured(&mut results, cell, "nginx", VerdictKind::Origin, &[(10_000.0, 20.0, 1.0); 3]);
            // 8,000/s at 50 us: 0.4 core; 640k/s; 150 cores, 45 at 30 %, 2.3 % (2.25).
            made::measured(&mut results, cell, "envoy", VerdictKind::Origin, &[(8_000.0, 50.0, 1.0); 3]);
        }
        results
    }

    fn column(rows: &[Vec<String>], at: usize) -> Vec<&str> {
        rows.iter().map(|row| row[at].as_str()).collect()
    }

    #[test]
    fn the_founding_figures_printed_and_exact() {
        let lines = analyse(&made::study(STUDY), &results());
        let table = &made::tables(&lines)[0];
        assert_eq!(
            table[0][4..7],
            ["Ceiling on 32 cores, k requests/s", "Gateway cores for 3,000,000/s", "Gateway cores at 30 %"]
        );
        assert_eq!(
            column(&table[1..7], 1),
            ["The nginx", "The kong", "The envoy", "The nginx", "The kong", "The envoy"]
        );
        assert_eq!(column(&table[1..4], 4), ["338.8", "157.8", "230.4"]);
        assert_eq!(column(&table[1..4], 5), ["284", "611", "417"]);
        assert_eq!(column(&table[1..4], 6), ["94", "203", "139"]);
        assert_eq!(column(&table[1..4], 7), ["5 %", "10 %", "7 %"]);
        assert_eq!(column(&table[4..7], 5), ["283.3", "608.3", "416.7"]);
        assert_eq!(column(&table[4..7], 6), ["85.0", "182.5", "125.0"]);
        assert!(made::notes(&lines).contains(WHY_PRINTED_DIFFERS));
    }

    #[test]
    fn ours_starts_from_the_original_s_cell_and_multiplies_out() {
        let lines = analyse(&made::study(STUDY), &results());
        let table = &made::tables(&lines)[0];
        assert_eq!(table.len(), 10, "head, three groups of three gateways, and no direct run");
        assert_eq!(
            table[7][2..],
            [
                "10,000 (10,000 to 10,000)",
                "0.200 (0.200 to 0.200)",
                "1,600.0 (1,600.0 to 1,600.0)",
                "60.0 (60.0 to 60.0)",
                "18.0 (18.0 to 18.0)",
                "0.9 %",
                "origin"
            ]
        );
        assert_eq!(table[8][2..], ["-", "-", "-", "-", "-", "-", "missing: not installed"]);
        assert!(table[9][5].starts_with("150.0 ") && table[9][6].starts_with("45.0 "), "{:?}", table[9]);
        let notes = made::notes(&lines);
        assert!(
            notes.contains("\"cell 1-2\", where the origin was the limit of 2 of the 2 gateways"),
            "{notes}"
        );
        assert!(notes.contains("are 75 % confidence intervals"), "{notes}");
        assert!(!notes.contains("The original took"));
    }

    #[test]
    fn a_cell_in_which_the_upstream_is_full_for_more_gateways_goes_first() {
        let mut results = results();
        for verdict in results.verdicts.iter_mut().filter(|verdict| verdict.cell == "1-2") {
            if verdict.system == "envoy" {
                verdict.kind = VerdictKind::Generator;
            }
        }
        let notes = made::notes(&analyse(&made::study(STUDY), &results));
        assert!(notes.contains("\"cell 1-1\"") && notes.contains("The original took 32"), "{notes}");
        for verdict in &mut results.verdicts {
            if verdict.system == "envoy" {
                verdict.kind = VerdictKind::Gateway;
            }
        }
        let notes = made::notes(&analyse(&made::study(STUDY), &results));
        assert!(
            notes.contains("\"cell 1-2\"") && notes.contains("does not hold for The envoy (gateway)"),
            "{notes}"
        );
    }

    #[test]
    fn the_ends_of_the_interval_change_places() {
        let mut results = results();
        results.trials.retain(|trial| trial.system == "nginx" && trial.cell == "1-2");
        for (trial, factor) in results.trials.iter_mut().zip([0.5, 1.0, 2.0]) {
            trial.evidence.target.user_us *= factor;
        }
        let lines = analyse(&made::study(STUDY), &results);
        let table = &made::tables(&lines)[0];
        // The ends of three rounds' interval are the lowest and the highest round: 0.1 and 0.4 core.
        assert_eq!(table[7][4], "1,600.0 (800.0 to 3,200.0)");
        assert_eq!(table[7][5], "60.0 (30.0 to 120.0)");
        assert_eq!(table[9][8], "no good trial");
    }

    #[test]
    fn without_figures_the_published_groups_stand_alone() {
        let mut results = results();
        for verdict in &mut results.verdicts {
            verdict.kind = VerdictKind::Errors;
        }
        let lines = analyse(&made::study(STUDY), &results);
        assert_eq!(made::tables(&lines)[0].len(), 7);
        assert!(made::notes(&lines).contains("No gateway has figures"));
    }
}
