//! Message bodies: every framing, streaming in both directions, back-pressure, early answers, `Expect`.

mod early_answers;
mod expect;
mod requests;
mod responses;

/// Returns bytes that depend on their position, so that a lost or doubled piece shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in body.chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}
