//! End-to-end tests through the real binary. One module a theme; its first lines say what it holds.

mod bodies;
mod budgets;
mod buffering;
mod cli;
mod errors;
mod forwarded;
mod harness;
mod headers;
mod hostile_origin;
mod keepalive;
mod limits;
mod log;
mod metrics;
mod mixed;
mod paths;
mod redirect_respond;
mod reload;
mod rewrite;
mod routing;
mod shutdown;
mod smuggling;
mod timeouts;
mod upgrade;
mod upstreams;
