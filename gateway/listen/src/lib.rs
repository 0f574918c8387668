//! Listening sockets and the assignment of connections to workers. The program binds sockets with [`bind`]
//! and hands them to a successor process over a [`Channel`]; workers use [`ConnectionCounts`] to decide which
//! of them serves a new connection, within [`Pressure`]'s limits.

mod bind;
mod channel;
mod connection_counts;
mod pressure;
mod stream_uses;

pub use bind::{BACKLOG, bind, bind_datagrams, bind_shared_port, listen, reserve};
pub use channel::{Channel, ChannelMessage};
pub use connection_counts::{ConnectionCounts, NoSlot};
pub use pressure::Pressure;
pub use stream_uses::{StreamFull, StreamSlot, StreamUse, StreamUses};
