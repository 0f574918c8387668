//! Tests the chunked coding: every split of the input, and every refusal.

use super::*;
use crate::h1::{BodyLength, BodyReader};

/// Reads a body in steps of `step` bytes. Returns its data, its trailers, and the number of bytes used.
fn read(input: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>, usize), BodyError> {
    read_by(BodyReader::new(BodyLength::Chunked), input, step)
}

fn read_by(
    mut reader: BodyReader,
    input: &[u8],
    step: usize,
) -> Result<(Vec<u8>, Vec<u8>, usize), BodyError> {
    let (mut data, mut at) = (Vec::new(), 0);
    while at < input.len() && !reader.is_done() {
        let mut piece = input[at..input.len().min(at.saturating_add(step))].to_vec();
        let read = reader.read(&mut piece)?;
        data.extend_from_slice(&piece[read.data]);
        at += read.used;
    }
    assert!(reader.is_done(), "cut: {}", input.escape_ascii());
    Ok((data, reader.trailers().to_vec(), at))
}

fn both(input: &[u8]) -> Result<(Vec<u8>, Vec<u8>, usize), BodyError> {
    let whole = read(input, usize::MAX);
    assert_eq!(whole, read(input, 1), "{}", input.escape_ascii());
    whole
}

/// The same for an endpoint's body.
fn of_response(input: &[u8]) -> Result<(Vec<u8>, Vec<u8>, usize), BodyError> {
    let read = |step| read_by(BodyReader::for_response(BodyLength::Chunked), input, step);
    let whole = read(usize::MAX);
    assert_eq!(whole, read(1), "{}", input.escape_ascii());
    whole
}

