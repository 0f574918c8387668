//! The CPU cost of a request, the load that the cores can still carry, and the number of usable cores.

mod cores;
mod meter;

use std::time::Duration;

use nix::time::ClockId;

pub use cores::{Cores, available_cores};
pub use meter::{CostMeter, CostReading, CostWindow};

/// Returns the user and system CPU time of this process since its start, over all threads.
#[must_use]
pub fn process_cpu_time() -> Duration {
    // Every Linux has this clock.
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}
