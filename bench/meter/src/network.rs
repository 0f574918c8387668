//! What the network stack did: listen overflows, retransmits, and how many connections an end had.

mod connections;
mod counters;
mod tally;

pub use connections::{ConnectionCount, End, count_of_others};
pub use counters::{NetCounters, NetDelta};
pub use tally::{ConnectionTally, Opened};
