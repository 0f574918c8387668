//! Builds the rows of a report from the lines of a result file. It takes good trials of numbered rounds only,
//! and gives a system without a usable verdict a reason instead of figures. Ratios come from the file's
//! verdicts; if a verdict lacks one, it is computed from the rounds.

use super::{
    Call, CellReport, Curve, Decision, Figures, Metric, Outcome, OwnTable, Ratio, Report, Row, Section,
    Steady, Trace,
};
use crate::estimate;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_lab_record::{
    Cell, Connections, Distribution, Price, Published, Received, Results, Rounds, Status, Summary,
    SystemUsed, Trial, Verdict, Window,
};
use tollgate_lab_stats::steady::{Steadiness, steady as judge};
use tollgate_lab_stats::tie::Order;

/// The CPU time in microseconds, over all rounds, from which the split into user and system is shown. The
/// kernel divides the sum by clock ticks of 10 ms: with 100 of them, the standard error of a share is at most
/// 5 points.
const SPLIT_FROM_US: f64 = 1e6;

impl Report {
    /// Builds the report of a result file.
    pub fn new(results: &Results) -> Self {
        let mut sections: Vec<Section> = Vec::new();
        for cell in &results.cells {
            let report = cell_report(results, cell);
            match sections.iter_mut().find(|section| section.title == cell.section) {
                Some(section) => section.cells.push(report),
                None => sections.push(Section {
                    title: cell.section.clone(),
                    cells: vec![report],
                    compared_by: Vec::new(),
                    notes: texts(results, &cell.section),
                    tables: tables(results, &cell.section),
                    prices: prices(results, &cell.section),
                }),
            }
        }
        // A section may consist only of a table of the study's own.
        for (title, ..) in &results.tables {
            if !title.is_empty() && sections.iter().all(|section| &section.title != title) {
                sections.push(Section {
                    title: title.clone(),
                    cells: Vec::new(),
                    compared_by: Vec::new(),
                    notes: texts(results, title),
                    tables: tables(results, title),
                    prices: prices(results, title),
                });
            }
        }
        for section in &mut sections {
            section.compared_by = compared_by(section);
        }
        let title = |name: &String| {
            let used = results.systems.iter().find(|used| &used.name == name);
            (name.clone(), used.map_or_else(|| name.clone(), |used| used.title.clone()))
        };
        let baseline = results.header.baseline.as_ref().map(title);
        let (learned, notes) =
            texts(results, "").into_iter().partition(|text| text.starts_with(super::LEARNED));
        Self {
            header: results.header.clone(),
            systems: results.systems.clone(),
            decision: Decision::of(results, &sections, baseline.as_ref()),
            baseline,
            sections,
            learned,
            notes,
            tables: tables(results, ""),
            received: received(&results.received),
            ceilings: results.ceilings.clone(),
            curves: by_cell(results, curve),
            traces: by_cell(results, trace),
            tools: tools(results),
            end: results.end,
        }
    }
}

fn texts(results: &Results, section: &str) -> Vec<String> {
    results.notes.iter().filter(|(title, _)| title == section).map(|(_, text)| text.clone()).collect()
}

fn tables(results: &Results, section: &str) -> Vec<OwnTable> {
    let ours = results.tables.iter().filter(|(title, ..)| title == section);
    ours.map(|(_, head, rows)| OwnTable { head: head.clone(), rows: rows.clone() }).collect()
}

fn prices(results: &Results, section: &str) -> Vec<Price> {
    results.prices.iter().filter(|price| price.section == section).cloned().collect()
}

