//! Runs one cell: measures each system once in every round, then writes the verdicts over all rounds.
//! [`Session::run`] calls it for each cell of the plan. A round starts with the direct ceiling, followed by
//! the systems in random order. A trial whose limits cannot be attributed is recorded as bad, so its figures
//! are not used.

use crate::arm::{Arm, original};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fleet::{Fleet, Slot};
use crate::generator::Run;
use crate::load_plan::{Aim, plan as load_plan};
use crate::measure::{Measured, measure};
use crate::received::makes_answers;
use crate::run::{Progress, Session, append_line};
use crate::schedule::{Turn, left, order};
use crate::summary::{Attributed, verdicts};
use crate::target::Target;
use crate::verdict::{Facts, attribute};
use std::io::Write;
use std::time::Instant;
use tollgate_lab_meter::process::Snapshot;
use tollgate_lab_origin::body;
use tollgate_lab_record::{Ceiling, Evidence, Finding, Line, LoadModel, Status, Trial};
use tollgate_lab_study::{CEILING_SECONDS, PlannedCell, Settings};

/// Features that send more than one request to the origin for a client's request, and services that the
/// origin itself is.
const COPIES: [&str; 3] = ["mirror", "aggregate", "forward_auth"];

/// Approximate size of a response head, for the limit of a slow link.
const HEAD_BYTES: f64 = 240.0;

