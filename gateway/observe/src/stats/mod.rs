//! Counters. Each worker writes its own [`WorkerStats`]; the [`Registry`] adds them up into a [`Snapshot`],
//! and [`Exposition`] renders it as metrics.

mod counter;
mod endpoints;
mod exposition;
mod grpc;
mod handshakes;
mod histogram;
mod page;
mod policies;
mod process;
mod queueing;
mod registry;
mod resilience;
mod responses;
mod routes;
mod shedding;
mod slots;
mod snapshot;
mod streams;
mod worker;

pub use endpoints::{EndpointsSnapshot, LookupCounts, UpstreamEndpoints};
pub use grpc::{GrpcSnapshot, MethodsSnapshot};
pub use handshakes::{HANDSHAKE_FAILURES, HandshakesSnapshot, ProxyHeaderResult};
pub use histogram::{BUCKETS, HistogramSnapshot};
pub use page::Exposition;
pub use policies::{PolicyEvents, PolicyEventsSnapshot};
pub(crate) use process::resident_bytes;
pub use queueing::QueueingSnapshot;
pub use registry::{Registry, SeriesBounds};
pub use resilience::{BreakerTransition, ResilienceSnapshot};
pub use responses::ResponseCounts;
pub use routes::RouteSlots;
pub use shedding::ShedSnapshot;
pub use slots::Slot;
pub use snapshot::{RouteSnapshot, Snapshot, UpstreamSnapshot};
pub use streams::{DatagramDrop, StreamCounts, StreamSnapshot, StreamsSnapshot};
pub use worker::WorkerStats;
