//! Runs a plan: starts the threads at a common time and builds the result.
//!
//! All threads first prepare: they pin themselves and open their connections. Then they wait at a barrier for
//! the common start. During the run they send one `Slice` for each second to the calling thread, which also
//! reports the phases to its watcher. At the end the counters of all threads are added up to one
//! [`LoadResult`].

use crate::clock::{SECOND, now, span};
use crate::failure::Failure;
use crate::files::make_room;
use crate::interruption::interrupted;
use crate::plan::Protocol;
use crate::plan::{Length, Plan};
use crate::request::{Prepared, prepare};
use crate::tally::{Slice, Tally};
use crate::tasks::Loader;
use crate::tls::Client;
use crate::used::{ThreadUsed, together};
use crate::worker::{Moments, Worker};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use tollgate_lab_record::{Distribution, Failures, LoadModel, LoadResult, Tree, Window};
use tollgate_lab_stats::histogram::Histogram;

/// Nanoseconds between the moment when the last thread is ready and the first request.
const HEAD_START: u64 = 2_000_000;

/// A point in a run at which a caller may want to read its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Connections are open; load begins.
    Begun,
    /// Ramp and warm-up are over; requests count from here on.
    Measuring,
    /// The measurement is over.
    Measured,
}

/// The progress that a run reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// A phase begins.
    Phase(Phase),
    /// A second of the measurement is over.
    Second(Second),
}

/// One second of the measurement, over all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// Seconds from the start of the measurement to the end of this one.
    pub end: u64,
    /// Good responses.
    pub ok: u64,
    /// Failed requests.
    pub failed: u64,
    /// Median latency, in microseconds, if there were responses.
    pub p50_us: Option<f64>,
    /// 99th percentile of latency, in microseconds, if there were responses.
    pub p99_us: Option<f64>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The generator's result.
    pub load: LoadResult,
    /// CPU time and context switches of its threads since the start of the measurement, from their own
    /// clocks; memory is not included.
    pub used: Tree,
}

/// Runs a plan. Returns when the last response has arrived or was given up.
///
/// # Errors
/// See [`Failure`]. Failed requests are no error; the result counts them.
pub fn run(plan: &Plan) -> Result<LoadResult, Failure> {
    run_with(plan, |_| {}).map(|done| done.load)
}

/// Runs a plan and calls `watch` at each [`Phase`] from the calling thread, within about a millisecond. A
/// closed loop with a fixed number of requests reports [`Phase::Measured`] when it is over.
///
/// # Errors
/// See [`Failure`].
pub fn run_with(plan: &Plan, mut watch: impl FnMut(Phase)) -> Result<Done, Failure> {
    run_watched(plan, |progress| {
        if let Progress::Phase(phase) = progress {
            watch(phase);
        }
    })
}

