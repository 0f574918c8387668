//! The counters of a thread during a run. [`Tally`] counts in plain fields that only its thread writes. Each
//! second it sends its histogram of that second to the calling thread as a [`Slice`], and starts a new one.

use crate::clock::SECOND;
use crate::expect::Fault;
use crate::pace::Times;
use crate::response::Response;
use std::sync::mpsc::Sender;
use tollgate_lab_record::Failures;
use tollgate_lab_stats::histogram::Histogram;

/// One second of one thread.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Seconds from the start of the measurement.
    pub(crate) index: usize,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// Response times in an open loop, service times in a closed one.
    pub(crate) times: Histogram,
}

/// The counters of one thread.
#[derive(Debug)]
pub(crate) struct Tally {
    open_loop: bool,
    start: u64,
    slice: Slice,
    slice_end: u64,
    /// `None` once the thread has finished: the receiver waits until every sender is dropped.
    slices: Option<Sender<Slice>>,
    pub(crate) ok: u64,
    pub(crate) failures: Failures,
    /// Responses by status.
    pub(crate) statuses: Box<[u64; 1000]>,
    pub(crate) body_bytes: u64,
    /// Service times of an open loop; the slices hold the service times of a closed loop.
    pub(crate) service: Histogram,
    /// The send lag caused by the generator itself.
    pub(crate) lag: Histogram,
    /// When the first measured request was sent and the last one ended.
    pub(crate) span: Option<(u64, u64)>,
    /// When the last measured request was sent.
    pub(crate) last_sent: u64,
}

impl Tally {
    pub(crate) fn new(open_loop: bool, start: u64, slices: Sender<Slice>) -> Self {
        Self {
            open_loop,
            start,
            slice: Slice { index: 0, ok: 0, failed: 0, times: Histogram::new() },
            slice_end: start + SECOND,
            slices: Some(slices),
            ok: 0,
            failures: Failures::default(),
            statuses: Box::new([0; 1000]),
            body_bytes: 0,
            service: Histogram::new(),
            lag: Histogram::new(),
            span: None,
            last_sent: 0,
        }
    }

    /// Counts a response, which was verified as `judged`.
    pub(crate) fn response(
        &mut self,
        response: &Response,
        judged: Result<(), Fault>,
        times: Times,
        done: u64,
    ) {
        self.statuses[usize::from(response.status).min(999)] += 1;
        self.body_bytes += response.length;
        if let Err(fault) = judged {
            self.failure(fault, times, done);
            return;
        }
        self.reach(times, done);
        self.ok += 1;
        self.slice.ok += 1;
        if self.open_loop {
            self.slice.times.record(times.response(done));
            self.service.record(times.service(done));
            self.lag.record(times.lag());
        } else if times.sent >= self.start {
            // The requests in flight at the start and those in flight at the end hold more slow ones than the rest, so only
            // the second group counts.
            self.slice.times.record(times.service(done));
        }
    }

    /// Counts the time of a request of a closed loop that was answered after the end of the measurement.
    pub(crate) fn held(&mut self, times: Times, done: u64) {
        self.tick(done);
        self.slice.times.record(times.service(done));
    }

    /// Counts a failed request. A request without a whole response counts among the times with the time for
    /// which it was held: a system that answers a thousand requests at once and lets one hang is not a fast one.
    pub(crate) fn failure(&mut self, fault: Fault, times: Times, done: u64) {
        self.reach(times, done);
        fault.count(&mut self.failures);
        self.slice.failed += 1;
        if !matches!(fault, Fault::Timeout | Fault::Read) {
            return;
        }
        // A request that was never sent has a response time, but no service time.
        let service = (times.sent > 0).then(|| times.service(done));
        if self.open_loop {
            self.slice.times.record(times.response(done));
            service.into_iter().for_each(|time| self.service.record(time));
        } else {
            service.into_iter().for_each(|time| self.slice.times.record(time));
        }
    }

    fn reach(&mut self, times: Times, done: u64) {
        // A request that was never sent counts from its intended time.
        let sent = if times.sent == 0 { times.intended } else { times.sent };
        let (first, last) = self.span.get_or_insert((sent, done));
        *first = sent.min(*first);
        *last = done.max(*last);
        self.last_sent = self.last_sent.max(sent);
        self.tick(done);
    }

    /// Sends the slice of a second that is over.
    pub(crate) fn tick(&mut self, now: u64) {
        if now >= self.slice_end {
            self.close_slice(now);
        }
    }

    #[cold]
    fn close_slice(&mut self, now: u64) {
        let index = (now.saturating_sub(self.start) / SECOND) as usize;
        self.slice_end = self.start + (index as u64 + 1) * SECOND;
        let next = Slice { index, ok: 0, failed: 0, times: Histogram::new() };
        let full = std::mem::replace(&mut self.slice, next);
        if let Some(slices) = &self.slices {
            // The receiver is gone if the run was given up.
            let _ = slices.send(full);
        }
    }

    /// Sends the last slice and closes the channel.
    pub(crate) fn finish(mut self) -> Self {
        self.close_slice(self.slice_end);
        self.slices = None;
        self
    }
}
