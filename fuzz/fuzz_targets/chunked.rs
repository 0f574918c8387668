//! Chunked bodies: the data, the trailers and the end are the same however the bytes are cut into reads. A
//! second, plain reader that sees the whole body at once must agree.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::Name;
use tollgate_http::h1::{BodyError, BodyLength, BodyReader, ChunkHeader, LAST_CHUNK};

/// The result of a whole body: its data, its trailers, and how many input bytes it used.
type Body = (Vec<u8>, Vec<u8>, usize);

fuzz_target!(|input: &[u8]| {
    // The position of the cut, then the body.
    let [high, low, bytes @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    let lenient = read_by(BodyReader::for_response, bytes, &[]);
    assert_eq!(lenient, read_by(BodyReader::for_response, bytes, &[cut]), "cut at {cut}");
    assert_eq!(lenient, read_by(BodyReader::for_response, bytes, &vec![1; bytes.len()]), "byte by byte");
    let whole = read(bytes, &[]);
    assert_eq!(whole, read(bytes, &[cut]), "cut at {cut}");
    assert_eq!(whole, read(bytes, &vec![1; bytes.len()]), "byte by byte");
    if let Some(Ok(_)) = whole {
        assert_eq!(whole, lenient, "what a client may send an endpoint may send too");
    }

    let Some(Ok((data, trailers, used))) = whole else { return };
    let (expected, lines) = plainly(&bytes[..used]).expect("a second reader finds the body's end elsewhere");
    assert_eq!(data, expected);
    let kept: Vec<&[u8]> = lines
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.split(|byte| *byte == b':').next().map(Name::of) == Some(Name::Other))
        .collect();
    assert_eq!(trailers, kept.concat());

    // The re-encoded body reads the same.
    let mut coded = Vec::new();
    for chunk in data.chunks(7) {
        coded.extend_from_slice(ChunkHeader::new(chunk.len()).as_bytes());
        coded.extend_from_slice(chunk);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(LAST_CHUNK);
    coded.extend_from_slice(&trailers);
    coded.extend_from_slice(b"\r\n");
    let length = coded.len();
    assert_eq!(read(&coded, &[]), Some(Ok((data, trailers, length))));
});

/// Reads pieces of these sizes, then the rest at once. Returns `None` if the body has not ended.
fn read(bytes: &[u8], reads: &[usize]) -> Option<Result<Body, BodyError>> {
    read_by(BodyReader::new, bytes, reads)
}

fn read_by(
    reader: impl Fn(BodyLength) -> BodyReader,
    bytes: &[u8],
    reads: &[usize],
) -> Option<Result<Body, BodyError>> {
    let mut reader = reader(BodyLength::Chunked);
    let (mut data, mut at) = (Vec::new(), 0);
    for size in reads.iter().copied().chain([bytes.len()]) {
        let mut piece = bytes[at..bytes.len().min(at + size)].to_vec();
        let step = match reader.read(&mut piece) {
            Ok(step) => step,
            Err(error) => return Some(Err(error)),
        };
        assert!(step.data.end <= step.used && step.used <= piece.len());
        assert!(step.used == piece.len() || reader.is_done());
        data.extend_from_slice(&piece[step.data]);
        at += step.used;
    }
    reader.is_done().then(|| Ok((data, reader.trailers().to_vec(), at)))
}

/// Returns the data and the trailer section of exactly one body, read by a plain second parser.
fn plainly(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut data = Vec::new();
    loop {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let size = bytes[..end].split(|byte| *byte == b';').next()?;
        let size =
            usize::from_str_radix(std::str::from_utf8(size).ok()?.trim_end_matches([' ', '\t']), 16).ok()?;
        bytes = &bytes[end + 2..];
        if size == 0 {
            return Some((data, bytes.strip_suffix(b"\r\n")?));
        }
        data.extend_from_slice(bytes.get(..size)?);
        bytes = bytes[size..].strip_prefix(b"\r\n")?;
    }
}
