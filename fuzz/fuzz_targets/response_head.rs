//! Response heads: the parser's result is the same however the bytes are cut into reads, and the forwarded
//! fields are the received ones.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::h1::{BodyLength, Progress, ResponseParser};
use tollgate_http::{HeadError, HeadLimits, Method, Name, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 200, head: 1000, fields: 20 };

fuzz_target!(|input: &[u8]| {
    // The method of the request and the position of the cut, then the head.
    let [asked, high, low, bytes @ ..] = input else { return };
    let asked = if *asked == b'H' { Method::Head } else { Method::Get };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    let whole = parse(asked, bytes, &[bytes.len()]);
    assert_eq!(whole, parse(asked, bytes, &[cut, bytes.len()]), "cut at {cut}");
    assert_eq!(whole, parse(asked, bytes, &(0..=bytes.len()).collect::<Vec<_>>()), "byte by byte");
});

/// Returns the parsed head as text with its length, or the error; `None` if the head has not ended.
fn parse(asked: Method, bytes: &[u8], reads: &[usize]) -> Option<Result<(usize, String), HeadError>> {
    let mut head = ResponseHead::default();
    let mut parser = ResponseParser::default();
    for end in reads {
        let given = bytes[..*end].to_vec();
        match parser.advance(&given, asked, &mut head, &LIMITS) {
            Ok(Progress::Partial) => assert!(given.len() < LIMITS.head, "no end of it"),
            Err(error) => return Some(Err(error)),
            Ok(Progress::Complete(end)) => {
                assert!(end <= given.len() && end <= LIMITS.head);
                check(asked, &head, &given[..end]);
                return Some(Ok((end, format!("{head:?}"))));
            }
        }
    }
    None
}

fn check(asked: Method, head: &ResponseHead, received: &[u8]) {
    // A repaired head must be valid, and parse to the same result.
    if head.head.bytes() != received {
        let mended = head.head.bytes();
        let (mut again, limits) = (ResponseHead::default(), HeadLimits { head: 4 * LIMITS.head, ..LIMITS });
        let read = ResponseParser::default().advance(mended, asked, &mut again, &limits);
        assert_eq!(read, Ok(Progress::Complete(mended.len())), "mended, and not valid");
        assert_eq!(format!("{head:?}"), format!("{again:?}"), "mended to something else");
        return check(asked, &again, mended);
    }
    assert!(received.ends_with(b"\r\n\r\n"));
    let line_end = received.windows(2).position(|pair| pair == b"\r\n").expect("a line");
    assert!((100..=999).contains(&head.status) && head.head.fields().len() <= LIMITS.fields);
    assert!(received[..line_end].ends_with(head.head.slice(head.status_line)));
    assert!(head.head.slice(head.status_line).starts_with(head.status.to_string().as_bytes()));

    let mut forwarded = Vec::new();
    head.head.copy_fields(&mut forwarded, |_| true);
    assert_eq!(forwarded, received[line_end + 2..received.len() - 2], "forwarded is not what was received");
    assert_eq!(forwarded.iter().filter(|byte| **byte == b'\n').count(), head.head.fields().len());

    let count = |name| head.head.all(name).count();
    let (lengths, codings) = (count(Name::ContentLength), count(Name::TransferEncoding));
    assert!(lengths + codings <= 1, "two ways to find the end");
    match head.length {
        BodyLength::None => assert!(asked == Method::Head || matches!(head.status, ..200 | 204 | 304)),
        BodyLength::Exactly(length) => {
            assert_eq!(head.head.get(Name::ContentLength), Some(length.to_string().as_bytes()));
        }
        BodyLength::Chunked => assert_eq!(codings, 1),
        BodyLength::UntilClose => assert!(lengths + codings == 0 && !head.keep_alive),
    }
}
