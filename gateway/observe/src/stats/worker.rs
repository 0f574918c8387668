//! The counters of one worker.

use std::sync::{Arc, OnceLock};

use super::counter::Counter;
use super::grpc::{GrpcCounts, Methods};
use super::handshakes::{HANDSHAKE_FAILURES, Handshakes, ProxyHeaderResult};
use super::histogram::Histogram;
use super::queueing::Queueing;
use super::resilience::{BreakerTransition, Resilience};
use super::responses::{MoreResponses, Responses, class};
use super::shedding::Shedding;
use super::slots::{Slot, table_length};
use super::snapshot::{CODES, REASONS, RouteSnapshot, Snapshot, UpstreamSnapshot};
use super::streams::{StreamCounts, WorkerStreams};
use crate::live::{CounterTotals, WorkerLive};
use crate::{Protocol, Reason, Tally};

/// The counters of one worker: written by its thread alone, readable from any thread.
///
/// Every method except the constructor is for the worker's own thread; a second writer would lose counts (see
/// the note on single-writer counters in `stats/counter.rs`). With metrics off, only started and ended
/// requests are counted, which the cost meter and a drain need; every other method returns at once.
///
/// The counters of a route and an upstream are allocated with its first request: 0.25 and 0.7 KiB. A
/// route with errors, or with more than four combinations of status and method, needs up to 2.6 KiB more.
///
/// The struct is aligned to 128 bytes, a pair of cache lines, because processors prefetch pairs: no worker
/// writes to a line that holds another worker's counters.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerStats {
    enabled: bool,
    begun: Counter,
    ended: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    clients_opened: Counter,
    clients_closed: Counter,
    clients_rejected: Counter,
    handed_over: Counter,
    messages: Counter,
    shedding: Shedding,
    handshakes: Handshakes,
    methods: Methods,
    streams: WorkerStreams,
    protocols: [Counter; Protocol::ALL.len()],
    routes: Box<[OnceLock<Box<RouteCounts>>]>,
    upstreams: Box<[OnceLock<Box<UpstreamCounts>>]>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct RouteCounts {
    responses: Responses,
    duration: Histogram,
    more: OnceLock<Box<MoreRouteCounts>>,
}

/// The counts that many routes do not need.
#[derive(Debug, Default)]
struct MoreRouteCounts {
    responses: MoreResponses,
    /// Present if the route carried gRPC.
    grpc: OnceLock<Box<GrpcCounts>>,
}

#[derive(Debug)]
#[repr(align(128))]
struct UpstreamCounts {
    header: Histogram,
    opened: Counter,
    closed: Counter,
    idle: Counter,
    reused: Counter,
    stale: Counter,
    /// Responses with 4xx, and with 5xx.
    errors: [Counter; 2],
    failures: [Counter; REASONS],
    queueing: Queueing,
    resilience: Resilience,
    shedding: Shedding,
}

impl Default for UpstreamCounts {
    fn default() -> Self {
        UpstreamCounts {
            header: Histogram::default(),
            opened: Counter::default(),
            closed: Counter::default(),
            idle: Counter::default(),
            reused: Counter::default(),
            stale: Counter::default(),
            errors: counters(),
            failures: counters(),
            queueing: Queueing::default(),
            resilience: Resilience::default(),
            shedding: Shedding::default(),
        }
    }
}

fn counters<const N: usize>() -> [Counter; N] {
    std::array::from_fn(|_| Counter::default())
}

fn empty_table<T>(named: usize) -> Box<[OnceLock<T>]> {
    (0..table_length(named)).map(|_| OnceLock::new()).collect()
}

impl WorkerStats {
    /// Creates the counters for this many named routes and upstreams.
    pub(super) fn new(enabled: bool, routes: usize, upstreams: usize) -> WorkerStats {
        WorkerStats {
            enabled,
            begun: Counter::default(),
            ended: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            clients_opened: Counter::default(),
            clients_closed: Counter::default(),
            clients_rejected: Counter::default(),
            handed_over: Counter::default(),
            messages: Counter::default(),
            shedding: Shedding::default(),
            handshakes: Handshakes::default(),
            methods: Methods::default(),
            streams: WorkerStreams::default(),
            protocols: counters(),
            routes: empty_table(routes),
            upstreams: empty_table(upstreams),
        }
    }

