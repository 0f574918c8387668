//! Runs one trial: drives the load through a system and takes the difference of all kernel counters over the
//! measured interval.
//!
//! Generators that report their phases are read exactly at the start and the end of the measurement. The
//! others get a separate warm-up run. Their interval begins when the origin receives the first request, and
//! ends after the tool's time, or when all of its requests have arrived. So neither a tool's start nor its
//! read-out counts as load. Before and after such a trial, verified requests of the cell's own kind go through
//! the system, since these tools do not verify bodies.

use crate::elsewhere::Elsewhere;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::generator::{Phase, Run, tells_phases};
use crate::load_plan::{Aim, check_plan};
use crate::origin::Counted;
use crate::target::Target;
use crate::usage::{machine, quota, tree, with_group};
use std::time::{Duration, Instant};
use tollgate_lab_meter::cgroup::{GroupCpu, Quota, Throttling};
use tollgate_lab_meter::machine::CoreTimes;
use tollgate_lab_meter::network::{HeldConnections, NetCounters};
use tollgate_lab_meter::process::Snapshot;
use tollgate_lab_record::{Checks, Connections, Cost, Evidence, LoadResult, Network, Status, Tree, Workers};
use tollgate_lab_study::Settings;
use tollgate_lab_system::WorkerReading;

/// Number of verified requests before a trial of a load tool, and again after it.
const CHECKED: u64 = 16;

/// Interval of the look for the first request of a tool. A request to the origin's counter costs some 0.1 ms.
const UNTIL_FIRST: Duration = Duration::from_millis(10);

/// Interval of the look for the last of a tool's requests.
const UNTIL_LAST: Duration = Duration::from_millis(50);

/// Interval at which connections are counted while a tool runs.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// The result of one trial.
#[derive(Debug)]
pub struct Measured {
    /// The generator's result; `None` if it failed.
    pub load: Option<LoadResult>,
    /// The kernel's counters.
    pub evidence: Evidence,
    /// CPU time of the system for each verified response.
    pub cost: Option<Cost>,
    /// Whether the figures may be used.
    pub status: Status,
}

/// A reading of all counters of the kernel at one moment.
struct Reading {
    target: Vec<Snapshot>,
    /// CPU time of the group that holds all processes of the system.
    group: Option<GroupCpu>,
    origin: Vec<Snapshot>,
    cores: CoreTimes,
    net: NetCounters,
    target_quota: Option<Throttling>,
    origin_quota: Option<Throttling>,
    elsewhere: Elsewhere,
    at: Instant,
}

/// The processes and groups of a trial, which all of its readings refer to.
struct Subject<'a> {
    environment: &'a Environment,
    target: &'a Target,
    ids: Vec<u32>,
    origin_quota: Option<&'a Quota>,
}

impl Subject<'_> {
    /// Takes a reading.
    ///
    /// # Errors
    /// As [`Elsewhere::read`].
    fn read(&self) -> Result<Reading, Failure> {
        // Before this host's own, so that the shorter path to these comes last at the start and the end.
        let elsewhere = Elsewhere::read(self.environment, self.target)?;
        let origin = self.target.origin.borrow();
        Ok(Reading {
            at: Instant::now(),
            target: self.ids.iter().copied().map(Snapshot::take).collect(),
            group: self.target.group().and_then(|group| group.cpu().ok()),
            origin: origin.ids().into_iter().map(Snapshot::take).collect(),
            cores: CoreTimes::read(),
            net: NetCounters::read(),
            target_quota: self.target.quota().and_then(|quota| quota.throttling().ok()),
            origin_quota: self.origin_quota.and_then(|quota| quota.throttling().ok()),
            elsewhere,
        })
    }

    /// Returns the evidence of the interval between two readings, without the generator and the connections.
    ///
    /// # Errors
    /// As [`Elsewhere::add_to`].
    fn evidence(&self, from: &Reading, to: &Reading) -> Result<Evidence, Failure> {
        let net = to.net.since(&from.net);
        let mut evidence = Evidence {
            wall_us: to.at.duration_since(from.at).as_secs_f64() * 1e6,
            target: with_group(tree(&self.ids, &from.target, &to.target), from.group, to.group),
            origin: tree(&self.target.origin.borrow().ids(), &from.origin, &to.origin),
            machine: machine(&to.cores.since(&from.cores)),
            target_quota: quota(self.target.quota(), from.target_quota, to.target_quota),
            origin_quota: quota(self.origin_quota, from.origin_quota, to.origin_quota),
            network: Network {
                listen_overflows: net.listen_overflows,
                listen_drops: net.listen_drops,
                retransmits: net.retransmits,
            },
            ..Evidence::default()
        };
        to.elsewhere.add_to(&mut evidence, &from.elsewhere, self.environment, self.target)?;
        Ok(evidence)
    }

    /// Returns what the system used between two readings.
    ///
    /// # Errors
    /// As [`Subject::evidence`].
    fn used(&self, from: &Reading, to: &Reading) -> Result<Tree, Failure> {
        self.evidence(from, to).map(|evidence| evidence.target)
    }
}

