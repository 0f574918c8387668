//! Attributes a trial to the component that limits it, from the counters of the kernel and the generator.
//!
//! The order of the checks matters. Errors, requests that the origin did not receive or did not owe, and CPU
//! time that was not counted make the figures worthless. A kept rate has a limiting component only if the
//! generator's side was late or full, or if a quota throttled. Otherwise come quotas (the kernel counts their
//! throttling exactly), full cores and threads, full accept queues, and the limits of the set-up itself (a
//! delay, a slow link, too few requests in flight). Any other trial is not attributed.

mod apart;
mod cores;
mod facts;
mod findings;
mod full;
mod kept_rate;
mod limits;
mod validity;

use tollgate_lab_record::{Evidence, Finding, LoadResult, VerdictKind};

use self::cores::processors;
pub use self::facts::Facts;
use self::findings::{Findings, percent};
use self::kept_rate::kept;
use self::limits::{connections, quotas, set_up};
use self::validity::{counted, errors, forwarded};

/// Attributes a trial. The findings are the evidence, in words.
pub fn attribute(
    facts: &Facts,
    load: Option<&LoadResult>,
    evidence: &Evidence,
) -> (VerdictKind, Vec<Finding>) {
    let mut findings = Findings::default();
    let Some(load) = load else {
        findings.add("the generator gave no result".to_owned());
        return (VerdictKind::Invalid, findings.into_vec());
    };
    describe(&mut findings, facts, evidence);
    if let Some(kind) = errors(&mut findings, load, evidence) {
        return (kind, findings.into_vec());
    }
    for ask in [forwarded, counted, kept, quotas, processors, connections, set_up] {
        if let Some(kind) = ask(&mut findings, facts, load, evidence) {
            return (kind, findings.into_vec());
        }
    }
    if facts.unseen {
        // No other part was at its limit, so the figures are the system's.
        let text =
            "the generator was not at its limit; where the gateway and its origin are, is not measured";
        findings.add(text.to_owned());
        return (VerdictKind::Nothing, findings.into_vec());
    }
    findings.add("nobody was seen at a limit: not attributed".to_owned());
    (VerdictKind::Invalid, findings.into_vec())
}

/// Adds what every reader wants to see, whatever the verdict.
fn describe(findings: &mut Findings, facts: &Facts, evidence: &Evidence) {
    let share = |us: f64| if evidence.wall_us > 0.0 { us / evidence.wall_us } else { 0.0 };
    let mut parts = Vec::new();
    if facts.has_cpu {
        parts.push(format!("system {} of a core", percent(share(evidence.target.cpu_us()))));
    }
    // The CPU time of an origin that the laboratory did not start is not read.
    if evidence.origin.cpu_us() > 0.0 {
        parts.push(format!("origin {}", percent(share(evidence.origin.cpu_us()))));
    }
    parts.push(format!("generator {}", percent(share(evidence.generator.cpu_us()))));
    findings.add(parts.join(", "));
    if let Some(others) = beside(facts, evidence) {
        let text = "of a core beside the system on its cores: not in its cost";
        findings.add(format!("other processes and the kernel used {} {text}", percent(others)));
    }
    let stolen = evidence.machine.steal.iter().copied().fold(0.0, f64::max);
    if stolen > 0.02 {
        findings.add(format!("the hypervisor took {} of a core", percent(stolen)));
    }
}

/// From this share of a core on, the findings mention other programs on the system's cores.
const BESIDE: f64 = 0.1;

/// Returns how many of the system's cores others used, if the findings should mention it. The system's cost does not
/// include such work, for example of threads of the kernel, or of a process outside its process tree.
fn beside(facts: &Facts, evidence: &Evidence) -> Option<f64> {
    if !facts.has_cpu || facts.system_cores.is_empty() || evidence.wall_us <= 0.0 {
        return None;
    }
    let busy = facts.system_cores.iter().filter_map(|core| evidence.machine.busy.get(*core)).sum::<f64>();
    let origin = if facts.origin_on_system { evidence.origin.cpu_us() } else { 0.0 };
    let others = busy - (evidence.target.cpu_us() + origin) / evidence.wall_us;
    (others >= BESIDE).then_some(others)
}

#[cfg(test)]
mod tests;
