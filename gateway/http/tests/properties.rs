//! Properties for any input: the result does not depend on the reads that bring it, what is written is what
//! was parsed, and nothing panics.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_http::h1::{
    BodyError, BodyLength, BodyReader, ChunkHeader, LAST_CHUNK, Progress, RequestParser, ResponseParser,
};
use tollgate_http::{HeadError, HeadLimits, Method, RequestHead, ResponseHead};

/// A result in a comparable form, with everything that the head holds.
type Parsed = Result<(usize, String), HeadError>;

/// Feeds a parser the input up to each offset, each time from another address.
fn in_reads(
    input: &[u8],
    ends: impl IntoIterator<Item = usize>,
    mut advance: impl FnMut(&[u8]) -> Result<Progress, HeadError>,
) -> Option<Result<usize, HeadError>> {
    for end in ends.into_iter().chain([input.len()]) {
        let moved = input[..end].to_vec();
        match advance(&moved) {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete(used)) => {
                assert!(used <= end, "more than it was given");
                return Some(Ok(used));
            }
            Err(error) => return Some(Err(error)),
        }
    }
    None
}

fn request(input: &[u8], ends: impl IntoIterator<Item = usize>, limits: &HeadLimits) -> Option<Parsed> {
    let (mut parser, mut head) = (RequestParser::default(), RequestHead::default());
    let result = in_reads(input, ends, |bytes| parser.advance(bytes, &mut head, limits))?;
    Some(result.map(|used| (used, format!("{head:?}"))))
}

fn response(input: &[u8], ends: impl IntoIterator<Item = usize>, limits: &HeadLimits) -> Option<Parsed> {
    let (mut parser, mut head) = (ResponseParser::default(), ResponseHead::default());
    let result = in_reads(input, ends, |bytes| parser.advance(bytes, Method::Get, &mut head, limits))?;
    Some(result.map(|used| (used, format!("{head:?}"))))
}

/// Text that resembles a head: significant pieces in any order.
fn nearly_a_head(first: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let pieces = select(
        &[
            "\r\n",
            "\r\n",
            "\r\n",
            "\r\n\r\n",
            "\n",
            "\r",
            "\t",
            " ",
            ":",
            ": ",
            ",",
            "\0",
            "\u{7f}",
            "\u{e9}",
            "a",
            "X-A: b",
            "Host: a",
            "Host: a\r\n",
            "Content-Length: 5\r\n",
            "Content-Length: 0",
            "Transfer-Encoding: chunked\r\n",
            "Connection: close, x-a\r\n",
            "Connection: upgrade\r\n",
            "Upgrade: b\r\n",
            "Expect: 100-continue\r\n",
            "TE: trailers",
            "Content_Length: 3\r\n",
            "long: 0123456789012345678901234567890123456789\r\n",
            "chunked",
            "close",
            "5",
        ][..],
    );
    (select(first), vec(pieces, 0..12), any::<bool>()).prop_map(|(first, pieces, ended)| {
        let end = if ended { "\r\n\r\n" } else { "" };
        [first, &pieces.concat(), end].concat().into_bytes()
    })
}

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n",
    "GET / HTTP/1.1\r\n",
    "POST http://a/b?c HTTP/1.1\r\nHost: a\r\n",
    "GET / HTTP/1.0\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n",
    "CONNECT a:80 HTTP/1.1\r\n",
    "G",
    "GET / HTTP/1.1",
    "",
    "GET /0123456789012345",
    "GET / HTTP/2.0\r\n",
];
const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 101 x\r\n",
    "HTTP/1.1 304 \r\n",
    "HTTP/1.1 200",
    "HTTP/1",
    "",
    "HTTP/2.0 200\r\n",
    "X",
];

fn limits() -> impl Strategy<Value = HeadLimits> {
    prop_oneof![
        Just(HeadLimits { line: 1000, head: 4000, fields: 50 }),
        (0usize..40, 0usize..200, 0usize..6).prop_map(|(line, head, fields)| HeadLimits {
            line,
            head,
            fields
        }),
    ]
}