/// As [`run_with`], and also reports each second.
///
/// # Errors
/// See [`Failure`].
pub fn run_watched(plan: &Plan, mut watch: impl FnMut(Progress)) -> Result<Done, Failure> {
    plan.check()?;
    make_room(plan.connections)?;
    let requests = Arc::new(prepare(plan)?);
    let whole = Arc::new(plan.clone());
    let tls = Client::of(plan)?;
    let ready = Barrier::new(plan.threads as usize + 1);
    let go = Barrier::new(plan.threads as usize + 1);
    let epoch: OnceLock<Option<u64>> = OnceLock::new();
    let opened = Mutex::new(Opened::default());
    let (slices, received) = channel();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let slices = slices.clone();
                let (requests, ready, go, epoch, opened) = (&requests, &ready, &go, &epoch, &opened);
                let whole = &whole;
                let tls = tls.clone();
                let name = format!("load-{thread}");
                let called = name.clone();
                let body = move || {
                    let worker = prepared(whole, requests, tls, thread, opened);
                    ready.wait();
                    go.wait();
                    let Some(epoch) = epoch.get().copied().flatten() else { return Ok(None) };
                    let mut worker = worker?;
                    let moments = Moments::of(plan, epoch);
                    let tally = Tally::new(plan.arrivals() != LoadModel::Closed, moments.start, slices);
                    sleep_until(epoch);
                    let (tally, used) = worker.run(moments, tally)?;
                    Ok(Some((tally, worker.opened(), (called, used))))
                };
                thread::Builder::new().name(name).spawn_scoped(scope, body)
            })
            .collect();
        drop(slices);
        // A thread that could not start would leave the others at the barrier forever.
        if let Some(Err(error)) = threads.iter().find(|thread| thread.is_err()) {
            let error = io::Error::new(error.kind(), error.to_string());
            let missing = threads.iter().filter(|thread| thread.is_err()).count();
            let _ = epoch.set(None);
            thread::scope(|stand_in| {
                for _ in 0..missing {
                    stand_in.spawn(|| (ready.wait(), go.wait()));
                }
                ready.wait();
                go.wait();
            });
            return Err(Failure::System("start a thread", error));
        }
        ready.wait();
        let failure = opened.lock().unwrap_or_else(PoisonError::into_inner).verdict(plan);
        let begin = failure.is_none().then(|| now() + HEAD_START);
        let _ = epoch.set(begin);
        go.wait();
        let mut windows = Windows::default();
        if let Some(begin) = begin {
            let moments = Moments::of(plan, begin);
            follow(moments, plan, &received, &mut windows, &mut watch);
        }
        let mut total = Total::default();
        let mut threads_used: Vec<(String, ThreadUsed)> = Vec::new();
        for thread in threads.into_iter().flatten() {
            match thread.join() {
                Ok(seen) => {
                    if let Some((tally, opened, used)) = seen? {
                        total.add(tally, opened);
                        threads_used.push(used);
                    }
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(Done {
                load: total.result(plan, windows, begin.unwrap_or(0)),
                used: together(&threads_used),
            }),
        }
    })
}

/// The outcome of opening the connections.
#[derive(Debug, Default)]
struct Opened {
    connections: usize,
    refusal: Option<rustix::io::Errno>,
    failure: Option<Failure>,
}

impl Opened {
    fn verdict(&mut self, plan: &Plan) -> Option<Failure> {
        let refused = self.refusal.filter(|_| self.connections == 0);
        self.failure.take().or_else(|| refused.map(|error| Failure::Unreachable(plan.target, error.into())))
    }
}

/// The code that runs a thread's load.
enum Engine<'a> {
    /// HTTP/1.1.
    Http1(Box<Worker<'a>>),
    /// Everything else.
    Tasks(Box<Loader>),
}

impl Engine<'_> {
    fn open_all(&mut self) -> Result<usize, Failure> {
        match self {
            Self::Http1(worker) => worker.open_all(),
            Self::Tasks(loader) => Ok(loader.open_all()),
        }
    }

    fn run(&mut self, moments: Moments, tally: Tally) -> Result<(Tally, ThreadUsed), Failure> {
        match self {
            Self::Http1(worker) => worker.run(moments, tally),
            Self::Tasks(loader) => loader.run(moments, tally),
        }
    }

    fn opened(&self) -> u64 {
        match self {
            Self::Http1(worker) => worker.opened,
            Self::Tasks(loader) => loader.opened(),
        }
    }

    fn refusal(&self) -> Option<rustix::io::Errno> {
        match self {
            Self::Http1(worker) => worker.refusal,
            Self::Tasks(loader) => loader.refusal(),
        }
    }
}

/// Creates a thread's engine on its core, with its connections open if the plan requires that before the
/// start.
fn prepared<'a>(
    plan: &'a Arc<Plan>,
    requests: &'a Arc<Vec<Prepared>>,
    tls: Option<Client>,
    thread: u32,
    opened: &Mutex<Opened>,
) -> Result<Engine<'a>, Failure> {
    let made = pin(plan, thread)
        .and_then(|()| match plan.protocol {
            Protocol::Http1 => {
                Worker::new(plan, requests, tls, thread).map(|worker| Engine::Http1(Box::new(worker)))
            }
            _ => Loader::new(plan, requests, tls, thread).map(|loader| Engine::Tasks(Box::new(loader))),
        })
        .and_then(|mut engine| {
            let early = plan.keep_alive && plan.ramp == 0.0;
            let connections = if early { engine.open_all()? } else { 0 };
            Ok((engine, connections))
        });
    let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    match made {
        Ok((worker, connections)) => {
            opened.connections += connections;
            opened.refusal = opened.refusal.or(worker.refusal());
            Ok(worker)
        }
        Err(failure) => {
            let told = Failure::Plan("another thread could not start".into());
            opened.failure.get_or_insert(failure);
            Err(told)
        }
    }
}

