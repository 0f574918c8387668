//! What a worker runs: `compile(Config) -> Plan`, pure, or every problem at once.
//!
//! A [`Plan`] is immutable and holds no state: pools, counters and balances live in the workers' tables, keyed by
//! names and addresses, and survive a change of plan.

mod compile;
mod matches;
mod plan;
mod rewrite;

pub use compile::{Compiled, compile};
pub use matches::check_matches;
pub use plan::{Action, Endpoint, Plan, Redirect, Respond, Route, Settings, Upstream, UpstreamShare};
pub use rewrite::{PathRewrite, Rewrite};
pub use tollgate_config::{
    Buffer, BufferBounds, Cidr, ErrorBodies, Forwarded, HostRewrite, Limits, Pool, RequestId, Timeouts,
};
