//! Upstreams: load balancing, connection pools, connecting, health and limits.
//!
//! Almost all of it belongs to one worker. [`Upstreams`] is the worker's table of upstreams. It outlives a
//! plan, so connections and balancing state survive a reload for every upstream that did not change.
//! [`UpstreamStates`] holds what all workers share: health, ejections, permits in use, breakers. The
//! [`health`] probes, the lookups ([`Lookups`]) and the notices run on the control thread.
//!
//! The modules form layers, and import only from their own layer or a lower one:
//!
//! | Layer | Modules |
//! |---|---|
//! | 4. a worker's table of upstreams | `table`, `upstream`, `members` |
//! | 3. a worker's connections; the control thread's work | `pool`; `health`, `discover` |
//! | 2. state that all workers share | `state`, `outlier::ejections`, `notices` |
//! | 1. parts that know no upstream | the other modules |
//!
//! A type of layer 1 holds only what it needs of an upstream, so it can be tested alone. Records that layer 2
//! stores are in `health` and `discover`, next to the code that fills them.

mod adaptive;
mod balance;
mod breaker;
mod connect_error;
mod discover;
mod endpoint_io;
pub mod health;
mod members;
mod notices;
pub mod outlier;
mod pool;
mod proxy_protocol;
mod retry_budget;
mod state;
mod sticky;
mod table;
mod tls;
mod tls_failures;
mod upstream;
mod weak_map;
mod window;

pub use adaptive::{AdaptiveFull, AdaptivePermit};
pub use balance::{RoundRobin, Weighted, hash};
pub use breaker::{BreakerPermit, BreakerState, CircuitOpen};
pub use connect_error::ConnectError;
pub use discover::{Discovery, EndedLookups, EndpointSource, LookupError, LookupReport, Lookups, Warn};
pub use members::PickHints;
pub use notices::{EndpointEvent, EndpointNotice};
pub use outlier::Outcome;
pub use pool::{Acquired, ConnectPermit, Connection, Pool, PooledConnection, http2};
pub use state::{
    EndpointState, InFlightGuard, Message, Permit, ProbeHealth, SendToWorker, UpstreamState, UpstreamStates,
};
pub use sticky::{StickyField, StickyValue};
pub use table::Upstreams;
pub use upstream::Upstream;
