//! One meter for a whole trial: begun when the load is steady, finished before it ends.

use crate::cgroup::{OwnLimits, OwnQuota, Quota, Throttling};
use crate::child::Ended;
use crate::error::Error;
use crate::evidence::{
    ConnectionEvidence, CoreEvidence, Evidence, MachineEvidence, NetEvidence, QuotaEvidence, TOP_THREADS,
    ThreadEvidence, TreeEvidence,
};
use crate::machine::{CoreShare, CoreTimes, load_average};
use crate::network::{End, NetCounters, Opened};
use crate::process::{Clock, Memory, Snapshot, Subject, Used, reset_peak};
use crate::sampler::{Sampler, Series, Watch};
use std::time::{Duration, Instant};

/// What a trial consists of.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    /// The system under test; none when the generator speaks to the origin directly.
    pub target: Option<Part<'a>>,
    /// The server behind it.
    pub origin: Option<Part<'a>>,
    /// The load generator.
    pub generator: Option<Part<'a>>,
    /// The port of the origin, whose connections are counted.
    pub origin_port: Option<u16>,
    /// Time between samples; one second if not given.
    pub interval: Option<Duration>,
    /// Cores for the sampler: those of the load.
    pub sampler_cores: Vec<usize>,
}

/// A process tree of the trial, and the quota it runs under.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The processes.
    pub subject: Subject,
    /// The quota that the trial made for it alone. Its count of CPU time, which misses nobody, is then the figure.
    pub quota: Option<&'a Quota>,
}

impl Part<'_> {
    /// A process and its descendants, without a quota.
    pub fn tree(root: u32) -> Self {
        Self { subject: Subject::Tree(root), quota: None }
    }
}

/// A trial being measured.
#[derive(Debug)]
pub struct TrialMeter<'a> {
    start: Instant,
    parts: [Option<(Part<'a>, Start)>; 3],
    cores: CoreTimes,
    net: NetCounters,
    load: f64,
    outer: Option<OwnQuota>,
    sampler: Sampler,
}

/// State of a part at the beginning.
#[derive(Debug)]
struct Start {
    snapshot: Snapshot,
    throttling: Throttling,
    cpu: crate::cgroup::GroupCpu,
}

impl<'a> TrialMeter<'a> {
    /// Begins to measure; peaks of memory count from now, where this user may reset them.
    ///
    /// # Errors
    /// When the sampler cannot start, or a quota given was removed.
    pub fn begin(parts: Parts<'a>) -> Result<Self, Error> {
        let trees = [parts.target, parts.origin, parts.generator];
        let sampler = Sampler::start(Watch {
            interval: parts.interval.unwrap_or(Duration::from_secs(1)),
            subjects: trees.iter().flatten().map(|part| part.subject).collect(),
            connections: parts.origin_port.map(End::Local),
            cores: parts.sampler_cores,
        })?;
        for part in trees.iter().flatten() {
            // Without the right the peak counts from the start of the process, which is still its peak.
            let _ = reset_peak(part.subject);
        }
        let start = |part: Part<'a>| -> Result<(Part<'a>, Start), Error> {
            let start = Start {
                throttling: part.quota.map(Quota::throttling).transpose()?.unwrap_or_default(),
                cpu: part.quota.map(Quota::cpu).transpose()?.unwrap_or_default(),
                snapshot: Snapshot::take(part.subject),
            };
            Ok((part, start))
        };
        let [target, origin, generator] = trees.map(|part| part.map(start).transpose());
        Ok(Self {
            load: load_average()[0],
            outer: OwnLimits::read().cpu_quota,
            parts: [target?, origin?, generator?],
            cores: CoreTimes::read(),
            net: NetCounters::read(),
            sampler,
            start: Instant::now(),
        })
    }

    /// Ends the measurement while all parts still live, and returns the evidence with the series behind it.
    ///
    /// # Errors
    /// When the sampler failed, or a quota was removed meanwhile.
    pub fn finish(self) -> Result<(Evidence, Series), Error> {
        let wall = self.start.elapsed();
        let cores = CoreTimes::read().since(&self.cores);
        let net = NetCounters::read().since(&self.net);
        let mut trees = Vec::with_capacity(3);
        for part in &self.parts {
            trees.push(part.as_ref().map(|(part, start)| part_evidence(part, start)).transpose()?);
        }
        let outer = OwnLimits::read().cpu_quota.map(|now| {
            // A quota that was set in mid-trial counts from its own beginning.
            let before = self.outer.as_ref().filter(|before| before.group == now.group);
            quota_evidence(
                now.cores,
                &now.throttling.since(&before.map(|b| b.throttling).unwrap_or_default()),
            )
        });
        // Memory last: the kernel walks page tables for it.
        for (tree, part) in trees.iter_mut().zip(&self.parts) {
            if let (Some(tree), Some((part, _))) = (tree, part) {
                set_memory(tree, &Memory::read(part.subject));
            }
        }
        let series = self.sampler.stop()?;
        let generator = trees.pop().flatten();
        let origin = trees.pop().flatten();
        let evidence = Evidence {
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            target: trees.pop().flatten(),
            origin,
            generator,
            machine: MachineEvidence {
                cores: cores.iter().map(core_evidence).collect(),
                load_before: rounded(self.load),
                load_after: rounded(load_average()[0]),
            },
            outer_quota: outer,
            net: NetEvidence {
                listen_overflows: net.listen_overflows,
                listen_drops: net.listen_drops,
                retransmits: net.retransmits,
                accepted: net.passive_opens,
            },
            origin_connections: series
                .opened
                .map(|opened| connection_evidence(&opened, series.samples.len())),
        };
        Ok((evidence, series))
    }
}

