//! A study from its first cell to its last: what is measured is written down at once, so that a run that stops can go on.

use crate::arm::{Arm, CONTROL};
use crate::failure::Failure;
use crate::fleet::{Fleet, Slot};
use crate::generator::{Aim, Run, plan as load_plan};
use crate::ground::Ground;
use crate::measure::{Measured, measure};
use crate::received::probe;
use crate::runtime_route::add_route;
use crate::schedule::{Turn, left, order};
use crate::search::search;
use crate::summary::{Attributed, verdicts};
use crate::target::Target;
use crate::verdict::{Facts, attribute};
use crate::warm::warm;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Instant;
use tollgate_lab_origin::body;
use tollgate_lab_meter::process::Snapshot;
use tollgate_lab_record::{
    Ceiling, Evidence, FORMAT, Header, Line, LoadModel, Missing, Results, Status, SystemUsed, Trial, append,
};
use tollgate_lab_study::{Analysis, CEILING_SECONDS, Plan, PlannedCell, Settings, Study};

/// Bytes of a response's head, about, for the limit of a slow link.
const HEAD_BYTES: f64 = 240.0;

/// What a caller hears while a study runs.
pub trait Progress {
    /// A sentence about what is being done.
    fn say(&mut self, text: &str);
    /// A trial is done: so much of the whole, and its figures.
    fn trial(&mut self, share: f64, cell: &PlannedCell, trial: &Trial);
}

/// Everything that a run of a study needs.
pub struct Session<'a, W: Write, P: Progress> {
    /// Cores, systems, folders.
    pub ground: &'a Ground,
    /// What is asked.
    pub study: &'a Study,
    /// The cells.
    pub plan: &'a Plan,
    /// Fixes the order.
    pub seed: u64,
    /// The command that runs this again.
    pub command: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The result file, at its end.
    pub out: W,
    /// Who is told.
    pub progress: P,
    /// What an earlier run of the same file measured.
    pub earlier: Option<Results>,
}

