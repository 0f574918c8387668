//! The outcome of a system in a cell, read from a result file: its usable trials, or the reason why there are
//! none. All analyses of this crate read results through [`Outcome::of`], so that they agree on which trials
//! count. The module also has the helpers that they share: titles, settings of a cell, typical values.

use tollgate_lab_record::{Cell, Results, Trial, VerdictKind};
use tollgate_lab_stats::bootstrap::{Bootstrap, Interval};
use tollgate_lab_stats::paired;
use tollgate_lab_study::{Settings, Study};

/// The outcome of a system in a cell.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    /// The system has figures.
    Measured {
        /// The trials of the rounds that count, at least one.
        trials: Vec<&'a Trial>,
        /// The component that limited it.
        kind: VerdictKind,
    },
    /// The cell names the system and other systems ran, but this one did not: it lacks a feature, or did not
    /// start.
    Cannot,
    /// Any other reason, for people.
    None(String),
}

impl<'a> Outcome<'a> {
    pub(crate) fn of(results: &'a Results, cell: &'a Cell, system: &'a str) -> Self {
        if let Some(verdict) = results.verdict_of(&cell.id, system) {
            if !verdict.kind.has_figures() {
                return Self::None(format!("no figures: {}", verdict.kind.name()));
            }
            let rounds = results.rounds(&cell.id);
            let trials: Vec<&Trial> = results
                .trials_of(&cell.id, system)
                .filter(|trial| rounds.counts(trial) && trial.load.is_some())
                .collect();
            if trials.is_empty() {
                return Self::None("no good trial".to_owned());
            }
            return Self::Measured { trials, kind: verdict.kind };
        }
        let used = results.systems.iter().find(|used| used.name == system);
        if let Some(missing) = used.and_then(|used| used.missing.as_ref()) {
            return Self::None(format!("missing: {}", missing.reason));
        }
        if !cell.systems.iter().any(|name| name == system) {
            return Self::None("not asked for here".to_owned());
        }
        // Verdicts are written once all rounds of a cell are done. Verdicts on other systems mean that this
        // one took no turns.
        if results.verdicts.iter().any(|verdict| verdict.cell == cell.id) {
            return Self::Cannot;
        }
        Self::None("the run ended before".to_owned())
    }

    /// Returns why there are no figures; an empty string if there are.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Measured { .. } => "",
            Self::Cannot => "cannot",
            Self::None(why) => why,
        }
    }
}

/// Returns the cells of a section, in the order of the report.
pub(crate) fn cells<'a>(results: &'a Results, section: &str) -> Vec<&'a Cell> {
    results.cells.iter().filter(|cell| cell.section == section).collect()
}

/// Returns the systems of these cells in the order of the tables, without direct runs, which have no gateway.
pub(crate) fn gateways<'a>(study: &Study, cells: &[&'a Cell]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in cells.iter().flat_map(|cell| &cell.systems) {
        let system = study.arms.get(name).map_or(name, |arm| &arm.system);
        if system != "direct" && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Returns the system's title in reports.
pub(crate) fn title(study: &Study, results: &Results, name: &str) -> String {
    let used = results.systems.iter().find(|used| used.name == name).map(|used| used.title.clone());
    let arm = || study.arms.get(name).and_then(|arm| arm.title.clone());
    used.or_else(arm).unwrap_or_else(|| name.to_owned())
}

/// Returns the workers of a system in a cell. An arm may have its own number.
pub(crate) fn workers(study: &Study, cell: &Cell, system: &str) -> Option<u32> {
    let own = arm_settings(study, system).and_then(|settings| settings.workers);
    let whole = |value: f64| (value >= 1.0 && value.fract() == 0.0).then_some(value as u32);
    own.or_else(|| set(cell, "workers").and_then(whole))
}

/// Returns the CPU quota of a system in a cell in cores; `None` without one.
pub(crate) fn quota(study: &Study, cell: &Cell, system: &str) -> Option<f64> {
    arm_settings(study, system).and_then(|settings| settings.quota).or_else(|| set(cell, "quota"))
}

/// Returns a numeric setting: the axis value if it varies along the section, otherwise the cell's setting,
/// which may have a unit ("0.25 cores").
fn set(cell: &Cell, name: &str) -> Option<f64> {
    let axis = cell.axis.as_ref().filter(|(axis, _)| axis == name).map(|(_, value)| *value);
    axis.or_else(|| cell.settings.get(name)?.split_whitespace().next()?.parse().ok())
}

fn arm_settings<'a>(study: &'a Study, system: &str) -> Option<&'a Settings> {
    study.arms.get(system).map(|arm| &arm.settings)
}

