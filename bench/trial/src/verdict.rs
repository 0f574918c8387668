//! Attributes a trial to the component that limits it, from the counters of the kernel and the generator.
//!
//! The order of the checks matters. Errors, requests that the origin did not receive or did not owe, and CPU
//! time that was not counted make the figures worthless. A kept rate has a limiting component only if the
//! generator's side was late or full, or if a quota throttled. Otherwise come quotas (the kernel counts their
//! throttling exactly), full cores and threads, full accept queues, and the limits of the set-up itself (a
//! delay, a slow link, too few requests in flight). Any other trial is not attributed.

use crate::apart;
use tollgate_lab_record::{Checks, Evidence, Failures, Finding, LoadResult, Throttled, VerdictKind};

/// The parts of the set-up that affect the verdict.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Cores that the system may use (the smaller of cores and workers); 0 for a direct run.
    pub target_cores: f64,
    /// Cores of the generator, and of the origin as well if `origin_cores` is empty.
    pub load_cores: Vec<usize>,
    /// Cores of the origin alone; empty if it shares the generator's cores.
    pub origin_cores: Vec<usize>,
    /// Whether the origin runs on the system's cores and under its quota.
    pub beside: bool,
    /// Whether the system may also use the cores of origin and generator.
    pub shared: bool,
    /// Delay that the origin adds to each answer, in microseconds.
    pub origin_delay_us: f64,
    /// Round trip in microseconds and bytes per second of the link, if there is one.
    pub link: Option<(f64, f64)>,
    /// Size of a response with its head, in bytes, for the link's limit.
    pub response_bytes: f64,
    /// Concurrent requests on each connection; 0 counts as 1.
    pub streams: u32,
    /// Seconds of load before the measurement.
    pub before: f64,
    /// Whether the system itself makes the answers of this cell, so that the origin receives no request.
    pub own_answers: bool,
    /// Whether the cell asks for more requests to the origin than clients send, such as copies.
    pub extra_requests: bool,
}

/// The share from which a thread or core counts as full. A core that serves sockets idles a little between
/// wake-ups even at its limit: saturated single-worker runs of nginx and HAProxy lie at 0.95 to 1.
pub(crate) const FULL: f64 = 0.93;

/// Share of the requests from which full accept queues count as the limit.
const OVERFLOWS: f64 = 0.01;

/// Origin and generator count as the load on their core if they use at least this part of its busy time. The
/// rest is interrupts and readings.
pub(crate) const OWN: f64 = 0.7;

/// How much more than a whole core a process may seem to have used: the tool's clock and the readings are
/// some milliseconds apart.
const READ_APART: f64 = 1.05;

/// A group counts as throttled if this share of its periods was.
const HELD: f64 = 0.2;

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

/// Requests in flight up to which a closed loop cannot fill a core, since each request waits for the one
/// before.
const FEW: u32 = 4;

/// Attributes a trial. The findings are the evidence, in words.
pub fn attribute(
    facts: &Facts,
    load: Option<&LoadResult>,
    evidence: &Evidence,
) -> (VerdictKind, Vec<Finding>) {
    let mut findings = Vec::new();
    let Some(load) = load else {
        note(&mut findings, "the generator gave no result".to_owned());
        return (VerdictKind::Invalid, findings);
    };
    describe(&mut findings, facts, evidence);
    if let Some(kind) = errors(&mut findings, load, evidence) {
        return (kind, findings);
    }
    for ask in [forwarded, counted, kept, quotas, processors, connections, set_up] {
        if let Some(kind) = ask(&mut findings, facts, load, evidence) {
            return (kind, findings);
        }
    }
    note(&mut findings, "nobody was seen at a limit: not attributed".to_owned());
    (VerdictKind::Invalid, findings)
}