impl<W: Write, P: Progress> Session<'_, W, P> {
    /// Runs what is left of the study.
    ///
    /// # Errors
    /// When the result file cannot be written, or an origin cannot be started. What was measured until then is in the file.
    pub fn run(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        if self.earlier.is_none() {
            self.header()?;
        }
        self.probe()?;
        let mut fleet: Option<Fleet> = None;
        let mut section = String::new();
        let mut told: BTreeSet<String> =
            self.earlier.iter().flat_map(|earlier| &earlier.systems).map(|system| system.name.clone()).collect();
        let all: usize = self.plan.cells.iter().map(|cell| turns_of(self.study, cell)).sum();
        let mut done = 0;
        for planned in &self.plan.cells {
            let arms = arms(self.study, planned);
            let systems: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
            let cell = &planned.cell.id;
            let made: Vec<Trial> = self
                .earlier
                .iter()
                .flat_map(|earlier| earlier.trials.iter())
                .filter(|trial| &trial.cell == cell)
                .cloned()
                .collect();
            let summed = self.earlier.as_ref().is_some_and(|earlier| {
                planned.cell.systems.iter().all(|system| earlier.verdict_of(cell, system).is_some())
            });
            let turns = turns_of(self.study, planned);
            if summed {
                done += turns;
                continue;
            }
            self.line(&Line::Cell(planned.cell.clone()))?;
            if !fleet.as_ref().is_some_and(|fleet| fleet.fits(&arms, &planned.settings)) {
                // The old servers end before the new ones start.
                drop(fleet.take());
                self.progress.say(&format!("{}: starting {}", planned.cell.section, systems.join(", ")));
                fleet = Some(self.start(&arms, planned, &mut told)?);
            }
            if let Some(fleet) = fleet.as_mut() {
                if section != planned.cell.section {
                    section.clone_from(&planned.cell.section);
                    self.search(fleet, planned)?;
                }
                self.cell(fleet, planned, &arms, made, begun, (done, all))?;
            }
            done += turns;
        }
        drop(fleet);
        self.add_routes()?;
        if self.earlier.is_none() {
            for text in &self.study.notes {
                append_line(&mut self.out, &Line::Note { section: String::new(), text: text.clone() })?;
            }
        }
        Ok(())
    }

    /// What the origin receives from each system, asked once a study with the settings of its first cell.
    fn probe(&mut self) -> Result<(), Failure> {
        let Some(planned) = self.plan.cells.first() else { return Ok(()) };
        if self.earlier.as_ref().is_some_and(|earlier| !earlier.received.is_empty()) {
            return Ok(());
        }
        let mut names: Vec<&String> = Vec::new();
        for name in self.plan.cells.iter().flat_map(|planned| &planned.cell.systems) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        self.progress.say("asking what the origin receives from each system");
        let arms: Vec<Arm> = names.iter().map(|name| Arm::of(self.study, name)).collect();
        for received in probe(self.ground, &arms, &planned.settings)? {
            append_line(&mut self.out, &Line::Received(received))?;
        }
        Ok(())
    }

    /// The generator's own best, where the study asks for it before a section.
    fn search(&mut self, fleet: &Fleet, planned: &PlannedCell) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            if let Analysis::GeneratorSearch { section, threads, connections, seconds } = analysis
                && section == &planned.cell.section
            {
                self.progress.say("searching the generator's best threads and connections");
                for line in search(self.ground, fleet, planned, threads, connections, *seconds)? {
                    append_line(&mut self.out, &line)?;
                }
            }
        }
        Ok(())
    }

    /// Routes added at run time, where the study asks for it.
    fn add_routes(&mut self) -> Result<(), Failure> {
        for analysis in &self.study.analyses {
            let Analysis::RuntimeRoute { systems, routes, rate, times } = analysis else { continue };
            let mut rows = Vec::new();
            for system in systems {
                for routes in routes {
                    self.progress.say(&format!("{system}: a route added to {routes} under load"));
                    rows.push(match add_route(self.ground, system, *routes, *rate, *times) {
                        Ok(added) => vec![
                            system.clone(),
                            routes.to_string(),
                            added.median().map_or_else(|| "-".into(), |ms| format!("{ms:.1}")),
                            added.milliseconds.iter().map(|ms| format!("{ms:.0}")).collect::<Vec<_>>().join(", "),
                            format!("{} of {}", added.failed, added.requests),
                            format!("{:.1}", added.p99_ms),
                        ],
                        Err(failure) => {
                            let mut row = vec![system.clone(), routes.to_string(), failure.0];
                            row.resize(6, String::new());
                            row
                        }
                    });
                }
            }
            let head = [
                "system",
                "routes before",
                "ms until the new route answers (median)",
                "each time",
                "requests that failed meanwhile",
                "worst p99 meanwhile, ms",
            ];
            let section = "A route added at run time".to_owned();
            append_line(&mut self.out, &Line::Table { section, head: head.map(str::to_owned).to_vec(), rows })?;
        }
        Ok(())
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// Those of the file.
    pub fn end(&mut self, seconds: f64, stopped: bool) -> Result<(), Failure> {
        self.line(&Line::End { seconds, stopped })
    }

    /// Adds a line to the result file.
    ///
    /// # Errors
    /// Those of the file.
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
            host: self.ground.host(),
            scaled: self.plan.scaled.clone(),
            baseline: self.study.baseline.clone(),
            planned_seconds: self.plan.seconds,
        };
        self.line(&Line::Header(Box::new(header)))
    }

    fn start(
        &mut self,
        arms: &[Arm],
        planned: &PlannedCell,
        told: &mut BTreeSet<String>,
    ) -> Result<Fleet, Failure> {
        let clients = self
            .plan
            .cells
            .iter()
            .filter(|other| other.cell.section == planned.cell.section)
            .map(|other| other.settings.connections())
            .max()
            .unwrap_or(64);
        let mut fleet = Fleet::start(self.ground, arms, &planned.settings, clients + clients / 8 + 64)?;
        for used in fleet.used.iter().filter(|used| !used.name.ends_with(CONTROL)) {
            if used.missing.is_none() || told.insert(used.name.clone()) {
                self.progress.say(&describe(used));
                append_line(&mut self.out, &Line::System(used.clone()))?;
                told.insert(used.name.clone());
            }
        }
        for (slot, arm) in fleet.slots.iter_mut().zip(arms) {
            let settings = arm.settings(&planned.settings);
            let limit = settings.until_steady.unwrap_or(0.0);
            let compiles = self.ground.catalogue.get(&arm.system).is_ok_and(|system| system.description().jvm);
            if let (Slot::Up(target), true) = (slot, limit > 0.0 && compiles) {
                self.progress.say(&format!("{}: load until its rate is steady, at most {limit} s", arm.name));
                target.resume();
                let traced = warm(self.ground, target, &settings, limit);
                target.pause();
                match traced {
                    Ok((load, answer)) => {
                        self.progress.say(&format!("{}: {answer}", arm.name));
                        let text = format!("{}: {answer}", arm.name);
                        append_line(
                            &mut self.out,
                            &Line::Trial(Box::new(Trial {
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
                            })),
                        )?;
                        append_line(&mut self.out, &Line::Note { section: planned.cell.section.clone(), text })?;
                    }
                    Err(failure) => self.progress.say(&format!("{}: warm-up failed: {failure}", arm.name)),
                }
            }
        }
        Ok(fleet)
    }

    fn cell(
        &mut self,
        fleet: &mut Fleet,
        planned: &PlannedCell,
        arms: &[Arm],
        mut trials: Vec<Trial>,
        begun: Instant,
        (done, all): (usize, usize),
    ) -> Result<(), Failure> {
        let cell = &planned.cell.id;
        let systems: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
        let mut attributed = Attributed::new();
        for trial in &trials {
            let arm = arms.iter().find(|arm| arm.name == trial.system);
            if let Some(arm) = arm {
                let facts = facts(self.ground, &arm.settings(&planned.settings), arm.system == "direct");
                attributed.insert(
                    (trial.system.clone(), trial.round),
                    attribute(&facts, trial.load.as_ref(), &trial.evidence),
                );
            }
        }
        let turns = left(order(self.seed, cell, arms.len(), planned.settings.rounds()), cell, &systems, &trials);
        let mut round = 0;
        for (at, turn) in turns.iter().enumerate() {
            if turn.round != round {
                round = turn.round;
                self.ceiling(fleet, planned, round)?;
            }
            let arm = &arms[turn.system];
            let settings = arm.settings(&planned.settings);
            let Some(trial) = self.turn(fleet, planned, arm, &settings, turn, begun)? else { continue };
            let facts = facts(self.ground, &settings, arm.system == "direct");
            attributed.insert(
                (trial.system.clone(), trial.round),
                attribute(&facts, trial.load.as_ref(), &trial.evidence),
            );
            self.progress.trial((done + at + 1) as f64 / all.max(1) as f64, planned, &trial);
            self.line(&Line::Trial(Box::new(trial.clone())))?;
            trials.push(trial);
        }
        let refs: Vec<&Trial> = trials.iter().collect();
        let baseline = self.study.baseline.as_deref().or(planned.cell.systems.first().map(String::as_str));
        for verdict in verdicts(cell, &systems, baseline, &refs, &attributed, self.seed) {
            let out = fleet.slots.iter().zip(arms).any(|(slot, arm)| {
                arm.name == verdict.system && matches!(slot, Slot::Out(_))
            });
            if !out {
                append_line(&mut self.out, &Line::Verdict(verdict))?;
            }
        }
        Ok(())
    }

    fn turn(
        &mut self,
        fleet: &mut Fleet,
        planned: &PlannedCell,
        arm: &Arm,
        settings: &Settings,
        turn: &Turn,
        begun: Instant,
    ) -> Result<Option<Trial>, Failure> {
        let origin_quota = fleet.origin_quota.as_ref();
        let shared = fleet.origin();
        let at = begun.elapsed().as_secs_f64();
        let measured = match &mut fleet.slots[turn.system] {
            Slot::Out(_) => return Ok(None),
            Slot::Up(target) => {
                target.resume();
                let measured = measure(self.ground, target, origin_quota, settings, settings.seconds());
                target.pause();
                measured
            }
            Slot::Cold => {
                match Target::start(self.ground, arm, settings, shared, settings.connections() * 2 + 64) {
                    Ok(mut target) => measure(self.ground, &mut target, origin_quota, settings, settings.seconds()),
                    Err((_, Missing { reason, .. })) => Measured {
                        load: None,
                        evidence: Evidence::default(),
                        cost: None,
                        status: Status::Bad { reason },
                    },
                }
            }
        };
        Ok(Some(Trial {
            cell: planned.cell.id.clone(),
            system: arm.name.clone(),
            round: turn.round,
            turn: turn.turn,
            at,
            load: measured.load,
            evidence: measured.evidence,
            cost: measured.cost,
            warm_up: settings.warm_up(),
            status: measured.status,
        }))
    }

    /// What the generator reaches straight to the origin, on the cell's connections, with nobody between.
    fn ceiling(&mut self, fleet: &mut Fleet, planned: &PlannedCell, round: u32) -> Result<(), Failure> {
        let Some(origin) = fleet.origin() else { return Ok(()) };
        let port = origin.borrow().ports[0];
        let bytes = body(planned.settings.response_body());
        let aim = Aim { port, body: &bytes, status: planned.settings.origin_status() };
        let plain = Settings { relay: None, requests: None, ..planned.settings.clone() };
        let plan = load_plan(&plain, aim, CEILING_SECONDS, Some(LoadModel::Closed));
        let snapshots = || -> Vec<Snapshot> { origin.borrow().ids().into_iter().map(Snapshot::take).collect() };
        let before = snapshots();
        let (load, ended) = match Run::builtin(self.ground, &plan).and_then(|run| run.finish(|| ())) {
            Ok(result) => result,
            Err(failure) => {
                self.progress.say(&format!("the direct ceiling could not be measured: {failure}"));
                return Ok(());
            }
        };
        let requests = (load.ok + load.failures.total()).max(1) as f64;
        let used: u64 = snapshots().iter().zip(&before).map(|(after, before)| after.since(before).total_ns).sum();
        self.line(&Line::Ceiling(Ceiling {
            cell: planned.cell.id.clone(),
            round,
            rps: load.rps(),
            generator_us: (ended.user_us + ended.system_us) as f64 / requests,
            origin_us: used as f64 / 1e3 / requests,
            best: None,
        }))
    }
}

