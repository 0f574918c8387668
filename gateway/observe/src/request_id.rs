//! Unpredictable request ids, generated without a system call.

use siphasher::sip128::SipHasher24;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Generates the request ids of one worker: 128 bits, written as 32 lower-case hexadecimal digits.
///
/// An id is SipHash-2-4-128 of a counter, under a key that the operating system generated for this worker
/// alone. SipHash is a pseudo-random function: from any number of ids, an observer can derive neither the
/// next id nor the counter. One id costs about 20 ns. Random bytes from the operating system would cost a
/// system call; a plain counter would tell clients how many requests the gateway serves.
#[derive(Debug)]
pub struct RequestIds {
    keyed: SipHasher24,
    next: u64,
}

impl RequestIds {
    /// Creates a generator. `key` must come from the operating system's random source, and belong to this
    /// generator alone.
    #[must_use]
    pub fn new(key: [u8; 16]) -> RequestIds {
        RequestIds { keyed: SipHasher24::new_with_key(&key), next: 0 }
    }

    /// Writes the next id.
    pub fn write(&mut self, id: &mut [u8; 32]) {
        let bytes = self.keyed.hash(&self.next.to_le_bytes()).as_bytes();
        self.next = self.next.wrapping_add(1);
        for (digits, byte) in id.chunks_exact_mut(2).zip(bytes) {
            digits[0] = HEX[usize::from(byte >> 4)];
            digits[1] = HEX[usize::from(byte & 15)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_hexadecimal_and_never_repeat() {
        let mut seen = HashSet::new();
        for mut ids in [RequestIds::new([1; 16]), RequestIds::new([2; 16])] {
            for _ in 0..5_000 {
                let mut id = [0; 32];
                ids.write(&mut id);
                assert!(id.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)));
                assert!(seen.insert(id));
            }
        }
    }

    #[test]
    fn neighbours_share_no_pattern() {
        let mut ids = RequestIds::new([3; 16]);
        let (mut first, mut second) = ([0; 32], [0; 32]);
        ids.write(&mut first);
        ids.write(&mut second);
        let same = first.iter().zip(second).filter(|(a, b)| **a == *b).count();
        assert!(same < 16, "{same} of 32 digits are the same");
    }
}
