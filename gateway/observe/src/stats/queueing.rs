//! What caps on upstream connections have done: requests held back, waiting, connections handed over.

use std::fmt;

use super::counter::Counter;
use super::exposition::Page;
use super::slots::Slot;
use super::snapshot::UpstreamSnapshot;
use super::worker::WorkerStats;

/// One worker's counts for one upstream.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    held_back: Counter,
    queued: Counter,
    dequeued: Counter,
    handed_over: Counter,
}

/// What caps on connections to one upstream have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueingSnapshot {
    /// Requests that found no connection and no place for a new one.
    pub held_back: u64,
    /// Those of them that waited.
    pub queued: u64,
    /// Those that wait now.
    pub waiting: u64,
    /// Idle connections that went to another worker.
    pub handed_over: u64,
}

impl WorkerStats {
    /// A cap keeps a request from opening a connection.
    pub fn upstream_held_back(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.held_back);
    }

    /// The request waits. Each call is followed by one of [`upstream_dequeued`](Self::upstream_dequeued).
    pub fn upstream_queued(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.queued);
    }

    /// A request waits no longer.
    pub fn upstream_dequeued(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.dequeued);
    }

    /// An idle connection went to another worker. It counts as open here until it is closed there.
    pub fn upstream_handed_over(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.handed_over);
    }
}

impl Queueing {
    pub(super) fn add_to(&self, sum: &mut QueueingSnapshot) {
        // In this order: what ends between the two reads counts as waiting, and never below zero.
        let dequeued = self.dequeued.get();
        let queued = self.queued.get();
        sum.held_back += self.held_back.get();
        sum.queued += queued;
        sum.waiting += queued.saturating_sub(dequeued);
        sum.handed_over += self.handed_over.get();
    }
}

pub(super) fn encode(upstreams: &[UpstreamSnapshot], page: &mut Page<'_>) -> fmt::Result {
    let mut family =
        page.gauge("tollgate_upstream_queue_length", "Requests that wait for a connection to the upstream.")?;
    for upstream in upstreams {
        family.add(&[("upstream", &*upstream.name)], upstream.queueing.waiting)?;
    }
    let mut family =
        page.counter("tollgate_upstream_queued_total", "Requests that waited for a connection.")?;
    for upstream in upstreams {
        family.add(&[("upstream", &*upstream.name)], upstream.queueing.queued)?;
    }
    let mut family = page.counter(
        "tollgate_upstream_cap_hits_total",
        "Requests that found no connection, and a cap in the way of a new one.",
    )?;
    for upstream in upstreams {
        family.add(&[("upstream", &*upstream.name)], upstream.queueing.held_back)?;
    }
    let mut family = page.counter(
        "tollgate_upstream_handed_over_total",
        "Idle connections to the upstream that went from one worker to another.",
    )?;
    for upstream in upstreams {
        family.add(&[("upstream", &*upstream.name)], upstream.queueing.handed_over)?;
    }
    Ok(())
}
