//! The machine that a trial runs on: how busy each core is, and what kind of machine it is.

mod affinity;
mod cores;
mod facts;

pub use affinity::{CorePair, allowed_cores, siblings};
pub use cores::{CoreShare, CoreTimes};
pub use facts::{Facts, busy_cores, file_limit, load_average};
