//! Bounds the frames of an endpoint that transfer nothing.
//!
//! PING, SETTINGS, WINDOW_UPDATE, RST_STREAM, CONTINUATION, empty DATA, interim heads and frames for streams
//! that ended cost work and bring nothing. Each takes credit. Time, requests and data give credit, as much as
//! a well-behaved endpoint needs at most. An endpoint without credit has its connection ended.

use std::time::Duration;

/// The most credit that a connection has, in frames; also what it begins with.
const CREDIT_MAX: u32 = 2_000;
/// Credit for a second.
const PER_SECOND: u64 = 100;
/// Credit for each DATA frame, head or trailer section that is sent: the endpoint may answer each with a
/// WINDOW_UPDATE for the stream and one for the connection, and measure the path with a PING.
const PER_SENT: u32 = 4;
/// This many bytes in either direction give one frame of credit.
const BYTES_PER_FRAME: usize = 512;

/// The credit of a connection.
#[derive(Debug)]
pub(crate) struct OverheadCredit {
    left: u32,
    /// Bytes, and milliseconds, that have not given a whole frame of credit.
    bytes: usize,
    thousandths: u64,
}

impl Default for OverheadCredit {
    fn default() -> Self {
        Self { left: CREDIT_MAX, bytes: 0, thousandths: 0 }
    }
}

impl OverheadCredit {
    /// Takes credit for frames that transferred nothing. Returns whether it was there.
    pub fn take(&mut self, frames: u32) -> bool {
        match self.left.checked_sub(frames) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Gives credit for time that passed.
    pub fn on_time(&mut self, passed: Duration) {
        let thousandths = (passed.as_millis() as u64).min(60_000) * PER_SECOND + self.thousandths;
        self.thousandths = thousandths % 1_000;
        self.give((thousandths / 1_000) as u32);
    }

    /// Gives credit for a frame that was sent, with `bytes` of DATA.
    pub fn on_sent(&mut self, bytes: usize) {
        self.give(PER_SENT);
        self.on_received(bytes);
    }

    /// Gives credit for bytes that were received.
    pub fn on_received(&mut self, bytes: usize) {
        let bytes = self.bytes + bytes;
        self.bytes = bytes % BYTES_PER_FRAME;
        self.give((bytes / BYTES_PER_FRAME) as u32);
    }

    fn give(&mut self, frames: u32) {
        self.left = self.left.saturating_add(frames).min(CREDIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_ends_and_comes_back() {
        let mut credit = OverheadCredit::default();
        assert!(credit.take(CREDIT_MAX) && !credit.take(1));
        for _ in 0..10 {
            credit.on_time(Duration::from_millis(1));
        }
        assert!(credit.take(1) && !credit.take(1), "a frame for 10 ms");
        credit.on_sent(1_000);
        credit.on_received(24);
        assert!(credit.take(PER_SENT + 2) && !credit.take(1));
        credit.on_time(Duration::from_secs(u64::MAX));
        assert!(credit.take(CREDIT_MAX) && !credit.take(1));
    }
}
