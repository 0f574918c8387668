//! The worker: what carries a request, from its first byte to its line in the log.
//!
//! The path of a request, each stop a file:
//!
//! 1. `accept`: a connection comes in, or goes to a less loaded worker.
//! 2. `connection`: it waits for a request, and holds almost nothing while it waits.
//! 3. `receive`: the request's head is read and understood, or refused.
//! 4. `decide`: the path is brought to its normal form, and the route found.
//! 5. `forward`: an endpoint is picked, a connection to it taken from the pool or opened, and what failed tried again.
//! 6. `exchange`: the request goes out, the response comes back, both stream.
//! 7. `respond`: or the gateway answers itself: an error, a redirect, a fixed response.
//! 8. `ledger`: what happened is recorded, whatever way it ended.
//!
//! `rehearse` takes a request through the same functions without a socket, for `tollgate explain`.

mod accept;
mod active;
mod affinity;
mod announced;
mod backlog;
mod client_side;
mod collect;
mod connection;
mod decide;
mod deliver;
mod door;
mod error_body;
mod exchange;
mod forward;
mod forwarded;
mod grpc;
mod http2;
mod https;
mod identity;
mod intake;
mod ledger;
mod linger;
mod pace;
mod pass_over;
mod policy;
mod preamble;
mod preflight;
mod receive;
mod rehearse;
mod request;
mod respond;
mod rollout;
mod routine;
mod scratch;
mod secured;
mod shelf;
mod split;
mod spool;
mod total;
mod tunnel;
mod upstream_side;
mod websocket;
mod worker;
mod write_body;

pub use door::{DoorId, Waiting};
pub use error_body::{Flavour, error_body};
pub use policy::{MetPolicy, Said};
pub use rehearse::{NEW_ID, Outcome, Rehearsal, rehearse};
pub use rollout::{Receipt, Receipts, Rollout};
pub use worker::{Control, Mailbox, WorkerSetup, run_worker, work};