impl TreeEvidence {
    /// The evidence of a tool that ran once and ended, over its whole life. Its threads and memory went with it.
    pub fn of_ended(ended: &Ended) -> Self {
        Self {
            user_us: ended.user_us,
            system_us: ended.system_us,
            clock: "rusage".into(),
            ended_us: ended.user_us + ended.system_us,
            voluntary_switches: ended.voluntary_switches,
            involuntary_switches: ended.involuntary_switches,
            ..Self::default()
        }
    }
}

fn part_evidence(part: &Part<'_>, start: &Start) -> Result<TreeEvidence, Error> {
    let mut tree = tree_evidence(&Snapshot::take(part.subject).since(&start.snapshot));
    if let Some(quota) = part.quota {
        let cpu = quota.cpu()?.since(&start.cpu);
        let threads_us = tree.user_us + tree.system_us - tree.ended_us;
        (tree.user_us, tree.system_us) = (cpu.user_ns / 1_000, cpu.system_ns / 1_000);
        tree.ended_us = (tree.user_us + tree.system_us).saturating_sub(threads_us);
        tree.clock = "cgroup".into();
        tree.throttled = Some(quota_evidence(quota.cores(), &quota.throttling()?.since(&start.throttling)));
    }
    Ok(tree)
}

fn tree_evidence(used: &Used) -> TreeEvidence {
    let share = |ns: u64| rounded(ns as f64 / used.wall_ns as f64);
    let threads = used.threads.iter().take(TOP_THREADS).map(|thread| ThreadEvidence {
        pid: thread.pid,
        tid: thread.tid,
        name: thread.name.clone(),
        user_us: thread.user_ns / 1_000,
        system_us: thread.system_ns / 1_000,
        share: share(thread.ns),
    });
    let clock = match used.clock {
        Clock::Schedstat => "schedstat",
        Clock::Ticks => "ticks",
        Clock::Mixed => "mixed",
    };
    let (user_us, system_us) = (used.user_ns / 1_000, used.system_ns / 1_000);
    TreeEvidence {
        user_us,
        system_us,
        clock: clock.into(),
        ended_us: (used.ended_ns / 1_000).min(user_us + system_us),
        threads: threads.collect(),
        thread_count: u32::try_from(used.threads.len()).unwrap_or(u32::MAX),
        hottest_share: used.hottest().map_or(0.0, |(_, share)| rounded(share)),
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
        ..TreeEvidence::default()
    }
}

fn set_memory(tree: &mut TreeEvidence, memory: &Memory) {
    tree.rss_kib = memory.rss_kib;
    tree.pss_kib = memory.pss_kib;
    tree.peak_kib = memory.peak_kib;
}

fn quota_evidence(cores: f64, throttling: &Throttling) -> QuotaEvidence {
    QuotaEvidence {
        cores: rounded(cores),
        periods: throttling.periods,
        throttled: throttling.throttled,
        ms: rounded(throttling.throttled_ns as f64 / 1e6),
    }
}

fn core_evidence(share: &CoreShare) -> CoreEvidence {
    CoreEvidence {
        core: u32::try_from(share.core).unwrap_or(u32::MAX),
        busy_percent: rounded(share.busy() * 100.0),
        softirq_percent: rounded(share.softirq * 100.0),
        steal_percent: rounded(share.steal * 100.0),
    }
}

fn connection_evidence(opened: &Opened, samples: usize) -> ConnectionEvidence {
    ConnectionEvidence {
        opened_at_least: opened.at_least,
        peak: opened.peak.established,
        time_wait_peak: opened.peak.time_wait,
        samples: samples as u64,
    }
}

/// To three decimals, which JSON brings back exactly; 0 for what is no number (a share of no time).
fn rounded(number: f64) -> f64 {
    if number.is_finite() { (number * 1_000.0).round() / 1_000.0 } else { 0.0 }
}

#[cfg(test)]
mod tests;
