//! Finds limits that are not CPU cores: quotas that throttled, full accept queues, and the set-up of the study itself (a
//! link, a delay, too few requests in flight).

use tollgate_lab_record::{Evidence, LoadResult, Throttled, VerdictKind};

use super::facts::Facts;
use super::findings::Findings;

/// Share of the requests from which full accept queues count as the limit.
const OVERFLOWS: f64 = 0.01;

/// A group counts as throttled if this share of its periods was.
const HELD: f64 = 0.2;

/// Requests in flight up to which a closed loop cannot fill a core, since each request waits for the one
/// before.
const FEW: u32 = 4;

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

pub(super) fn quotas(
    findings: &mut Findings,
    _: &Facts,
    _: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let target = evidence.target_quota.as_ref().and_then(held);
    let origin = evidence.origin_quota.as_ref().and_then(held);
    if let Some(text) = &target {
        findings.add(format!("the system was {text}"));
    }
    if let Some(text) = &origin {
        findings.add(format!("the origin was {text}"));
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

pub(super) fn connections(
    findings: &mut Findings,
    _: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let overflows = evidence.network.listen_overflows;
    if overflows == 0 {
        return None;
    }
    findings.add(format!("{overflows} connections met a full accept queue"));
    // The counter is of the whole machine, and a tool that opens a thousand connections at once overflows any
    // queue.
    let all = (load.ok + load.failures.total()) as f64;
    (overflows as f64 > OVERFLOWS * all).then_some(VerdictKind::Connections)
}

pub(super) fn set_up(
    findings: &mut Findings,
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
            findings.add(format!("the link carries at most {most:.0}/s at {} connections", load.connections));
            return Some(VerdictKind::Link);
        }
    }
    if facts.origin_delay_us > 0.0 {
        let most = connections / (facts.origin_delay_us / 1e6);
        if load.rps() >= 0.85 * most {
            findings.add(format!(
                "the origin's delay allows at most {most:.0}/s over {} connections",
                load.connections
            ));
            return Some(VerdictKind::Nothing);
        }
    }
    if load.model.rps().is_none() && load.connections <= FEW {
        findings.add(format!(
            "with {} in flight each request waits for the one before: nobody is at a limit",
            load.connections
        ));
        return Some(VerdictKind::Nothing);
    }
    None
}
