//! Pseudo-fields in the frames of an endpoint: the same malformed streams are found however the bytes are cut
//! into reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::h2::ResponseInspector;

fuzz_target!(|input: &[u8]| {
    // The position of the cut, then the frames.
    let [high, low, bytes @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    let whole = found(bytes, bytes.len().max(1));
    assert_eq!(whole, found(bytes, cut.max(1)), "cut at {cut}");
    assert_eq!(whole, found(bytes, 1), "byte by byte");
});

/// Returns which of the first 64 streams are malformed, reading `step` bytes at a time.
fn found(bytes: &[u8], step: usize) -> Vec<u32> {
    let mut inspector = ResponseInspector::default();
    for piece in bytes.to_vec().chunks_mut(step) {
        inspector.inspect(piece);
    }
    (0..64).filter(|stream| inspector.is_malformed(*stream)).collect()
}
