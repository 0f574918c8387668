//! Runs a plan: starts the threads at a common time and builds the result.
//!
//! All threads first prepare: they pin themselves and open their connections. Then they wait at a barrier for
//! the common start. During the run they send one `Slice` for each second to the calling thread, which also
//! reports the phases to its watcher. At the end `totals` adds the counters of all threads up to one
//! [`LoadResult`].

use crate::clock::{SECOND, now};
use crate::failure::Failure;
use crate::files::make_room;
use crate::plan::{Length, Plan, Protocol};
use crate::request::{Prepared, prepare};
use crate::tally::{Slice, Tally};
use crate::tasks::Loader;
use crate::tls::Client;
use crate::totals::{Second, Total, Windows};
use crate::used::{ThreadUsed, together};
use crate::worker::{Moments, Worker};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use tollgate_lab_record::{LoadModel, LoadResult, Tree};

/// Nanoseconds between the moment when the last thread is ready and the first request.
const HEAD_START_NS: u64 = 2_000_000;

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
        let begin = failure.is_none().then(|| now() + HEAD_START_NS);
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
            let stand_in = Failure::Plan("another thread could not start".into());
            opened.failure.get_or_insert(failure);
            Err(stand_in)
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
