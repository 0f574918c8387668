//! Runs a study from its first cell to its last. Each result is written at once, so that an interrupted run can
//! continue. A [`Session`] keeps the servers of a cell for the next cells as long as only the load differs. Cells,
//! trials and tables that are already in the result file are not measured again.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fleet::{Fleet, Slot};
use crate::target::Target;
use crate::warm::warm;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Instant;
use tollgate_lab_meter::child::wait_if_ending;
use tollgate_lab_record::{Cell, Evidence, FORMAT, Header, Line, Results, Status, SystemUsed, Trial, append};
use tollgate_lab_study::{Plan, PlannedCell, Study};

/// Receives the progress of a study.
pub trait Progress {
    /// Reports in a sentence what is being done.
    fn say(&mut self, text: &str);
    /// Reports a finished trial; `share` is the finished part of all trials, 0 to 1.
    fn trial(&mut self, share: f64, cell: &PlannedCell, trial: &Trial);
}

/// The state of one run of a study.
pub struct Session<'a, W: Write, P: Progress> {
    /// Cores, systems, folders.
    pub environment: &'a Environment,
    /// The study.
    pub study: &'a Study,
    /// The cells to run.
    pub plan: &'a Plan,
    /// Sentences for the report about this run: roles that share a core, links between hosts.
    pub remarks: Vec<String>,
    /// Fixes the random order.
    pub seed: u64,
    /// The command that repeats this run.
    pub command: String,
    /// Start time, UTC, RFC 3339.
    pub started: String,
    /// The result file, opened for appending.
    pub out: W,
    /// Receives the progress.
    pub progress: P,
    /// The results of an earlier run of the same file; `None` for a new file.
    pub earlier: Option<Results>,
    /// The systems that answered the probe before the origin did; empty at the start.
    pub early: BTreeSet<String>,
}

