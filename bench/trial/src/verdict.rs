//! Attributes a trial to the component that limits it, from the counters of the kernel and the generator.
//!
//! The order of the checks matters. Errors make the figures worthless; a kept rate has no limiting component.
//! Then come quotas (the kernel counts their throttling exactly), full cores and threads, full accept queues,
//! and the limits of the set-up itself (a delay, a slow link, too few requests in flight). Any other trial is
//! not attributed.

use crate::apart;
use tollgate_lab_record::{Evidence, Finding, LoadResult, Throttled, VerdictKind};

/// The parts of the set-up that affect the verdict.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Cores that the system may use (the smaller of cores and workers); 0 for a direct run.
    pub target_cores: f64,
    /// Cores of the generator, and of the origin as well if `origin_cores` is empty.
    pub load_cores: Vec<usize>,
    /// Cores of the origin alone; empty if it shares those of the generator.
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
    if let Some(kind) = errors(&mut findings, load) {
        return (kind, findings);
    }
    if let Some(kind) = kept(&mut findings, load) {
        return (kind, findings);
    }
    for ask in [quotas, processors, connections, set_up] {
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
    parts.push(format!("origin {}", percent(share(evidence.origin.cpu_us()))));
    parts.push(format!("generator {}", percent(share(evidence.generator.cpu_us()))));
    note(findings, parts.join(", "));
    let stolen = evidence.machine.steal.iter().copied().fold(0.0, f64::max);
    if stolen > 0.02 {
        note(findings, format!("the hypervisor took {} of a core", percent(stolen)));
    }
}

fn errors(findings: &mut Vec<Finding>, load: &LoadResult) -> Option<VerdictKind> {
    let failed = load.failures.total();
    let all = failed + load.ok;
    if all == 0 {
        note(findings, "no request was answered".to_owned());
        return Some(VerdictKind::Errors);
    }
    if failed == 0 {
        return None;
    }
    let kinds = [
        (load.failures.connect, "could not connect"),
        (load.failures.read, "broken before the response was whole"),
        (load.failures.write, "could not be written"),
        (load.failures.timeout, "timed out"),
        (load.failures.status, "another status than expected"),
        (load.failures.length, "a body of another length"),
        (load.failures.body, "a body with other bytes"),
        (load.failures.protocol, "no HTTP"),
    ];
    let told: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    note(findings, format!("of {all} requests {}", told.join(", ")));
    (failed as f64 / all as f64 > ERRORS).then_some(VerdictKind::Errors)
}

fn kept(findings: &mut Vec<Finding>, load: &LoadResult) -> Option<VerdictKind> {
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
    Some(VerdictKind::Nothing)
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
    let busy: Vec<f64> =
        facts.load_cores.iter().filter_map(|core| evidence.machine.busy.get(*core).copied()).collect();
    let load = if busy.is_empty() { 0.0 } else { busy.iter().sum::<f64>() / busy.len() as f64 };
    let by_load = if !facts.beside && evidence.origin.cpu_us() > evidence.generator.cpu_us() {
        VerdictKind::Origin
    } else {
        VerdictKind::Generator
    };
    let target_full = target >= FULL;
    let own = (evidence.generator.cpu_us() + if facts.beside { 0.0 } else { evidence.origin.cpu_us() })
        / evidence.wall_us
        / facts.load_cores.len().max(1) as f64;
    let load_full = load >= FULL && own >= OWN * load;
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
        let cores: Vec<f64> = facts.load_cores.iter().filter_map(|core| busy.get(*core).copied()).collect();
        let count = cores.len().max(1) as f64;
        let load = cores.iter().sum::<f64>() / count;
        let own = evidence.generator.cpu_us() / evidence.wall_us / count;
        if load < FULL || own < OWN * load {
            return None;
        }
        note(findings, format!("the generator's core was {} busy", percent(load)));
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
