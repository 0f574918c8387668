//! Compiles a configuration into the [`Plan`] that the workers run: `compile(Config) -> Plan`. The function
//! is pure, and reports every problem at once.
//!
//! A plan is immutable and holds no state. Pools, counters and balances live in the workers' tables, keyed by
//! names and addresses, so they survive a change of plan.

mod change;
mod compile;
mod endpoint_list;
mod logs;
mod matches;
mod memo;
mod own_addresses;
mod plan;
mod policies;
mod rewrite;
mod tls;
mod unguarded;

pub use change::UpstreamChange;
pub use compile::{Compiled, compile, compile_again, compile_parts};
pub use endpoint_list::read_endpoints;
pub use logs::PlannedLog;
pub use matches::check_matches;
pub use memo::Memo;
pub use plan::{
    Action, Certificate, Endpoint, EndpointHttp2, Fallback, Instead, Listener, Plan, Rates, Redirect,
    Respond, Route, Settings, Tls, Upstream, UpstreamShare,
};
pub use policies::{Attached, RouteChains};
pub use rewrite::{Location, LocationGroups, PathRewrite, Replacement, Rewrite};
pub use tollgate_config::file_access;
pub use tollgate_config::{
    Adaptive, Balance, Breaker, Buffer, BufferBounds, Caps, CdnLoop, CertificatePart, Cidr, Discover,
    DnsRules, ErrorBodies, Forwarded, GRPC_CODES, HashBy, Health, Hedge, HostRewrite, Http2, Limits,
    ListenAddress, Outlier, Overload, Percent, Policy, Pool, Priority, Probe, Queue, RequestId, Retry,
    RetryOn, RouteStay, Rules, Sticky, Timeouts,
};