impl<W: Write, P: Progress> Session<'_, W, P> {
    /// Runs the cells and experiments that the result file does not hold yet.
    ///
    /// # Errors
    /// If the result file cannot be written, or an origin cannot be started. The file keeps what was measured
    /// until then.
    pub fn run(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        if let Some(warning) = self.environment.is_busy() {
            self.progress.say(&warning);
        }
        self.begin()?;
        self.probe()?;
        self.cells(begun)?;
        self.count_instructions()?;
        self.add_routes()?;
        self.idle_memory()?;
        self.datagrams()?;
        self.large_body()
    }

    /// Writes the header of a new file, or a note into a file that is continued.
    fn begin(&mut self) -> Result<(), Failure> {
        let Some(earlier) = &self.earlier else { return self.header() };
        // The report must state that the figures were visible before the rest was measured.
        let text = format!(
            "The run was stopped after {} trials and continued at {}; a trial that was under way was measured again.",
            earlier.trials.len(),
            self.started
        );
        self.line(&Line::Note { section: String::new(), text })
    }

    /// Runs the cells that have no verdicts. The servers of a cell serve the next cells too, as long as they fit.
    fn cells(&mut self, begun: Instant) -> Result<(), Failure> {
        let mut fleet: Option<Fleet> = None;
        let mut section = String::new();
        let mut reported: BTreeSet<String> = self
            .earlier
            .iter()
            .flat_map(|earlier| &earlier.systems)
            .map(|system| system.name.clone())
            .collect();
        let all: usize = self.plan.cells.iter().map(|cell| turns_of(self.study, cell)).sum();
        let mut done = 0;
        for planned in &self.plan.cells {
            self.same_settings(planned)?;
            let turns = turns_of(self.study, planned);
            if self.is_judged(planned) {
                done += turns;
                continue;
            }
            let groups = Arm::groups(self.study, planned);
            let together: Vec<usize> = groups.iter().map(Vec::len).collect();
            let arms: Vec<Arm> = groups.into_iter().flatten().collect();
            self.line(&Line::Cell(planned.cell.clone()))?;
            let made = self.earlier_trials(planned);
            if made.iter().filter(|trial| trial.round > 0).count() >= turns {
                // All trials exist; only the verdicts are missing, which need no servers.
                self.cell(None, planned, (&arms, &together), made, begun, (done, all))?;
                done += turns;
                continue;
            }
            let clients = self.clients(planned);
            if !fleet.as_ref().is_some_and(|fleet| fleet.fits(&arms, &planned.settings, clients)) {
                // The old servers end before the new ones start.
                drop(fleet.take());
                let systems: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
                self.progress.say(&format!("{}: starting {}", planned.cell.section, systems.join(", ")));
                fleet = Some(self.start(&arms, planned, &mut reported)?);
            }
            if let Some(fleet) = fleet.as_mut() {
                if section != planned.cell.section {
                    section.clone_from(&planned.cell.section);
                    self.search(fleet, planned)?;
                }
                self.cell(Some(fleet), planned, (&arms, &together), made, begun, (done, all))?;
            }
            done += turns;
        }
        Ok(())
    }

    /// Refuses to continue a cell that was measured with other settings or systems.
    fn same_settings(&self, planned: &PlannedCell) -> Result<(), Failure> {
        let mut cells = self.earlier.iter().flat_map(|earlier| &earlier.cells);
        match cells.find(|other| other.id == planned.cell.id) {
            Some(other) if (set(other), &other.systems) != (set(&planned.cell), &planned.cell.systems) => {
                Err(Failure(format!(
                    "the result file holds \"{}: {}\" with other settings or systems: ask for the same ones as before, \
                     or start over with --fresh",
                    other.section, other.title
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the result file holds verdicts of a cell.
    fn is_judged(&self, planned: &PlannedCell) -> bool {
        let mut verdicts = self.earlier.iter().flat_map(|earlier| &earlier.verdicts);
        verdicts.any(|verdict| verdict.cell == planned.cell.id)
    }

    /// Returns the trials of a cell that the result file holds.
    fn earlier_trials(&self, planned: &PlannedCell) -> Vec<Trial> {
        let trials = self.earlier.iter().flat_map(|earlier| &earlier.trials);
        trials.filter(|trial| trial.cell == planned.cell.id).cloned().collect()
    }

    /// Returns the highest number of connections of any cell of the section, plus a margin.
    fn clients(&self, planned: &PlannedCell) -> u32 {
        let cells = self.plan.cells.iter().filter(|other| other.cell.section == planned.cell.section);
        let most = cells.map(|other| other.settings.connections()).max().unwrap_or(64);
        most + most / 8 + 64
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end(&mut self, seconds: f64) -> Result<(), Failure> {
        self.line(&Line::End { seconds })
    }

    /// Appends a line to the result file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn line(&mut self, line: &Line) -> Result<(), Failure> {
        append_line(&mut self.out, line)
    }

    fn header(&mut self) -> Result<(), Failure> {
        let header = Header {
            format: FORMAT,
            study: self.study.name.clone(),
            title: self.study.title.clone(),
            about: self.study.about.clone(),
            seed: self.seed,
            command: self.command.clone(),
            started: self.started.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            host: self.environment.host(),
            scaled: self.plan.scaled.clone(),
            baseline: self.study.baseline.clone(),
            decides: self.plan.decides.clone(),
            planned_seconds: self.plan.seconds,
        };
        self.line(&Line::Header(Box::new(header)))?;
        for text in self.study.notes.iter().chain(&self.remarks) {
            append_line(&mut self.out, &Line::Note { section: String::new(), text: text.clone() })?;
        }
        Ok(())
    }

    /// Starts the servers of a cell, and records the systems that no earlier cell had.
    fn start(
        &mut self,
        arms: &[Arm],
        planned: &PlannedCell,
        reported: &mut BTreeSet<String>,
    ) -> Result<Fleet, Failure> {
        let mut fleet = Fleet::start(self.environment, arms, &planned.settings, self.clients(planned))?;
        let rows = fleet.used.iter().zip(arms).filter(|(_, arm)| !arm.is_copy());
        for (used, _) in rows {
            self.same_as_before(used)?;
            if used.missing.is_none() || reported.insert(used.name.clone()) {
                self.progress.say(&describe(used));
                append_line(&mut self.out, &Line::System(used.clone()))?;
                reported.insert(used.name.clone());
            }
        }
        for (slot, arm) in fleet.slots.iter_mut().zip(arms) {
            if let Slot::Up(target) = slot {
                self.steady(target, arm, planned)?;
            }
        }
        Ok(fleet)
    }

    /// Loads a system whose virtual machine compiles while it runs, until its rate is steady, and records the trace.
    fn steady(&mut self, target: &mut Target, arm: &Arm, planned: &PlannedCell) -> Result<(), Failure> {
        let settings = arm.settings(&planned.settings);
        let limit = settings.until_steady.unwrap_or(0.0);
        let compiles =
            self.environment.catalogue.get(&arm.system).is_ok_and(|system| system.description().jvm);
        if limit <= 0.0 || !compiles {
            return Ok(());
        }
        self.progress.say(&format!("{}: load until its rate is steady, at most {limit} s", arm.name));
        target.resume();
        let traced = warm(self.environment, target, &settings, limit);
        target.pause();
        let text = match &traced {
            Ok((_, answer)) => format!("{}: {answer}", arm.name),
            Err(failure) => format!(
                "{}: the load until it is steady failed, and it was measured without: {failure}",
                arm.name
            ),
        };
        self.progress.say(&text);
        if let Ok((load, _)) = traced {
            self.line(&Line::Trial(Box::new(Trial {
                cell: planned.cell.id.clone(),
                system: arm.name.clone(),
                round: 0,
                turn: 0,
                at: 0.0,
                load: Some(load),
                evidence: Evidence::default(),
                cost: None,
                warm_up: 0.0,
                status: Status::Bad { reason: "a trace of the warm-up, not a measurement".into() },
            })))?;
        }
        self.line(&Line::Note { section: planned.cell.section.clone(), text })
    }
}

impl<W: Write, P: Progress> Session<'_, W, P> {
    /// Refuses to continue a run with another program: the rounds of a cell would be of two.
    fn same_as_before(&self, used: &SystemUsed) -> Result<(), Failure> {
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.systems);
        let runs = |one: &SystemUsed| one.missing.is_none();
        let mut before = earlier.filter(|was| was.name == used.name && runs(was) && runs(used));
        match before.find(|was| identity(was) != identity(used)) {
            None => Ok(()),
            Some(was) => {
                let ((version, program), (now, program_now)) = (identity(was), identity(used));
                Err(Failure(format!(
                    "{} was {version} ({program}) before the run was stopped, and is {now} ({program_now}) now: start \
                     over with --fresh",
                    used.name
                )))
            }
        }
    }
}

/// Returns the version and the program of a system.
fn identity(used: &SystemUsed) -> (&str, &str) {
    (&used.version, used.command.first().map_or("", String::as_str))
}

fn turns_of(study: &Study, planned: &PlannedCell) -> usize {
    Arm::groups(study, planned).iter().map(Vec::len).sum::<usize>() * planned.settings.rounds() as usize
}

/// Returns the settings of a cell except the length of its trials.
fn set(cell: &Cell) -> BTreeMap<&String, &String> {
    cell.settings.iter().filter(|(name, _)| name.as_str() != "seconds").collect()
}

fn describe(used: &SystemUsed) -> String {
    match &used.missing {
        None => format!("{} {} is up", used.name, used.version),
        Some(missing) => {
            let get =
                if missing.get.is_empty() { String::new() } else { format!(" (to get it: {})", missing.get) };
            format!("{} is missing: {}{get}", used.name, missing.reason)
        }
    }
}

/// Writes and flushes a line. Blocks instead while a signal ends the run: what fails because the children are
/// being stopped (a system that does not start, a trial that broke off) is not a result, and the continued
/// run must measure it again.
pub(crate) fn append_line(out: &mut impl Write, line: &Line) -> Result<(), Failure> {
    wait_if_ending();
    append(out, line).and_then(|()| out.flush()).map_err(|error| Failure::of("the result file", error))
}
