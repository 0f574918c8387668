//! Counters, access log, metrics exposition, the live cost meter, and the admin listener's HTTP server.
//!
//! | Folder | Contents |
//! |---|---|
//! | `stats/` | each worker's counters, the registry that adds them up, the Prometheus text |
//! | `log/` | the access log: formats, a worker's sink, the writer thread |
//! | `cost/` | CPU time per request, the remaining headroom, the cores this process may use |
//! | `guard/` | how much of its memory and file descriptor bounds the process uses |
//! | `live/` | the gateway's current state as one document, and the last minutes |
//! | `admin/` | the admin listener's HTTP server |
//! | `trace/` | how one request was handled, for `tollgate trace` |
//! | `upstreams.rs` | the state of upstreams, as the admin listener and the metrics show it |
//!
//! A worker calls [`WorkerStats::record`] once for each ended exchange, with its [`Tally`]. If the access log
//! is on, it also calls [`LogSink::record`] with a borrowed [`Record`]. Neither call allocates, locks or
//! waits.

mod admin;
mod control_group;
mod cost;
pub mod live;
mod log;
mod reason;
mod record;
mod request_id;
mod resource_monitor;
mod stats;
mod status;
pub mod trace;
mod upstreams;

pub use admin::{
    AdminCounts, AdminCountsSnapshot, AdminEvents, AdminListener, AdminRefusal, AdminState, AdminTls, Peer,
    PeerAddress, pages, serve,
};
pub use cost::{Cores, CostMeter, CostReading, CostWindow, available_cores, process_cpu_time};
pub use log::{
    AccessLog, Details, EndpointAttempt, Field, LineTarget, Log, LogConfig, LogFilter, LogFormat, LogSink,
    LogTarget, SyslogTarget, SyslogTransport, Template, TemplateError,
};
pub use reason::Reason;
pub use record::{Protocol, Record, RequestMethod, Tally, TlsRecord};
pub use request_id::RequestIds;
pub use resource_monitor::{ResourceMonitor, ResourceReading, ResourceUse};
pub use stats::{
    BUCKETS, BreakerTransition, DatagramDrop, EndpointsSnapshot, Exposition, GrpcSnapshot,
    HANDSHAKE_FAILURES, HandshakesSnapshot, HistogramSnapshot, LookupCounts, MethodsSnapshot, PolicyEvents,
    PolicyEventsSnapshot, ProxyHeaderResult, QueueingSnapshot, Registry, ResilienceSnapshot, ResponseCounts,
    RouteSlots, RouteSnapshot, SeriesBounds, ShedSnapshot, Slot, Snapshot, StreamCounts, StreamSnapshot,
    StreamsSnapshot, UpstreamEndpoints, UpstreamSnapshot, WorkerStats,
};
pub use status::{
    CacheStatus, CacheTier, ControllerStatus, EtcdStatus, FleetStatus, ListenerStatus, OperationResult,
    Status,
};
pub use upstreams::{
    AdaptiveStatus, EndpointHealth, EndpointState, EndpointStatus, LookupStatus, ProbeStatus, TlsStatus,
    UpstreamSource, UpstreamStatus,
};
