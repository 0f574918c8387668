//! The trace of a run: a hash by which two runs are compared, and optionally text.

use std::fmt::Write;
use std::time::Duration;

/// FNV-1a (Fowler, Noll, Vo). Any hash would do that is the same in every run.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// All events of a run, in order.
#[derive(Debug)]
pub(super) struct RunTrace {
    pub hash: u64,
    pub events: u64,
    text: Option<String>,
}

impl RunTrace {
    pub fn new(text: bool) -> Self {
        Self { hash: OFFSET, events: 0, text: text.then(String::new) }
    }

    pub fn record(&mut self, at: Duration, event: &str, fields: &[u64]) {
        self.events += 1;
        self.mix(at.as_nanos() as u64);
        self.mix(hash(event.as_bytes()));
        fields.iter().for_each(|field| self.mix(*field));
        if let Some(text) = &mut self.text {
            // Writing to a String cannot fail.
            let _ = write!(text, "{:>12.6} {event}", at.as_secs_f64());
            fields.iter().for_each(|field| {
                let _ = write!(text, " {field}");
            });
            text.push('\n');
        }
    }

    pub fn take_text(&mut self) -> Option<String> {
        self.text.take()
    }

    fn mix(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
}

/// Hashes some bytes.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
