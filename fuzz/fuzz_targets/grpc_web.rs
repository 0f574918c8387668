//! gRPC-Web: base64 at any cuts, and the part of the body that holds the trailers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::HeadLimits;
use tollgate_http::grpc::{GrpcKind, GrpcStatus, web};
use tollgate_http::h2::decode_trailers;

const LIMITS: HeadLimits = HeadLimits { line: 0, head: 8192, fields: 100 };

fuzz_target!(|input: &[u8]| {
    let [high, low, bytes @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    // As text: the result is the same at any cut, and at most three bytes for four characters.
    let whole = decode(&[bytes]);
    assert_eq!(whole, decode(&[&bytes[..cut], &bytes[cut..]]), "cut at {cut}");
    assert_eq!(whole, decode(&bytes.chunks(1).collect::<Vec<_>>()), "byte by byte");
    assert!(whole.as_ref().is_none_or(|decoded| decoded.len() <= bytes.len() / 4 * 3));
    // As data: encoded in two padded pieces, it decodes to itself.
    let mut text = Vec::new();
    web::encode(&bytes[..cut], &mut text);
    web::encode(&bytes[cut..], &mut text);
    assert_eq!(decode(&[&text]).as_deref(), Some(bytes));
    // As trailers that HTTP/2 permits: one part with a correct length and the same number of lines.
    let fields: Vec<_> = bytes.split(|byte| *byte == b'\n').map(pair).collect();
    if let Ok(lines) = decode_trailers(fields.iter().copied(), &LIMITS) {
        let mut part = Vec::new();
        web::trailers(&lines, &mut part);
        let (head, body) = part.split_at(5);
        assert_eq!(head[0], 0x80);
        assert_eq!(usize::try_from(u32::from_be_bytes([head[1], head[2], head[3], head[4]])), Ok(body.len()));
        let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(count(body), count(&lines));
        assert!(body.is_empty() || body.ends_with(b"\r\n"));
        let _ = GrpcStatus::of_lines(&lines);
    }
    let _ = GrpcKind::of(bytes).map(|kind| kind.translated(bytes));
});

fn pair(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b':') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, b""),
    }
}

fn decode(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let (mut decoder, mut out) = (web::Base64Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.decode(piece, &mut out).ok()?;
    }
    decoder.is_whole().then_some(out)
}