/// Returns the requests per second of each trial.
pub(crate) fn rates(trials: &[&Trial]) -> Vec<f64> {
    trials.iter().filter_map(|trial| trial.load.as_ref()).map(|load| load.rps()).collect()
}

/// Returns a typical value of the rounds with its interval; `None` if no round has a value above 0.
pub(crate) fn typical(results: &Results, rounds: &[f64]) -> Option<Interval> {
    paired::usable_typical(rounds, &bootstrap(results)).map(|(interval, _)| interval)
}

/// Returns the bootstrap with the run's own seed.
pub(crate) fn bootstrap(results: &Results) -> Bootstrap {
    Bootstrap { seed: results.header.seed, ..Bootstrap::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use tollgate_lab_record::{Missing, Status};

    fn results() -> Results {
        let mut results = made::results(
            &["nginx", "envoy", "kong"],
            vec![made::cell("1-1", "One", &[], &["nginx", "envoy", "kong"])],
        );
        results.systems[2].missing = Some(Missing { reason: "not installed".into(), get: String::new() });
        results
    }

    fn why(results: &Results, system: &str) -> String {
        Outcome::of(results, &results.cells[0], system).why().to_owned()
    }

    #[test]
    fn only_good_trials_of_numbered_rounds_have_figures() {
        let mut results = results();
        made::measured(&mut results, "1-1", "nginx", VerdictKind::Gateway, &[(100.0, 10.0, 500.0); 3]);
        results.trials[0].round = 0;
        results.trials[1].status = Status::Bad { reason: "it died".into() };
        let Outcome::Measured { trials, kind } = Outcome::of(&results, &results.cells[0], "nginx") else {
            panic!("no figures")
        };
        assert_eq!((trials.len(), trials[0].round, kind), (1, 3, VerdictKind::Gateway));
        results.trials[2].load = None;
        assert_eq!(why(&results, "nginx"), "no good trial");
        results.verdicts[0].kind = VerdictKind::Errors;
        assert_eq!(why(&results, "nginx"), "no figures: errors");
    }

    #[test]
    fn the_reasons_for_no_figures_are_told_apart() {
        let mut results = results();
        assert_eq!(why(&results, "envoy"), "the run ended before");
        made::measured(&mut results, "1-1", "nginx", VerdictKind::Nothing, &[(100.0, 10.0, 500.0)]);
        assert_eq!(why(&results, "envoy"), "cannot");
        assert_eq!(why(&results, "kong"), "missing: not installed");
        assert_eq!(why(&results, "haproxy"), "not asked for here");
    }

    #[test]
    fn an_arm_s_own_settings_win_and_direct_runs_are_no_gateways() {
        let study = made::study(
            "
title: T
about: A
arms:
  twice: {system: nginx, title: Two of them, settings: {workers: 2, quota: 0.5}}
  bare: {system: direct}
sections: [{title: One, systems: [nginx], points: [{}]}]
",
        );
        let settings = [("workers", "1"), ("quota", "0.25 cores")];
        let cell = made::cell("1-1", "One", &settings, &["bare", "direct", "nginx", "twice"]);
        assert_eq!(gateways(&study, &[&cell, &cell]), ["nginx", "twice"]);
        assert_eq!((workers(&study, &cell, "nginx"), quota(&study, &cell, "nginx")), (Some(1), Some(0.25)));
        assert_eq!((workers(&study, &cell, "twice"), quota(&study, &cell, "twice")), (Some(2), Some(0.5)));
        assert_eq!(title(&study, &results(), "twice"), "Two of them");
        let along = Cell { axis: Some(("workers".into(), 3.0)), ..cell };
        assert_eq!((workers(&study, &along, "nginx"), quota(&study, &along, "nginx")), (Some(3), Some(0.25)));
    }
}
