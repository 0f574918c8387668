//! Listening sockets and the assignment of connections to workers. The program binds sockets with [`bind`]
//! and hands them to a successor process over a [`Channel`]; workers use [`Loads`] to decide which of them
//! serves a new connection, within [`Pressure`]'s limits.

mod bind;
mod channel;
mod loads;
mod pressure;

pub use bind::{BACKLOG, bind, bind_beside, listen};
pub use channel::{Channel, Message};
pub use loads::{Full, Loads};
pub use pressure::Pressure;