/// The rows of a cell: its systems, and the control's copy beside its original.
fn arms(study: &Study, planned: &PlannedCell) -> Vec<Arm> {
    let mut arms: Vec<Arm> = planned.cell.systems.iter().map(|name| Arm::of(study, name)).collect();
    if let Some(control) = study.control.as_ref().filter(|name| planned.cell.systems.contains(name)) {
        arms.push(Arm::of(study, &format!("{control}{CONTROL}")));
    }
    arms
}

fn turns_of(study: &Study, planned: &PlannedCell) -> usize {
    arms(study, planned).len() * planned.settings.rounds() as usize
}

fn facts(ground: &Ground, settings: &Settings, direct: bool) -> Facts {
    let may = f64::from(settings.target_cores().min(settings.workers() * settings.chain().max(1)));
    Facts {
        target_cores: if direct { 0.0 } else { may },
        load_cores: vec![ground.cores.load],
        beside: settings.origin_beside_target.unwrap_or(false),
        origin_delay_us: settings.origin_delay_ms.map_or(0.0, |ms| ms as f64 * 1e3),
        link: settings.relay.map(|relay| (relay.round_trip_ms * 1e3, relay.bytes_per_second)),
        response_bytes: settings.response_body() as f64 + HEAD_BYTES,
    }
}

fn describe(used: &SystemUsed) -> String {
    match &used.missing {
        None => format!("{} {} is up", used.name, used.version),
        Some(missing) => {
            let get = if missing.get.is_empty() { String::new() } else { format!(" (to get it: {})", missing.get) };
            format!("{} is missing: {}{get}", used.name, missing.reason)
        }
    }
}

fn append_line(out: &mut impl Write, line: &Line) -> Result<(), Failure> {
    append(out, line).and_then(|()| out.flush()).map_err(|error| Failure::of("the result file", error))
}
