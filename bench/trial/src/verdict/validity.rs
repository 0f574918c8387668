//! Finds reasons why a trial's figures are worthless: failed requests, answers that did not come from the origin, and
//! CPU time that was not counted.
//!
//! `attribute` asks these checks first, because no other check can trust such figures.

use tollgate_lab_record::{Checks, Evidence, Failures, LoadResult, VerdictKind};

use super::facts::Facts;
use super::findings::Findings;

/// Share of failed requests from which figures are not comparable.
const ERRORS: f64 = 0.001;

/// How far the requests that the origin received may differ from the answers, as a share of them.
const ASTRAY: f64 = 0.03;

/// Requests by which both may differ in any trial.
const ASTRAY_LEAST: f64 = 16.0;

/// Seconds by which the start of a measurement and the reading of the origin's counter may seem apart.
const START_APART: f64 = 0.05;

/// Answers from which a missing CPU time is noticed. The kernel may count in ticks of 10 ms, and fewer answers
/// may fall between them.
const MANY: u64 = 4_000;

/// The least CPU time of a forwarded request, in microseconds: less than the two system calls that read and
/// write it.
const LEAST_US: f64 = 0.5;

pub(super) fn errors(findings: &mut Findings, load: &LoadResult, evidence: &Evidence) -> Option<VerdictKind> {
    if let Some(checks) = evidence.checks.as_ref().filter(|checks| differ(checks)) {
        let all = checks.ok + checks.failures.total();
        let failures = describe_failures(&checks.failures);
        findings.add(format!("of {all} verified requests before and after {}'s {failures}", load.tool));
        return Some(VerdictKind::Errors);
    }
    let failed = load.failures.total();
    let all = failed + load.ok;
    if all == 0 {
        findings.add("no request was answered".to_owned());
        return Some(VerdictKind::Errors);
    }
    if failed == 0 {
        return None;
    }
    findings.add(format!("of {all} requests {}", describe_failures(&load.failures)));
    (failed as f64 / all as f64 > ERRORS).then_some(VerdictKind::Errors)
}

/// Returns whether verified requests show that the answers are not the expected ones. A connection that a
/// loaded system refuses says nothing about its answers, unless there is no answer at all.
fn differ(checks: &Checks) -> bool {
    let Failures { status, length, body, protocol, .. } = checks.failures;
    checks.ok == 0 || status + length + body + protocol > 0
}

fn describe_failures(failures: &Failures) -> String {
    let kinds = [
        (failures.connect, "could not connect"),
        (failures.read, "broken before the response was whole"),
        (failures.write, "could not be written"),
        (failures.timeout, "timed out"),
        (failures.status, "another status than expected"),
        (failures.length, "a body of another length"),
        (failures.body, "a body with other bytes"),
        (failures.protocol, "no HTTP"),
    ];
    let words: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    words.join(", ")
}

/// Finds answers that did not come from the origin, by comparing counts. If a system answers in advance and asks the
/// origin in the background, the counts are equal; the probe of the equal terms finds such a system.
pub(super) fn forwarded(
    findings: &mut Findings,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let counted = evidence.upstream.requests;
    if let Some(kind) = counted.and_then(|received| astray(findings, facts, load, evidence, received as f64))
    {
        return Some(kind);
    }
    facts.early_answers.then(|| {
        let text =
            "one client's requests were answered before the origin answered: from a cache, or in advance";
        findings.add(text.to_owned());
        VerdictKind::OwnAnswers
    })
}

/// Compares the requests that the origin received with the answers. Both may differ by the requests in flight
/// at either end, and by those between the start of the measurement and the reading of the origin's counter.
fn astray(
    findings: &mut Findings,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
    received: f64,
) -> Option<VerdictKind> {
    let (ok, sent) = (load.ok as f64, (load.ok + load.failures.total()) as f64);
    let in_flight = 2.0 * f64::from(load.connections) * f64::from(facts.streams.max(1)) + ASTRAY_LEAST;
    let unseen = load.rps() * (evidence.upstream.unseen_us / 1e6 + START_APART);
    if !facts.own_answers && received + in_flight + unseen + ASTRAY * ok < ok {
        findings.add(format!(
                "the origin received {received:.0} requests for {ok:.0} answers: the others are from a cache, or shared"
            ),
        );
        return Some(VerdictKind::OwnAnswers);
    }
    // At a rate that is not kept, requests of the warm-up are sent during the measurement.
    let backlog = match load.model.rps() {
        Some(rps) if !load.keeps_its_rate() => rps * facts.before,
        _ => 0.0,
    };
    if !facts.extra_requests && received > sent * (1.0 + ASTRAY) + in_flight + backlog {
        findings.add(format!(
            "the origin received {received:.0} requests for {sent:.0} that were sent: retries or copies"
        ));
        return Some(VerdictKind::ExtraRequests);
    }
    None
}

/// Finds answers without CPU time: the processes that served them are not among the counted ones.
pub(super) fn counted(
    findings: &mut Findings,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let used = evidence.target.cpu_us();
    let gone = facts.has_cpu && evidence.wall_us > 0.0 && load.ok >= MANY && used < LEAST_US * load.ok as f64;
    gone.then(|| {
        // The CPU time of a gateway that already runs may come from a copy of its counter, such as Prometheus'.
        let or = if facts.unseen { ", or the counter was not updated meanwhile" } else { "" };
        findings.add(format!(
            "{used:.0} us of CPU for {} answers: other processes than the counted ones served them{or}",
            load.ok
        ));
        VerdictKind::Invalid
    })
}
