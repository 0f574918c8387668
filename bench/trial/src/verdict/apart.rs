//! Attributes a trial in which system, origin and generator each have separate cores, on one host or on several.
//! [`cores`](super::cores) calls it if no two roles share a core.

use tollgate_lab_record::{Evidence, VerdictKind};

use super::facts::Facts;
use super::findings::Findings;
use super::full::{FULL, OWN};

/// Two shares that differ by less than this count as equal.
const CLOSE: f64 = 0.02;

/// Returns the role whose cores were full, the fullest if there are several; otherwise a full thread of the
/// system. `None` if no role was full.
pub(super) fn processors(findings: &mut Findings, facts: &Facts, evidence: &Evidence) -> Option<VerdictKind> {
    let mut full: Vec<(f64, VerdictKind)> = Vec::new();
    let wall = evidence.wall_us;
    if facts.target_cores > 0.0 {
        let share = evidence.target.cpu_us() / wall / facts.target_cores;
        if share >= FULL {
            findings.add(format!("the system used {:.0} % of what it may", share * 100.0));
            full.push((share, VerdictKind::Gateway));
        }
    }
    let sides = [
        (&facts.origin_cores, evidence.origin.cpu_us(), "origin", VerdictKind::Origin),
        (&facts.load_cores, evidence.generator.cpu_us(), "generator", VerdictKind::Generator),
    ];
    for (cores, own_us, role, kind) in sides {
        let busy: Vec<f64> =
            cores.iter().filter_map(|core| evidence.machine.busy.get(*core).copied()).collect();
        let count = busy.len().max(1) as f64;
        let (busy, own) = (busy.iter().sum::<f64>() / count, own_us / wall / count);
        if busy < FULL {
            continue;
        }
        if own >= OWN * busy {
            findings.add(format!("the {role}'s cores were {:.0} % busy", busy * 100.0));
            full.push((busy, kind));
        } else {
            findings.add(format!("other programs used {:.0} % of the {role}'s cores", (busy - own) * 100.0));
        }
    }
    full.sort_by(|a, b| b.0.total_cmp(&a.0));
    match full[..] {
        [(first, _), (second, _), ..] if first - second < CLOSE => {
            findings.add("two roles were full at once: not attributed".to_owned());
            Some(VerdictKind::Invalid)
        }
        [(_, kind), ..] => Some(kind),
        [] => {
            let hot = evidence.target.threads.first().filter(|thread| thread.share >= FULL)?;
            findings.add(format!(
                "the system's thread {} was {:.0} % busy, the others less",
                hot.name,
                hot.share * 100.0
            ));
            Some(VerdictKind::HotWorker)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_lab_record::{Machine, ThreadShare, Tree};

    fn tree(cores: f64) -> Tree {
        Tree { user_us: cores * 1e6, ..Tree::default() }
    }

    /// Eight cores for the system, four each for origin and load, over one second.
    fn kind(target: f64, origin: f64, generator: f64, hot: f64) -> Option<VerdictKind> {
        let facts = Facts {
            target_cores: 8.0,
            origin_cores: (8..12).collect(),
            load_cores: (12..16).collect(),
            ..Facts::default()
        };
        let mut busy = vec![target / 8.0; 8];
        busy.extend([origin / 4.0; 4]);
        busy.extend([generator / 4.0; 4]);
        let mut target = tree(target);
        target.threads = vec![ThreadShare { name: "worker".into(), share: hot }];
        let evidence = Evidence {
            wall_us: 1e6,
            target,
            origin: tree(origin),
            generator: tree(generator),
            machine: Machine { busy, ..Machine::default() },
            ..Evidence::default()
        };
        processors(&mut Findings::default(), &facts, &evidence)
    }

    #[test]
    fn each_role_is_judged_by_its_own_cores() {
        assert_eq!(kind(7.9, 2.0, 2.0, 0.99), Some(VerdictKind::Gateway));
        assert_eq!(kind(4.0, 3.9, 2.0, 0.5), Some(VerdictKind::Origin));
        assert_eq!(kind(4.0, 2.0, 3.9, 0.5), Some(VerdictKind::Generator));
        assert_eq!(kind(4.0, 2.0, 2.0, 0.99), Some(VerdictKind::HotWorker));
        assert_eq!(kind(4.0, 2.0, 2.0, 0.5), None);
        assert_eq!(kind(7.9, 3.95, 2.0, 0.99), Some(VerdictKind::Invalid), "both at once");
    }
}
