//! What stands behind the systems under test: origins whose every answer is known, to the byte and to the moment. And
//! what stands before them: a link that is long and narrow.
//!
//! [`serve`] runs an origin as [`Settings`] say until a signal ends the process; [`Origin::start`] runs one inside a
//! process. A thread is one epoll loop with a listening socket of its own; a request costs one read, one write and no
//! allocation. On the way of a request:
//!
//! - `worker` is a thread's loop, `slot` one connection, `exchange` what happens on it;
//! - `reader`, with `head`, reads requests; `recorded` keeps the last ones;
//! - `answer` holds the answers, written out before the first; `stall` says when none may leave;
//! - `grpc` is a thread of the other kind, which speaks HTTP/2 and answers unary calls;
//! - `counters` counts; `control` tells the counts on a port of its own.
//!
//! [`relay`] and [`Relay::start`] run the link that a [`Link`] describes: `link::traffic` is its loop, `link::pipe` one
//! direction of one connection, `link::bottleneck` the rate that all connections share.
//!
//! [`forward`] and [`Forwarder::start`] run the least that a proxy can be: what passes bytes on and reads none of them.

mod answer;
mod control;
mod counters;
mod exchange;
mod failure;
mod forward;
mod grpc;
mod head;
mod link;
mod origin;
mod place;
mod reader;
mod recorded;
mod settings;
mod slot;
mod socket;
mod stall;
mod threads;
mod worker;

pub use answer::body;
pub use counters::Counters;
pub use failure::Failure;
pub use forward::{Forwarder, forward};
pub use grpc::message;
pub use link::{Link, Relay, relay};
pub use origin::{Origin, serve};
pub use recorded::Recorded;
pub use settings::Settings;
pub use stall::{Every, Stall, Stalls, truth};