fn note(findings: &mut Vec<Finding>, text: String) {
    findings.push(Finding { text });
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Adds what every reader wants to see, whatever the verdict.
fn describe(findings: &mut Vec<Finding>, facts: &Facts, evidence: &Evidence) {
    let share = |us: f64| if evidence.wall_us > 0.0 { us / evidence.wall_us } else { 0.0 };
    let mut parts = Vec::new();
    if facts.target_cores > 0.0 {
        parts.push(format!("system {} of a core", percent(share(evidence.target.cpu_us()))));
    }
    // The CPU time of an origin that the laboratory did not start is not read.
    if evidence.origin.cpu_us() > 0.0 {
        parts.push(format!("origin {}", percent(share(evidence.origin.cpu_us()))));
    }
    parts.push(format!("generator {}", percent(share(evidence.generator.cpu_us()))));
    note(findings, parts.join(", "));
    let stolen = evidence.machine.steal.iter().copied().fold(0.0, f64::max);
    if stolen > 0.02 {
        note(findings, format!("the hypervisor took {} of a core", percent(stolen)));
    }
}

fn errors(findings: &mut Vec<Finding>, load: &LoadResult, evidence: &Evidence) -> Option<VerdictKind> {
    if let Some(checks) = evidence.checks.as_ref().filter(|checks| differ(checks)) {
        let all = checks.ok + checks.failures.total();
        let told = told(&checks.failures);
        note(findings, format!("of {all} verified requests before and after {}'s {told}", load.tool));
        return Some(VerdictKind::Errors);
    }
    let failed = load.failures.total();
    let all = failed + load.ok;
    if all == 0 {
        note(findings, "no request was answered".to_owned());
        return Some(VerdictKind::Errors);
    }
    if failed == 0 {
        return None;
    }
    note(findings, format!("of {all} requests {}", told(&load.failures)));
    (failed as f64 / all as f64 > ERRORS).then_some(VerdictKind::Errors)
}

/// Returns whether verified requests show that the answers are not the expected ones. A connection that a
/// loaded system refuses says nothing about its answers, unless there is no answer at all.
fn differ(checks: &Checks) -> bool {
    let Failures { status, length, body, protocol, .. } = checks.failures;
    checks.ok == 0 || status + length + body + protocol > 0
}

fn told(failures: &Failures) -> String {
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
    let told: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    told.join(", ")
}

/// Compares the requests that the origin received with the answers. Both may differ by the requests in flight
/// at either end, and by those between the start of the measurement and the reading of the origin's counter.
fn forwarded(
    findings: &mut Vec<Finding>,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let received = evidence.upstream.requests? as f64;
    let (ok, sent) = (load.ok as f64, (load.ok + load.failures.total()) as f64);
    let in_flight = 2.0 * f64::from(load.connections) * f64::from(facts.streams.max(1)) + ASTRAY_LEAST;
    let unseen = load.rps() * (evidence.upstream.unseen_us / 1e6 + START_APART);
    if !facts.own_answers && received + in_flight + unseen + ASTRAY * ok < ok {
        note(
            findings,
            format!(
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
        note(
            findings,
            format!(
                "the origin received {received:.0} requests for {sent:.0} that were sent: retries or copies"
            ),
        );
        return Some(VerdictKind::ExtraRequests);
    }
    None
}

/// Finds answers without CPU time: the processes that served them are not among the counted ones.
fn counted(
    findings: &mut Vec<Finding>,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let used = evidence.target.cpu_us();
    let gone = facts.target_cores > 0.0
        && evidence.wall_us > 0.0
        && load.ok >= MANY
        && used < LEAST_US * load.ok as f64;
    gone.then(|| {
        note(
            findings,
            format!(
                "{used:.0} us of CPU for {} answers: other processes than the counted ones served them",
                load.ok
            ),
        );
        VerdictKind::Invalid
    })
}

/// How busy the cores of the generator were, and the part of it that it used. An origin without cores of its
/// own is on the same cores and included.
#[derive(Clone, Copy)]
struct LoadSide {
    busy: f64,
    own: f64,
}

impl LoadSide {
    fn of(facts: &Facts, evidence: &Evidence) -> Self {
        // An origin on the system's machine uses the system's cores. If all share the cores, the origin may be on any.
        let apart = !facts.beside && !facts.shared && facts.origin_cores.is_empty();
        let origin = if apart { evidence.origin.cpu_us() } else { 0.0 };
        Self::on(&facts.load_cores, evidence.generator.cpu_us() + origin, evidence)
    }

    /// Returns the same of the origin alone; `None` if it has no cores of its own, or runs on the system's.
    fn of_origin(facts: &Facts, evidence: &Evidence) -> Option<Self> {
        let cores = (!facts.origin_cores.is_empty() && !facts.beside).then_some(&facts.origin_cores)?;
        Some(Self::on(cores, evidence.origin.cpu_us(), evidence))
    }

    fn on(cores: &[usize], used_us: f64, evidence: &Evidence) -> Self {
        let busy: Vec<f64> =
            cores.iter().filter_map(|core| evidence.machine.busy.get(*core).copied()).collect();
        Self {
            busy: if busy.is_empty() { 0.0 } else { busy.iter().sum::<f64>() / busy.len() as f64 },
            own: used_us / evidence.wall_us.max(1.0) / cores.len().max(1) as f64,
        }
    }

    fn is_full(self) -> bool {
        self.busy >= FULL && self.own >= OWN * self.busy
    }
}

fn kept(
    findings: &mut Vec<Finding>,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let (offered, share) = load.answered()?;
    if !load.keeps_its_rate() {
        note(findings, format!("of {offered:.0}/s offered, {} were answered in time", percent(share)));
        return None;
    }
    let lag = load.send_lag.as_ref().and_then(|lag| lag.percentile(99.0)).unwrap_or(0.0);
    let latency = load.latency().and_then(|times| times.percentile(99.0)).unwrap_or(f64::MAX);
    if lag > 1_000.0 && lag > latency / 2.0 {
        note(
            findings,
            format!(
                "the generator sent late (99th percentile {lag:.0} us of {latency:.0} us): its latency is not the system's"
            ),
        );
        return Some(VerdictKind::Generator);
    }
    note(findings, format!("the rate of {offered:.0}/s was kept"));
    let throttled = quotas(findings, facts, load, evidence);
    let of_load = match (facts.origin_cores.is_empty(), facts.load_cores.len()) {
        (true, ..=1) => "the core of origin and generator was",
        (true, _) => "the cores of origin and generator were",
        (false, _) => "the generator's cores were",
    };
    let sides = [
        (of_load, Some(LoadSide::of(facts, evidence))),
        ("the origin's cores were", LoadSide::of_origin(facts, evidence)),
    ];
    let mut full = false;
    for (cores, side) in sides {
        if let Some(side) = side.filter(|side| side.is_full()) {
            let busy = percent(side.busy);
            note(findings, format!("{cores} {busy} busy: the cost is the system's, the latency is not"));
            full = true;
        }
    }
    if full {
        return Some(VerdictKind::LoadSide);
    }
    throttled.or(Some(VerdictKind::Nothing))
}

fn held(quota: &Throttled) -> Option<String> {
    let share = quota.throttled as f64 / quota.periods.max(1) as f64;
    (quota.throttled > 0 && share >= HELD).then(|| {
        format!(
            "held back by a quota of {} cores in {} of {} periods, {:.0} ms in all",
            quota.cores,
            quota.throttled,
            quota.periods,
            quota.held_us / 1e3
        )
    })
}

fn quotas(
    findings: &mut Vec<Finding>,
    _: &Facts,
    _: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let target = evidence.target_quota.as_ref().and_then(held);
    let origin = evidence.origin_quota.as_ref().and_then(held);
    if let Some(text) = &target {
        note(findings, format!("the system was {text}"));
    }
    if let Some(text) = &origin {
        note(findings, format!("the origin was {text}"));
    }
    let held_us = |quota: &Option<Throttled>| quota.as_ref().map_or(0.0, |quota| quota.held_us);
    match (target, origin) {
        (Some(_), Some(_)) if held_us(&evidence.origin_quota) > held_us(&evidence.target_quota) => {
            Some(VerdictKind::Origin)
        }
        (Some(_), _) => Some(VerdictKind::Quota),
        (None, Some(_)) => Some(VerdictKind::Origin),
        (None, None) => None,
    }
}

fn connections(
    findings: &mut Vec<Finding>,
    _: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let overflows = evidence.network.listen_overflows;
    if overflows == 0 {
        return None;
    }
    note(findings, format!("{overflows} connections met a full accept queue"));
    // The counter is of the whole machine, and a tool that opens a thousand connections at once overflows any
    // queue.
    let all = (load.ok + load.failures.total()) as f64;
    (overflows as f64 > OVERFLOWS * all).then_some(VerdictKind::Connections)
}

fn processors(
    findings: &mut Vec<Finding>,
    facts: &Facts,
    result: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    if evidence.wall_us <= 0.0 {
        return None;
    }
    if facts.shared {
        return shared(findings, facts, evidence);
    }
    if !facts.origin_cores.is_empty() && !facts.beside {
        return apart::processors(findings, facts, evidence);
    }
    // The readings include the tool's start and end, when it sends no requests. So the system used its CPU
    // time in the shorter span that the tool measured. If that makes more than a whole core, the assumption
    // is wrong and the tool did send requests.
    let active = (result.seconds * 1e6 / evidence.wall_us).clamp(0.5, 1.0);
    let while_active =
        |share: f64| if share / active <= READ_APART { (share / active).min(1.0) } else { share };
    // An origin on the system's cores counts together with the system.
    let (cores, mine) = match (facts.target_cores > 0.0, facts.beside) {
        (true, false) => (facts.target_cores, evidence.target.cpu_us()),
        (_, true) => (facts.target_cores.max(1.0), evidence.target.cpu_us() + evidence.origin.cpu_us()),
        (false, false) => (1.0, 0.0),
    };
    let target = while_active(mine / evidence.wall_us / cores);
    let by_target = if facts.beside && evidence.origin.cpu_us() > evidence.target.cpu_us() {
        VerdictKind::Origin
    } else {
        VerdictKind::Gateway
    };
    let hot = evidence.target.threads.first().filter(|thread| while_active(thread.share) >= FULL);
    let side = LoadSide::of(facts, evidence);
    let (load, own, load_full) = (side.busy, side.own, side.is_full());
    let by_load = if !facts.beside && evidence.origin.cpu_us() > evidence.generator.cpu_us() {
        VerdictKind::Origin
    } else {
        VerdictKind::Generator
    };
    let target_full = target >= FULL;
    if load >= FULL && !load_full {
        note(findings, format!("other programs used {} of the generator's core", percent(load - own)));
    }
    if load_full {
        note(findings, format!("the core of origin and generator was {} busy", percent(load)));
    }
    if target_full {
        let who = if facts.beside { "system and origin together" } else { "the system" };
        note(findings, format!("{who} used {} of what it may", percent(target)));
    } else if let Some(thread) = hot {
        note(
            findings,
            format!(
                "the system's thread {} was {} busy, the others less",
                thread.name,
                percent(thread.share)
            ),
        );
    }
    match (target_full, hot.is_some(), load_full) {
        (true, _, true) if (target - load).abs() < 0.02 => {
            note(findings, "both sides were full at once: not attributed".to_owned());
            Some(VerdictKind::Invalid)
        }
        (true, _, true) if load > target => Some(by_load),
        (true, _, _) => Some(by_target),
        (false, _, true) => Some(by_load),
        (false, true, false) => Some(VerdictKind::HotWorker),
        (false, false, false) => None,
    }
}

/// Attributes a trial in which the system may also use the cores of origin and generator.
fn shared(findings: &mut Vec<Finding>, facts: &Facts, evidence: &Evidence) -> Option<VerdictKind> {
    let busy = &evidence.machine.busy;
    let all = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
    if all < FULL {
        // The generator has only its own core, even if others may use that core too.
        let side = LoadSide::of(facts, evidence);
        if !side.is_full() {
            return None;
        }
        note(findings, format!("the generator's core was {} busy", percent(side.busy)));
        return Some(VerdictKind::Generator);
    }
    let used = [
        (evidence.target.cpu_us(), VerdictKind::Gateway),
        (evidence.origin.cpu_us(), VerdictKind::Origin),
        (evidence.generator.cpu_us(), VerdictKind::Generator),
    ];
    let known = used.iter().map(|(us, _)| us).sum::<f64>() / evidence.wall_us / busy.len().max(1) as f64;
    note(findings, format!("all cores, which everybody shares, were {} busy", percent(all)));
    if known < OWN * all {
        note(findings, format!("other programs used {} of them", percent(all - known)));
        return None;
    }
    used.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, kind)| kind)
}

fn set_up(
    findings: &mut Vec<Finding>,
    facts: &Facts,
    load: &LoadResult,
    _: &Evidence,
) -> Option<VerdictKind> {
    let connections = f64::from(load.connections);
    if let Some((round_trip, bytes)) = facts.link {
        let by_bytes = bytes / facts.response_bytes.max(1.0);
        let by_time = connections / (round_trip / 1e6);
        let most = by_bytes.min(by_time);
        if load.rps() >= 0.8 * most {
            note(
                findings,
                format!("the link carries at most {most:.0}/s at {} connections", load.connections),
            );
            return Some(VerdictKind::Link);
        }
    }
    if facts.origin_delay_us > 0.0 {
        let most = connections / (facts.origin_delay_us / 1e6);
        if load.rps() >= 0.85 * most {
            note(
                findings,
                format!(
                    "the origin's delay allows at most {most:.0}/s over {} connections",
                    load.connections
                ),
            );
            return Some(VerdictKind::Nothing);
        }
    }
    if load.model.rps().is_none() && load.connections <= FEW {
        note(
            findings,
            format!(
                "with {} in flight each request waits for the one before: nobody is at a limit",
                load.connections
            ),
        );
        return Some(VerdictKind::Nothing);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tollgate_lab_record::{
        Distribution, Failures, LoadModel, Machine, Network, ThreadShare, Tree, Verification,
    };

    fn load(model: LoadModel, rps: f64, connections: u32) -> LoadResult {
        LoadResult {
            tool: "builtin".into(),
            tool_version: String::new(),
            command: vec![],
            threads: 1,
            connections,
            keep_alive: true,
            model,
            verification: Verification::Full,
            seconds: 1.0,
            sent: None,
            ok: rps as u64,
            failures: Failures::default(),
            statuses: BTreeMap::new(),
            body_bytes: None,
            connections_opened: None,
            response_time: None,
            service_time: None,
            send_lag: None,
            windows: vec![],
        }
    }

    fn tree(share: f64, threads: &[f64]) -> Tree {
        Tree {
            user_us: share * 0.25e6,
            system_us: share * 0.75e6,
            threads: threads
                .iter()
                .map(|share| ThreadShare { name: "worker".into(), share: *share })
                .collect(),
            ..Default::default()
        }
    }

    fn evidence(target: f64, origin: f64, generator: f64) -> Evidence {
        Evidence {
            wall_us: 1e6,
            target: tree(target, &[target]),
            origin: tree(origin, &[origin]),
            generator: tree(generator, &[generator]),
            machine: Machine { busy: vec![target, origin + generator], softirq: vec![], steal: vec![] },
            ..Default::default()
        }
    }

    fn facts() -> Facts {
        Facts { target_cores: 1.0, load_cores: vec![1], response_bytes: 200.0, ..Default::default() }
    }

    fn kind(facts: &Facts, load: &LoadResult, evidence: &Evidence) -> VerdictKind {
        attribute(facts, Some(load), evidence).0
    }

    const CLOSED: LoadModel = LoadModel::Closed;

    #[test]
    fn a_kept_rate_needs_no_culprit_even_when_a_core_is_busy() {
        let constant = LoadModel::Constant { rps: 1_000.0 };
        assert_eq!(
            kind(&facts(), &load(constant, 999.0, 64), &evidence(0.99, 0.4, 0.5)),
            VerdictKind::Nothing
        );
        assert_eq!(
            kind(&facts(), &load(constant, 900.0, 64), &evidence(0.99, 0.2, 0.3)),
            VerdictKind::Gateway
        );
    }

    #[test]
    fn a_late_generator_is_told_from_a_slow_system() {
        let mut late = load(LoadModel::Constant { rps: 1_000.0 }, 1_000.0, 64);
        let times = |p99: f64| Some(Distribution { percentiles: vec![(99.0, p99)], ..Default::default() });
        late.response_time = times(9_000.0);
        late.send_lag = times(8_000.0);
        assert_eq!(kind(&facts(), &late, &evidence(0.3, 0.2, 0.3)), VerdictKind::Generator);
        late.send_lag = times(100.0);
        assert_eq!(kind(&facts(), &late, &evidence(0.3, 0.2, 0.3)), VerdictKind::Nothing);
    }

    #[test]
    fn a_full_generator_side_takes_the_latency_and_not_the_cost() {
        let kept = load(LoadModel::Constant { rps: 32_000.0 }, 32_000.0, 64);
        let (kind, findings) = attribute(&facts(), Some(&kept), &evidence(0.4, 0.5, 0.47));
        assert_eq!(kind, VerdictKind::LoadSide);
        assert!(kind.has_figures() && !kind.has_latency());
        assert!(findings.iter().any(|finding| finding.text.contains("97 % busy")), "{findings:?}");
        // Other programs on that core are noise, and the generator's side is not full of its own.
        let mut seen = evidence(0.4, 0.2, 0.2);
        seen.machine.busy = vec![0.4, 0.98];
        assert_eq!(attribute(&facts(), Some(&kept), &seen).0, VerdictKind::Nothing);
    }

    #[test]
    fn an_origin_with_cores_of_its_own_is_a_side_of_its_own() {
        let kept = load(LoadModel::Constant { rps: 32_000.0 }, 32_000.0, 64);
        let facts = Facts { load_cores: vec![1], origin_cores: vec![2], ..facts() };
        let side = |origin: f64, busy: [f64; 3]| {
            let mut seen = evidence(0.4, origin, 0.3);
            seen.machine.busy = busy.to_vec();
            attribute(&facts, Some(&kept), &seen)
        };
        let (kind, findings) = side(0.96, [0.4, 0.3, 0.97]);
        assert_eq!(kind, VerdictKind::LoadSide);
        let told = |text: &str| findings.iter().any(|finding| finding.text.contains(text));
        assert!(told("the origin's cores were 97 % busy") && !told("generator's cores"), "{findings:?}");
        // The origin's time is no reason for a generator's core that other programs fill.
        assert_eq!(side(0.6, [0.4, 0.98, 0.6]).0, VerdictKind::Nothing);
        // An origin on the system's machine leaves its own cores alone.
        let beside = Facts { beside: true, ..facts.clone() };
        let mut seen = evidence(0.4, 0.5, 0.3);
        seen.machine.busy = vec![0.9, 0.3, 0.99];
        assert_eq!(attribute(&beside, Some(&kept), &seen).0, VerdictKind::Nothing);
    }

    #[test]
    fn a_quota_that_throttles_is_named_although_the_rate_is_kept() {
        let kept = load(LoadModel::Constant { rps: 1_000.0 }, 1_000.0, 64);
        let mut seen = evidence(0.25, 0.1, 0.1);
        let quota = Throttled { cores: 0.25, periods: 10, throttled: 10, held_us: 5e5 };
        seen.target_quota = Some(quota.clone());
        let (kind, findings) = attribute(&facts(), Some(&kept), &seen);
        assert_eq!(kind, VerdictKind::Quota);
        let told = |text: &str| findings.iter().any(|finding| finding.text.contains(text));
        assert!(told("the rate of 1000/s was kept") && told("10 of 10 periods"), "{findings:?}");
        (seen.target_quota, seen.origin_quota) = (None, Some(quota));
        assert_eq!(attribute(&facts(), Some(&kept), &seen).0, VerdictKind::Origin);
    }

    #[test]
    fn answers_that_the_origin_did_not_give_are_named() {
        let with = |received: u64| {
            let mut seen = evidence(0.5, 0.1, 0.1);
            seen.upstream.requests = Some(received);
            seen
        };
        let kept = load(LoadModel::Constant { rps: 5_000.0 }, 5_000.0, 64);
        let closed = load(CLOSED, 5_000.0, 64);
        for load in [&kept, &closed] {
            let (kind, findings) = attribute(&facts(), Some(load), &with(1));
            assert_eq!(kind, VerdictKind::OwnAnswers);
            let last = &findings.last().unwrap().text;
            assert!(last.starts_with("the origin received 1 requests for 5000 answers"), "{last}");
            // Half of the requests share an answer with another one.
            assert_eq!(kind_of(load, &with(2_500)), VerdictKind::OwnAnswers);
            assert_eq!(kind_of(load, &with(10_000)), VerdictKind::ExtraRequests);
            for received in [4_900, 5_000, 5_100] {
                let kind = kind_of(load, &with(received));
                assert!(
                    !matches!(kind, VerdictKind::OwnAnswers | VerdictKind::ExtraRequests),
                    "{received}: {kind:?}"
                );
            }
        }
        // The counter was read late, so that it misses the beginning.
        let mut late = with(3_000);
        late.upstream.unseen_us = 400_000.0;
        assert_eq!(kind_of(&kept, &late), VerdictKind::Nothing);
        // A condition that the cell asks for is not an error.
        let made = Facts { own_answers: true, ..facts() };
        assert_eq!(kind(&made, &kept, &with(0)), VerdictKind::Nothing);
        let copies = Facts { extra_requests: true, ..facts() };
        assert_eq!(kind(&copies, &kept, &with(10_000)), VerdictKind::Nothing);
        // Requests of the warm-up that a slow system receives later.
        let slow = load(LoadModel::Constant { rps: 10_000.0 }, 5_000.0, 64);
        let warmed = Facts { before: 1.0, ..facts() };
        assert_eq!(kind(&warmed, &slow, &with(10_000)), VerdictKind::Invalid);
        assert_eq!(kind(&facts(), &slow, &with(10_000)), VerdictKind::ExtraRequests);
    }

    fn kind_of(load: &LoadResult, evidence: &Evidence) -> VerdictKind {
        kind(&facts(), load, evidence)
    }

    #[test]
    fn answers_without_cpu_time_are_served_by_others() {
        let kept = load(LoadModel::Constant { rps: 4_000.0 }, 4_000.0, 64);
        let (kind, findings) = attribute(&facts(), Some(&kept), &evidence(0.0, 0.1, 0.1));
        assert_eq!(kind, VerdictKind::Invalid);
        let last = &findings.last().unwrap().text;
        assert!(last.starts_with("0 us of CPU for 4000 answers"), "{last}");
        let direct = Facts { target_cores: 0.0, ..facts() };
        assert_eq!(attribute(&direct, Some(&kept), &evidence(0.0, 0.1, 0.1)).0, VerdictKind::Nothing);
        // A tick of the kernel's clock may miss a few requests.
        let few = load(LoadModel::Constant { rps: 400.0 }, 400.0, 64);
        assert_eq!(attribute(&facts(), Some(&few), &evidence(0.0, 0.1, 0.1)).0, VerdictKind::Nothing);
    }

    #[test]
    fn verified_requests_beside_a_load_tool_void_its_trial() {
        let closed = load(CLOSED, 50_000.0, 64);
        let mut seen = evidence(0.98, 0.3, 0.4);
        let mut kind_with = |ok, failures| {
            seen.checks = Some(Checks { ok, failures });
            attribute(&facts(), Some(&closed), &seen).0
        };
        assert_eq!(kind_with(32, Failures::default()), VerdictKind::Gateway);
        assert_eq!(kind_with(31, Failures { body: 1, ..Default::default() }), VerdictKind::Errors);
        assert_eq!(kind_with(31, Failures { timeout: 1, ..Default::default() }), VerdictKind::Gateway);
        assert_eq!(kind_with(0, Failures { timeout: 32, ..Default::default() }), VerdictKind::Errors);
    }

    #[test]
    fn full_cores_are_attributed_to_their_owner() {
        let closed = load(CLOSED, 50_000.0, 64);
        assert_eq!(kind(&facts(), &closed, &evidence(0.98, 0.3, 0.4)), VerdictKind::Gateway);
        assert_eq!(kind(&facts(), &closed, &evidence(0.60, 0.4, 0.58)), VerdictKind::Generator);
        assert_eq!(kind(&facts(), &closed, &evidence(0.60, 0.6, 0.38)), VerdictKind::Origin);
        assert_eq!(kind(&facts(), &closed, &evidence(0.985, 0.5, 0.49)), VerdictKind::Invalid);
        assert_eq!(kind(&facts(), &closed, &evidence(0.5, 0.2, 0.2)), VerdictKind::Invalid);
    }

    #[test]
    fn an_origin_beside_the_system_fills_its_cores_too() {
        let beside = Facts { beside: true, ..facts() };
        let mut seen = evidence(0.6, 0.38, 0.3);
        seen.machine.busy = vec![0.98, 0.3];
        assert_eq!(kind(&beside, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Gateway);
        let mut seen = evidence(0.3, 0.67, 0.3);
        seen.machine.busy = vec![0.98, 0.3];
        assert_eq!(kind(&beside, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Origin);
    }

    #[test]
    fn a_core_that_others_fill_is_not_the_generators_limit() {
        let mut seen = evidence(0.3, 0.01, 0.02);
        seen.machine.busy = vec![0.3, 0.99];
        let (kind, findings) = attribute(&facts(), Some(&load(CLOSED, 500.0, 64)), &seen);
        assert_eq!(kind, VerdictKind::Invalid);
        assert!(
            findings.iter().any(|finding| finding.text == "other programs used 96 % of the generator's core")
        );
    }

    #[test]
    fn the_time_in_which_a_tool_starts_is_nobodys_rest() {
        let mut closed = load(CLOSED, 50_000.0, 64);
        assert_eq!(kind(&facts(), &closed, &evidence(0.88, 0.2, 0.2)), VerdictKind::Invalid);
        closed.seconds = 0.9;
        assert_eq!(kind(&facts(), &closed, &evidence(0.88, 0.2, 0.2)), VerdictKind::Gateway);
        assert_eq!(kind(&facts(), &closed, &evidence(0.92, 0.05, 0.1)), VerdictKind::Gateway);
        // The tool sent requests after its clock stopped, so the time in between cannot be attributed.
        closed.seconds = 0.5;
        assert_eq!(kind(&facts(), &closed, &evidence(0.6, 0.2, 0.2)), VerdictKind::Invalid);
    }

    #[test]
    fn shared_cores_are_their_largest_users() {
        let both = Facts { target_cores: 2.0, shared: true, ..facts() };
        let mut seen = evidence(1.0, 0.3, 0.65);
        seen.machine.busy = vec![0.99, 0.98];
        assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Gateway);
        let mut seen = evidence(0.4, 0.3, 1.2);
        seen.machine.busy = vec![0.99, 0.98];
        assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Generator);
        // A generator of one thread fills its core while the other core is idle in part.
        let mut seen = evidence(0.4, 0.15, 0.93);
        seen.machine.busy = vec![0.5, 0.99];
        assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Generator);
        let mut seen = evidence(0.8, 0.15, 0.5);
        seen.machine.busy = vec![0.5, 0.99];
        assert_eq!(kind(&both, &load(CLOSED, 5_000.0, 200), &seen), VerdictKind::Invalid);
    }

    #[test]
    fn one_hot_worker_among_four() {
        let four = Facts { target_cores: 4.0, ..facts() };
        let mut seen = evidence(1.3, 0.2, 0.3);
        seen.target.threads = tree(1.3, &[0.99, 0.1, 0.1, 0.1]).threads;
        assert_eq!(kind(&four, &load(CLOSED, 1.0, 64), &seen), VerdictKind::HotWorker);
    }

    #[test]
    fn quotas_are_named_from_the_throttling_counters_alone() {
        let closed = load(CLOSED, 5_000.0, 64);
        let throttled = Throttled { cores: 0.25, periods: 50, throttled: 48, held_us: 3e6 };
        let mut seen = evidence(0.25, 0.1, 0.1);
        seen.target_quota = Some(throttled.clone());
        assert_eq!(kind(&facts(), &closed, &seen), VerdictKind::Quota);
        seen.target_quota = Some(Throttled { throttled: 2, ..throttled.clone() });
        assert_eq!(kind(&facts(), &closed, &seen), VerdictKind::Invalid);
        seen.origin_quota = Some(throttled);
        assert_eq!(kind(&facts(), &closed, &seen), VerdictKind::Origin);
    }

    #[test]
    fn errors_come_first_and_a_few_do_not_count() {
        let mut bad = load(CLOSED, 1_000.0, 64);
        bad.failures = Failures { status: 1_000, ..Default::default() };
        let (kind, findings) = attribute(&facts(), Some(&bad), &evidence(0.99, 0.1, 0.1));
        assert_eq!(kind, VerdictKind::Errors);
        assert!(findings.iter().any(|finding| finding.text.contains("1000 another status")), "{findings:?}");
        bad.failures = Failures { read: 1, ..Default::default() };
        bad.ok = 100_000;
        assert_eq!(attribute(&facts(), Some(&bad), &evidence(0.99, 0.1, 0.1)).0, VerdictKind::Gateway);
        assert_eq!(attribute(&facts(), None, &evidence(0.5, 0.1, 0.1)).0, VerdictKind::Invalid);
    }

    #[test]
    fn a_full_accept_queue_is_a_connection_limit() {
        let mut seen = evidence(0.5, 0.1, 0.1);
        seen.network = Network { listen_overflows: 12, ..Default::default() };
        assert_eq!(kind(&facts(), &load(CLOSED, 100.0, 64), &seen), VerdictKind::Connections);
        // A few overflows among many requests are no limit, and a full core takes precedence.
        assert_eq!(kind(&facts(), &load(CLOSED, 90_000.0, 64), &seen), VerdictKind::Invalid);
        let mut full = evidence(0.99, 0.1, 0.1);
        full.network = seen.network;
        assert_eq!(kind(&facts(), &load(CLOSED, 100.0, 64), &full), VerdictKind::Gateway);
    }

    #[test]
    fn what_the_study_set_up_explains_an_idle_machine() {
        let idle = evidence(0.1, 0.1, 0.1);
        assert_eq!(kind(&facts(), &load(CLOSED, 9_000.0, 1), &idle), VerdictKind::Nothing);
        let slow = Facts { origin_delay_us: 100_000.0, ..facts() };
        assert_eq!(kind(&slow, &load(CLOSED, 1_950.0, 200), &idle), VerdictKind::Nothing);
        assert_eq!(kind(&slow, &load(CLOSED, 900.0, 200), &idle), VerdictKind::Invalid);
        let far = Facts { link: Some((85_000.0, 950_000.0)), response_bytes: 850.0, ..facts() };
        assert_eq!(kind(&far, &load(CLOSED, 1_080.0, 1_000), &idle), VerdictKind::Link);
        assert_eq!(kind(&far, &load(CLOSED, 560.0, 50), &idle), VerdictKind::Link);
    }
}
