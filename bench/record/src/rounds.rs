//! Decides which rounds of a cell count. A round is dropped for all systems or for none: if a disturbance voids one
//! system's trial, the other systems' trials of that round ran at the same time, and a table that keeps them compares a
//! disturbed minute with an undisturbed one.
//!
//! A system that is void in half of its rounds or more has no figures at all, and drops no round of the
//! others. Verdicts, reports and analyses all read trials through [`Rounds::counts`].

use crate::measured::{Status, Trial};
use std::collections::{BTreeMap, BTreeSet};

/// The rounds of a cell that count, and the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rounds {
    kept: BTreeSet<u32>,
    dropped: BTreeMap<u32, String>,
}

impl Rounds {
    /// Sorts the rounds of one cell's trials. `has_figures` says whether the verdict on a system permits
    /// figures; it is `true` for a system without a verdict.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>, has_figures: impl Fn(&str) -> bool) -> Self {
        let mut systems: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
        for trial in trials.into_iter().filter(|trial| trial.round > 0) {
            systems.entry(&trial.system).or_default().push(trial);
        }
        let mut rounds = Self::default();
        for (system, trials) in &systems {
            rounds.kept.extend(trials.iter().map(|trial| trial.round));
            let good = trials.iter().filter(|trial| trial.is_good()).count();
            if 2 * good <= trials.len() || !has_figures(system) {
                continue;
            }
            for trial in trials {
                if let Status::Bad { reason } = &trial.status {
                    rounds.dropped.entry(trial.round).or_insert_with(|| format!("{system}: {reason}"));
                }
            }
        }
        rounds.kept.retain(|round| !rounds.dropped.contains_key(round));
        rounds
    }

    /// Returns whether the figures of a trial of this cell count.
    pub fn counts(&self, trial: &Trial) -> bool {
        trial.is_good() && self.kept.contains(&trial.round)
    }

    /// Returns the dropped rounds, each with the system that voided it and the reason.
    pub fn dropped(&self) -> &BTreeMap<u32, String> {
        &self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;

    fn trials(system: &str, states: &[bool]) -> Vec<Trial> {
        let trial = |(at, good): (usize, &bool)| Trial {
            cell: "1-1".into(),
            system: system.into(),
            round: at as u32 + 1,
            turn: 1,
            at: 0.0,
            load: None,
            evidence: Evidence::default(),
            cost: None,
            warm_up: 0.0,
            status: if *good { Status::Good } else { Status::Bad { reason: "it stalled".into() } },
        };
        states.iter().enumerate().map(trial).collect()
    }

    fn counted(rounds: &Rounds, trials: &[Trial]) -> Vec<u32> {
        trials.iter().filter(|trial| rounds.counts(trial)).map(|trial| trial.round).collect()
    }

    #[test]
    fn a_round_is_dropped_for_all_or_for_none() {
        let (a, b) = (trials("a", &[true, false, true, true]), trials("b", &[true; 4]));
        let rounds = Rounds::of(a.iter().chain(&b), |_| true);
        assert_eq!(counted(&rounds, &a), [1, 3, 4]);
        assert_eq!(counted(&rounds, &b), [1, 3, 4]);
        assert_eq!(rounds.dropped()[&2], "a: it stalled");
    }

    #[test]
    fn a_system_without_figures_drops_no_round_of_the_others() {
        let (a, b) = (trials("a", &[true, false, true, false]), trials("b", &[true; 4]));
        let rounds = Rounds::of(a.iter().chain(&b), |_| true);
        assert_eq!(counted(&rounds, &b), [1, 2, 3, 4]);
        let a = trials("a", &[true, false, true, true]);
        let rounds = Rounds::of(a.iter().chain(&b), |system| system != "a");
        assert_eq!(counted(&rounds, &b), [1, 2, 3, 4]);
        assert!(rounds.dropped().is_empty());
    }
}
