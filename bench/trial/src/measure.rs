//! Runs one trial: drives the load through a system and takes the difference of all kernel counters before
//! and after. Generators that report their phases are read exactly at the start and the end of the
//! measurement. The others get a separate warm-up run, and the readings include the tool's start and end.

use crate::elsewhere::Elsewhere;
use crate::failure::Failure;
use crate::generator::{Aim, Phase, Run, tells_phases};
use crate::ground::Ground;
use crate::origin::Counted;
use crate::target::Target;
use std::time::Instant;
use tollgate_lab_meter::cgroup::{Quota, Throttling};
use tollgate_lab_meter::machine::{CoreShare, CoreTimes};
use tollgate_lab_meter::network::{HeldConnections, NetCounters};
use tollgate_lab_meter::process::{Memory, Snapshot, Used};
use tollgate_lab_record::{
    Connections, Cost, Evidence, LoadResult, Machine, Network, Status, ThreadShare, Throttled, Tree,
};
use tollgate_lab_study::Settings;

/// How many of the busiest threads are recorded.
const THREADS: usize = 8;

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

/// A reading of all counters at one moment.
struct Reading {
    target: Vec<Snapshot>,
    origin: Vec<Snapshot>,
    cores: CoreTimes,
    net: NetCounters,
    target_quota: Option<Throttling>,
    counted: Option<Counted>,
    elsewhere: Result<Elsewhere, Failure>,
    at: Instant,
}

impl Reading {
    fn take(ground: &Ground, target: &Target) -> Self {
        // Before this host's own, so that the shorter path to these comes last at the start and the end.
        let elsewhere = Elsewhere::read(ground, target);
        let origin = target.origin.borrow();
        let mut reading = Self {
            at: Instant::now(),
            target: target.ids().into_iter().map(Snapshot::take).collect(),
            origin: origin.ids().into_iter().map(Snapshot::take).collect(),
            cores: CoreTimes::read(),
            net: NetCounters::read(),
            target_quota: target.quota().and_then(|quota| quota.throttling().ok()),
            counted: None,
            elsewhere,
        };
        // Last, because a loaded origin answers late.
        reading.counted = origin.counted();
        reading
    }
}