    /// Counts the start of a request: its first byte was read. One [`record`](Self::record) must follow each
    /// call.
    #[inline]
    pub fn request_started(&self) {
        self.begun.increment();
    }

    /// Takes back a [`request_started`](Self::request_started) that turned out not to be a request.
    pub fn request_withdrawn(&self) {
        self.begun.set(self.begun.get().saturating_sub(1));
    }

    /// Counts the end of an exchange. `claim` is called if nothing was counted in the route's slot yet, and returns
    /// the slot to use; see [`RouteSlots::claim`](crate::RouteSlots::claim).
    #[inline]
    pub fn record(&self, tally: &Tally, claim: impl FnOnce() -> Slot) {
        self.ended.increment();
        if !self.enabled {
            return;
        }
        self.bytes_in.add(tally.bytes_in);
        self.bytes_out.add(tally.bytes_out);
        self.protocols[tally.protocol as usize].increment();
        let route = match self.routes[tally.route_slot.index()].get() {
            Some(route) => route,
            None => self.first_counts(claim()),
        };
        route.responses.count(tally.status, tally.method, tally.reason, || &route.more().responses);
        route.duration.observe(tally.total);
        if let Some(header) = tally.header {
            let upstream = self.upstream(tally.upstream_slot);
            upstream.header.observe(header);
            // The number of all responses is in the histogram.
            if tally.status >= 400 {
                upstream.errors[usize::from(tally.status >= 500)].increment();
            }
        }
    }

    /// Returns the counts of a slot, which may be new.
    #[cold]
    #[inline(never)]
    fn first_counts(&self, slot: Slot) -> &RouteCounts {
        let slot = if slot == Slot::UNCLAIMED { Slot::OTHER } else { slot };
        self.routes[slot.index()].get_or_init(Box::default)
    }

    /// Counts the end of a gRPC call with this `grpc-status`, 0 to 16. `None`: it was cut off, or its answer
    /// is not gRPC. The pair holds the path of the method, and whether an endpoint sent the status.
    pub fn grpc_ended(&self, route: Slot, status: Option<u8>, (path, by_endpoint): (&[u8], bool)) {
        if self.enabled {
            self.first_counts(route).more().grpc.get_or_init(Box::default).count(status);
            self.methods.count(path, status, by_endpoint);
        }
    }

    /// Returns the counts of a stream. Called when a worker first uses a stream of a plan: it takes a lock.
    #[must_use]
    pub fn stream(&self, name: &str) -> Arc<StreamCounts> {
        self.streams.counts(name)
    }

    /// Counts a client connection that this worker accepted, or that another worker handed to it.
    #[inline]
    pub fn client_opened(&self) {
        self.count(&self.clients_opened);
    }

    /// Counts the end of a client connection.
    #[inline]
    pub fn client_closed(&self) {
        self.count(&self.clients_closed);
    }

    /// Counts a refused client connection: at the limit, or for lack of memory or descriptors. It does not
    /// count as opened.
    pub fn client_rejected(&self) {
        self.count(&self.clients_rejected);
    }

    /// Counts a client connection handed to another worker before it was registered here. It does not count
    /// as opened here. Also counts a message.
    pub fn handed_over(&self) {
        self.count(&self.handed_over);
        self.message_sent();
    }

    /// Counts a message to another worker.
    pub fn message_sent(&self) {
        self.count(&self.messages);
    }

