//! Counts of requests that waited because of limits on upstream connections, and of connections handed to
//! other workers.

use std::fmt;

use super::counter::Counter;
use super::page::Exporter;

/// One worker's counts for one upstream.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    pub(super) held_back: Counter,
    pub(super) queued: Counter,
    pub(super) dequeued: Counter,
    pub(super) handed_over: Counter,
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

pub(super) fn encode(upstreams: &[(&str, &QueueingSnapshot)], page: &mut Exporter<'_>) -> fmt::Result {
    let mut family =
        page.gauge("tollgate_upstream_queue_length", "Requests that wait for a connection to the upstream.")?;
    for (upstream, counts) in upstreams {
        family.add(&[("upstream", upstream)], counts.waiting)?;
    }
    let mut family =
        page.counter("tollgate_upstream_queued_total", "Requests that waited for a connection.")?;
    for (upstream, counts) in upstreams {
        family.add(&[("upstream", upstream)], counts.queued)?;
    }
    let mut family = page.counter(
        "tollgate_upstream_cap_hits_total",
        "Requests for which no connection was free and a limit prevented a new one.",
    )?;
    for (upstream, counts) in upstreams {
        family.add(&[("upstream", upstream)], counts.held_back)?;
    }
    let mut family = page.counter(
        "tollgate_upstream_handed_over_total",
        "Idle connections to the upstream that moved from one worker to another.",
    )?;
    for (upstream, counts) in upstreams {
        family.add(&[("upstream", upstream)], counts.handed_over)?;
    }
    Ok(())
}
