//! Upstreams: load balancing, connection pools, connecting, health and limits.
//!
//! Almost all of it belongs to one worker. [`Upstreams`] is the worker's table of upstreams. It outlives a
//! plan, so connections and balancing state survive a reload for every upstream that did not change.
//! [`Shared`] holds what all workers share: health, ejections, permits in use, breakers. The [`health`]
//! probes, the lookups ([`Lookups`]) and the notices run on the control thread.

mod adaptive;
mod balance;
mod breaker;
mod budget;
mod cap;
mod connection;
mod discover;
pub mod health;
pub mod http2;
mod known;
mod members;
mod message;
mod news;
mod outcome;
pub mod outlier;
mod peers;
mod pool;
mod pool_set;
mod proxy_protocol;
mod queue;
mod state;
mod sticky;
mod surplus;
mod table;
mod tls;
mod tls_record;
mod waiting;
mod warm;
mod window;

pub use adaptive::{AdaptiveFull, AdaptivePermit};
pub use balance::{RoundRobin, Weighted, hash};
pub use breaker::{BreakerPermit, BreakerState, CircuitOpen};
pub use cap::{Permit, UnderWay};
pub use connection::{ConnectError, Connection, Link};
pub use discover::{Discovery, Failure, Gone, LookupReport, Lookups, Source, Warn};
pub use message::Message;
pub use news::{Event, Notice};
pub use outcome::Outcome;
pub use peers::Post;
pub use pool::{Granted, Opening, Pool};
pub use state::{EndpointState, Shared, UpstreamState, Wellness};
pub use sticky::StickyValue;
pub use table::{Upstream, Upstreams, Wanted};
