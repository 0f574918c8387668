//! Tabulates how evenly the workers of each system shared their work, and what passed between them.
//!
//! [`lines`] adds to the table of [`crate::scaling`]: a gateway whose throughput does not grow with its workers may
//! have accepted unevenly, or its workers may wait for each other. CPU time comes from the kernel's count of each
//! thread, so every system has it. Connections, requests and what passes between workers come from the system's
//! own counters, if its description names them and the feature `statistics` is on.

use crate::number::{NONE, fixed};
use crate::outcome::{Outcome, cells, gateways, title, workers};
use crate::{note, table};
use std::collections::BTreeMap;
use tollgate_lab_record::{Line, Results, Trial, Workers};
use tollgate_lab_stats::median::median;
use tollgate_lab_study::Study;

pub(crate) fn lines(study: &Study, results: &Results, section: &str) -> Vec<Line> {
    let cells = cells(results, section);
    let mut rows = Vec::new();
    for name in gateways(study, &cells) {
        for cell in &cells {
            let Some(count) = workers(study, cell, name).filter(|count| *count > 1) else { continue };
            let Outcome::Measured { trials, .. } = Outcome::of(results, cell, name) else { continue };
            let over = |of: &dyn Fn(&Trial) -> Option<f64>| {
                let rounds: Vec<f64> = trials.iter().filter_map(|trial| of(trial)).collect();
                median(&rounds).map_or_else(|| NONE.to_owned(), |value| fixed(value, 2))
            };
            let counted = |of: fn(&Workers) -> &Vec<u64>| {
                over(&|trial| spread(of(trial.evidence.workers.as_ref()?).iter().map(|one| *one as f64)))
            };
            let row = [
                title(study, results, name),
                count.to_string(),
                over(&|trial| cpu_spread(trial, count as usize)),
                counted(|workers| &workers.connections),
                counted(|workers| &workers.accepted),
                counted(|workers| &workers.requests),
                between(&trials),
                over(&switches),
            ];
            if row[2..].iter().any(|figure| figure != NONE) {
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    vec![
        table(
            section,
            [
                "Balance of the workers",
                "Workers",
                "CPU time, busiest over mean",
                "Connections, most over mean",
                "Accepted, most over mean",
                "Requests, most over mean",
                "Between workers, for each 1,000 requests",
                "Switches for each request",
            ]
            .map(str::to_owned),
            rows,
        ),
        note(
            section,
            "1 is a perfect balance; with W workers, W is all work at one of them. CPU time is that of as many of the \
             system's busiest threads as it has workers. Open and accepted connections, requests and what passes \
             between workers are the system's own counters. A switch is a thread that left its core, to wait or for another. All are medians of \
             the rounds."
                .to_owned(),
        ),
    ]
}

/// Returns the largest over the mean; `None` without anything to share.
fn spread(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut most, mut sum, mut count) = (0.0_f64, 0.0, 0_u32);
    for value in values {
        most = most.max(value);
        sum += value;
        count += 1;
    }
    (sum > 0.0).then(|| most * f64::from(count) / sum)
}

/// Returns the spread of CPU time over the workers; `None` if fewer threads are listed than there are workers.
fn cpu_spread(trial: &Trial, workers: usize) -> Option<f64> {
    spread(trial.evidence.target.threads.get(..workers)?.iter().map(|thread| thread.share))
}

fn switches(trial: &Trial) -> Option<f64> {
    let target = &trial.evidence.target;
    let ok = trial.load.as_ref()?.ok;
    // Nothing is known of the threads of a system that the laboratory did not start.
    (ok > 0 && target.thread_count > 0)
        .then(|| (target.voluntary_switches + target.involuntary_switches) as f64 / ok as f64)
}

/// Returns what passed between the workers in words, such as `0.40 messages, 0.00 client connections`.
fn between(trials: &[&Trial]) -> String {
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        let (Some(workers), Some(load)) = (&trial.evidence.workers, &trial.load) else { continue };
        for (name, count) in workers.between.iter().filter(|_| load.ok > 0) {
            rates.entry(name).or_default().push(*count as f64 * 1e3 / load.ok as f64);
        }
    }
    let words: Vec<String> = rates
        .iter()
        .filter_map(|(name, rates)| Some(format!("{} {name}", fixed(median(rates)?, 2))))
        .collect();
    if words.is_empty() { NONE.to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use tollgate_lab_record::{ThreadShare, Tree, VerdictKind};

    const STUDY: &str = "
title: T
about: A
sections: [{title: Workers, systems: [direct, envoy, nginx], axis: workers, points: [{}]}]
";

    fn results(shares: &[f64]) -> Results {
        let cell = |workers: &str| {
            made::cell(workers, "Workers", &[("workers", workers)], &["direct", "envoy", "nginx"])
        };
        let mut results = made::results(&["direct", "envoy", "nginx"], vec![cell("1"), cell("2")]);
        for (cell, system) in [("1", "envoy"), ("2", "envoy"), ("2", "nginx")] {
            made::measured(&mut results, cell, system, VerdictKind::Gateway, &[(100.0, 10.0, 1.0); 3]);
        }
        for trial in results.trials.iter_mut().filter(|trial| trial.cell == "2") {
            trial.evidence.target = Tree {
                threads: shares.iter().map(|share| ThreadShare { name: "w".into(), share: *share }).collect(),
                thread_count: 3,
                voluntary_switches: 1_500,
                involuntary_switches: 500,
                ..Tree::default()
            };
            if trial.system == "envoy" {
                // Rounds 1 to 3; each has 1,000 requests.
                let round = u64::from(trial.round);
                trial.evidence.workers = Some(Workers {
                    connections: vec![10, 30],
                    accepted: Vec::new(),
                    requests: vec![500, 500],
                    between: [("messages".to_owned(), round * 20), ("moved".to_owned(), 0)].into(),
                });
            }
        }
        results
    }

    #[test]
    fn each_system_with_several_workers_has_a_row() {
        let lines = lines(&made::study(STUDY), &results(&[0.9, 0.6, 0.1]), "Workers");
        let tables = made::tables(&lines);
        assert_eq!(tables[0].len(), 3, "one worker and a direct run share nothing: {:?}", tables[0]);
        // 0.9 over 0.75; 30 over 20; 40 of 1,000; 2,000 switches.
        assert_eq!(
            tables[0][1],
            ["The envoy", "2", "1.20", "1.50", "-", "1.00", "40.00 messages, 0.00 moved", "2.00"]
        );
        assert_eq!(tables[0][2], ["The nginx", "2", "1.20", "-", "-", "-", "-", "2.00"]);
        assert!(made::notes(&lines).contains("1 is a perfect balance"));
    }

    #[test]
    fn too_few_threads_have_no_balance_and_no_rows_make_no_table() {
        let tables = made::tables(&lines(&made::study(STUDY), &results(&[0.9]), "Workers"));
        assert_eq!(tables[0][1][2], "-");
        let mut none = results(&[0.9]);
        none.verdicts.clear();
        assert!(lines(&made::study(STUDY), &none, "Workers").is_empty());
    }
}
