//! Plans the cells of a study, reduced to what this machine allows.
//!
//! [`plan`] merges the settings of study, section and point, and applies the [`Limits`]: connections by
//! descriptors, cores, and the trial length and rounds that the user asked for. Each reduction is recorded in
//! words, so that the report can show it. The planned duration is an estimate for the user.

use crate::analysis::Analysis;
use crate::settings::Settings;
use crate::study::{Point, Section, Study};
use std::collections::BTreeSet;
use tollgate_lab_record::{Cell, Decides};

/// The limits of this machine, and the selection of the user.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most client connections; each takes two descriptors of a gateway.
    pub connections: u32,
    /// The cores that the system under test may have: those of all roles.
    pub target_cores: u32,
    /// The cores of the origin, each of which gets a worker unless the study says how many.
    pub origin_cores: u32,
    /// The cores of the load, each of which gets a thread of the generator unless the study says how many.
    pub load_cores: u32,
    /// The most seconds of a trial; `None` keeps the study's.
    pub seconds: Option<f64>,
    /// The most rounds; `None` keeps the study's.
    pub rounds: Option<u32>,
    /// The systems to run; empty means all.
    pub systems: Vec<String>,
    /// Only sections whose title contains one of these are run; empty means all.
    pub sections: Vec<String>,
}

/// A cell with all its settings.
#[derive(Debug, Clone)]
pub struct PlannedCell {
    /// The cell as the result file records it.
    pub cell: Cell,
    /// All settings of the cell.
    pub settings: Settings,
    /// If the study asks for the price of the feature: the settings with which each system runs a second
    /// time. They are the settings of the section's first point, at this cell's rate.
    pub plain: Option<Settings>,
}

impl PlannedCell {
    /// Returns how many times each system is measured in a round.
    fn copies(&self) -> f64 {
        if self.plain.is_some() { 2.0 } else { 1.0 }
    }
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The cells in the order of the report.
    pub cells: Vec<PlannedCell>,
    /// The reductions, as sentences.
    pub scaled: Vec<String>,
    /// The expected duration in seconds.
    pub seconds: f64,
    /// The titles of the experiments besides the cells ([`Analysis::experiment`]).
    pub experiments: Vec<&'static str>,
    /// The cell that answers the study's question; `None` if the study names none, or it is not planned.
    pub decides: Option<Decides>,
    /// [`Limits::systems`].
    pub systems: Vec<String>,
}

impl Plan {
    /// Returns whether a system was selected.
    pub fn has_system(&self, name: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|system| system == name)
    }
}

/// Returns whether a section's title contains one of these, or there are none.
fn chosen(sections: &[String], title: &str) -> bool {
    let title = title.to_lowercase();
    sections.is_empty() || sections.iter().any(|part| title.contains(&part.to_lowercase()))
}

/// Seconds that a trial takes in addition to its load: start of the generator, readings, a verified first
/// response.
const OVERHEAD: f64 = 0.4;

/// Seconds of the direct ceiling before each round.
pub const CEILING_SECONDS: f64 = 1.0;

/// Connections for which a trial's length must allow one second.
const CONNECTIONS_A_SECOND: f64 = 1_000.0;

/// Seconds to count the instructions of a system in a cell, most of them for the start under valgrind.
const COUNT: f64 = 15.0;

/// Seconds to start the systems of a section.
const START: f64 = 3.0;

/// Makes the plan of a study.
pub fn plan(study: &Study, limits: &Limits) -> Plan {
    let mut scaled = Vec::new();
    let mut cells = Vec::new();
    for (number, section) in
        study.sections.iter().enumerate().filter(|(_, section)| chosen(&limits.sections, &section.title))
    {
        let priced = study.analyses.iter().any(|analysis| analysis.prices() == Some(&section.title));
        let mut first = None;
        for (at, point) in section.points.iter().enumerate() {
            let mut settings = study.settings.with(&section.settings).with(&point.set);
            if section.axis.as_deref() == Some("workers") && settings.target_cores() > limits.target_cores {
                // On fewer cores it would be another point of the same axis once more.
                scaled.push(format!(
                    "{} workers on {} cores are left out: there are {} cores for the system under test",
                    settings.workers(),
                    settings.target_cores(),
                    limits.target_cores
                ));
                continue;
            }
            fit(&mut settings, limits, &mut scaled);
            let first = first.get_or_insert_with(|| settings.clone());
            let plain = priced.then(|| Settings { rate: settings.rate, ..first.clone() });
            let systems: Vec<String> = point
                .systems
                .as_ref()
                .unwrap_or(&section.systems)
                .iter()
                .filter(|name| limits.systems.is_empty() || limits.systems.contains(name))
                .cloned()
                .collect();
            if systems.is_empty() {
                continue;
            }
            cells.push(PlannedCell {
                cell: Cell {
                    id: format!("{}-{}", number + 1, at + 1),
                    title: point.title.clone().unwrap_or_else(|| title(section, point, &settings)),
                    section: section.title.clone(),
                    axis: section
                        .axis
                        .as_deref()
                        .and_then(|axis| Some((axis.to_owned(), value(axis, &settings)?))),
                    settings: settings.words(),
                    systems,
                    published: point.published.clone(),
                },
                settings,
                plain,
            });
        }
    }
    let decides = decides(study, &cells);
    let mut experiments = Vec::new();
    let mut seconds = estimate(study, &cells);
    for analysis in &study.analyses {
        let tried = analysis.tried().iter();
        let tried = tried.filter(|name| limits.systems.is_empty() || limits.systems.contains(name)).count();
        if let Some(title) =
            analysis.experiment().filter(|title| tried > 0 && chosen(&limits.sections, title))
        {
            experiments.push(title);
            seconds += analysis.seconds() * tried as f64;
        }
    }
    scaled.dedup();
    Plan { cells, scaled: unique(scaled), seconds, experiments, decides, systems: limits.systems.clone() }
}

