//! What is counted, where, and how it is shown.

mod counter;
mod exposition;
mod histogram;
mod process;
mod registry;
mod slots;
mod snapshot;
mod worker;

pub use exposition::Exposition;
pub use histogram::{BUCKETS, HistogramSnapshot};
pub use registry::Registry;
pub use slots::Slot;
pub use snapshot::{RouteSnapshot, Snapshot, UpstreamSnapshot};
pub use worker::WorkerStats;