fn pin(plan: &Plan, thread: u32) -> Result<(), Failure> {
    let Some(core) = plan.cores.get(thread as usize % plan.cores.len().max(1)).copied() else {
        return Ok(());
    };
    if core as usize >= CpuSet::MAX_CPU {
        return Err(Failure::Plan(format!("core {core}: there is none")));
    }
    let mut set = CpuSet::new();
    set.set(core as usize);
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::Plan(format!("core {core}: this process may not run there: {error}")))
}

fn sleep_until(time: u64) {
    thread::sleep(Duration::from_nanos(time.saturating_sub(now())));
}

/// Collects what the threads send while they run, and reports the phases to the watcher.
fn follow(
    moments: Moments,
    plan: &Plan,
    slices: &Receiver<Slice>,
    windows: &mut Windows,
    watch: &mut impl FnMut(Progress),
) {
    let end = match plan.length {
        Length::Seconds(_) => moments.end,
        // The end of the threads marks it.
        Length::Requests(_) => u64::MAX,
    };
    let mut phases =
        [(moments.epoch, Phase::Begun), (moments.start, Phase::Measuring), (end, Phase::Measured)]
            .into_iter()
            .peekable();
    loop {
        let time = now();
        while let Some((_, phase)) = phases.next_if(|(at, _)| *at <= time) {
            watch(Progress::Phase(phase));
        }
        let until = phases.peek().map_or(u64::MAX, |(at, _)| *at).saturating_sub(now()).min(3_600 * SECOND);
        match slices.recv_timeout(Duration::from_nanos(until)) {
            Ok(slice) => {
                windows.add(slice);
                while let Some(second) = windows.next_second(plan.threads) {
                    watch(Progress::Second(second));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for (_, phase) in phases {
        watch(Progress::Phase(phase));
    }
}

/// The seconds of a run, over all threads.
#[derive(Debug, Default)]
struct Windows {
    parts: BTreeMap<usize, Slice>,
    /// How many threads have sent each second.
    sent: BTreeMap<usize, u32>,
    /// Seconds that were reported.
    reported: usize,
}

impl Windows {
    /// Returns the next second that every thread has sent. A thread that was held up may skip one; then the
    /// second counts as complete when one after the next arrives.
    fn next_second(&mut self, threads: u32) -> Option<Second> {
        let index = self.reported;
        let complete = self.sent.get(&index).is_some_and(|sent| *sent >= threads);
        if !complete && self.sent.last_key_value().is_none_or(|(last, _)| *last < index + 2) {
            return None;
        }
        self.reported += 1;
        let part = self.parts.get(&index);
        let at = |percentile: f64| {
            part.filter(|part| !part.times.is_empty())
                .map(|part| part.times.percentile(percentile) as f64 / 1e3)
        };
        Some(Second {
            end: self.reported as u64,
            ok: part.map_or(0, |part| part.ok),
            failed: part.map_or(0, |part| part.failed),
            p50_us: at(50.0),
            p99_us: at(99.0),
        })
    }

    fn add(&mut self, slice: Slice) {
        *self.sent.entry(slice.index).or_default() += 1;
        match self.parts.get_mut(&slice.index) {
            None => {
                self.parts.insert(slice.index, slice);
            }
            Some(part) => {
                part.ok += slice.ok;
                part.failed += slice.failed;
                part.times.merge(&slice.times);
            }
        }
    }

    /// Returns the times of the whole run.
    fn merged(&self) -> Histogram {
        let mut all = Histogram::new();
        for part in self.parts.values() {
            all.merge(&part.times);
        }
        all
    }

    /// Returns the seconds without gaps, up to the run's last second. Later results (stragglers) are added to
    /// the last second.
    fn listed(mut self, seconds: f64) -> Vec<Window> {
        let count = (seconds.ceil() as usize).max(1);
        for (_, mut late) in self.parts.split_off(&count) {
            late.index = count - 1;
            self.add(late);
        }
        (0..count)
            .map(|index| {
                let part = self.parts.get(&index);
                Window {
                    start: index as f64,
                    seconds: (seconds - index as f64).min(1.0),
                    ok: part.map_or(0, |part| part.ok),
                    failed: part.map_or(0, |part| part.failed),
                    p99_us: part
                        .filter(|part| !part.times.is_empty())
                        .map(|part| part.times.percentile(99.0) as f64 / 1e3),
                }
            })
            .collect()
    }
}

/// The sum over all threads.
#[derive(Debug, Default)]
struct Total {
    ok: u64,
    failures: Failures,
    statuses: BTreeMap<u16, u64>,
    body_bytes: u64,
    opened: u64,
    service: Histogram,
    lag: Histogram,
    span: Option<(u64, u64)>,
    last_sent: u64,
}

impl Total {
    fn add(&mut self, tally: Tally, opened: u64) {
        self.ok += tally.ok;
        self.failures.add(&tally.failures);
        for (status, count) in tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            *self.statuses.entry(status as u16).or_default() += count;
        }
        self.body_bytes += tally.body_bytes;
        self.opened += opened;
        self.service.merge(&tally.service);
        self.lag.merge(&tally.lag);
        self.last_sent = self.last_sent.max(tally.last_sent);
        self.span = match (self.span, tally.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    fn result(self, plan: &Plan, windows: Windows, epoch: u64) -> LoadResult {
        let open_loop = plan.arrivals() != LoadModel::Closed;
        let start = Moments::of(plan, epoch).start;
        let nanos = match plan.length {
            Length::Seconds(_) if interrupted() => {
                self.span.map_or(0, |(_, last)| last.saturating_sub(start)).min(span_of(plan))
            }
            // If the system did not keep up, the last requests were sent later than planned.
            Length::Seconds(seconds) => span(seconds).max(self.last_sent.saturating_sub(start)),
            Length::Requests(_) => self.span.map_or(0, |(first, last)| last - first),
        };
        let seconds = nanos as f64 / SECOND as f64;
        let times = windows.merged();
        let (response, service) = if open_loop { (Some(times), self.service) } else { (None, times) };
        LoadResult {
            tool: "builtin".into(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            command: std::env::args().collect(),
            threads: plan.threads,
            connections: plan.connections,
            keep_alive: plan.keep_alive,
            model: plan.arrivals(),
            verification: plan.verification,
            seconds,
            sent: Some(self.ok + self.failures.total()),
            ok: self.ok,
            failures: self.failures,
            statuses: self.statuses,
            body_bytes: Some(self.body_bytes),
            connections_opened: Some(self.opened),
            response_time: response.as_ref().map(distribution),
            service_time: Some(distribution(&service)),
            send_lag: open_loop.then(|| distribution(&self.lag)),
            windows: windows.listed(seconds),
        }
    }
}

/// Returns the planned nanoseconds of the measurement.
fn span_of(plan: &Plan) -> u64 {
    match plan.length {
        Length::Seconds(seconds) => span(seconds),
        Length::Requests(_) => u64::MAX,
    }
}

/// Converts a histogram to the form of the result file.
pub fn distribution(times: &Histogram) -> Distribution {
    let some = !times.is_empty();
    let us = |nanos: u64| nanos as f64 / 1e3;
    Distribution {
        count: times.count(),
        mean_us: times.mean_us(),
        stdev_us: some.then(|| times.stdev_us()),
        min_us: some.then(|| us(times.min())),
        max_us: some.then(|| us(times.max())),
        percentiles: times.percentiles().into_iter().map(|(at, nanos)| (at, us(nanos))).collect(),
        histogram: Some(times.encode()),
    }
}
