//! The hash functions of balancing.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Hashes the value that a request is balanced by. The result is the same on every worker, after every
/// restart, and on every gateway of this version. So a client's requests reach the same endpoint through any
/// gateway.
///
/// The hash therefore has no secret key, and a client that chooses its value can learn which endpoint it
/// leads to. It could learn that under any hash by repeating a request; a key would only hide the mapping in
/// advance.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Maps a number to another, nearly independent one. This is the finaliser of SplitMix64 (Steele, Lea and
/// Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_what_it_is() {
        // Another value would send every client to another endpoint when one of several gateways is upgraded.
        assert_eq!(hash(b"192.0.2.1"), 562_859_773_054_509_022);
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }
}