/// Checks that one read, a read for each byte, and two reads split at any offset give the same result.
fn any_split_is_the_same(
    input: &[u8],
    limits: &HeadLimits,
    parse: impl Fn(&[u8], Vec<usize>, &HeadLimits) -> Option<Parsed>,
) -> Result<(), TestCaseError> {
    let whole = parse(input, vec![], limits);
    prop_assert_eq!(&whole, &parse(input, (0..input.len()).collect(), limits), "byte by byte");
    for at in 0..input.len() {
        prop_assert_eq!(&whole, &parse(input, vec![at], limits), "parted at {}", at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn requests_in_any_reads(input in nearly_a_head(REQUESTS), limits in limits()) {
        any_split_is_the_same(&input, &limits, request)?;
    }

    #[test]
    fn responses_in_any_reads(input in nearly_a_head(RESPONSES), limits in limits()) {
        any_split_is_the_same(&input, &limits, response)?;
    }

    #[test]
    fn arbitrary_bytes_panic_nothing(input in vec(any::<u8>(), 0..200), limits in limits()) {
        any_split_is_the_same(&input, &limits, request)?;
        any_split_is_the_same(&input, &limits, response)?;
        for length in [BodyLength::None, BodyLength::Exactly(7), BodyLength::Chunked, BodyLength::UntilClose] {
            prop_assert_eq!(body(length, &input, &[]), body(length, &input, &vec![1; input.len()]));
        }
    }

    #[test]
    fn parsed_heads_are_written_unchanged(
        fields in vec(("[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,20}", "[ \t]{0,3}", "([!-~\u{80}-\u{ff}][ -~\t]{0,30})?", "[ \t]{0,3}"), 0..20),
        keep in vec(any::<bool>(), 20),
    ) {
        let lines: Vec<String> = fields.iter().map(|(n, a, v, b)| format!("X{n}:{a}{v}{b}\r\n")).collect();
        let text = format!("GET / HTTP/1.0\r\n{}\r\n", lines.concat());
        let mut head = RequestHead::default();
        let limits = HeadLimits { line: 100, head: 10_000, fields: 20 };
        let parsed = RequestParser::default().advance(text.as_bytes(), &mut head, &limits);
        prop_assert_eq!(parsed, Ok(Progress::Complete(text.len())));
        prop_assert_eq!(head.head.bytes(), text.as_bytes());
        for (field, (name, _, value, _)) in head.head.fields().iter().zip(&fields) {
            prop_assert_eq!(head.slice(field.name).to_vec(), format!("X{name}").into_bytes());
            prop_assert_eq!(head.slice(field.value), value.trim_matches([' ', '\t']).as_bytes());
        }
        let mut out = b"before".to_vec();
        head.head.copy_fields(&mut out, |_| true);
        prop_assert_eq!(&out, &format!("before{}", lines.concat()).into_bytes());

        let (mut out, mut kept) = (Vec::new(), keep.iter());
        head.head.copy_fields(&mut out, |_| *kept.next().unwrap());
        let expected: String = lines.into_iter().zip(&keep).filter(|(_, keep)| **keep).map(|(line, _)| line).collect();
        prop_assert_eq!(out, expected.into_bytes());
    }

    #[test]
    fn chunks_written_are_read_back(
        chunks in vec(vec(any::<u8>(), 1..80), 0..8),
        trailers in vec("X-[a-z]{1,9}: [ -~]{0,20}\r\n", 0..4),
        reads in vec(1usize..40, 0..60),
        after in vec(any::<u8>(), 0..10),
    ) {
        let mut coded = Vec::new();
        for chunk in &chunks {
            coded.extend_from_slice(ChunkHeader::new(chunk.len()).as_bytes());
            coded.extend_from_slice(chunk);
            coded.extend_from_slice(b"\r\n");
        }
        coded.extend_from_slice(LAST_CHUNK);
        coded.extend_from_slice(trailers.concat().as_bytes());
        coded.extend_from_slice(b"\r\n");
        let length = coded.len();
        coded.extend_from_slice(&after);
        let read = body(BodyLength::Chunked, &coded, &reads);
        prop_assert_eq!(read, (chunks.concat(), Ok((length, true, trailers.concat().into_bytes()))));
    }

    #[test]
    fn chunks_in_any_reads(
        pieces in vec(select(&[
            "0", "1", "5", "a", "F", "00", "\r\n", "\r\n", "\r\n", "\r", "\n", ";", ";a=b", "hello", "x", "5\r\nhello\r\n",
            "1\r\nx\r\n", "a;b=\"c\"\r\n0123456789\r\n", " ; a=b", "=", "\"", "\t", "0\r\n", "0\r\n\r\n", "X-A: b\r\n", "Host: a\r\n", " ", "\0",
        ][..]), 0..20),
        reads in vec(1usize..9, 0..40),
    ) {
        let input = pieces.concat().into_bytes();
        let whole = body(BodyLength::Chunked, &input, &[]);
        let parted = body(BodyLength::Chunked, &input, &reads);
        let single = body(BodyLength::Chunked, &input, &vec![1; input.len()]);
        prop_assert_eq!(&whole.1, &parted.1);
        prop_assert_eq!(&whole.1, &single.1);
        if whole.1.is_ok() {
            prop_assert_eq!(&whole.0, &parted.0);
            prop_assert_eq!(&whole.0, &single.0);
        }
    }

    #[test]
    fn other_bodies_in_any_reads(
        input in vec(any::<u8>(), 0..100),
        length in prop_oneof![Just(BodyLength::None), (0u64..120).prop_map(BodyLength::Exactly), Just(BodyLength::UntilClose)],
        reads in vec(1usize..40, 0..20),
    ) {
        let whole = body(length, &input, &[]);
        let expected = match length {
            BodyLength::Exactly(length) => usize::try_from(length).unwrap().min(input.len()),
            BodyLength::UntilClose => input.len(),
            BodyLength::None | BodyLength::Chunked => 0,
        };
        prop_assert_eq!(&whole.0, &input[..expected]);
        prop_assert_eq!(whole, body(length, &input, &reads));
    }
}

/// Reads a body in reads of these sizes, then the remainder at once. Returns its data, and either the bytes
/// used, whether it ended and its trailers, or the error.
#[allow(clippy::type_complexity, reason = "named nowhere else")]
fn body(
    length: BodyLength,
    input: &[u8],
    reads: &[usize],
) -> (Vec<u8>, Result<(usize, bool, Vec<u8>), BodyError>) {
    let mut reader = BodyReader::new(length);
    let (mut data, mut at) = (Vec::new(), 0usize);
    for size in reads.iter().copied().chain([usize::MAX]) {
        let mut piece = input[at..input.len().min(at.saturating_add(size))].to_vec();
        match reader.read(&mut piece) {
            Ok(step) => {
                assert!(step.data.end <= step.used && step.used <= piece.len());
                assert!(step.used == piece.len() || reader.is_done(), "stopped before the end");
                data.extend_from_slice(&piece[step.data]);
                at += step.used;
            }
            Err(error) => return (Vec::new(), Err(error)),
        }
    }
    let trailers = if reader.is_done() { reader.trailers().to_vec() } else { Vec::new() };
    (data, Ok((at, reader.is_done(), trailers)))
}
