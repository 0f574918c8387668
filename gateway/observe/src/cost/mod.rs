//! What a request costs, what the cores can still carry, and how many cores there are.

mod cores;
mod meter;

use std::time::Duration;

pub use cores::{Cores, available_cores};
pub use meter::{CostMeter, CostReading, CostWindow};

/// User and system CPU time of this process since its start, all threads.
#[must_use]
pub fn process_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
