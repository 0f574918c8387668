//! The worker: carries each request from its first byte to its record in the log.
//!
//! A worker is one thread with its own listeners, connections to endpoints, timers and buffers
//! ([`run_worker`]). The control thread sends it plans and commands through a [`Mailbox`]. Workers share
//! almost nothing, so most state here is in `Rc` and `Cell`.
//!
//! A request passes through these modules, in this order:
//!
//! 1. `accept` takes a connection, or passes it to a less loaded worker.
//! 2. `connection` waits for the first byte of a request, and holds almost no memory while it waits.
//!    `preamble` comes before it: PROXY header and TLS.
//! 3. `receive` reads and parses the head of the request, or refuses it. `http2` does so for streams of
//!    HTTP/2.
//! 4. `request` drives one request from here on. `decide` normalises the path and finds the route; `policy`
//!    evaluates the policies.
//! 5. `forward` picks an endpoint, takes a connection from the pool or opens one, and retries failed
//!    attempts.
//! 6. `exchange` sends the request and streams the response back. `client_side` and `upstream_side` are its
//!    two ends.
//! 7. `respond` answers in place of an endpoint: with an error, a redirect or a fixed response.
//! 8. `record` records the result, however the request ended.
//!
//! `request_state` holds the buffers of one request; `worker` holds the state that all requests of a worker
//! share. `rehearse` takes a request through the same functions without a socket, for `tollgate explain`.

mod accept;
mod active;
mod active_policy;
mod affinity;
mod announced;
mod backlog;
mod body_limits;
mod choose_fallback;
mod choose_upstream;
mod client;
mod client_certificate;
mod client_side;
mod client_tls;
mod close_record;
mod collect;
mod command;
mod connection;
mod connection_fate;
mod decide;
mod deliver;
mod dispatch;
mod drain_response;
mod error_body;
mod exchange;
mod exchange_slot;
mod fallback_state;
mod forward;
mod forwarded;
mod future_pool;
mod grpc;
mod grpc_call;
mod http2;
mod http2_endpoint;
mod https;
mod linger;
mod listener;
mod object_pool;
mod pace;
mod policy;
mod preamble;
mod preflight;
mod receive;
mod record;
mod rehearse;
mod rehearsed_outcome;
mod rejected_body;
mod request;
mod request_guard;
mod request_path;
mod request_state;
mod respond;
mod response_policies;
mod rewrite;
mod rollout;
mod run;
mod scheduler;
mod skip_body;
mod split;
mod spool;
mod time_limit;
mod trusted_proxies;
mod tunnel;
mod upstream_side;
mod websocket;
mod worker;
mod write_body;

pub use command::{Mailbox, WorkerCommand, WorkerSetup};
pub use error_body::{Flavour, error_body};
pub use listener::{ListenerId, Queued};
pub use policy::{RehearsedPolicy, RehearsedVerdict};
pub use rehearse::{NEW_ID, Rehearsal, rehearse};
pub use rehearsed_outcome::RehearsedOutcome;
pub use rollout::{Receipt, Receipts, Rollout};
pub use run::{run_worker, work};