/// Runs one trial of `seconds`. Resumes a paused target first.
pub fn measure(
    ground: &Ground,
    target: &mut Target,
    origin_quota: Option<&Quota>,
    settings: &Settings,
    seconds: f64,
) -> Measured {
    if let Some(how) = target.ended().ok().flatten() {
        return bad(format!("{} had ended before the trial ({how})", target.name));
    }
    attempt(ground, target, origin_quota, settings, seconds).unwrap_or_else(|failure| {
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
    ground: &Ground,
    target: &mut Target,
    origin_quota: Option<&Quota>,
    settings: &Settings,
    seconds: f64,
) -> Result<Measured, Failure> {
    // Read while every process is still paused, with its connections open: a system that resumes closes
    // connections that were idle for too long.
    let mut held = {
        let origin = target.origin.borrow();
        HeldConnections::begin(&origin.ids(), &origin.ports, &target.ids())
    };
    target.resume();
    let body = target.origin.borrow().body.clone();
    let aim = target.aim(settings, &body);
    let blind = !tells_phases(settings);
    if blind && settings.warm_up() > 0.0 {
        warm_up(ground, settings, aim)?;
    }
    let throttled_before = origin_quota.and_then(|quota| quota.throttling().ok());
    let (before, after, mut done);
    if blind {
        before = Reading::take(ground, target);
        let run = Run::start(ground, settings, aim, seconds)?;
        done = run.finish(|| held.read())?;
        after = Reading::take(ground, target);
    } else {
        let mut run = Run::start(ground, settings, aim, seconds)?;
        let tool = run.id();
        run.until(Phase::Measuring, settings.ramp() + settings.warm_up(), || held.read())?;
        before = Reading::take(ground, target);
        let generator = Snapshot::take(tool);
        run.until(Phase::Measured, seconds, || held.read())?;
        let generator = tree(&[tool], &[generator], &[Snapshot::take(tool)]);
        held.read();
        after = Reading::take(ground, target);
        done = run.finish(|| ())?;
        // The built-in generator reports its own use. For a tool that had already ended at the second
        // reading, the count over its whole life remains.
        if settings.tool() != "builtin" && generator.cpu_us() > 0.0 {
            done.used = generator;
        }
    }
    let load = done.load;
    // A gateway's own error is also a 200 in gRPC: it carries `grpc-status` but no message.
    let messages = load.ok * (tollgate_lab_origin::message(&[]).len() + settings.response_body()) as u64;
    if settings.grpc() && load.body_bytes.is_some_and(|bytes| bytes < messages / 10 * 9) {
        return Err(Failure(format!("{} calls brought too few bytes for a message each", load.ok)));
    }
    if target.ended()?.is_some() {
        return Err(Failure("what was counted is in part nobody's".into()));
    }
    let wall_us = after.at.duration_since(before.at).as_secs_f64() * 1e6;
    let mut evidence = Evidence {
        wall_us,
        target: tree(&target.ids(), &before.target, &after.target),
        origin: tree(&target.origin.borrow().ids(), &before.origin, &after.origin),
        generator: done.used,
        machine: machine(&after.cores.since(&before.cores)),
        target_quota: quota(target.quota(), before.target_quota, after.target_quota),
        origin_quota: quota(
            origin_quota,
            throttled_before,
            origin_quota.and_then(|quota| quota.throttling().ok()),
        ),
        network: Network::default(),
        upstream: Connections::default(),
    };
    let net = after.net.since(&before.net);
    evidence.network = Network {
        listen_overflows: net.listen_overflows,
        listen_drops: net.listen_drops,
        retransmits: net.retransmits,
    };
    let between = match (before.counted, after.counted) {
        (Some(before), Some(after)) => Some(target.origin.borrow().between(before, after)),
        _ => None,
    };
    after.elsewhere?.add_to(&mut evidence, &before.elsewhere?, ground, target)?;
    evidence.upstream = Connections {
        opened: between.map(|counted| counted.connections),
        requests: between.map(|counted| counted.requests),
        peak: held.peak(),
    };
    let cost = (load.ok > 0 && target.has_cpu()).then(|| Cost {
        user_us: evidence.target.user_us / load.ok as f64,
        system_us: evidence.target.system_us / load.ok as f64,
    });
    Ok(Measured { load: Some(load), evidence, cost, status: Status::Good })
}

/// Runs load that is not measured. A tool that counts requests runs once in full, as users of ab do to warm
/// up.
fn warm_up(ground: &Ground, settings: &Settings, aim: Aim<'_>) -> Result<(), Failure> {
    Run::start(ground, settings, aim, settings.warm_up().max(1.0))?.finish(|| ()).map(|_| ())
}

pub(crate) fn tree(ids: &[u32], before: &[Snapshot], after: &[Snapshot]) -> Tree {
    let used: Vec<Used> = after.iter().zip(before).map(|(after, before)| after.since(before)).collect();
    let mut threads: Vec<ThreadShare> = used
        .iter()
        .flat_map(|used| {
            let wall = used.wall_ns.max(1) as f64;
            used.threads
                .iter()
                .map(move |thread| ThreadShare { name: thread.name.clone(), share: thread.ns as f64 / wall })
        })
        .collect();
    threads.sort_by(|a, b| b.share.total_cmp(&a.share));
    let thread_count = u32::try_from(threads.len()).unwrap_or(u32::MAX);
    threads.truncate(THREADS);
    let memory: Vec<Memory> = ids.iter().map(|id| Memory::read(*id)).collect();
    Tree {
        user_us: used.iter().map(|used| used.user_ns as f64 / 1e3).sum(),
        system_us: used.iter().map(|used| used.system_ns as f64 / 1e3).sum(),
        threads,
        thread_count,
        rss_kib: memory.iter().map(|memory| memory.rss_kib).sum(),
        pss_kib: memory.iter().filter_map(|memory| memory.pss_kib).sum(),
        peak_kib: memory.iter().map(|memory| memory.peak_kib).sum(),
        voluntary_switches: used.iter().map(|used| used.voluntary_switches).sum(),
        involuntary_switches: used.iter().map(|used| used.involuntary_switches).sum(),
    }
}

pub(crate) fn machine(shares: &[CoreShare]) -> Machine {
    let cores = shares.iter().map(|share| share.core + 1).max().unwrap_or(0);
    let mut machine = Machine { busy: vec![0.0; cores], softirq: vec![0.0; cores], steal: vec![0.0; cores] };
    for share in shares {
        machine.busy[share.core] = share.busy();
        machine.softirq[share.core] = share.softirq;
        machine.steal[share.core] = share.steal;
    }
    machine
}

pub(crate) fn quota(
    quota: Option<&Quota>,
    before: Option<Throttling>,
    after: Option<Throttling>,
) -> Option<Throttled> {
    let used = after?.since(&before?);
    Some(Throttled {
        cores: quota?.cores(),
        periods: used.periods,
        throttled: used.throttled,
        held_us: used.throttled_ns as f64 / 1e3,
    })
}
