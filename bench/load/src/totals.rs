//! Adds up what the threads of a run counted: the seconds while it runs, and everything at its end.

use crate::clock::{SECOND, span};
use crate::interruption::interrupted;
use crate::plan::{Length, Plan};
use crate::tally::{Slice, Tally};
use crate::worker::Moments;
use std::collections::BTreeMap;
use tollgate_lab_record::{Distribution, Failures, LoadModel, LoadResult, Window};
use tollgate_lab_stats::histogram::Histogram;

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

/// The seconds of a run, over all threads.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    parts: BTreeMap<usize, Slice>,
    /// How many threads have sent each second.
    sent: BTreeMap<usize, u32>,
    /// Seconds that were reported.
    reported: usize,
}

impl Windows {
    /// Returns the next second that every thread has sent. A thread that was held up may skip one; then the
    /// second counts as complete when one after the next arrives.
    pub(crate) fn next_second(&mut self, threads: u32) -> Option<Second> {
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

    /// Adds what a thread sent.
    pub(crate) fn add(&mut self, slice: Slice) {
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
pub(crate) struct Total {
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
    /// Adds the counters of a finished thread, and the number of connections that it opened.
    pub(crate) fn add(&mut self, tally: Tally, opened: u64) {
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

    /// Returns the result of a run whose clock starts at `epoch`.
    pub(crate) fn result(self, plan: &Plan, windows: Windows, epoch: u64) -> LoadResult {
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
