//! `Range`: for any bytes and any length of the content, the ranges lie in it, and are not longer than it in sum. The
//! first eight bytes are the length.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::{Requested, parse_ranges};

fuzz_target!(|input: &[u8]| {
    let Some((length, value)) = input.split_first_chunk::<8>() else { return };
    let length = u64::from_le_bytes(*length);
    if let Requested::Ranges(ranges) = parse_ranges(value, length) {
        assert!(!ranges.is_empty() && ranges.len() <= 16);
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= length));
        let sum = ranges.iter().try_fold(0_u64, |sum, range| sum.checked_add(range.length()));
        assert!(sum.is_some_and(|sum| sum <= length), "more than the file");
    }
});
