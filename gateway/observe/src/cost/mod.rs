//! What a request costs, what the cores can still carry, and how many cores there are.

mod cores;
mod meter;

use std::time::Duration;

use nix::time::ClockId;

pub use cores::{Cores, available_cores};
pub use meter::{CostMeter, CostReading, CostWindow};

/// User and system CPU time of this process since its start, all threads.
#[must_use]
pub fn process_cpu_time() -> Duration {
    // Every Linux has this clock.
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}
