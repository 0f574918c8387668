//! Endpoints: balance, pool, connect.
//!
//! All of it belongs to one worker. [`Upstreams`] is the worker's table: it outlives plans, so that connections and
//! balances survive a change of config for all that did not change.

mod balance;
mod connection;
mod pool;
mod table;

pub use balance::Balancer;
pub use connection::{ConnectError, Connection};
pub use pool::Pool;
pub use table::{Upstream, Upstreams};