/// The requests that the origin receives from a moment on.
struct Received<'a> {
    target: &'a Target,
    before: Option<Counted>,
    /// Readings since `before`; nginx counts them as requests.
    readings: u64,
}

impl<'a> Received<'a> {
    fn begin(target: &'a Target) -> Self {
        Self { target, before: target.counted(), readings: 0 }
    }

    fn so_far(&mut self) -> Option<Counted> {
        let before = self.before?;
        let now = self.target.counted()?;
        self.readings += 1;
        Some(self.target.origin.borrow().between(before, now, self.readings))
    }
}

/// The outcome of a generator's run: its result, and the evidence of the measured interval.
struct Ran {
    load: LoadResult,
    evidence: Evidence,
    /// The resources that the system used for all requests of the load.
    used: Tree,
}

/// Runs one trial of `seconds`. Resumes a paused target first.
pub fn measure(
    environment: &Environment,
    target: &mut Target,
    origin_quota: Option<&Quota>,
    settings: &Settings,
    seconds: f64,
) -> Measured {
    if let Some(how) = target.ended().ok().flatten() {
        return bad(format!("{} had ended before the trial ({how})", target.name));
    }
    attempt(environment, target, origin_quota, settings, seconds).unwrap_or_else(|failure| {
        bad(match target.ended().ok().flatten() {
            Some(how) => format!("{} ended in the middle of the trial ({how}): {failure}", target.name),
            None => failure.0,
        })
    })
}

fn bad(reason: String) -> Measured {
    Measured { load: None, evidence: Evidence::default(), cost: None, status: Status::Bad { reason } }
}

fn attempt(
    environment: &Environment,
    target: &mut Target,
    origin_quota: Option<&Quota>,
    settings: &Settings,
    seconds: f64,
) -> Result<Measured, Failure> {
    // Read while every process is still paused, with its connections open: a system that resumes closes
    // connections that were idle for too long.
    let mut held = {
        let origin = target.origin.borrow();
        HeldConnections::begin(&origin.ids(), &origin.all_ports(), &target.ids())
    };
    target.resume();
    let body = target.origin.borrow().body.clone();
    let target_now = &*target;
    let aim = target_now.aim(settings, &body);
    let subject = Subject { environment, target: target_now, ids: target_now.ids(), origin_quota };
    let ran = if tells_phases(settings) {
        with_phases(&subject, settings, aim, seconds, &mut held)?
    } else {
        blind(&subject, settings, aim, seconds, &mut held)?
    };
    let Ran { load, mut evidence, used } = ran;
    evidence.upstream.peak = held.peak();
    // A gateway's own error is also a 200 in gRPC: it carries `grpc-status` but no message. On streams, the generator
    // verifies each message.
    let messages = load.ok * (tollgate_lab_origin::message(&[]).len() + settings.response_body()) as u64;
    if settings.grpc()
        && !settings.grpc_streams()
        && load.body_bytes.is_some_and(|bytes| bytes < messages / 10 * 9)
    {
        return Err(Failure(format!("{} calls brought too few bytes for a message each", load.ok)));
    }
    if target.ended()?.is_some() {
        return Err(Failure("what was counted is in part nobody's".into()));
    }
    // At a rate that is not kept, part of the requests are answered after the readings, or never.
    let kept = load.model.rps().is_none() || load.keeps_its_rate();
    let cost = (load.ok > 0 && kept && target.has_cpu())
        .then(|| Cost { user_us: used.user_us / load.ok as f64, system_us: used.system_us / load.ok as f64 });
    Ok(Measured { load: Some(load), evidence, cost, status: Status::Good })
}