    /// Counts an opened connection to an endpoint of the upstream.
    #[inline]
    pub fn upstream_opened(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.opened);
    }

    /// Counts a closed connection to an endpoint of the upstream.
    #[inline]
    pub fn upstream_closed(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.closed);
    }

    /// Counts a request that took a connection from the pool.
    #[inline]
    pub fn upstream_reused(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.reused);
    }

    /// Counts a pooled connection that turned out to be closed by the endpoint when a request used it.
    pub fn upstream_stale(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.stale);
    }

    /// Counts a failed attempt, whether or not a retry followed.
    pub fn upstream_failed(&self, upstream: Slot, reason: Reason) {
        self.count_upstream(upstream, |counts| &counts.failures[reason as usize]);
    }

    /// Sets the number of idle connections to the upstream in this worker's pool.
    #[inline]
    pub fn upstream_idle(&self, upstream: Slot, connections: usize) {
        if self.enabled {
            self.upstream(upstream).idle.set(connections as u64);
        }
    }

    /// Counts a successful handshake of a client. `only_13`: TLS 1.3, else 1.2.
    pub fn handshake_done(&self, only_13: bool, resumed: bool) {
        self.count(&self.handshakes.done[usize::from(only_13)][usize::from(resumed)]);
    }

    /// Counts a failed handshake of a client, for one of [`HANDSHAKE_FAILURES`].
    pub fn handshake_failed(&self, reason: &str) {
        let known = HANDSHAKE_FAILURES.iter().position(|known| *known == reason);
        self.count(&self.handshakes.failed[known.unwrap_or(HANDSHAKE_FAILURES.len() - 1)]);
    }

    /// Counts the end of the wait for a PROXY protocol header.
    pub fn proxy_header(&self, result: ProxyHeaderResult) {
        self.count(&self.handshakes.headers[result as usize]);
    }

    /// Counts a request that a connection limit kept from opening a connection.
    pub fn upstream_limit_hit(&self, upstream: Slot) {
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

    /// Counts a retry.
    pub fn upstream_retried(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.resilience.retries);
    }

    /// Counts the end of a request that was retried.
    pub fn upstream_retry_ended(&self, upstream: Slot, succeeded: bool) {
        self.count_upstream(upstream, |counts| match succeeded {
            true => &counts.resilience.retried_well,
            false => &counts.resilience.retried_badly,
        });
    }

    /// Counts a retry or hedged attempt that did not start, because the budget was spent or the limit
    /// reached.
    pub fn upstream_retry_denied(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.resilience.retries_denied);
    }

    /// Counts the start of a hedged attempt.
    pub fn upstream_hedged(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.resilience.hedges);
    }

    /// Counts a hedged attempt that provided the answer.
    pub fn upstream_hedge_won(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.resilience.hedges_won);
    }

    /// Counts a change in the state of the upstream's breaker that an event in this worker caused.
    pub fn upstream_breaker(&self, upstream: Slot, turn: BreakerTransition) {
        self.count_upstream(upstream, |counts| match turn {
            BreakerTransition::Opened => &counts.resilience.opened,
            BreakerTransition::OpenedAgain => &counts.resilience.opened_again,
            BreakerTransition::Closed => &counts.resilience.closed,
        });
    }

    /// Counts an upstream error that a fallback replaces.
    pub fn upstream_fallback_used(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.resilience.fallbacks);
    }

    /// Counts an attempt that the upstream's breaker refused.
    pub fn upstream_breaker_refused(&self, upstream: Slot) {
        self.count_upstream(upstream, |counts| &counts.resilience.refused);
    }

    /// Counts a rejected attempt: the upstream's adaptive limit is reached for its priority (0 is the
    /// lowest).
    pub fn upstream_shed(&self, upstream: Slot, priority: usize) {
        self.count_upstream(upstream, |counts| &counts.shedding.0[priority]);
    }

    /// Counts a rejected request: the process is short of memory or descriptors. `priority`: 0 is the lowest.
    pub fn shed(&self, priority: usize) {
        self.count(&self.shedding.0[priority]);
    }

    /// Returns the requests in flight in this worker.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        // Read in this order: a request that ends between the two reads counts as in flight, and the result
        // is never below zero.
        let ended = self.ended.get();
        self.begun.get().saturating_sub(ended)
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.get()
    }

    #[inline]
    fn count(&self, counter: &Counter) {
        if self.enabled {
            counter.increment();
        }
    }

    #[inline]
    fn count_upstream(&self, upstream: Slot, counter: impl Fn(&UpstreamCounts) -> &Counter) {
        if self.enabled {
            counter(self.upstream(upstream)).increment();
        }
    }

    #[inline]
    fn upstream(&self, slot: Slot) -> &UpstreamCounts {
        self.upstreams[slot.index()].get_or_init(Box::default)
    }

    /// Returns the counts of this worker for the live document.
    pub(super) fn counts(&self) -> WorkerLive {
        let closed = self.clients_closed.get();
        let clients = self.clients_opened.get().saturating_sub(closed);
        WorkerLive { requests: self.ended.get(), in_flight: self.in_flight(), clients }
    }

    /// Adds this worker's counts to the totals of the history.
    pub(super) fn add_to_totals(&self, sum: &mut CounterTotals) {
        sum.requests += self.ended.get();
        sum.in_flight += self.in_flight();
        for route in self.routes.iter().filter_map(|route| route.get()) {
            route.add_classes_to(&mut sum.codes);
            route.duration.add_to(&mut sum.latency);
        }
    }

    /// Returns the requests that were counted in a route's slot.
    pub(super) fn route_requests(&self, slot: Slot) -> u64 {
        let mut codes = [0; CODES];
        if let Some(counts) = self.routes[slot.index()].get() {
            counts.add_classes_to(&mut codes);
        }
        codes.iter().sum()
    }

    /// Adds this worker's counts of one slot.
    pub(super) fn add_route_to(&self, slot: Slot, sum: &mut RouteSnapshot) {
        if let Some(counts) = self.routes[slot.index()].get() {
            counts.add_to(sum);
        }
    }

    /// Adds this worker's counts to a snapshot whose lists are indexed by slot.
    pub(super) fn add_to(&self, sum: &mut Snapshot) {
        sum.in_flight += self.in_flight();
        sum.requests += self.ended.get();
        sum.bytes_in += self.bytes_in.get();
        sum.bytes_out += self.bytes_out.get();
        let closed = self.clients_closed.get();
        let opened = self.clients_opened.get();
        sum.client_connections += opened.saturating_sub(closed);
        sum.client_connections_opened += opened;
        sum.client_connections_rejected += self.clients_rejected.get();
        sum.client_connections_handed_over += self.handed_over.get();
        sum.messages += self.messages.get();
        self.shedding.add_to(&mut sum.shed);
        self.handshakes.add_to(&mut sum.handshakes);
        self.methods.add_to(&mut sum.grpc_methods);
        self.streams.add_to(&mut sum.streams);
        for (total, count) in sum.protocols.iter_mut().zip(&self.protocols) {
            *total += count.get();
        }
        for (total, counts) in sum.routes.iter_mut().zip(&self.routes) {
            if let Some(counts) = counts.get() {
                counts.add_to(total);
            }
        }
        for (total, counts) in sum.upstreams.iter_mut().zip(&self.upstreams) {
            if let Some(counts) = counts.get() {
                counts.add_to(total);
            }
        }
    }
}

