//! Tests the generator against real servers.

mod behaviour;
mod server;
mod stall;
mod tls;
