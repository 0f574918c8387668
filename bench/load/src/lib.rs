//! The laboratory's built-in load generator: HTTP/1.1 over TCP, in plain text or over TLS 1.3.
//!
//! [`run`] takes a [`Plan`] and gives a [`tollgate_lab_record::LoadResult`]. A thread is one epoll loop over its share
//! of the connections; a request costs one write, one read and no allocation, so that the generator takes less of the
//! machine than what it measures. On the way of a request:
//!
//! - `plan` says what to do; `request` writes each request out once, before the run;
//! - `pace` holds the intended send times of an open loop and computes latencies from them;
//! - `worker` is a thread's loop, `slot` one of its connections, `exchange` one request on it;
//! - `response`, with `head`, `chunked` and `token`, reads responses; `expect` verifies each one; `tls` is between
//!   them and the socket where the plan asks for it;
//! - `tally` counts, `used` reads a thread's CPU time, `run` starts the threads and adds up.
//!
//! In an open loop the requests of a thread go, at their times, to whichever of its connections has been idle longest.
//! When none is idle they wait, and leave as soon as one is: the response time counts from the intended time, so that
//! a server that stalls is charged with all that it held up (no coordinated omission).

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
