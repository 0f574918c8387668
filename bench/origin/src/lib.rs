//! What stands behind the systems under test: origins whose every answer is known, to the byte and to the moment.
//!
//! [`serve`] runs an origin as [`Settings`] say until a signal ends the process; [`Origin::start`] runs one inside a
//! process. A thread is one epoll loop with a listening socket of its own; a request costs one read, one write and no
//! allocation. On the way of a request:
//!
//! - `worker` is a thread's loop, `slot` one connection, `exchange` what happens on it;
//! - `reader`, with `head`, reads requests; `answer` holds the answers, written out before the first;
//! - `counters` counts; `control` tells the counts on a port of its own.

mod answer;
mod control;
mod counters;
mod exchange;
mod failure;
mod files;
mod head;
mod origin;
mod reader;
mod settings;
mod slot;
mod socket;
mod worker;

pub use answer::body;
pub use counters::Counters;
pub use failure::Failure;
pub use origin::{Origin, serve};
pub use settings::Settings;
