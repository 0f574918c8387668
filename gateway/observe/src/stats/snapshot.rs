//! All counts at one moment, added up over the workers.

use std::sync::Arc;

use super::endpoints::EndpointsSnapshot;
use super::grpc::{GrpcSnapshot, MethodsSnapshot};
use super::handshakes::HandshakesSnapshot;
use super::histogram::HistogramSnapshot;
use super::policies::PolicyEventsSnapshot;
use super::queueing::QueueingSnapshot;
use super::resilience::ResilienceSnapshot;
use super::shedding::ShedSnapshot;
use super::worker::CODES;
use crate::{CostReading, Protocol, Reason, Status};

/// All counts at one moment, added up over the workers. Counters keep counting while it is taken, so sums that
/// should agree may differ by the requests of that instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Requests begun and not ended.
    pub in_flight: u64,
    /// Requests ended.
    pub requests: u64,
    /// Bytes of request bodies that came from clients.
    pub bytes_in: u64,
    /// Bytes of response bodies that went to clients.
    pub bytes_out: u64,
    /// Client connections that are open.
    pub client_connections: u64,
    /// Client connections accepted.
    pub client_connections_opened: u64,
    /// Client connections refused: at the limit, or for want of means.
    pub client_connections_rejected: u64,
    /// Client connections handed to another worker.
    pub client_connections_handed_over: u64,
    /// Messages between workers.
    pub messages: u64,
    /// Requests turned away because the process is short of something, by priority, the lowest first.
    pub shed: ShedSnapshot,
    /// What policies did: kind, place and event, with the count.
    pub policies: PolicyEventsSnapshot,
    /// What the admin listener counts.
    pub admin: crate::AdminCountsSnapshot,
    /// How client connections begin.
    pub handshakes: HandshakesSnapshot,
    /// gRPC calls by method.
    pub grpc_methods: MethodsSnapshot,
    /// Requests ended, by protocol, in the order of [`Protocol::ALL`].
    pub protocols: [u64; Protocol::ALL.len()],
    /// How many exchanges ended with each reason, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// The routes that carried a request.
    pub routes: Vec<RouteSnapshot>,
    /// The upstreams that were asked.
    pub upstreams: Vec<UpstreamSnapshot>,
    /// Access log lines written.
    pub log_lines: u64,
    /// Access log lines dropped.
    pub log_dropped: u64,
    /// The cost meter's last reading.
    pub cost: CostReading,
    /// What the process is and runs.
    pub status: Status,
    /// The state of endpoints.
    pub endpoints: EndpointsSnapshot,
}

/// One route's counts.
#[derive(Clone, Debug)]
pub struct RouteSnapshot {
    /// The label: the route's name, `-` (none matched) or `other`.
    pub name: Arc<str>,
    /// Requests by class of status: none answered, 1xx, ... 5xx.
    pub codes: [u64; CODES],
    /// Durations of whole exchanges.
    pub duration: HistogramSnapshot,
    /// gRPC calls by `grpc-status`; `None`: there were none.
    pub grpc: Option<GrpcSnapshot>,
}

/// One upstream's counts.
#[derive(Clone, Debug)]
pub struct UpstreamSnapshot {
    /// The label: the upstream's name, `-` (none was asked) or `other`.
    pub name: Arc<str>,
    /// From the begin of a request to the head of its response.
    pub header: HistogramSnapshot,
    /// Connections in the pools.
    pub idle: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections closed.
    pub closed: u64,
    /// Requests that took a connection from a pool.
    pub reused: u64,
    /// Connections from a pool that turned out to be closed.
    pub stale: u64,
    /// Failed attempts by reason, in the order of [`Reason::ALL`].
    pub failures: [u64; Reason::ALL.len()],
    /// What caps on connections have done.
    pub queueing: QueueingSnapshot,
    /// Retries, second attempts and the breaker.
    pub resilience: ResilienceSnapshot,
    /// Attempts that the adaptive limit turned away, by priority, the lowest first.
    pub shed: ShedSnapshot,
}

impl RouteSnapshot {
    pub(super) fn new(name: Arc<str>) -> Self {
        RouteSnapshot { name, codes: [0; CODES], duration: HistogramSnapshot::default(), grpc: None }
    }

    pub(super) fn is_used(&self) -> bool {
        self.codes != [0; CODES]
    }
}

impl UpstreamSnapshot {
    pub(super) fn new(name: Arc<str>) -> Self {
        UpstreamSnapshot {
            name,
            header: HistogramSnapshot::default(),
            idle: 0,
            opened: 0,
            closed: 0,
            reused: 0,
            stale: 0,
            failures: [0; Reason::ALL.len()],
            queueing: QueueingSnapshot::default(),
            resilience: ResilienceSnapshot::default(),
            shed: ShedSnapshot::default(),
        }
    }

    /// Connections in use.
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
