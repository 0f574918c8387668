//! Bodies that differ from each other at every byte, so that a wrong or misplaced byte shows.

/// Returns bytes of a body from an offset on. Each number has an endless body of its own.
#[must_use]
pub fn bytes(number: u64, offset: usize, length: usize) -> Vec<u8> {
    (offset..offset + length).map(|at| byte(number, at)).collect()
}

/// Returns whether these are the bytes of a body from an offset on.
#[must_use]
pub fn is(number: u64, offset: usize, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, found)| *found == byte(number, offset + at))
}

fn byte(number: u64, at: usize) -> u8 {
    // The finaliser of splitmix64 (Steele, Lea, Flood, 2014), one word for eight bytes.
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at as u64 / 8);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word.to_le_bytes()[at % 8]
}