impl<W: Write, P: Progress> Session<'_, W, P> {
    pub(crate) fn cell(
        &mut self,
        mut fleet: Option<&mut Fleet>,
        planned: &PlannedCell,
        (arms, together): (&[Arm], &[usize]),
        mut trials: Vec<Trial>,
        begun: Instant,
        (done, all): (usize, usize),
    ) -> Result<(), Failure> {
        let cell = &planned.cell.id;
        let systems: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
        let mut attributed = Attributed::new();
        for trial in &trials {
            let arm = arms.iter().find(|arm| arm.name == trial.system);
            if let Some(arm) = arm.filter(|_| trial.load.is_some()) {
                let facts = self.facts(&arm.settings(&planned.settings), arm);
                attributed.insert(
                    (trial.system.clone(), trial.round),
                    attribute(&facts, trial.load.as_ref(), &trial.evidence),
                );
            }
        }
        let turns =
            left(order(self.seed, cell, together, planned.settings.rounds()), cell, &systems, &trials);
        let mut round = 0;
        for (at, turn) in turns.iter().enumerate() {
            let Some(fleet) = fleet.as_deref_mut() else { break };
            if turn.round != round {
                round = turn.round;
                self.environment.begin_round(self.seed, round);
                self.ceiling(fleet, planned, round)?;
            }
            let arm = &arms[turn.system];
            let settings = arm.settings(&planned.settings);
            let Some(mut trial) = self.turn(fleet, planned, arm, &settings, turn, begun)? else { continue };
            if trial.is_good() {
                let facts = self.facts(&settings, arm);
                let (kind, findings) = attribute(&facts, trial.load.as_ref(), &trial.evidence);
                trial.evidence.kind = Some(kind);
                if let (false, Some(last)) = (kind.has_figures(), findings.last()) {
                    trial.status = Status::Bad { reason: last.text.clone() };
                }
                attributed.insert((trial.system.clone(), trial.round), (kind, findings));
            }
            // The line is written before progress is reported: a trial that a signal interrupts is neither
            // written nor reported.
            self.line(&Line::Trial(Box::new(trial.clone())))?;
            self.progress.trial((done + at + 1) as f64 / all.max(1) as f64, planned, &trial);
            trials.push(trial);
        }
        let refs: Vec<&Trial> = trials.iter().collect();
        let baseline = self.study.baseline.as_deref().or(planned.cell.systems.first().map(String::as_str));
        for mut verdict in verdicts(cell, &systems, baseline, &refs, &attributed, self.seed) {
            let at = arms.iter().position(|arm| arm.name == verdict.system);
            let used = fleet.as_deref().zip(at).and_then(|(fleet, at)| fleet.used.get(at));
            // A system without trials gives the reason: it lacks a feature of the cell, or it did not start.
            if let Some(missing) = used.and_then(|used| used.missing.as_ref()) {
                verdict.findings = vec![Finding { text: missing.reason.clone() }];
            }
            append_line(&mut self.out, &Line::Verdict(verdict))?;
        }
        Ok(())
    }

    fn facts(&self, settings: &Settings, arm: &Arm) -> Facts {
        let facts = facts(self.environment, settings, arm);
        let early_answers = !facts.own_answers && self.early.contains(original(&arm.name));
        Facts { early_answers, ..facts }
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
        let clients = fleet.clients;
        let at = begun.elapsed().as_secs_f64();
        let measured = match &mut fleet.slots[turn.system] {
            Slot::Out => return Ok(None),
            Slot::Up(target) => {
                let measured = measure(self.environment, target, origin_quota, settings, settings.seconds());
                target.pause();
                measured
            }
            Slot::Cold => match Target::start(self.environment, arm, settings, shared, clients) {
                Ok(mut target) => {
                    measure(self.environment, &mut target, origin_quota, settings, settings.seconds())
                }
                Err(used) => Measured {
                    load: None,
                    evidence: Evidence::default(),
                    cost: None,
                    status: Status::Bad {
                        reason: used.missing.map(|missing| missing.reason).unwrap_or_default(),
                    },
                },
            },
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

    /// Measures the direct ceiling: what the generator reaches against the origin alone, on the cell's
    /// connections.
    fn ceiling(&mut self, fleet: &mut Fleet, planned: &PlannedCell, round: u32) -> Result<(), Failure> {
        let Some(origin) = fleet.origin() else { return Ok(()) };
        if planned.settings.grpc() {
            // The ceiling is measured by HTTP/1; the gRPC origin speaks HTTP/2 only.
            return Ok(());
        }
        // A closed loop at full speed would be an attack on an origin that serves others too.
        if origin.borrow().url().is_some() {
            return Ok(());
        }
        let Some(to) = origin.borrow().for_client() else { return Ok(()) };
        let bytes = body(planned.settings.response_body());
        let status = planned.settings.origin_status();
        let aim = Aim { to, url: None, body: Some(&bytes), status, tls: None };
        let plain = Settings {
            relay: None,
            ramp: None,
            requests: None,
            header_lines: None,
            known_client: None,
            answer: None,
            ..planned.settings.clone()
        };
        let plan = load_plan(&plain, aim, CEILING_SECONDS, Some(LoadModel::Closed));
        let snapshots =
            || -> Vec<Snapshot> { origin.borrow().ids().into_iter().map(Snapshot::take).collect() };
        let before = snapshots();
        let done = match Run::builtin(self.environment, &plan).and_then(|run| run.finish(|| ())) {
            Ok(done) => done,
            Err(failure) => {
                self.progress.say(&format!("the direct ceiling could not be measured: {failure}"));
                return Ok(());
            }
        };
        let load = done.load;
        let requests = (load.ok + load.failures.total()).max(1) as f64;
        let used: u64 =
            snapshots().iter().zip(&before).map(|(after, before)| after.since(before).total_ns).sum();
        self.line(&Line::Ceiling(Ceiling {
            cell: planned.cell.id.clone(),
            round,
            rps: load.rps(),
            generator_us: done.used.cpu_us() / requests,
            origin_us: used as f64 / 1e3 / requests,
        }))
    }
}

fn facts(environment: &Environment, settings: &Settings, arm: &Arm) -> Facts {
    if let Some(external) = &arm.external {
        // Its cores and its origin are not known here; the generator's are.
        return Facts {
            load_cores: environment.cores.load.clone(),
            has_cpu: external.cpu.is_some(),
            unseen: true,
            ..Facts::default()
        };
    }
    let direct = arm.system == "direct";
    let may = f64::from(settings.target_cores().min(settings.workers() * settings.chain().max(1)));
    Facts {
        target_cores: if direct { 0.0 } else { may },
        has_cpu: !direct,
        unseen: false,
        system_cores: match direct
            || !environment.hosts.are_local()
            || environment.shares(settings.target_cores())
        {
            true => Vec::new(),
            false => environment.target_cores(settings.target_cores()),
        },
        load_cores: environment.cores.load.clone(),
        origin_cores: environment.origin_cores(),
        shared: environment.shares(settings.target_cores()),
        origin_on_system: settings.origin_beside_target(),
        origin_delay_us: settings.origin_delay_ms.map_or(0.0, |ms| ms as f64 * 1e3),
        link: settings.relay.map(|relay| (relay.round_trip_ms * 1e3, relay.bytes_per_second)),
        response_bytes: settings.response_body() as f64 + HEAD_BYTES,
        streams: settings.streams(),
        before: settings.ramp() + settings.warm_up(),
        own_answers: makes_answers(settings),
        early_answers: false,
        extra_requests: settings.features().iter().any(|name| COPIES.contains(&name.as_str())),
    }
}
