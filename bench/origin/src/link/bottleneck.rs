//! The rate limit that all connections share.

use tollgate_lab_load::clock::SECOND;

/// How far the bottleneck may catch up if its thread ran late, in nanoseconds. Without it, a busy machine
/// would make the link slower than configured; with much more, the link would send in bursts.
const LATE_MAX_NS: u64 = 20_000_000;

/// One segment on Ethernet (1,500 bytes less the headers of IP and TCP with time stamps): the smallest
/// portion.
const SEGMENT_BYTES: f64 = 1_448.0;

/// The largest portion, in bytes.
const PORTION_MAX_BYTES: f64 = 65_536.0;

/// A token bucket, stored as the time at which its debt is paid.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    nanos_a_byte: f64,
    free: u64,
    portion: usize,
}

impl Bottleneck {
    pub(crate) fn new(bytes_per_second: f64) -> Self {
        let millisecond = bytes_per_second / 1e3;
        Self {
            nanos_a_byte: SECOND as f64 / bytes_per_second,
            free: 0,
            portion: millisecond.clamp(SEGMENT_BYTES, PORTION_MAX_BYTES) as usize,
        }
    }

    /// Returns when the next bytes may pass.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Returns the most bytes that a connection may pass in its turn: a millisecond's worth, within bounds.
    pub(crate) fn portion(&self) -> usize {
        self.portion
    }

    /// Accounts for bytes that pass now.
    pub(crate) fn pass(&mut self, bytes: usize, now: u64) {
        let cost = (bytes as f64 * self.nanos_a_byte).round() as u64;
        self.free = self.free.max(now.saturating_sub(LATE_MAX_NS)) + cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the bytes that pass in a second if the bottleneck is polled every `step` nanoseconds.
    fn passed(rate: f64, step: u64) -> usize {
        let mut bottleneck = Bottleneck::new(rate);
        let mut sum = 0;
        for now in (SECOND..2 * SECOND).step_by(step as usize) {
            while bottleneck.free() <= now {
                bottleneck.pass(bottleneck.portion(), now);
                sum += bottleneck.portion();
            }
        }
        sum
    }

    #[test]
    fn the_rate_is_kept_however_late_its_thread_runs_within_bounds() {
        for rate in [50_000.0, 950_000.0, 1e8] {
            for step in [MS / 10, MS, 15 * MS] {
                let got = passed(rate, step) as f64;
                // The allowed catch-up at the start, and one portion.
                let over = rate * 0.02 + SEGMENT_BYTES.max(rate / 1e3) + rate * 0.016;
                assert!(got >= rate * 0.98 && got <= rate + over, "{got} of {rate} by {step}");
            }
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut bottleneck = Bottleneck::new(1e6);
        bottleneck.pass(1_000, SECOND);
        let first = bottleneck.free();
        bottleneck.pass(1_000, 100 * SECOND);
        assert!(first <= SECOND + MS && bottleneck.free() >= 100 * SECOND - LATE_MAX_NS);
    }
}