/// Merges equal entries of several sections into one entry that names these sections. If the entry is the same in every
/// section that has the system, it names none.
fn received(all: &[Received]) -> Vec<Received> {
    let what = |one: &Received| (one.version.clone(), one.connections, one.requests, one.differences.clone());
    let mut lines: Vec<(Received, Vec<&str>)> = Vec::new();
    for one in all {
        let same =
            |(line, _): &&mut (Received, Vec<&str>)| line.system == one.system && what(line) == what(one);
        match lines.iter_mut().find(same) {
            Some((_, sections)) => sections.push(&one.section),
            None => lines.push((one.clone(), vec![&one.section])),
        }
    }
    let asked = |system: &str| all.iter().filter(|one| one.system == system).count();
    lines
        .into_iter()
        .map(|(line, sections)| {
            let everywhere = sections.len() == asked(&line.system);
            Received { section: if everywhere { String::new() } else { sections.join(", ") }, ..line }
        })
        .collect()
}

fn tools(results: &Results) -> Vec<(String, String)> {
    let named = results.trials.iter().filter_map(|trial| trial.load.as_ref());
    let named = named.map(|load| (load.tool.clone(), load.tool_version.clone()));
    let condensed = results.condensed.iter().map(|one| (one.tool.clone(), one.tool_version.clone()));
    let unique: BTreeSet<_> = named.chain(condensed).filter(|(tool, _)| !tool.is_empty()).collect();
    unique.into_iter().collect()
}

fn cell_report(results: &Results, cell: &Cell) -> CellReport {
    let rows: Vec<Row> = cell.systems.iter().map(|system| row(results, cell, system)).collect();
    let mut offered = rows.iter().filter_map(Row::figures).map(|figures| figures.offered);
    let first = offered.next().flatten();
    let equal = first.filter(|_| offered.all(|other| other == first));
    let ceilings: Vec<f64> =
        results.ceilings.iter().filter(|one| one.cell == cell.id).map(|one| one.rps).collect();
    CellReport {
        id: cell.id.clone(),
        title: cell.title.clone(),
        axis: cell.axis.clone(),
        settings: cell.settings.clone(),
        offered: equal,
        rows,
        ceiling_rps: estimate::median(&ceilings),
    }
}

fn row(results: &Results, cell: &Cell, system: &str) -> Row {
    let used = results.systems.iter().find(|used| used.name == system);
    let verdict = results.verdict_of(&cell.id, system);
    let outcome = outcome(results, cell, system, used, verdict);
    let measured = matches!(outcome, Outcome::Measured(_));
    Row {
        system: system.to_owned(),
        title: used.map_or_else(|| system.to_owned(), |used| used.title.clone()),
        ratios: ratios(results, cell, system, verdict.filter(|_| measured), &outcome),
        steady: steady(results, &cell.id, system),
        outcome,
        verdict: verdict.map(|verdict| verdict.kind),
        findings: verdict.map_or_else(Vec::new, |verdict| {
            verdict.findings.iter().map(|finding| finding.text.clone()).collect()
        }),
        control: verdict.and_then(|verdict| verdict.control),
        published: cell.published.get(system).cloned(),
    }
}

fn outcome(
    results: &Results,
    cell: &Cell,
    system: &str,
    used: Option<&SystemUsed>,
    verdict: Option<&Verdict>,
) -> Outcome {
    if let Some(missing) = used.and_then(|used| used.missing.as_ref()) {
        return Outcome::Missing { why: missing.reason.clone() };
    }
    let trials: Vec<&Trial> = results.trials_of(&cell.id, system).filter(|trial| trial.round > 0).collect();
    if let Some(verdict) = verdict.filter(|verdict| !verdict.kind.has_figures()) {
        let seen: Vec<&str> = verdict.findings.iter().map(|finding| finding.text.as_str()).collect();
        let why = if seen.is_empty() { reasons(&trials, &Rounds::default()) } else { seen.join("; ") };
        return Outcome::Void { why };
    }
    let kind = verdict.map(|verdict| verdict.kind);
    if trials.is_empty() {
        let condensed = results.condensed_of(&cell.id, system);
        return condensed
            .map_or(Outcome::Pending, |one| Outcome::Measured(Box::new(one.figures.clone().own(kind))));
    }
    let rounds = results.rounds(&cell.id);
    match figures(&trials, &rounds) {
        Some(figures) => Outcome::Measured(Box::new(figures.own(kind))),
        None => Outcome::Void { why: reasons(&trials, &rounds) },
    }
}

