//! The servers around the systems under test: origins whose every response is known to the byte and to the
//! moment, and a slow link in front of a system.
//!
//! [`serve`] runs an origin with its [`Settings`] until a signal ends the process; [`Origin::start`] runs one
//! within a process. Each thread is one epoll loop with its own listening socket. A request costs one read,
//! one write and no allocation. The modules, in the order in which a request passes them:
//!
//! - `worker` is the loop of a thread, `slot` one connection, `exchange` the handling of its requests;
//! - `reader`, with `head`, parses requests; `recorded` keeps the last ones;
//! - `answer` has the responses, serialized in advance; `stall` decides when none may be sent;
//! - `grpc` is the alternative kind of thread, which speaks HTTP/2 and answers unary calls;
//! - `counters` counts; `control` serves the counters on a separate port.
//!
//! [`relay`] and [`Relay::start`] run the link that a [`Link`] describes: `link::traffic` is its loop,
//! `link::pipe` one direction of one connection, `link::bottleneck` the rate that all connections share.
//!
//! [`forward`] and [`Forwarder::start`] run a minimal proxy, which copies bytes without parsing them.

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
pub use head::{ANSWER, LONGEST_ANSWER};
pub use link::{Link, Relay, relay};
pub use origin::{Origin, serve};
pub use recorded::Recorded;
pub use settings::Settings;
pub use stall::{Every, Stall, Stalls, truth};
