//! What the network stack did: listen overflows, retransmits, and how many connections a server had.

mod counters;
mod held;
mod sockets;

pub use counters::{NetCounters, NetDelta};
pub use held::HeldConnections;
