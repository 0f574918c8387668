//! A hasher for keys that are already hashes.

use std::hash::Hasher;

/// Uses a `u64` key as its own hash. Only for keys that clients cannot choose.
#[derive(Debug, Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // No caller writes bytes, but the result must still be a valid hash.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
