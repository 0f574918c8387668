//! Attributes a trial whose offered rate was reached. Nothing limited its throughput, so only a late or full generator's
//! side, or a quota that throttled, is worth a finding.

use tollgate_lab_record::{Evidence, LoadResult, VerdictKind};

use super::cores::LoadSide;
use super::facts::Facts;
use super::findings::{Findings, percent};
use super::limits::quotas;

pub(super) fn kept(
    findings: &mut Findings,
    facts: &Facts,
    load: &LoadResult,
    evidence: &Evidence,
) -> Option<VerdictKind> {
    let (offered, share) = load.answered()?;
    if !load.keeps_its_rate() {
        findings.add(format!("of {offered:.0}/s offered, {} were answered in time", percent(share)));
        return None;
    }
    let lag = load.send_lag.as_ref().and_then(|lag| lag.percentile(99.0)).unwrap_or(0.0);
    let latency = load.latency().and_then(|times| times.percentile(99.0)).unwrap_or(f64::MAX);
    if lag > 1_000.0 && lag > latency / 2.0 {
        findings.add(format!(
                "the generator sent late (99th percentile {lag:.0} us of {latency:.0} us): its latency is not the system's"
            ),
        );
        return Some(VerdictKind::Generator);
    }
    findings.add(format!("the rate of {offered:.0}/s was kept"));
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
            findings.add(format!("{cores} {busy} busy: the cost is the system's, the latency is not"));
            full = true;
        }
    }
    if full {
        return Some(VerdictKind::LoadSide);
    }
    throttled.or(Some(VerdictKind::Nothing))
}
