//! Request heads: the parser's result is the same however the bytes are cut into reads, and the forwarded
//! fields are the received ones.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_http::h1::{BodyLength, Progress, RequestParser};
use tollgate_http::{HeadError, HeadLimits, Name, RequestHead, Version};

const LIMITS: HeadLimits = HeadLimits { line: 200, head: 1000, fields: 20 };

fuzz_target!(|input: &[u8]| {
    // The position of the cut, then the head.
    let [high, low, bytes @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    let whole = parse(bytes, &[bytes.len()]);
    assert_eq!(whole, parse(bytes, &[cut, bytes.len()]), "cut at {cut}");
    assert_eq!(whole, parse(bytes, &(0..=bytes.len()).collect::<Vec<_>>()), "byte by byte");
});

/// Returns the parsed head as text with its length, or the error; `None` if the head has not ended.
fn parse(bytes: &[u8], reads: &[usize]) -> Option<Result<(usize, String), HeadError>> {
    let mut head = RequestHead::default();
    let mut parser = RequestParser::default();
    for end in reads {
        let given = bytes[..*end].to_vec();
        match parser.advance(&given, &mut head, &LIMITS) {
            Ok(Progress::Partial) => assert!(given.len() < LIMITS.head, "no end of it"),
            Err(error) => return Some(Err(error)),
            Ok(Progress::Complete(end)) => {
                assert!(end <= given.len() && end <= LIMITS.head);
                check(&head, &given[..end]);
                return Some(Ok((end, format!("{head:?}"))));
            }
        }
    }
    None
}

fn check(head: &RequestHead, received: &[u8]) {
    assert_eq!(head.head.bytes(), received);
    assert!(received.ends_with(b"\r\n\r\n"));
    let line_end = received.windows(2).position(|pair| pair == b"\r\n").expect("a line");
    assert!(line_end <= LIMITS.line && head.head.fields().len() <= LIMITS.fields);

    let mut forwarded = Vec::new();
    head.head.copy_fields(&mut forwarded, |_| true);
    assert_eq!(forwarded, received[line_end + 2..received.len() - 2], "forwarded is not what was received");

    // A second parser that splits at LF and at the first colon must see the same fields.
    let lines: Vec<&[u8]> = forwarded.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), head.head.fields().len());
    for (line, field) in lines.iter().zip(head.head.fields()) {
        let colon = line.iter().position(|byte| *byte == b':').expect("a colon");
        assert_eq!(head.slice(field.name), &line[..colon]);
        assert_eq!(head.slice(field.value), line[colon + 1..].trim_ascii());
        assert_eq!(field.id, Name::of(&line[..colon]));
        assert!(!field.nominated || field.id.can_be_nominated(), "a peer took away what is the gateway's");
    }

    // There is exactly one way to find the end of the body.
    let count = |name| head.head.all(name).count();
    match head.length {
        BodyLength::None => assert_eq!(count(Name::ContentLength) + count(Name::TransferEncoding), 0),
        BodyLength::Exactly(length) => {
            assert_eq!((count(Name::ContentLength), count(Name::TransferEncoding)), (1, 0));
            assert_eq!(head.head.get(Name::ContentLength), Some(length.to_string().as_bytes()));
        }
        BodyLength::Chunked => {
            assert_eq!((count(Name::ContentLength), count(Name::TransferEncoding)), (0, 1));
            assert_eq!(head.version, Version::Http11);
        }
        BodyLength::UntilClose => panic!("a request cannot end with the connection"),
    }
    assert!(count(Name::Host) <= 1);
    let target = head.slice(head.target);
    assert!(target.iter().all(u8::is_ascii_graphic));
    for part in [head.path, head.query.unwrap_or_default()] {
        assert!(part.is_empty() || (head.target.start <= part.start && part.end <= head.target.end));
    }
    assert!(head.slice(head.authority).starts_with(head.slice(head.host)));
}
