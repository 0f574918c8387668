//! The resources that a process tree uses: CPU time by thread, context switches, memory. All of it is read
//! from `/proc`.

mod memory;
mod procfs;
mod snapshot;
mod tree;
mod used;

pub use memory::{Memory, reset_peak};
pub(crate) use procfs::number_after;
pub use snapshot::Snapshot;
pub use tree::{Subject, process_ids};
pub(crate) use tree::{start_time, stats};
pub use used::{Clock, ThreadUsed, Used};
