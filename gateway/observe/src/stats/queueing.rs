//! Counts of requests that waited because of limits on upstream connections, and of connections handed to
//! other workers.

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

/// Effects of the connection limits of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueingSnapshot {
    /// Requests that found neither a connection nor a permit to open one.
    pub held_back: u64,
    /// Of these requests, how many waited.
    pub queued: u64,
    /// How many wait now.
    pub waiting: u64,
    /// Idle connections handed to another worker.
    pub handed_over: u64,
}

impl WorkerStats {
    /// Counts a request that a connection limit kept from opening a connection.
    pub fn upstream_held_back(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.held_back);
    }

    /// Counts a request that starts to wait. [`upstream_dequeued`](Self::upstream_dequeued) must follow each
    /// call.
    pub fn upstream_queued(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.queued);
    }

    /// Counts a request that stops waiting.
    pub fn upstream_dequeued(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.dequeued);
    }

    /// Counts an idle connection handed to another worker. It counts as open here until that worker closes
    /// it.
    pub fn upstream_handed_over(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.queueing.handed_over);
    }
}

impl Queueing {
    pub(super) fn add_to(&self, sum: &mut QueueingSnapshot) {
        // Read in this order: a request that ends its wait between the two reads counts as waiting, and the
        // result is never below zero.
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
