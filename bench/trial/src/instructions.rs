//! Counts instructions per request under valgrind, for costs that are too small to measure by time.
//!
//! The module starts a system with one worker and no quota. A first series of requests warms it up. Then the
//! generator sends the same requests in the same order over one connection, one at a time. Callgrind counts
//! what all processes of the system execute from before the first to after the last request. Elapsed time has
//! no influence, except for timers that fire during the count.

use crate::arm::Arm;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::generator::Run;
use crate::load_plan::{Aim, plan};
use crate::origin::Origin;
use crate::run::{Progress, Session};
use crate::target::{StartOptions, Target};
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use tollgate_lab_load::{Length, Plan as LoadPlan};
use tollgate_lab_meter::callgrind::Callgrind;
use tollgate_lab_record::{Instructions, Known, Line, LoadModel};
use tollgate_lab_study::{Analysis, PlannedCell, Settings};

/// Requests before the count; enough to reach every requested route.
const WARM_UP: u64 = 200;

/// Requests that are counted.
const COUNTED: u64 = 1_000;

/// Timeout of a request, in seconds.
const PATIENCE: f64 = 60.0;

impl<W: Write, P: Progress> Session<'_, W, P> {
    /// Counts for every analysis of the study that asks for it. Skips what an earlier run of the same file
    /// has counted.
    pub(crate) fn count_instructions(&mut self) -> Result<(), Failure> {
        if !self.environment.hosts.are_local() {
            return Ok(());
        }
        for analysis in &self.study.analyses {
            let Analysis::FeaturePrices { section, instructions } = analysis else { continue };
            for planned in self.plan.cells.iter().filter(|planned| &planned.cell.section == section) {
                for system in instructions.iter().filter(|name| planned.cell.systems.contains(name)) {
                    let counted = self.earlier.iter().flat_map(|earlier| &earlier.instructions).any(|one| {
                        one.cell == planned.cell.id && &one.system == system && one.each.figure().is_some()
                    });
                    if counted {
                        continue;
                    }
                    self.progress.say(&format!("{system}, {}: counting instructions", planned.cell.title));
                    let each = match count(self.environment, &Arm::of(self.study, system), planned) {
                        Ok(each) => Known::Is(each),
                        Err(failure) => {
                            self.progress.say(&format!("{system}, {}: {failure}", planned.cell.title));
                            Known::Not(self.environment.without_paths(&failure.0))
                        }
                    };
                    self.line(&Line::Instructions(Instructions {
                        cell: planned.cell.id.clone(),
                        system: system.clone(),
                        requests: if each.figure().is_some() { COUNTED } else { 0 },
                        each,
                    }))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the instructions per request.
fn count(environment: &Environment, arm: &Arm, planned: &PlannedCell) -> Result<f64, Failure> {
    if planned.settings.http() != 1 {
        return Err(Failure("instructions are counted only over HTTP/1".into()));
    }
    let callgrind = Callgrind::find()?;
    let folder = environment.folder("callgrind")?;
    let settings = Settings { quota: None, memory_mib: None, relay: None, ..arm.settings(&planned.settings) };
    let settings = Settings { workers: Some(1), connections: Some(1), threads: Some(1), ..settings };
    let origin = Origin::start(environment, &settings, &environment.cores.origin, None)?;
    let body = origin.body.clone();
    let place = StartOptions {
        origin: Some(Rc::new(RefCell::new(origin))),
        counted: Some((&callgrind, &folder)),
        listen: None,
    };
    let target = Target::start_in(environment, arm, &settings, place, 64)?;
    let [leader] = target.ids()[..] else {
        return Err(Failure("only one gateway at a time is counted".into()));
    };
    let aim = target.aim(&settings, &body);
    ask(environment, &settings, aim, WARM_UP)?;
    callgrind.begin(leader)?;
    ask(environment, &settings, aim, COUNTED)?;
    Ok(callgrind.count(leader, &folder)? as f64 / COUNTED as f64)
}

fn ask(environment: &Environment, settings: &Settings, aim: Aim<'_>, count: u64) -> Result<(), Failure> {
    let plan = LoadPlan {
        connections: 1,
        threads: 1,
        length: Length::Requests(count),
        time_limit: PATIENCE,
        ..plan(settings, aim, 1.0, Some(LoadModel::Closed))
    };
    let load = Run::builtin(environment, &plan)?.finish(|| ())?.load;
    if load.ok == count {
        Ok(())
    } else {
        Err(Failure(format!("{} of {count} requests failed", count - load.ok)))
    }
}
