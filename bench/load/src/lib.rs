//! The laboratory's built-in load generator: HTTP/1.1, and HTTP/2, gRPC, WebSocket and server-sent events.
//!
//! [`run`] takes a [`Plan`] and returns a [`tollgate_lab_record::LoadResult`]. For HTTP/1.1, each thread runs
//! one epoll loop over its share of the connections. A request costs one write, one read and no allocation, so
//! that the generator uses less of the machine than the system that it measures. For the other protocols,
//! `tasks` runs one task for each request in flight. The modules, in the order in which a request passes them:
//!
//! - `plan` is the input, which `check` validates, and [`recording`] makes one of an access log or a HAR file; `greet`
//!   finds out in advance why a server cannot be loaded;
//! - `request` serializes each request once, before the run, from its `parts`; `template` fills in values that change,
//!   and takes values from responses that are `kept`;
//! - `pace` has the intended send times of an open loop, with `shape` for a rate that changes, and computes
//!   latencies from them;
//! - `worker` is the loop of a thread, `slot` one of its connections, `exchange` one request on it;
//! - `response`, with `head`, `chunked` and `token`, parses responses; `expect` verifies each one; `tls` sits
//!   between them and the socket if the plan asks for it, and `verifier` checks certificates;
//! - `tally` counts, `used` reads a thread's CPU time, `run` starts the threads, and `totals` adds up the
//!   results.
//!
//! In an open loop, a thread sends each request at its intended time on the connection that has been idle
//! longest. If none is idle, the request waits and leaves as soon as one is. The response time counts from
//! the intended time, so a server that stalls is charged with every request that it delayed (no coordinated
//! omission).

mod check;
pub mod chunked;
pub mod clock;
mod digest;
mod exchange;
mod expect;
mod failure;
mod files;
mod greet;
mod head;
mod interruption;
mod kept;
mod pace;
mod parts;
mod plan;
pub mod recording;
mod request;
mod response;
mod run;
pub mod shape;
mod slot;
mod socket;
mod spin;
mod tally;
mod tasks;
mod template;
mod tls;
pub mod token;
mod totals;
mod used;
mod verifier;
mod worker;

pub use digest::digest;
pub use failure::Failure;
pub use files::{most_connections, raise_limit};
pub use greet::greet;
pub use head::Malformed;
pub use interruption::{interrupt, interrupted};
pub use plan::{
    Body, Data, Expect, Extract, Https, Length, Plan, Protocol, Replay, Request, Think, Tls, Trust,
};
pub use run::{Done, Phase, Progress, run, run_watched, run_with};
pub use tls::tls_config;
pub use totals::{Second, distribution};
pub use verifier::Verifier;