/// Returns whether the latency of a system in a cell was caused by another component, so that it is not
/// shown.
fn hides_latency(results: &Results, cell: &str, system: &str) -> bool {
    let offered = || {
        let mut loads = results.trials_of(cell, system).filter_map(|trial| trial.load.as_ref());
        let condensed = results.condensed_of(cell, system).and_then(|one| one.figures.offered);
        loads.any(|load| load.model.rps().is_some()) || condensed.is_some()
    };
    results.verdict_of(cell, system).is_some_and(|verdict| !verdict.kind.has_latency()) && offered()
}

fn reasons(trials: &[&Trial], rounds: &Rounds) -> String {
    let all: BTreeSet<&str> = trials
        .iter()
        .filter_map(|trial| match &trial.status {
            Status::Bad { reason } => Some(reason.as_str()),
            Status::Good => None,
        })
        .collect();
    if all.is_empty() && !rounds.dropped().is_empty() {
        let dropped: BTreeSet<&str> = rounds.dropped().values().map(String::as_str).collect();
        let dropped: Vec<&str> = dropped.into_iter().collect();
        format!("each round was dropped ({})", dropped.join("; "))
    } else if all.is_empty() {
        "no trial came to its end".to_owned()
    } else {
        all.into_iter().collect::<Vec<_>>().join("; ")
    }
}

/// Returns the trials that count and have a load result.
fn good<'a>(trials: &[&'a Trial], rounds: &Rounds) -> Vec<&'a Trial> {
    trials.iter().copied().filter(|trial| rounds.counts(trial) && trial.load.is_some()).collect()
}

fn figures(trials: &[&Trial], rounds: &Rounds) -> Option<Figures> {
    let good = good(trials, rounds);
    let loads: Vec<_> = good.iter().filter_map(|trial| trial.load.as_ref()).collect();
    let first = loads.first()?;
    let rps = estimate::interval(&loads.iter().map(|load| load.rps()).collect::<Vec<_>>())?;
    let medians = |of: &dyn Fn(&Trial) -> Option<f64>| {
        estimate::median(&good.iter().filter_map(|trial| of(trial)).collect::<Vec<_>>())
    };
    let cost: Vec<f64> = good.iter().filter_map(|trial| trial.figure(Metric::Cpu)).collect();
    let cpu_us = estimate::interval(&cost);
    let user = medians(&|trial| trial.own_cost().map(|cost| cost.user_us));
    let system = medians(&|trial| trial.own_cost().map(|cost| cost.system_us));
    // The medians of two parts need not add up to the median of their sums, but a stacked bar must.
    let share =
        user.zip(system).map(|(user, system)| user / (user + system)).filter(|share| share.is_finite());
    let used = |trial: &&Trial| Some(trial.own_cost()?.total_us() * trial.load.as_ref()?.ok as f64);
    let used_us: f64 = good.iter().filter_map(used).sum();
    let share = share.filter(|_| used_us >= SPLIT_FROM_US);
    let corrected = loads.iter().all(|load| load.response_time.is_some());
    let timed = || good.iter().filter(|trial| trial.has_latency()).filter_map(|trial| trial.load.as_ref());
    let shown: Vec<&Distribution> = timed().filter_map(|load| load.latency()).collect();
    let raw: Vec<&Distribution> = timed().filter_map(|load| load.service_time.as_ref()).collect();
    let throttled = medians(&|trial| {
        let quota = trial.evidence.target_quota.as_ref()?;
        Some(quota.held_us / trial.evidence.wall_us).filter(|share| share.is_finite())
    });
    Some(Figures {
        rounds: good.len() as u32,
        dropped: rounds.dropped().len() as u32,
        offered: first.model.rps(),
        rps,
        cpu_us,
        user_us: cpu_us.zip(share).map(|(cpu, share)| cpu.estimate * share),
        system_us: cpu_us.zip(share).map(|(cpu, share)| cpu.estimate * (1.0 - share)),
        mean_us: estimate::mean(&shown),
        p50_us: estimate::percentile(&shown, 50.0),
        p99_us: estimate::percentile(&shown, 99.0),
        p99_rounds_us: estimate::interval(
            &good.iter().filter_map(|trial| trial.figure(Metric::P99)).collect::<Vec<_>>(),
        ),
        max_us: shown.iter().filter_map(|one| one.max_us).reduce(f64::max),
        corrected,
        p99_uncorrected_us: if corrected { estimate::percentile(&raw, 99.0) } else { None },
        memory_kib: medians(&|trial| {
            Some(trial.evidence.target.rss_kib).filter(|kib| *kib > 0).map(|kib| kib as f64)
        }),
        cores: medians(&|trial| cores(trial.evidence.target.cpu_us(), trial.evidence.wall_us))
            .filter(|cores| *cores > 0.0),
        origin_cores: medians(&|trial| cores(trial.evidence.origin.cpu_us(), trial.evidence.wall_us))
            .unwrap_or(0.0),
        upstream_peak: good.iter().map(|trial| trial.evidence.upstream.peak).max().unwrap_or(0),
        client_connections: medians(&|trial| {
            let load = trial.load.as_ref()?;
            let opened = load.connections_opened?;
            (load.ok > 0).then(|| opened as f64 / load.ok as f64)
        }),
        upstream_connections: medians(&|trial| {
            let Connections { opened, requests, .. } = trial.evidence.upstream;
            requests
                .filter(|requests| *requests > 0)
                .and_then(|requests| Some(opened? as f64 / requests as f64))
        }),
        failed: loads.iter().map(|load| load.failures.total()).sum(),
        throttled,
    })
}

