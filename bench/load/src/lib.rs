//! The laboratory's built-in load generator: HTTP/1.1 over TCP, in plain text or over TLS 1.3.
//!
//! [`run`] takes a [`Plan`] and returns a [`tollgate_lab_record::LoadResult`]. Each thread runs one epoll
//! loop over its share of the connections. A request costs one write, one read and no allocation, so that the
//! generator uses less of the machine than the system that it measures. The modules, in the order in which a
//! request passes them:
//!
//! - `plan` is the input; `request` serializes each request once, before the run;
//! - `pace` has the intended send times of an open loop and computes latencies from them;
//! - `worker` is the loop of a thread, `slot` one of its connections, `exchange` one request on it;
//! - `response`, with `head`, `chunked` and `token`, parses responses; `expect` verifies each one; `tls` sits
//!   between them and the socket if the plan asks for it;
//! - `tally` counts, `used` reads a thread's CPU time, `run` starts the threads and adds up the results.
//!
//! In an open loop, a thread sends each request at its intended time on the connection that has been idle
//! longest. If none is idle, the request waits and leaves as soon as one is. The response time counts from
//! the intended time, so a server that stalls is charged with every request that it delayed (no coordinated
//! omission).

pub mod chunked;
pub mod clock;
mod exchange;
mod expect;
mod failure;
mod files;
mod head;
mod pace;
mod plan;
mod request;
mod response;
mod run;
mod slot;
mod socket;
mod spin;
mod tally;
mod tls;
pub mod token;
mod used;
mod worker;

pub use expect::digest;
pub use failure::Failure;
pub use files::{most_connections, raise_limit};
pub use head::Malformed;
pub use plan::{Body, Expect, Length, Plan, Request, Tls};
pub use run::{Done, Phase, distribution, run, run_with};
pub use tls::tls_config;
