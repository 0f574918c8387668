//! Derives from a sweep of CPU quotas and workers the smallest size that carries a rate. (Study `sidecar` asks for it:
//! its authors were not aware of their quota.)
//!
//! [`lines`] gives each measured cell to [`tollgate_lab_stats::advice`] as one point. A second part counts in
//! how many cells the laboratory detected the quota from the kernel's throttling counters alone, without
//! using the study's setting.

use crate::number::{NONE, fixed, plain};
use crate::outcome::{Outcome, cells, gateways, quota, rates, title, typical, workers};
use crate::{note, table};
use tollgate_lab_record::{Cell, Line, Results, VerdictKind};
use tollgate_lab_stats::advice::{Advice, Basis, NoAdvice, Point, advise};
use tollgate_lab_study::Study;

pub(crate) fn lines(study: &Study, results: &Results, section: &str, rates: &[f64]) -> Vec<Line> {
    let cells = cells(results, section);
    let names = gateways(study, &cells);
    let mut rows = Vec::new();
    let mut elsewhere = Vec::new();
    for name in &names {
        let title = title(study, results, name);
        let mut points = Vec::new();
        let mut reasons: Vec<String> = Vec::new();
        for cell in &cells {
            match point(study, results, cell, name) {
                Ok((point, kind)) => {
                    points.push(point);
                    if !matches!(kind, VerdictKind::Quota | VerdictKind::Gateway | VerdictKind::HotWorker) {
                        elsewhere.push(format!("{title}, {} ({})", cell.title, kind.name()));
                    }
                }
                Err(why) if reasons.contains(&why) => {}
                Err(why) => reasons.push(why),
            }
        }
        for rate in rates {
            rows.push(row(&title, *rate, &advise(&points, *rate), &reasons));
        }
    }
    let head = ["System", "Requests/s asked for", "CPU limit, cores", "Workers", "From"].map(str::to_owned);
    let mut lines = vec![
        table(section, head, rows),
        note(
            section,
            "The CPU limit is the smallest that carries the rate, between measured limits on a straight line and never beyond \
             them. At such a limit the system is full: leave room above it."
                .to_owned(),
        ),
    ];
    lines.extend(found(study, results, &cells, &names).map(|text| note(section, text)));
    if !elsewhere.is_empty() {
        lines.push(note(
            section,
            format!(
                "Limited by another than the system or its quota, which may carry more there: {}.",
                elsewhere.join("; ")
            ),
        ));
    }
    lines
}

/// Returns what a system carried in a cell, or why that is not known.
fn point(study: &Study, results: &Results, cell: &Cell, name: &str) -> Result<(Point, VerdictKind), String> {
    let outcome = Outcome::of(results, cell, name);
    let Outcome::Measured { trials, kind } = &outcome else { return Err(outcome.why().to_owned()) };
    let (cpu_limit, workers) = quota(study, cell, name)
        .zip(workers(study, cell, name))
        .ok_or_else(|| format!("{} sets no quota or no workers", cell.title))?;
    let rps = typical(results, &rates(trials)).ok_or_else(|| "it answered nothing".to_owned())?;
    Ok((Point { cpu_limit, workers, max_rps: rps.estimate }, *kind))
}

fn row(title: &str, rate: f64, advice: &Result<Advice, NoAdvice>, reasons: &[String]) -> [String; 5] {
    let (limit, workers, from) = match advice {
        Ok(advice) => {
            let from = match &advice.basis {
                Basis::Measured { max_rps } => format!("measured: it carried {}/s", fixed(*max_rps, 0)),
                Basis::Interpolated { below, above } => format!(
                    "between {}/s at {} and {}/s at {}, both measured",
                    fixed(below.max_rps, 0),
                    plain(below.cpu_limit),
                    fixed(above.max_rps, 0),
                    plain(above.cpu_limit)
                ),
            };
            (fixed(rounded_up(advice.cpu_limit), 3), advice.workers.to_string(), from)
        }
        Err(NoAdvice::NothingMeasured) => {
            (NONE.to_owned(), NONE.to_owned(), format!("no advice: {}", reasons.join("; ")))
        }
        Err(refusal) => (NONE.to_owned(), NONE.to_owned(), refusal.to_string()),
    };
    [title.to_owned(), fixed(rate, 0), limit, workers, from]
}

/// Rounds up to whole thousandths of a core, since a smaller limit would carry less than the target.
/// Subtracting a tiny part first ignores an excess that only floating-point rounding causes.
fn rounded_up(cores: f64) -> f64 {
    (cores * 1e3 - 1e-6).ceil() / 1e3
}

