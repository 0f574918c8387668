//! The glossary of a report, below its tables: the terms that need an explanation and occur in the report. With it, no
//! table needs footnotes.

use crate::figures::{Call, Figures, Report, Row, is_reference};
use tollgate_lab_record::{Metric, VerdictKind};

/// Returns the terms that a report uses, each with its meaning.
pub fn glossary(report: &Report) -> Vec<(&'static str, String)> {
    let rows = || report.rows().map(|(_, row)| row);
    let measured = || rows().filter_map(Row::figures);
    let mut out: Vec<(&'static str, String)> = Vec::new();
    let mut add = |term, meaning: &str| out.push((term, meaning.to_owned()));
    if measured().any(|figures| figures.cpu_us.is_some()) {
        add(
            "CPU µs/req",
            "the CPU time of all processes of the system, in user mode and in the kernel, for each verified answer.",
        );
    }
    if measured().any(own_rate) {
        add(
            "own rate",
            "measured in a closed loop, where each system has its own rate. Busy systems batch and look cheaper, so these costs do \
             not compare.",
        );
    }
    if report.sections.iter().flat_map(|section| &section.cells).any(|cell| cell.offered.is_none()) {
        add(
            "closed loop",
            "each connection sends its next request as soon as the previous one is answered, so that each system has its own rate.",
        );
    }
    if rows().any(|row| row.system == "direct") {
        add("direct", "the same load without a system between generator and origin.");
    }
    if rows().any(|row| is_reference(&row.system) && row.system != "direct") {
        add(
            "floor",
            "a program that passes bytes on and reads none of them: what the kernel takes for two connections.",
        );
    }
    if measured().any(|figures| figures.p99_us.is_some()) {
        let text = match measured().any(|figures| figures.p99_rounds_us.is_some_and(|p99| p99.low < p99.high))
        {
            true => {
                "the time within which 50 % or 99 % of the requests were answered; p99 is the one of a typical round, with its interval over the rounds."
            }
            false => "the time within which 50 % or 99 % of the requests were answered.",
        };
        add("p50, p99", text);
    }
    if measured().any(|figures| figures.p99_us.is_some() && !figures.corrected) {
        add(
            "from sending",
            "counted from the time at which a request was really sent. A generator that waits for an answer does not see the \
             requests that it held back, so this is less than a client with its own schedule would see.",
        );
    }
    if rows().any(hides_latency) {
        add(
            "no latency",
            "the generator's side or the origin caused the latency: that latency is not the system's, and is not shown.",
        );
    }
    if report.baseline.is_some() {
        let text = format!("a ratio, taken within rounds; the ranges beside it are {}.", crate::INTERVALS);
        add("÷", &text);
        if has_call(report, Call::Tie) {
            add(
                "tie",
                "the interval of the ratio includes 1, or the ratio is within what two copies of one system show.",
            );
        }
        if has_call(report, Call::Open) {
            let text = format!(
                "the interval is over fewer than {} rounds, from which no difference is named.",
                crate::FEWEST_ROUNDS
            );
            add("2 rounds, one round", &text);
        }
        if has_call(report, Call::Beyond) {
            add(
                "limit (beyond direct)",
                "no gateway is faster than the same load without one, so the direct run was at a limit of its own or disturbed, and \
                 the ratio is no figure of the system.",
            );
        }
    }
    if report.sections.iter().any(|section| !section.prices.is_empty()) {
        let text = format!(
            "what a feature adds, from pairs of trials with it and without it. A price is within chance, and faint, if its interval \
             holds 0 or has fewer than {} rounds.",
            crate::FEWEST_ROUNDS
        );
        add("price", &text);
    }
    if measured().any(|figures| figures.dropped > 0) {
        add("5 of 6 rounds", "a round that is void for one system is dropped for all of its cell.");
    }
    add("limited by", "the part that was full first:");
    for kind in KINDS {
        if rows().any(|row| row.verdict == Some(kind)) {
            add(kind.name(), meaning(kind));
        }
    }
    if !report.ceilings.is_empty() {
        add(
            "direct ceiling",
            "the most that the built-in generator carries without a system, over the connections of the cell.",
        );
    }
    if rows().any(|row| row.control.is_some()) {
        add(
            "control",
            "one system is measured twice in each round; the ratio of its two copies shows the noise of the machine.",
        );
    }
    add("usable cells", "those in which the system has figures.");
    out
}

/// Returns whether a cost is one of a closed loop.
fn own_rate(figures: &Figures) -> bool {
    figures.offered.is_none() && figures.cpu_us.is_some()
}

fn hides_latency(row: &Row) -> bool {
    row.figures().is_some_and(|figures| figures.offered.is_some())
        && row.verdict.is_some_and(|kind| !kind.has_latency())
}

fn has_call(report: &Report, call: Call) -> bool {
    let mut ratios =
        report.rows().flat_map(|(_, row)| Metric::ALL.into_iter().filter_map(|metric| row.ratio(metric)));
    ratios.any(|ratio| ratio.call == Some(call))
}

/// All kinds, in the order of the list.
const KINDS: [VerdictKind; 13] = [
    VerdictKind::Nothing,
    VerdictKind::Gateway,
    VerdictKind::HotWorker,
    VerdictKind::Quota,
    VerdictKind::Connections,
    VerdictKind::Origin,
    VerdictKind::Generator,
    VerdictKind::LoadSide,
    VerdictKind::Link,
    VerdictKind::OwnAnswers,
    VerdictKind::ExtraRequests,
    VerdictKind::Errors,
    VerdictKind::Invalid,
];

fn meaning(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Nothing => {
            "the offered rate was kept, and no part was full: the figures are the system's."
        }
        VerdictKind::Gateway => "the system's own cores were full.",
        VerdictKind::HotWorker => "one thread of the system was full, and the others were not.",
        VerdictKind::Quota => "the system's CPU quota throttled it.",
        VerdictKind::Connections => "a queue of connections was full.",
        VerdictKind::Origin => "the server behind the system was full, so the figure is that server's limit.",
        VerdictKind::Generator => "the load generator was full or late, so the figure is its limit.",
        VerdictKind::LoadSide => {
            "the core that origin and generator share was full: the cost is the system's, the latency is not."
        }
        VerdictKind::Link => "the slow link of the cell was full, so the figure is the link's limit.",
        VerdictKind::OwnAnswers => {
            "the origin saw fewer requests than were answered, so there are no figures."
        }
        VerdictKind::ExtraRequests => "the origin saw more requests than were sent, so there are no figures.",
        VerdictKind::Errors => "requests failed or had wrong answers, so there are no figures.",
        VerdictKind::Invalid => {
            "no part was seen full, and yet the rate was not reached, so there are no figures."
        }
    }
}
