//! Pseudo-fields in what an endpoint sends: however the bytes are cut into reads, the same streams are found.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::h2::Sieve;

fuzz_target!(|input: &[u8]| {
    // Where to cut, then the frames.
    let [high, low, bytes @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    let whole = found(bytes, bytes.len().max(1));
    assert_eq!(whole, found(bytes, cut.max(1)), "cut at {cut}");
    assert_eq!(whole, found(bytes, 1), "byte by byte");
});

/// Which of the first streams are malformed, read so many bytes at a time.
fn found(bytes: &[u8], step: usize) -> Vec<u32> {
    let mut sieve = Sieve::default();
    for piece in bytes.to_vec().chunks_mut(step) {
        sieve.pass(piece);
    }
    (0..64).filter(|stream| sieve.is_malformed(*stream)).collect()
}