/// Runs a generator that reports the start and the end of its measurement.
fn with_phases(
    subject: &Subject<'_>,
    settings: &Settings,
    aim: Aim<'_>,
    seconds: f64,
    held: &mut HeldConnections,
) -> Result<Ran, Failure> {
    let environment = subject.environment;
    // The built-in generator verifies all of its own responses.
    let checked = settings.tool() != "builtin";
    let mut checks = Checks::default();
    if checked {
        check(environment, settings, aim, &mut checks)?;
    }
    let mut run = Run::start(environment, settings, aim, seconds)?;
    let tool = run.id();
    run.until(Phase::Measuring, settings.ramp() + settings.warm_up(), || held.read())?;
    // Outside the readings of CPU time at both ends, so that they cost the system nothing that counts.
    let workers = subject.target.read_workers();
    let start = Instant::now();
    let before = subject.read()?;
    // After the kernel's counters, because a loaded origin answers late.
    let mut received = Received::begin(subject.target);
    let unseen_us = start.elapsed().as_secs_f64() * 1e6;
    let generator = Snapshot::take(tool);
    run.until(Phase::Measured, seconds, || held.read())?;
    let generator = tree(&[tool], &[generator], &[Snapshot::take(tool)]);
    held.read();
    let after = subject.read()?;
    let workers = since(subject.target.read_workers(), workers);
    let mut done = run.finish(|| ())?;
    // The built-in generator reports its own use. For a tool that had already ended at the second reading, the
    // count over its whole life remains.
    if checked && generator.cpu_us() > 0.0 {
        done.used = generator;
    }
    let counted = received.so_far();
    if checked {
        check(environment, settings, aim, &mut checks)?;
    }
    let mut evidence = subject.evidence(&before, &after)?;
    evidence.generator = done.used;
    evidence.workers = workers;
    evidence.upstream = upstream(counted, unseen_us);
    evidence.checks = checked.then_some(checks);
    let used = evidence.target.clone();
    Ok(Ran { load: done.load, evidence, used })
}

