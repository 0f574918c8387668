//! Counters of the network stack: listen overflows, retransmits, and the connections of a server.

mod counters;
mod held;
mod sockets;

pub use counters::{NetCounters, NetDelta};
pub use held::HeldConnections;
