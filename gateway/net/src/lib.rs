//! Sockets, time and spawning: the one seam through which the gateway touches the outside.
//!
//! Everything the data path does to the world goes through this crate, so that it can be replaced as a whole:
//! by a simulated network, or by a leaner driver than tokio's. It names few things on purpose.

mod address;
mod alarm;
mod deadline;
mod listener;
mod runtime;
mod stream;
mod wheel;

pub use address::Address;
pub use deadline::{Deadline, Timers};
pub use listener::Listener;
pub use runtime::{Runtime, spawn, yield_now};
pub use stream::{Peek, Stream};