/// Returns the planned cell that answers the study's question.
fn decides(study: &Study, cells: &[PlannedCell]) -> Option<Decides> {
    let named = study.decides.as_ref()?;
    let section = study.sections.iter().position(|section| section.title == named.section)?;
    let cell = format!("{}-{}", section + 1, named.point.unwrap_or(1));
    cells.iter().any(|planned| planned.cell.id == cell).then_some(Decides { cell, by: named.by })
}

fn unique(list: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    list.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

fn fit(settings: &mut Settings, limits: &Limits, scaled: &mut Vec<String>) {
    if settings.connections() > limits.connections {
        scaled.push(format!(
            "{} connections became {}: open files are limited, and a gateway holds two for each",
            settings.connections(),
            limits.connections
        ));
        settings.connections = Some(limits.connections);
    }
    if settings.target_cores() > limits.target_cores {
        scaled.push(format!(
            "{} cores for the system under test became {}: there are no more here",
            settings.target_cores(),
            limits.target_cores
        ));
        settings.target_cores = Some(limits.target_cores);
    }
    // One worker and one thread is the default anyway, so the settings of a small machine stay as written.
    if settings.origin_workers.is_none() && limits.origin_cores > 1 && !settings.origin_beside_target() {
        settings.origin_workers = Some(limits.origin_cores);
    }
    let threads = limits.load_cores.min(settings.connections());
    if settings.threads.is_none() && threads > 1 {
        settings.threads = Some(threads);
    }
    // Thousands of connections take seconds to open; a shorter trial would be meaningless. Whole seconds,
    // because most tools support no others.
    let opening = (f64::from(settings.connections()) / CONNECTIONS_A_SECOND).ceil();
    if let Some(most) = limits.seconds.map(|most| most.max(opening)).filter(|most| settings.seconds() > *most)
    {
        scaled.push(format!("trials of {} s became {most} s, as asked", settings.seconds()));
        settings.seconds = Some(most);
    }
    if let Some(most) = limits.rounds.filter(|most| settings.rounds() > *most) {
        scaled.push(format!("{} rounds became {most}, as asked", settings.rounds()));
        settings.rounds = Some(most);
    }
}

/// Returns the value of the axis in this cell.
fn value(axis: &str, settings: &Settings) -> Option<f64> {
    Some(match axis {
        "connections" => f64::from(settings.connections()),
        "rate" => settings.rate?,
        "workers" => f64::from(settings.workers()),
        "quota" => settings.quota?,
        "response_body" => settings.response_body() as f64,
        "chain" => f64::from(settings.chain()),
        "timeout" => settings.timeout?,
        "routes" => f64::from(settings.routes()),
        _ => return None,
    })
}

/// Returns a title made of the point's own settings.
fn title(section: &Section, point: &Point, settings: &Settings) -> String {
    let all = settings.words();
    let plain = Settings::default().words();
    let own: Vec<String> = point
        .set
        .words()
        .into_iter()
        .filter(|(name, value)| plain.get(name) != Some(value))
        .map(|(name, value)| (all.get(&name).cloned().unwrap_or(value), name))
        .map(|(value, name)| if name == "rate" { value } else { format!("{name} {value}") })
        .collect();
    if !own.is_empty() {
        return own.join(", ");
    }
    let axis = section.axis.as_deref().unwrap_or("connections");
    all.get(axis).map_or_else(|| section.title.clone(), |value| format!("{axis} {value}"))
}

fn estimate(study: &Study, cells: &[PlannedCell]) -> f64 {
    let mut seconds = 0.0;
    let mut section = "";
    for planned in cells {
        let settings = &planned.settings;
        let control = study.control.as_ref().is_some_and(|name| planned.cell.systems.contains(name));
        let turns = planned.copies() * planned.cell.systems.len() as f64 + f64::from(u8::from(control));
        let turn = settings.seconds() + settings.ramp() + settings.warm_up() + OVERHEAD;
        seconds += f64::from(settings.rounds()) * (turns * turn + CEILING_SECONDS);
        if planned.cell.section != section {
            section = &planned.cell.section;
            seconds += START * turns;
            // Only systems that compile at run time need it; which systems do is not known here.
            seconds += settings.until_steady.unwrap_or(0.0);
        }
        for analysis in &study.analyses {
            if let Analysis::FeaturePrices { section, instructions } = analysis
                && section == &planned.cell.section
            {
                let counted = instructions.iter().filter(|name| planned.cell.systems.contains(name));
                seconds += COUNT * counted.count() as f64;
            }
        }
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "
title: T
about: A
control: nginx
sections:
  - title: Many
    systems: [direct, nginx]
    axis: connections
    settings: {seconds: 10, rounds: 3}
    points:
      - {set: {connections: 64}}
      - {set: {connections: 64000}}
  - title: Few
    systems: [nginx]
    points: [{title: One, set: {connections: 1}}]
";

    fn limits() -> Limits {
        Limits {
            connections: 9_000,
            target_cores: 1,
            origin_cores: 1,
            load_cores: 1,
            seconds: None,
            rounds: None,
            systems: vec![],
            sections: vec![],
        }
    }

    fn study() -> Study {
        serde_saphyr::from_str(STUDY).unwrap()
    }

    #[test]
    fn cells_have_titles_axes_and_a_place() {
        let plan = plan(&study(), &limits());
        let titles: Vec<_> = plan.cells.iter().map(|cell| cell.cell.title.as_str()).collect();
        assert_eq!(titles, ["connections 64", "connections 9000", "One"]);
        assert_eq!(plan.cells[1].cell.axis, Some(("connections".to_owned(), 9_000.0)));
        assert_eq!(plan.cells[2].cell.id, "2-1");
    }

    #[test]
    fn what_was_made_smaller_is_said() {
        let plan = plan(&study(), &Limits { seconds: Some(2.0), rounds: Some(1), ..limits() });
        assert_eq!(plan.scaled.len(), 5, "{:?}", plan.scaled);
        assert!(plan.scaled.iter().any(|text| text.contains("64000 connections became 9000")));
        assert_eq!(plan.cells[0].settings.seconds(), 2.0);
        assert_eq!(plan.cells[1].settings.seconds(), 9.0, "9,000 connections take their time to open");
        let fewer = Limits { seconds: Some(2.0), connections: 6_400, ..limits() };
        assert_eq!(super::plan(&study(), &fewer).cells[1].settings.seconds(), 7.0, "in whole seconds");
    }

    #[test]
    fn workers_on_more_cores_than_there_are_are_left_out() {
        let text = STUDY
            .replace("axis: connections", "axis: workers")
            .replace("{set: {connections: 64}}", "{set: {workers: 4, target_cores: 4}}")
            .replace("{set: {connections: 64000}}", "{set: {workers: 8, target_cores: 8}}");
        let study: Study = serde_saphyr::from_str(&text).unwrap();
        let plan = plan(&study, &Limits { target_cores: 4, ..limits() });
        let ids: Vec<_> = plan.cells.iter().map(|cell| cell.cell.id.as_str()).collect();
        assert_eq!(ids, ["1-1", "2-1"]);
        assert_eq!(plan.cells[0].cell.axis, Some(("workers".to_owned(), 4.0)));
        let left_out = "8 workers on 8 cores are left out: there are 4 cores for the system under test";
        assert_eq!(plan.scaled, [left_out]);
    }

    #[test]
    fn origin_and_generator_use_all_their_cores_unless_the_study_says_how_many() {
        let many = Limits { origin_cores: 4, load_cores: 6, ..limits() };
        let cells = plan(&study(), &many).cells;
        assert_eq!((cells[0].settings.origin_workers(), cells[0].settings.threads()), (4, 6));
        assert_eq!(cells[2].settings.threads(), 1, "not more threads than connections");
        let mut own = study();
        own.settings.threads = Some(2);
        assert_eq!(plan(&own, &many).cells[0].settings.threads(), 2);
    }

    #[test]
    fn the_time_is_that_of_all_turns() {
        // Many: 2 cells x 3 rounds x ((2 systems + control) x 11.4 s + 1 s) + 9 s; Few: 3 x (2 x 6.4 + 1) +
        // 6.
        let expected = 2.0 * 3.0 * (3.0 * 11.4 + 1.0) + 9.0 + 3.0 * (2.0 * 6.4 + 1.0) + 6.0;
        assert!((plan(&study(), &limits()).seconds - expected).abs() < 1e-6);
    }

    #[test]
    fn systems_and_sections_can_be_chosen() {
        let only = Limits { systems: vec!["direct".into()], sections: vec!["MANY".into()], ..limits() };
        let plan = plan(&study(), &only);
        assert!(plan.cells.iter().all(|cell| cell.cell.systems == ["direct"] && cell.cell.section == "Many"));
        assert_eq!(plan.cells.len(), 2);
    }
}
