//! Finds the role whose cores or threads were full: the system, the origin or the generator.
//!
//! If each role has separate cores, [`apart`](super::apart) decides. Otherwise the checks here divide the busy time of a
//! shared core among the roles by their CPU time. [`LoadSide`] is the side of the generator, which a kept rate needs
//! too.

use tollgate_lab_record::{Evidence, LoadResult, VerdictKind};

use super::apart;
use super::facts::Facts;
use super::findings::{Findings, percent};
use super::full::{FULL, OWN};

/// How much more than a whole core a process may seem to have used: the tool's clock and the readings are
/// some milliseconds apart.
const READ_APART: f64 = 1.05;

/// How busy the cores of the generator were, and the part of it that it used. An origin without cores of its
/// own is on the same cores and included.
#[derive(Clone, Copy)]
pub(super) struct LoadSide {
    pub busy: f64,
    pub own: f64,
}

impl LoadSide {
    pub fn of(facts: &Facts, evidence: &Evidence) -> Self {
        // An origin on the system's machine uses the system's cores. If all share the cores, the origin may be on any.
        let apart = !facts.origin_on_system && !facts.shared && facts.origin_cores.is_empty();
        let origin = if apart { evidence.origin.cpu_us() } else { 0.0 };
        Self::on(&facts.load_cores, evidence.generator.cpu_us() + origin, evidence)
    }

    /// Returns the same of the origin alone; `None` if it has no cores of its own, or runs on the system's.
    pub fn of_origin(facts: &Facts, evidence: &Evidence) -> Option<Self> {
        let cores =
            (!facts.origin_cores.is_empty() && !facts.origin_on_system).then_some(&facts.origin_cores)?;
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

    pub fn is_full(self) -> bool {
        self.busy >= FULL && self.own >= OWN * self.busy
    }
}

pub(super) fn processors(
    findings: &mut Findings,
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
    if !facts.origin_cores.is_empty() && !facts.origin_on_system {
        return apart::processors(findings, facts, evidence);
    }
    // The readings include the tool's start and end, when it sends no requests. So the system used its CPU
    // time in the shorter span that the tool measured. If that makes more than a whole core, the assumption
    // is wrong and the tool did send requests.
    let active = (result.seconds * 1e6 / evidence.wall_us).clamp(0.5, 1.0);
    let while_active =
        |share: f64| if share / active <= READ_APART { (share / active).min(1.0) } else { share };
    // An origin on the system's cores counts together with the system.
    let (cores, mine) = match (facts.target_cores > 0.0, facts.origin_on_system) {
        (true, false) => (facts.target_cores, evidence.target.cpu_us()),
        (_, true) => (facts.target_cores.max(1.0), evidence.target.cpu_us() + evidence.origin.cpu_us()),
        (false, false) => (1.0, 0.0),
    };
    let target = while_active(mine / evidence.wall_us / cores);
    let by_target = if facts.origin_on_system && evidence.origin.cpu_us() > evidence.target.cpu_us() {
        VerdictKind::Origin
    } else {
        VerdictKind::Gateway
    };
    let hot = evidence.target.threads.first().filter(|thread| while_active(thread.share) >= FULL);
    let side = LoadSide::of(facts, evidence);
    let (load, own, load_full) = (side.busy, side.own, side.is_full());
    let by_load = if !facts.origin_on_system && evidence.origin.cpu_us() > evidence.generator.cpu_us() {
        VerdictKind::Origin
    } else {
        VerdictKind::Generator
    };
    let target_full = target >= FULL;
    if load >= FULL && !load_full {
        findings.add(format!("other programs used {} of the generator's core", percent(load - own)));
    }
    if load_full {
        findings.add(format!("the core of origin and generator was {} busy", percent(load)));
    }
    if target_full {
        let who = if facts.origin_on_system { "system and origin together" } else { "the system" };
        findings.add(format!("{who} used {} of what it may", percent(target)));
    } else if let Some(thread) = hot {
        findings.add(format!(
            "the system's thread {} was {} busy, the others less",
            thread.name,
            percent(thread.share)
        ));
    }
    match (target_full, hot.is_some(), load_full) {
        (true, _, true) if (target - load).abs() < 0.02 => {
            findings.add("both sides were full at once: not attributed".to_owned());
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
fn shared(findings: &mut Findings, facts: &Facts, evidence: &Evidence) -> Option<VerdictKind> {
    let busy = &evidence.machine.busy;
    let all = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
    if all < FULL {
        // The generator has only its own core, even if others may use that core too.
        let side = LoadSide::of(facts, evidence);
        if !side.is_full() {
            return None;
        }
        findings.add(format!("the generator's core was {} busy", percent(side.busy)));
        return Some(VerdictKind::Generator);
    }
    let used = [
        (evidence.target.cpu_us(), VerdictKind::Gateway),
        (evidence.origin.cpu_us(), VerdictKind::Origin),
        (evidence.generator.cpu_us(), VerdictKind::Generator),
    ];
    let known = used.iter().map(|(us, _)| us).sum::<f64>() / evidence.wall_us / busy.len().max(1) as f64;
    findings.add(format!("all cores, which everybody shares, were {} busy", percent(all)));
    if known < OWN * all {
        findings.add(format!("other programs used {} of them", percent(all - known)));
        return None;
    }
    used.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, kind)| kind)
}