fn cores(cpu_us: f64, wall_us: f64) -> Option<f64> {
    (wall_us > 0.0).then(|| cpu_us / wall_us)
}

/// Returns the windows of a warm-up: a trial with round 0, which is not a measurement.
fn warm_up<'a>(results: &'a Results, cell: &'a str, system: &'a str) -> Option<&'a [Window]> {
    let mut traces = results.trials_of(cell, system).filter(|trial| trial.round == 0);
    let condensed = || results.condensed_of(cell, system).map(|one| one.windows.as_slice());
    let windows = traces.find_map(|trial| trial.load.as_ref()).map(|load| load.windows.as_slice());
    windows.or_else(condensed).filter(|windows| !windows.is_empty())
}

/// Decides from its warm-up when a system was steady.
fn steady(results: &Results, cell: &str, system: &str) -> Steady {
    let Some(windows) = warm_up(results, cell, system) else { return Steady::NotAsked };
    // The last window of a run may be very short.
    let windows: Vec<&Window> = windows.iter().filter(|window| window.seconds > 0.5).collect();
    let rates: Vec<f64> = windows.iter().map(|window| window.ok as f64 / window.seconds).collect();
    match judge(&rates) {
        Steadiness::From(at) => Steady::After { seconds: windows.get(at).map_or(0.0, |window| window.start) },
        Steadiness::Never { .. } => Steady::Never,
    }
}

fn printed(published: &Published, metric: Metric) -> Option<f64> {
    let rps = estimate::median(&published.rps);
    match metric {
        Metric::Cpu => published.cpu_percent.zip(rps).map(|(percent, rps)| percent / rps),
        Metric::Rps => rps,
        Metric::Mean => published.mean_us,
        Metric::P50 => None,
        Metric::P99 => published.p99_us,
        Metric::Max => published.max_us,
    }
}