/// Returns in how many cells the verdict named the quota, and the right one. The size comes from the kernel's
/// group, not from the study's setting.
fn found(study: &Study, results: &Results, cells: &[&Cell], names: &[&str]) -> Option<String> {
    // Quota, cells in which it was named, all cells.
    let mut counts: Vec<(f64, usize, usize)> = Vec::new();
    let mut others = Vec::new();
    for cell in cells {
        for name in names {
            let Some((quota, verdict)) = quota(study, cell, name).zip(results.verdict_of(&cell.id, name))
            else {
                continue;
            };
            let rounds = results.rounds(&cell.id);
            let named = verdict.kind == VerdictKind::Quota
                && results
                    .trials_of(&cell.id, name)
                    .filter(|trial| rounds.counts(trial))
                    .filter_map(|trial| trial.evidence.target_quota.as_ref())
                    .any(|seen| seen.throttled > 0 && (seen.cores / quota - 1.0).abs() < 0.01);
            if !named {
                others.push(format!(
                    "{}, {} ({})",
                    title(study, results, name),
                    cell.title,
                    verdict.kind.name()
                ));
            }
            let at = counts.iter().position(|(other, ..)| *other == quota).unwrap_or_else(|| {
                counts.push((quota, 0, 0));
                counts.len() - 1
            });
            counts[at].1 += usize::from(named);
            counts[at].2 += 1;
        }
    }
    let (named, all) = counts.iter().fold((0, 0), |(named, all), count| (named + count.1, all + count.2));
    let each: Vec<String> =
        counts.iter().map(|(quota, named, all)| format!("{} in {named} of {all}", plain(*quota))).collect();
    let mut text = format!(
        "The verdicts do not know what quota the study set. From the kernel's throttling counters they named it as the limit \
         in {named} of {all} cells, a cell being a system at a setting; by its cores: {}.",
        each.join(", ")
    );
    if !others.is_empty() {
        text.push_str(&format!(" Another limit was named for: {}.", others.join("; ")));
    }
    (all > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyse, made};
    use tollgate_lab_record::{Missing, Throttled};

    const STUDY: &str = "
title: T
about: A
analyses: [{kind: quota-advice, section: Sweep, rates: [1000, 5000, 10000]}]
sections: [{title: Sweep, systems: [nginx, kong], points: [{}]}]
";

    fn results() -> Results {
        let cell = |id: &str, quota: &str, workers: &str| {
            made::cell(id, "Sweep", &[("quota", quota), ("workers", workers)], &["nginx", "kong"])
        };
        let cells = vec![
            cell("a", "0.25 cores", "1"),
            cell("b", "0.5 cores", "1"),
            cell("c", "0.25 cores", "2"),
            cell("d", "0.5 cores", "2"),
        ];
        let mut results = made::results(&["nginx", "kong"], cells);
        results.systems[1].missing = Some(Missing { reason: "not installed".into(), get: String::new() });
        for (id, cores, rps) in
            [("a", 0.25, 4_000.0), ("b", 0.5, 8_000.0), ("c", 0.25, 3_000.0), ("d", 0.5, 7_500.0)]
        {
            made::measured(&mut results, id, "nginx", VerdictKind::Quota, &[(rps, 10.0, 1.0)]);
            let last = results.trials.last_mut().unwrap();
            last.evidence.target_quota = Some(Throttled { cores, periods: 100, throttled: 90, held_us: 5e6 });
        }
        results
    }

    #[test]
    fn the_smallest_size_for_each_rate_and_an_honest_refusal() {
        let tables = made::tables(&analyse(&made::study(STUDY), &results()));
        let rows = &tables[0][1..];
        assert_eq!(rows[0], ["The nginx", "1,000", "0.250", "1", "measured: it carried 4,000/s"]);
        // A quarter of the way from 4,000 to 8,000: 0.25 + 0.25 / 4 = 0.3125.
        assert_eq!(
            rows[1],
            ["The nginx", "5,000", "0.313", "1", "between 4,000/s at 0.25 and 8,000/s at 0.5, both measured"]
        );
        assert_eq!(rows[2][2..4], ["-", "-"]);
        assert!(
            rows[2][4].contains("no advice for 10000 requests/s: the most that was measured is 8000"),
            "{:?}",
            rows[2]
        );
        assert_eq!(rows[3], ["The kong", "1,000", "-", "-", "no advice: missing: not installed"]);
    }

    #[test]
    fn a_void_cell_gives_no_point() {
        let mut results = results();
        results.verdicts[1].kind = VerdictKind::Invalid;
        let tables = made::tables(&analyse(&made::study(STUDY), &results));
        // Two workers: from 3,000 at 0.25 to 7,500 at 0.5; 5,000 is 4/9 of the way: 0.36111.
        assert_eq!(tables[0][2][2..4], ["0.362", "2"]);
    }

    #[test]
    fn a_quota_counts_as_named_only_by_the_kernel_s_own_figure() {
        let mut results = results();
        let notes = made::notes(&analyse(&made::study(STUDY), &results));
        assert!(notes.contains("in 4 of 4 cells") && !notes.contains("Another limit"), "{notes}");
        results.trials[0].evidence.target_quota = None;
        results.verdicts[3].kind = VerdictKind::Generator;
        let notes = made::notes(&analyse(&made::study(STUDY), &results));
        assert!(notes.contains("in 2 of 4 cells"), "{notes}");
        assert!(notes.contains("0.25 in 1 of 2, 0.5 in 1 of 2"), "{notes}");
        assert!(notes.contains("may carry more there: The nginx, cell d (generator)"), "{notes}");
    }
}
