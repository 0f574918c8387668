//! Compiles a configuration into the [`Plan`] that the workers run: `compile(Config) -> Plan`. The function
//! is pure, and reports every problem at once.
//!
//! A plan is immutable and holds no state. Pools, counters and balances live in the workers' tables, keyed by
//! names and addresses, so they survive a change of plan.

mod compile;
mod compile_cache;
mod endpoint_list;
mod inline_names;
mod listener_index;
mod listener_tls;
mod listeners;
mod logs;
mod matches;
mod plan;
mod policies;
mod rewrite;
mod self_loops;
mod semicolon_bypass;
mod stream_table;
mod streams;
mod tls;
mod unkeyed;
mod unreachable_hosts;
mod upstream_change;

pub use compile::{Compiled, compile, compile_parts, compile_with_cache};
pub use compile_cache::CompileCache;
pub use endpoint_list::read_endpoints;
pub use listener_index::ListenerIndex;
pub use logs::PlannedLog;
pub use matches::check_matches;
pub use plan::{
    Action, AnswerShare, AttachedPolicy, Certificate, Endpoint, EndpointHttp2, Fallback, FallbackAction,
    Files, GatewaySettings, ListenerKey, Plan, PlannedListener, Rates, Redirect, Respond, Route, RouteChains,
    Targets, Tls, Upstream, UpstreamShare,
};
pub use rewrite::{Location, LocationGroups, PathRewrite, QueryRewrite, Replacement, Rewrite};
pub use stream_table::{Stream, StreamShare, StreamTable};
pub use tollgate_config::file_access;
pub use tollgate_config::{
    Adaptive, Balance, Breaker, Buffer, BufferBounds, CacheStore, Caps, CdnLoop, CertificatePart, Cidr,
    Discover, DnsRules, ErrorBodies, Forwarded, GRPC_CODES, HashBy, Health, Hedge, HostRewrite, Http2,
    Limits, ListenAddress, ListenerProtocol, Outlier, Overload, Percent, Policy, Pool, Priority, Probe,
    Queue, RequestId, Retry, RetryOn, RouteStay, Rules, Sticky, Timeouts,
};
pub use tollgate_policy::register as register_policies;
pub use upstream_change::UpstreamChange;
