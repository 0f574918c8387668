//! The worker: carries each request from its first byte to its record in the log.
//!
//! A worker is one thread with its own listeners, connections to endpoints, timers and buffers
//! ([`run_worker`]). The control thread sends it plans and commands through a [`Mailbox`]. Workers share
//! almost nothing, so most state here is in `Rc` and `Cell`.
//!
//! The crate has four layers, and each knows only those below it (`scripts/check-layers`):
//!
//! - `front`: accepts connections and reads requests from them.
//! - `policy`: evaluates the policies of a request.
//! - `exchange`: forwards a request and streams the response back, or answers it.
//! - `state`: what a worker, a connection and a request are.
//!
//! A request passes through these modules, in this order:
//!
//! 1. `front::accept` takes a connection, or passes it to a less loaded worker.
//! 2. `front::connection` waits for the first byte of a request, and holds almost no memory while it waits.
//!    `front::preamble` comes before it: PROXY header and TLS.
//! 3. `front::receive` reads and parses the head of the request, or refuses it. `front::http2` does so for
//!    streams of HTTP/2.
//! 4. `front::request` drives one request from here on. `front::decide` normalises the path and finds the
//!    route; `policy` evaluates the policies.
//! 5. `exchange::dispatch` carries out the action of the route. `exchange::forward` picks an endpoint, takes a
//!    connection from the pool or opens one, and retries failed attempts.
//! 6. `exchange::engine` sends the request and streams the response back. `state::client_side` and
//!    `exchange::upstream_side` are its two ends.
//! 7. `exchange::respond` answers in place of an endpoint: with an error, a redirect or a fixed response.
//! 8. `state::close_record` records the result, however the request ended.
//!
//! `front::dry_run` takes a request through the same functions without a socket, for `tollgate explain`. `front::trace`
//! builds the trace of a finished request, for `tollgate trace`.

mod exchange;
mod front;
mod policy;
mod state;

pub use exchange::error_body::{Flavour, error_body};
pub use front::dry_run::{DryRun, NEW_ID, dry_run};
pub use front::run::{run_worker, work};
pub use policy::dry_run_outcome::DryRunOutcome;
pub use policy::{DryRunPolicy, DryRunVerdict};
pub use state::command::{Mailbox, WorkerCommand, WorkerSetup};
pub use state::followers::{GatheredTrace, TraceFilter, TraceFollower, TraceSubject};
pub use state::listener::{ListenerId, Queued};
pub use state::rollout::{Receipt, Receipts, Rollout};