#[test]
fn bodies() {
    for (input, data, trailers) in [
        ("0\r\n\r\n", "", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello", ""),
        ("5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n000\r\n\r\n", "hello world", ""),
        ("A\r\n0123456789\r\n0000000000000000\r\n\r\n", "0123456789", ""),
        ("a;b=c;d=\"e\"\r\n\r\n0\r\n\r\n67\r\r\n0;x\r\n\r\n", "\r\n0\r\n\r\n67\r", ""),
        ("2 ; a=b\r\nxy\r\n0\r\n\r\n", "xy", ""),
        ("2\t;\ta \t=\t b ;c\r\nxy\r\n0 ;d\r\n\r\n", "xy", ""),
        ("2;a=\"b;c = [\\\"\u{e9}\\\\\t\" ; d\r\nxy\r\n0;e=\"\"\r\n\r\n", "xy", ""),
        ("0\r\nX-Sum: 1\r\nETag:a \r\n\r\n", "", "X-Sum: 1\r\nETag:a \r\n"),
        // Fields that are barred from trailers are dropped.
        ("0\r\nContent-Length: 1\r\nX: y\r\nHost: a\r\nx_real_ip: 1\r\n\r\n", "", "X: y\r\n"),
        ("0\r\nX_Real_IP: 1\r\nauthorization: a\r\n\r\n", "", ""),
    ] {
        let followed = [input.as_bytes(), b"GET / HTTP/1.1"].concat();
        let Ok((got, lines, used)) = both(&followed) else { panic!("{input:?}") };
        assert_eq!(got, data.as_bytes(), "{input:?}");
        assert_eq!(
            (lines.escape_ascii().to_string(), used),
            (trailers.as_bytes().escape_ascii().to_string(), input.len()),
            "{input:?}"
        );
    }
}

#[test]
fn bad_chunks() {
    for input in [
        // Sizes.
        "\r\n",
        "\n",
        " 1\r\n",
        "0x1\r\n",
        "x\r\n",
        "_\r\n",
        "1_0\r\n",
        "+1\r\n",
        "-1\r\n",
        "1 \r\n",
        "1\t\r\n",
        "1 a\r\n",
        "g\r\n",
        "1,\r\n",
        ";a\r\n",
        "\u{ff11}\r\n",
        "1.0\r\n",
        "\"1\"\r\n",
        "1000000000000000\r\n",
        "8000000000000000\r\n",
        "ffffffffffffffff\r\n",
        "10000000000000000\r\n",
        "00000000000000001\r\n",
        "fffffffffffffffff\r\n",
        // Ends of lines.
        "1\nx\r\n",
        "1\r\r\n",
        "1\rx",
        "1\r\nx\n",
        "1\r\nx\r\r",
        "1\r\nx0\r\n",
        "1\r\nxx",
        "1\r\nx\rX",
        "1\r\nx 0\r\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\n\rX",
        "0\r\n\r\r\n",
        // Extensions.
        "1;\r\n",
        "1; \r\n",
        "1;a;\r\n",
        "1;;a\r\n",
        "1;=b\r\n",
        "1;a=\r\n",
        "1;a= \r\n",
        "1;a \r\n",
        "1;a=b \r\n",
        "1;a=\"b\" \r\n",
        "1 ;\r\n",
        "1;a b\r\n",
        "1;a[b\r\n",
        "1;[a\r\n",
        "1;a=b c\r\n",
        "1;a=[b\r\n",
        "1;a=b=c\r\n",
        "1;a=\"\r\n",
        "1;a=\"b\r\n",
        "1;a=\"b\"c\r\n",
        "1;a=\"b\\\"\r\n",
        "1;a=\"\\\r\n\"\r\n",
        "1;a=\"\u{7f}\"\r\n",
        "1;\u{e9}\r\n",
        "1;a\nb\r\n",
        "1;a\rb\r\n",
        "1;\0\r\n",
        "1;\u{7f}\r\n",
        "1;a\n\r\n",
        "0;\n\r\n",
        // Trailers.
        "0\r\nX\r\n\r\n",
        "0\r\n: y\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\nX: y\rZ\r\n\r\n",
        "0\r\nContent-Length : 1\r\n\r\n",
    ] {
        let input = format!("3\r\nabc\r\n{input}");
        assert_eq!(both(input.as_bytes()).map(|_| ()), Err(BodyError::Chunk), "{input:?}");
        assert_eq!(both(&input.as_bytes()[8..]).map(|_| ()), Err(BodyError::Chunk), "first: {input:?}");
    }
}

#[test]
fn endpoints_may_pad_their_lines() {
    for (input, data, trailers) in [
        ("2  \r\nxy\r\n0\t\r\n\r\n", "xy", ""),
        ("2;a \r\nx\r\r\n0;b=c \t\r\n\r\n", "x\r", ""),
        ("0;a=\"b\"  \r\nX-A : b\r\nx-b\t:c\r\nHost : a\r\n\r\n", "", "X-A: b\r\nx-b:c\r\n"),
    ] {
        let Ok((got, lines, _)) = of_response(input.as_bytes()) else { panic!("{input:?}") };
        assert_eq!((got.as_slice(), lines.as_slice()), (data.as_bytes(), trailers.as_bytes()), "{input:?}");
        assert!(both(input.as_bytes()).is_err(), "not from a client: {input:?}");
    }
    for input in [
        "1;\r\n",
        "1; \r\n",
        "1;a[b\r\n",
        "1;a=\"\r\n",
        " 1\r\n",
        "1 a\r\n",
        "0\r\n : b\r\n",
        "0\r\nX y: b\r\n",
        "0\r\nX\r: b\r\n",
        "0\r\nX\u{c}: b\r\n",
    ] {
        assert_eq!(of_response(input.as_bytes()), Err(BodyError::Chunk), "{input:?}");
    }
}

#[test]
fn rejected_bytes_can_be_shown() {
    for (input, shown) in [
        ("3\r\nabc\r\n5;a[b\r\nhello", "5;a[b"),
        ("x\r\n", "x"),
        ("3\r\nabc\r\n0\r\nX: y\r\nZ : y\r\n\r\n", "Z : y"),
        ("0\r\nX-Token : y\r\n\r\n", "X-Token :"),
        ("0\r\nX-Token: y\u{1}z\r\n\r\n", "X-Token: \u{1}"),
        ("0\r\nX: y\nZ: z\r\n\r\n", "X: y\n"),
        ("3\r\nabcdef\r\n", "d"),
    ] {
        let mut reader = BodyReader::new(BodyLength::Chunked);
        assert_eq!(reader.rejected_bytes(), b"");
        assert!(reader.read(&mut input.as_bytes().to_vec()).is_err());
        assert_eq!(String::from_utf8_lossy(reader.rejected_bytes()), shown, "{input:?}");
    }
    // A name that arrived in another read than its value is still shown.
    let mut reader = BodyReader::new(BodyLength::Chunked);
    assert!(reader.read(&mut b"0\r\nX-Tok".to_vec()).is_ok());
    assert!(reader.read(&mut b"en : y\r\n\r\n".to_vec()).is_err());
    assert_eq!(reader.rejected_bytes(), b"X-Token :");
}

#[test]
fn sizes_below_2_to_the_60() {
    let mut reader = BodyReader::new(BodyLength::Chunked);
    let mut input = b"0fffffffffffffff\r\nx".to_vec();
    let step = reader.read(&mut input).unwrap();
    assert_eq!((step.used, step.data), (19, 18..19));
    assert!(!reader.is_done() && reader.remaining().is_none());
}

#[test]
fn a_failed_body_stays_failed() {
    let mut reader = BodyReader::new(BodyLength::Chunked);
    assert!(reader.read(&mut b"x".to_vec()).is_err());
    assert!(reader.read(&mut b"0\r\n\r\n".to_vec()).is_err());
    assert!(!reader.is_done() && !reader.end_of_stream());
}

#[test]
fn extensions_are_bounded() {
    let chunk = |extension: usize| [&b"1;"[..], &vec![b'e'; extension], b"\r\nx\r\n"].concat();
    // White space counts, even without an extension.
    let padded = |blanks: usize| [&b"1"[..], &vec![b' '; blanks], b"\r\nx\r\n0\r\n\r\n"].concat();
    assert!(of_response(&padded(1024)).is_ok() && of_response(&padded(1025)).is_err());
    let body = |chunks: &[usize]| {
        let chunks: Vec<u8> = chunks.iter().flat_map(|extension| chunk(*extension)).collect();
        both(&[&chunks[..], b"0\r\n\r\n"].concat()).map(|(data, ..)| data.len())
    };
    assert_eq!(body(&[1024]), Ok(1));
    assert_eq!(body(&[1025]), Err(BodyError::Chunk));
    assert_eq!(body(&[64 * 1024]), Err(BodyError::Chunk));
    assert_eq!(body(&[1024; 16]), Ok(16));
    assert_eq!(body(&[[1024; 16].as_slice(), &[1]].concat()), Err(BodyError::Chunk));
}

#[test]
fn trailers_are_bounded_whether_kept_or_dropped() {
    let read = |text: &[u8], limits: &HeadLimits| {
        let mut reader = BodyReader::new(BodyLength::Chunked).with_trailer_limits(limits);
        let mut input = [&b"0\r\n"[..], text, b"\r\n"].concat();
        reader.read(&mut input).map(|_| reader.trailers().len())
    };
    let limits = HeadLimits { line: 0, head: 20_000, fields: 50 };
    for name in ["x-a", "host"] {
        let section = |size: usize, fields: usize| {
            let mut text = format!("{name}: a\r\n").repeat(fields - 1).into_bytes();
            text.extend(
                [format!("{name}:").as_bytes(), &vec![b'v'; size - text.len() - name.len() - 3], b"\r\n"]
                    .concat(),
            );
            assert_eq!(text.len(), size);
            text
        };
        let kept = |size| if name == "host" { 0 } else { size };
        assert_eq!(read(&section(20_000, 50), &limits), Ok(kept(20_000)), "{name}");
        assert_eq!(read(&section(20_001, 50), &limits), Err(BodyError::Trailers), "{name}");
        assert_eq!(read(&section(10_000, 51), &limits), Err(BodyError::Trailers), "{name}");
        // The default limits.
        let both =
            |text: &[u8]| both(&[&b"0\r\n"[..], text, b"\r\n"].concat()).map(|(_, kept, _)| kept.len());
        assert_eq!(both(&section(8192, 100)), Ok(kept(8192)), "{name}");
        assert_eq!(both(&section(8193, 100)), Err(BodyError::Trailers), "{name}");
    }
}

#[test]
fn other_lengths() {
    let mut input = *b"hello";
    let mut exact = BodyReader::new(BodyLength::Exactly(3));
    assert_eq!((exact.remaining(), exact.is_done(), exact.end_of_stream()), (Some(3), false, false));
    let step = exact.read(&mut input).unwrap();
    assert_eq!((step.used, step.data, exact.is_done()), (3, 0..3, true));
    assert_eq!(exact.read(&mut input).unwrap().used, 0);

    assert!(BodyReader::new(BodyLength::None).is_done() && BodyReader::new(BodyLength::Exactly(0)).is_done());

    let mut open = BodyReader::new(BodyLength::UntilClose);
    assert_eq!(open.read(&mut input).unwrap().used, 5);
    assert!(!open.is_done() && open.end_of_stream() && open.is_done());
    assert!(!BodyReader::new(BodyLength::Chunked).end_of_stream());
}

#[test]
fn no_size_overflows() {
    let largest = (1_u64 << 60) - 1;
    for (size, left) in [
        ("fffffffffffffff".to_owned(), largest),
        ("0fffffffffffffff".to_owned(), largest),
        (format!("{:016x}", 1), 1),
    ] {
        let mut chunked = Chunked::new(false);
        let mut line = format!("{size}\r\n").into_bytes();
        assert_eq!(chunked.read(&mut line), Ok((line.len(), 0..0)), "{size}");
        assert_eq!(chunked.left, left);
    }
    for size in [
        format!("{:x}", largest + 1),
        "00fffffffffffffff".to_owned(),
        format!("{:x}", i64::MAX),
        format!("{:x}", u64::MAX),
        format!("{:x}", u128::from(u64::MAX) + 1),
        "0".repeat(17),
        "0".repeat(100_000),
        "f".repeat(100_000),
        "-1".to_owned(),
    ] {
        for is_lenient in [false, true] {
            let read = Chunked::new(is_lenient).read(&mut format!("{size}\r\n").into_bytes());
            assert_eq!(read, Err(BodyError::Chunk), "{size}");
        }
    }
}
