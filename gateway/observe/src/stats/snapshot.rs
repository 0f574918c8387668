//! A snapshot of all counts, added up over the workers. The registry makes one for each scrape and live
//! document.

use std::sync::Arc;

use super::endpoints::EndpointsSnapshot;
use super::grpc::{GrpcSnapshot, MethodsSnapshot};
use super::handshakes::HandshakesSnapshot;
use super::histogram::HistogramSnapshot;
use super::policies::PolicyEventsSnapshot;
use super::queueing::QueueingSnapshot;
use super::resilience::ResilienceSnapshot;
use super::responses::ResponseCounts;
use super::shedding::ShedSnapshot;
use super::streams::StreamsSnapshot;
use crate::live::WorkerLive;
use crate::{CostReading, Protocol, Reason, Status};

/// Number of status classes: none, 1xx, ... 5xx.
pub(super) const CODES: usize = 6;

/// Number of reasons.
pub(super) const REASONS: usize = Reason::ALL.len();

/// All counts at one moment, added up over the workers. Workers keep counting while it is taken, so sums that
/// should agree may differ by the requests of that instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests that ended.
    pub requests: u64,
    /// Bytes of request bodies received from clients.
    pub bytes_in: u64,
    /// Bytes of response bodies sent to clients.
    pub bytes_out: u64,
    /// Client connections that are open.
    pub client_connections: u64,
    /// Client connections accepted.
    pub client_connections_opened: u64,
    /// Client connections refused: at the limit, or for lack of memory or descriptors.
    pub client_connections_rejected: u64,
    /// Client connections handed to another worker.
    pub client_connections_handed_over: u64,
    /// Messages between workers.
    pub messages: u64,
    /// Requests rejected because the process is short of memory or descriptors, by priority, the lowest
    /// first.
    pub shed: ShedSnapshot,
    /// Events that policies counted: kind, place and event, with the count.
    pub policies: PolicyEventsSnapshot,
    /// Counts of the admin listener.
    pub admin: crate::AdminCountsSnapshot,
    /// Counts of traces.
    pub traces: crate::trace::TraceCountsSnapshot,
    /// Counts of TLS handshakes and PROXY protocol headers.
    pub handshakes: HandshakesSnapshot,
    /// gRPC calls by method.
    pub grpc_methods: MethodsSnapshot,
    /// Requests that ended, by protocol, in the order of [`Protocol::ALL`].
    pub protocols: [u64; Protocol::ALL.len()],
    /// Exchanges that ended, by reason, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// Requests that ended, by class of status: no answer, 1xx, ... 5xx.
    pub codes: [u64; CODES],
    /// Durations of whole exchanges.
    pub duration: HistogramSnapshot,
    /// The routes that carried at least one request.
    pub routes: Vec<RouteSnapshot>,
    /// The upstreams that were used.
    pub upstreams: Vec<UpstreamSnapshot>,
    /// Routes and upstreams that were used, and share the label `other`.
    pub in_other: [u64; 2],
    /// The streams that were used.
    pub streams: StreamsSnapshot,
    /// The workers, in order.
    pub workers: Vec<WorkerLive>,
    /// Access log lines written.
    pub log_lines: u64,
    /// Access log lines dropped.
    pub log_dropped: u64,
    /// The cost meter's last reading.
    pub cost: CostReading,
    /// The state of the process.
    pub status: Status,
    /// The state of endpoints.
    pub endpoints: EndpointsSnapshot,
}

/// The counts of one route.
#[derive(Clone, Debug)]
pub struct RouteSnapshot {
    /// The label: the route's name, `-` (none matched) or `other`.
    pub name: Arc<str>,
    /// Requests by class of status: no answer, 1xx, ... 5xx.
    pub codes: [u64; CODES],
    /// Requests by status and method.
    pub responses: ResponseCounts,
    /// Requests by reason, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// Durations of whole exchanges.
    pub duration: HistogramSnapshot,
    /// gRPC calls by `grpc-status`; `None`: there were none.
    pub grpc: Option<GrpcSnapshot>,
}

/// The counts of one upstream.
#[derive(Clone, Debug)]
pub struct UpstreamSnapshot {
    /// The label: the upstream's name, `-` (none was used) or `other`.
    pub name: Arc<str>,
    /// Time from the start of a request to the head of its response.
    pub header: HistogramSnapshot,
    /// Idle connections in the pools.
    pub idle: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections closed.
    pub closed: u64,
    /// Requests that took a connection from a pool.
    pub reused: u64,
    /// Pooled connections that turned out to be closed by the endpoint.
    pub stale: u64,
    /// Responses with 4xx, and with 5xx.
    pub errors: [u64; 2],
    /// Failed attempts by reason, in the order of [`Reason::ALL`].
    pub failures: [u64; Reason::ALL.len()],
    /// Effects of the connection limits.
    pub queueing: QueueingSnapshot,
    /// Retries, hedged attempts and the circuit breaker.
    pub resilience: ResilienceSnapshot,
    /// Attempts that the adaptive limit rejected, by priority, the lowest first.
    pub shed: ShedSnapshot,
}

impl RouteSnapshot {
    pub(crate) fn new(name: Arc<str>) -> Self {
        RouteSnapshot {
            name,
            codes: [0; CODES],
            responses: ResponseCounts::default(),
            reasons: [0; REASONS],
            duration: HistogramSnapshot::default(),
            grpc: None,
        }
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.codes.iter().sum()
    }

    /// Leaves out the counts of the slot's earlier owners.
    pub(super) fn subtract(&mut self, base: &RouteSnapshot) {
        subtract(&mut self.codes, &base.codes);
        subtract(&mut self.reasons, &base.reasons);
        subtract(&mut self.duration.counts, &base.duration.counts);
        self.duration.nanos = self.duration.nanos.wrapping_sub(base.duration.nanos);
        for (response, count) in &mut self.responses {
            *count = count.saturating_sub(base.responses.get(response).copied().unwrap_or_default());
        }
        self.responses.retain(|_, count| *count > 0);
        if let (Some(counts), Some(base)) = (&mut self.grpc, &base.grpc) {
            subtract(counts, base);
        }
    }

    pub(super) fn is_used(&self) -> bool {
        self.codes != [0; CODES]
    }
}

fn subtract(counts: &mut [u64], base: &[u64]) {
    for (count, base) in counts.iter_mut().zip(base) {
        *count = count.saturating_sub(*base);
    }
}

impl UpstreamSnapshot {
    pub(crate) fn new(name: Arc<str>) -> Self {
        UpstreamSnapshot {
            name,
            header: HistogramSnapshot::default(),
            idle: 0,
            opened: 0,
            closed: 0,
            reused: 0,
            stale: 0,
            errors: [0; 2],
            failures: [0; Reason::ALL.len()],
            queueing: QueueingSnapshot::default(),
            resilience: ResilienceSnapshot::default(),
            shed: ShedSnapshot::default(),
        }
    }

    /// Returns the connections in use.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.opened.saturating_sub(self.closed + self.idle)
    }

    pub(super) fn is_used(&self) -> bool {
        self.opened + self.reused + self.header.count() + self.failures.iter().sum::<u64>() > 0
            || self.queueing != QueueingSnapshot::default()
            || self.resilience != ResilienceSnapshot::default()
            || self.shed != ShedSnapshot::default()
    }
}