impl RouteCounts {
    fn add_to(&self, sum: &mut RouteSnapshot) {
        let more = self.more.get();
        self.responses.for_each(more.map(|more| &more.responses), |status, method, reason, count| {
            sum.codes[class(status)] += count;
            sum.reasons[reason as usize] += count;
            *sum.responses.entry((status, method)).or_default() += count;
        });
        if let Some(counts) = more.and_then(|more| more.grpc.get()) {
            counts.add_to(sum.grpc.get_or_insert_default());
        }
        self.duration.add_to(&mut sum.duration);
    }

    fn add_classes_to(&self, sum: &mut [u64; CODES]) {
        let more = self.more.get().map(|more| &more.responses);
        self.responses.for_each(more, |status, _, _, count| sum[class(status)] += count);
    }

    fn more(&self) -> &MoreRouteCounts {
        self.more.get_or_init(Box::default)
    }
}

impl UpstreamCounts {
    fn add_to(&self, sum: &mut UpstreamSnapshot) {
        self.header.add_to(&mut sum.header);
        // Read in this order: a connection that closes between two reads counts as open. One worker may open
        // a connection and hand it to another worker, which closes it: only the sums are meaningful.
        let (idle, closed, opened) = (self.idle.get(), self.closed.get(), self.opened.get());
        sum.idle += idle;
        sum.closed += closed;
        sum.opened += opened;
        sum.reused += self.reused.get();
        sum.stale += self.stale.get();
        for (total, count) in sum.errors.iter_mut().zip(&self.errors) {
            *total += count.get();
        }
        for (total, count) in sum.failures.iter_mut().zip(&self.failures) {
            *total += count.get();
        }
        self.queueing.add_to(&mut sum.queueing);
        self.resilience.add_to(&mut sum.resilience);
        self.shedding.add_to(&mut sum.shed);
    }
}