/// Runs a generator that reports only its result, at its end.
fn blind(
    subject: &Subject<'_>,
    settings: &Settings,
    aim: Aim<'_>,
    seconds: f64,
    held: &mut HeldConnections,
) -> Result<Ran, Failure> {
    let environment = subject.environment;
    let mut checks = Checks::default();
    if settings.warm_up() > 0.0 {
        warm_up(environment, settings, aim)?;
    }
    check(environment, settings, aim, &mut checks)?;
    let before = subject.read()?;
    let mut received = Received::begin(subject.target);
    let mut run = Run::start(environment, settings, aim, seconds)?;
    let tool = run.id();
    let arrived = |received: &mut Received<'_>| received.so_far().map_or(0, |counted| counted.requests);
    let launched = Snapshot::take(tool);
    // An origin without a counter never reports a request, so its trial has no better start than the launch.
    let every = if received.before.is_some() { UNTIL_FIRST } else { WATCH_EVERY };
    let begun = run.follow(every, || {
        held.read();
        arrived(&mut received) > 0
    })?;
    let workers = if begun { subject.target.read_workers() } else { None };
    let start = if begun { Some((subject.read()?, Snapshot::take(tool))) } else { None };
    let runs = match &start {
        Some((from, _)) => {
            let over = from.at + Duration::from_secs_f64(seconds);
            until_over(&mut run, settings, over, || {
                held.read();
                arrived(&mut received)
            })?
        }
        None => false,
    };
    let end = if runs { Some((subject.read()?, Snapshot::take(tool))) } else { None };
    let workers = since(subject.target.read_workers(), workers);
    let done = run.finish(|| held.read())?;
    let counted = received.so_far();
    let ended = subject.read()?;
    check(environment, settings, aim, &mut checks)?;
    // The cost belongs to all requests, also to those before the first reading of the interval.
    let (mut evidence, used) = match (&start, &end) {
        (Some((from, from_tool)), Some((to, to_tool))) => {
            let generator = tree(&[tool], std::slice::from_ref(from_tool), std::slice::from_ref(to_tool));
            (Evidence { generator, ..subject.evidence(from, to)? }, subject.used(&before, to)?)
        }
        // The tool ended within its time.
        (Some((from, from_tool)), None) => {
            let begin = tree(&[tool], std::slice::from_ref(&launched), std::slice::from_ref(from_tool));
            let generator = Tree {
                user_us: (done.used.user_us - begin.user_us).max(0.0),
                system_us: (done.used.system_us - begin.system_us).max(0.0),
                ..done.used
            };
            (Evidence { generator, ..subject.evidence(from, &ended)? }, subject.used(&before, &ended)?)
        }
        // The origin saw no request, so the start of the load is not known.
        (None, _) => {
            let evidence = Evidence { generator: done.used, ..subject.evidence(&before, &ended)? };
            let used = evidence.target.clone();
            (evidence, used)
        }
    };
    evidence.workers = workers;
    evidence.upstream = upstream(counted, 0.0);
    evidence.checks = Some(checks);
    Ok(Ran { load: done.load, evidence, used })
}

/// Waits until a tool's load is over: its time has passed, or all requests of a tool that counts them have
/// arrived. Returns `false` if the tool ended before.
fn until_over(
    run: &mut Run,
    settings: &Settings,
    over: Instant,
    mut arrived: impl FnMut() -> u64,
) -> Result<bool, Failure> {
    if let Some(count) = settings.requests.filter(|_| settings.tool() == "ab") {
        return run.follow(UNTIL_LAST, || arrived() >= count);
    }
    loop {
        let left = over.saturating_duration_since(Instant::now());
        if !run.follow(left.min(WATCH_EVERY), || true)? {
            return Ok(false);
        }
        if left.is_zero() {
            return Ok(true);
        }
        arrived();
    }
}

/// Returns what the workers counted between two readings.
fn since(later: Option<WorkerReading>, earlier: Option<WorkerReading>) -> Option<Workers> {
    let WorkerReading { connections, accepted, requests, between } = later?.since(&earlier?);
    Some(Workers { connections, accepted, requests, between })
}

fn upstream(counted: Option<Counted>, unseen_us: f64) -> Connections {
    Connections {
        opened: counted.map(|counted| counted.connections),
        requests: counted.map(|counted| counted.requests),
        peak: 0,
        unseen_us,
    }
}

/// Sends verified requests of the cell's own kind and adds the result to `checks`.
fn check(
    environment: &Environment,
    settings: &Settings,
    aim: Aim<'_>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let load = Run::builtin(environment, &check_plan(settings, aim, CHECKED))
        .and_then(|run| run.finish(|| ()))
        .map_err(|failure| Failure(format!("verified requests beside {}: {failure}", settings.tool())))?
        .load;
    checks.ok += load.ok;
    checks.failures.add(&load.failures);
    Ok(())
}

/// Runs load that is not measured. A tool that counts requests runs once in full, as users of ab do to warm
/// up.
fn warm_up(environment: &Environment, settings: &Settings, aim: Aim<'_>) -> Result<(), Failure> {
    Run::start(environment, settings, aim, settings.warm_up().max(1.0))?.finish(|| ()).map(|_| ())
}