fn ratios(
    results: &Results,
    cell: &Cell,
    system: &str,
    verdict: Option<&Verdict>,
    outcome: &Outcome,
) -> Vec<Ratio> {
    let Some(baseline) = results.header.baseline.as_deref() else { return Vec::new() };
    let baseline_stands =
        results.verdict_of(&cell.id, baseline).is_none_or(|verdict| verdict.kind.has_figures());
    let figures = match outcome {
        Outcome::Measured(figures) => Some(figures),
        _ => None,
    };
    let offered = figures.is_some_and(|figures| figures.offered.is_some());
    let mut ratios = Vec::new();
    for metric in Metric::ALL {
        // A verdict of an earlier version may hold the ratio of a cost that is none.
        let has = figures.is_some_and(|figures| metric != Metric::Cpu || figures.cpu_us.is_some());
        let ours =
            (has && baseline_stands).then(|| pair(results, &cell.id, system, baseline, metric)).flatten();
        let published = cell
            .published
            .get(system)
            .and_then(|one| printed(one, metric))
            .zip(cell.published.get(baseline).and_then(|one| printed(one, metric)))
            .map(|(one, base)| one / base)
            .filter(|ratio| ratio.is_finite());
        if ours.is_none() && published.is_none() {
            continue;
        }
        let noise = verdict.and_then(|verdict| verdict.control).filter(|_| metric == Metric::Cpu);
        let call = if system == baseline {
            None
        } else if baseline == "direct" && ours.is_some_and(|ours| is_beyond(ours, metric, offered)) {
            Some(Call::Beyond)
        } else {
            ours.map(|ours| named(ours, noise))
        };
        ratios.push(Ratio { metric, ours, published, call });
    }
    ratios
}

/// Returns a figure of each round that counts.
pub(crate) fn rounds(results: &Results, cell: &str, system: &str, metric: Metric) -> Vec<f64> {
    if metric.is_latency() && hides_latency(results, cell, system) {
        return Vec::new();
    }
    let counted = results.rounds(cell);
    let trials = results.trials_of(cell, system).filter(|trial| counted.counts(trial));
    trials.filter_map(|trial| trial.figure(metric)).collect()
}

/// Returns whether the whole interval of a ratio to the direct run lies on the side on which no gateway can
/// be: more throughput in a closed loop, or less latency at the same rate.
fn is_beyond(ratio: Summary, metric: Metric, offered: bool) -> bool {
    match metric {
        Metric::Rps => !offered && ratio.low > 1.0,
        Metric::Cpu => false,
        _ => offered && ratio.high < 1.0,
    }
}

/// Returns the ratio of two systems in one cell: the one of the verdict, or else over the rounds of the file.
pub(crate) fn pair(
    results: &Results,
    cell: &str,
    system: &str,
    other: &str,
    metric: Metric,
) -> Option<Summary> {
    if metric.is_latency() && [system, other].iter().any(|name| hides_latency(results, cell, name)) {
        return None;
    }
    let given = |one: &str, other: &str| {
        let verdict = results.verdict_of(cell, one)?;
        verdict.ratios.get(&format!("{}/{other}", metric.key())).copied()
    };
    given(system, other)
        .or_else(|| paired(results, cell, system, other, metric))
        .or_else(|| given(other, system).map(inverse))
}

fn inverse(ratio: Summary) -> Summary {
    Summary {
        estimate: ratio.estimate.recip(),
        low: ratio.high.recip(),
        high: ratio.low.recip(),
        rounds: ratio.rounds,
    }
}

/// Returns the ratio over the rounds that count. Rounds are paired, since a slow minute affects both.
pub(crate) fn paired(
    results: &Results,
    cell: &str,
    system: &str,
    baseline: &str,
    metric: Metric,
) -> Option<Summary> {
    let counted = results.rounds(cell);
    let of = |name: &str| -> BTreeMap<u32, f64> {
        results
            .trials_of(cell, name)
            .filter(|trial| counted.counts(trial))
            .filter_map(|trial| Some((trial.round, trial.figure(metric)?)))
            .collect()
    };
    let (ours, base) = (of(system), of(baseline));
    let pairs: Vec<(f64, f64)> =
        ours.iter().filter_map(|(round, value)| Some((*value, *base.get(round)?))).collect();
    estimate::paired_ratio(&pairs)
}

/// Returns the conclusion from a ratio; [`Call::Open`] with fewer rounds than it needs.
pub(crate) fn named(ratio: Summary, control: Option<Summary>) -> Call {
    if ratio.rounds < crate::FEWEST_ROUNDS { Call::Open } else { call(ratio, control) }
}

/// Returns the conclusion from a ratio's interval and the noise that the A/A control showed.
fn call(ratio: Summary, control: Option<Summary>) -> Call {
    match estimate::order(ratio, control) {
        Some(Order::Lower) => Call::Lower,
        Some(Order::Higher) => Call::Higher,
        Some(Order::Tie) => Call::Tie,
        None => Call::Open,
    }
}

/// Returns the metrics by which a section's tables compare. The first is CPU if every system got the same
/// rate, and throughput in a closed loop; the others are the ones that the original published.
fn compared_by(section: &Section) -> Vec<Metric> {
    let rows = || section.cells.iter().flat_map(|cell| &cell.rows);
    let open = section.cells.iter().any(|cell| cell.offered.is_some());
    let has = |metric| rows().any(|row| row.ratio(metric).is_some_and(|ratio| ratio.ours.is_some()));
    let first = if open && has(Metric::Cpu) {
        Metric::Cpu
    } else if open {
        Metric::P99
    } else {
        Metric::Rps
    };
    let published = |metric| {
        rows().any(|row| row.ratio(metric).is_some_and(|ratio| ratio.published.is_some_and(|r| r != 1.0)))
    };
    let mut metrics: Vec<Metric> = Some(first).into_iter().filter(|metric| has(*metric)).collect();
    metrics.extend(Metric::ALL.into_iter().filter(|metric| *metric != first && published(*metric)));
    metrics
}

fn by_cell<T>(
    results: &Results,
    of: impl Fn(&Results, &Cell, &str) -> Option<T>,
) -> BTreeMap<String, Vec<T>> {
    let mut all = BTreeMap::new();
    for cell in &results.cells {
        let stands = |system: &&String| {
            results.verdict_of(&cell.id, system).is_none_or(|verdict| verdict.kind.has_figures())
        };
        let found: Vec<T> =
            cell.systems.iter().filter(stands).filter_map(|system| of(results, cell, system)).collect();
        if !found.is_empty() {
            all.insert(cell.id.clone(), found);
        }
    }
    all
}

fn curve(results: &Results, cell: &Cell, system: &str) -> Option<Curve> {
    if hides_latency(results, &cell.id, system) {
        return None;
    }
    let rounds = results.rounds(&cell.id);
    let good = good(&results.trials_of(&cell.id, system).collect::<Vec<_>>(), &rounds);
    let loads = || good.iter().filter(|trial| trial.has_latency()).filter_map(|trial| trial.load.as_ref());
    let corrected: Vec<&Distribution> = loads().filter_map(|load| load.response_time.as_ref()).collect();
    let raw: Vec<&Distribution> = loads().filter_map(|load| load.service_time.as_ref()).collect();
    let curve = Curve {
        system: system.to_owned(),
        corrected: estimate::curve(&corrected),
        uncorrected: estimate::curve(&raw),
    };
    let curve = match results.condensed_of(&cell.id, system) {
        Some(one) if good.is_empty() => {
            Curve { corrected: one.corrected.clone(), uncorrected: one.uncorrected.clone(), ..curve }
        }
        _ => curve,
    };
    (!curve.corrected.is_empty() || !curve.uncorrected.is_empty()).then_some(curve)
}

fn trace(results: &Results, cell: &Cell, system: &str) -> Option<Trace> {
    Some(Trace {
        system: system.to_owned(),
        windows: warm_up(results, &cell.id, system)?.to_vec(),
        steady: steady(results, &cell.id, system),
    })
}
