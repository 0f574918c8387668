//! Tests the parser of request heads.

use super::*;
use crate::Head;

const LIMITS: HeadLimits = HeadLimits { line: 64, head: 256, fields: 4 };

fn parse(text: &[u8]) -> Result<(Progress, RequestHead), HeadError> {
    parse_within(text, &LIMITS)
}

fn parse_within(text: &[u8], limits: &HeadLimits) -> Result<(Progress, RequestHead), HeadError> {
    let mut head = RequestHead::default();
    RequestParser::default().advance(text, &mut head, limits).map(|progress| (progress, head))
}

/// Parses a complete head; the bytes after it must be left alone.
fn whole(text: &str) -> RequestHead {
    match parse(format!("{text}what follows").as_bytes()) {
        Ok((Progress::Complete(end), head)) if end == text.len() => head,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn error(text: &[u8]) -> HeadError {
    match parse(text) {
        Err(error) => error,
        Ok(other) => panic!("{}: {other:?}", text.escape_ascii()),
    }
}

/// The length that a head with these fields declares, or the error.
fn length(start: &str, fields: &str) -> Result<BodyLength, HeadError> {
    parse(format!("{start}\r\nHost: a\r\n{fields}\r\n").as_bytes()).map(|(_, head)| head.length)
}

#[test]
fn request_lines() {
    for (line, method, target) in [
        ("GET / HTTP/1.1", Method::Get, "/"),
        ("get / HTTP/1.1", Method::Other, "/"),
        ("PURGE /a?b HTTP/1.1", Method::Other, "/a?b"),
        ("!#$%&'*+-.^_`|~09azAZ / HTTP/1.1", Method::Other, "/"),
        ("POST //x HTTP/1.1", Method::Post, "//x"),
        ("GET /a\"<>\\^`{|}%2f%00 HTTP/1.0", Method::Get, "/a\"<>\\^`{|}%2f%00"),
        ("OPTIONS * HTTP/1.1", Method::Options, "*"),
    ] {
        let head = whole(&format!("{line}\r\nHost: a\r\n\r\n"));
        assert_eq!((head.method, head.slice(head.target)), (method, target.as_bytes()), "{line}");
        assert!(line.as_bytes().starts_with(head.slice(head.method_text)), "{line}");
    }
}

#[test]
fn bad_request_lines() {
    for line in [
        "",
        " ",
        "GET",
        "GET /",
        "GET / ",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /HTTP/1.1",
        "GET HTTP/1.1",
        "GET  HTTP/1.1",
        "GET / HTTP/1.1x",
        "GET / http/1.1",
        "GET / HTTP/1.",
        "GET / HTTP/11",
        "GET / HTTP/1,1",
        "GET / HTTP/01.1",
        "GET / HTTPS/1.1",
        "GET / XTTP/1.1",
        "/ HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET: / HTTP/1.1",
        "GET /#a HTTP/1.1",
        "GET a HTTP/1.1",
        "GET * HTTP/1.1",
        "GET *x HTTP/1.1",
        "OPTIONS ** HTTP/1.1",
        "GET ?a HTTP/1.1",
        "GET ftp://a/ HTTP/1.1",
        "GET http:/a HTTP/1.1",
        "GET http: HTTP/1.1",
        "GET a:80 HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "CONNECT * HTTP/1.1",
        "CONNECT http://a/ HTTP/1.1",
        "CONNECT a:b HTTP/1.1",
        "CONNECT :80 HTTP/1.1",
    ] {
        assert_eq!(error(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()), HeadError::StartLine, "{line:?}");
    }
    for line in [
        &b"GET / HTTP/1.1\nHost: a\n\n"[..],
        b"GET / HTTP/1.1\rHost",
        b"\nGET",
        b"\r\n\r\n",
        b"GET /\0",
        b"\x16\x03",
    ] {
        assert_eq!(error(line), HeadError::StartLine, "{}", line.escape_ascii());
    }
}

#[test]
fn versions() {
    for version in ["0.9", "1.2", "1.9", "2.0", "3.0", "0.0"] {
        assert_eq!(error(format!("GET / HTTP/{version}\r\n").as_bytes()), HeadError::Version, "{version}");
    }
    assert_eq!(error(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), HeadError::Version);
    assert_eq!(whole("GET / HTTP/1.0\r\n\r\n").version, Version::Http10);
}

#[test]
fn fields_as_written() {
    let head = whole("GET / HTTP/1.1\r\nhOsT:a\r\nX-A:\t b \tc\t \r\nX-B:\r\nx-a: \u{e9} \r\n\r\n");
    let text = |name: &str| head.head.get_by_text(name.as_bytes());
    assert_eq!(
        (text("host"), text("x-a"), text("X-b")),
        (Some(&b"a"[..]), Some(&b"b \tc"[..]), Some(&b""[..]))
    );
    assert_eq!(head.head.slice(head.head.fields()[3].value), "\u{e9}".as_bytes());
    assert_eq!(text("x-c"), None);
}

#[test]
fn bad_fields() {
    for field in [
        // Bare LF and CR, in every place.
        "a: b\nc: d\r\n",
        "a: b\n\r\n",
        "a: b\r\r\n",
        "a: b\rc: d\r\n",
        "a:\nb\r\n",
        "a\n: b\r\n",
        "a\r: b\r\n",
        "\n",
        "\r\r\n",
        "\rX: y\r\n",
        "a: b\r\n\n",
        // No name, no colon, white space before it, folded lines.
        ": b\r\n",
        "a\r\n",
        "a b\r\n",
        "a : b\r\n",
        "a\t: b\r\n",
        " a: b\r\n",
        "\ta: b\r\n",
        "a: b\r\n c\r\n",
        "a: b\r\n\tc\r\n",
        "a: b\r\n \r\n",
        // Names that are no token, values with control bytes.
        "a@b: c\r\n",
        "a(b): c\r\n",
        "\"a\": b\r\n",
        "a/b: c\r\n",
        "\u{e9}: b\r\n",
        "\0: b\r\n",
        "a\0: b\r\n",
        "a: b\0\r\n",
        "a: \u{1}b\r\n",
        "a: \u{7f}\r\n",
        "a: \u{b}b\r\n",
        "a: b\u{c}\r\n",
        "a: \u{1b}[0m\r\n",
        "Transfer-Encoding: \u{b}chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        assert_eq!(error(text.as_bytes()), HeadError::Field, "{field:?}");
        let first = format!("POST / HTTP/1.1\r\n{field}\r\n");
        assert_eq!(error(first.as_bytes()), HeadError::Field, "first: {field:?}");
    }
}

#[test]
fn lengths() {
    for (fields, expected) in [
        ("", Ok(BodyLength::None)),
        ("Content-Length: 0\r\n", Ok(BodyLength::Exactly(0))),
        ("content-length:\t5 \r\n", Ok(BodyLength::Exactly(5))),
        ("Content-Length: 9223372036854775807\r\n", Ok(BodyLength::Exactly(i64::MAX as u64))),
        ("Transfer-Encoding: chunked\r\n", Ok(BodyLength::Chunked)),
        ("transfer-encoding:CHUNKED \r\n", Ok(BodyLength::Chunked)),
        ("Transfer-Encoding: gzip, chunked\r\n", Err(HeadError::Coding)),
        ("Transfer-Encoding: deflate , Chunked\r\n", Err(HeadError::Coding)),
    ] {
        assert_eq!(length("POST / HTTP/1.1", fields), expected, "{fields:?}");
    }
    for value in [
        "+5",
        "-1",
        "010",
        "00",
        "",
        "5,5",
        "5, 5",
        "5 5",
        "0x5",
        "5.0",
        "5;",
        "1e3",
        "1_0",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999",
        "\u{661}",
        "five",
    ] {
        let fields = format!("Content-Length: {value}\r\n");
        assert_eq!(length("POST / HTTP/1.1", &fields), Err(HeadError::Length), "{fields:?}");
    }
    for value in [
        "",
        ",",
        ",chunked",
        "chunked,",
        "xchunked",
        "chunkedx",
        "chunked, gzip",
        "chunked, chunked",
        "identity",
        "identity, chunked",
        "chunked;q=1",
        "\"chunked\"",
        "chun\tked",
        "x, chunked",
        "gzip",
        "gzip,, chunked",
    ] {
        let fields = format!("Transfer-Encoding: {value}\r\n");
        assert_eq!(length("POST / HTTP/1.1", &fields), Err(HeadError::Length), "{fields:?}");
    }
    for fields in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: bad\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert_eq!(length("POST / HTTP/1.1", fields), Err(HeadError::Length), "{fields:?}");
    }
    assert_eq!(length("POST / HTTP/1.0", "Transfer-Encoding: chunked\r\n"), Err(HeadError::Length));
    assert_eq!(length("POST / HTTP/1.0", "Content-Length: 5\r\n"), Ok(BodyLength::Exactly(5)));
    // Bodies of GET and HEAD are framed like any other.
    assert_eq!(length("GET / HTTP/1.1", "Content-Length: 5\r\n"), Ok(BodyLength::Exactly(5)));
    assert_eq!(length("HEAD / HTTP/1.1", "Transfer-Encoding: chunked\r\n"), Ok(BodyLength::Chunked));
}

#[test]
fn names_in_disguise_are_not_believed() {
    for name in ["Content_Length", "content.length", "Transfer_Encoding", "X_Forwarded_For", "x-real_ip"] {
        let head = whole(&format!("POST / HTTP/1.1\r\nHost: a\r\n{name}: 5\r\n\r\n"));
        assert_eq!(head.length, BodyLength::None);
        assert_eq!(head.head.fields()[1].id, Name::AmbiguousSpelling);
        assert!(head.head.fields()[1].id.is_hop_by_hop(), "{name} goes no further");
    }
}

#[test]
fn connection_can_name_only_what_the_gateway_does_not_know() {
    let text = "GET / HTTP/1.1\r\nConnection: x-custom, X-Real-IP ,Host,,authorization,content-length\r\nHost: a\r\n\
                X-Real-IP: 1\r\nX-CUSTOM: 2\r\n\r\n";
    let head = whole(text);
    let nominated: Vec<_> = head.head.fields().iter().filter(|field| head.is_nominated(field)).collect();
    assert_eq!(nominated, [&head.head.fields()[3]]);
    assert!(head.nominates && head.keep_alive);
    assert!(!whole("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-real-ip, te\r\n\r\n").nominates);

    let members = |count: usize| {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: a{}\r\n\r\n", ",a".repeat(count - 1));
        parse(text.as_bytes()).map(|_| ())
    };
    assert_eq!((members(32), members(33)), (Ok(()), Err(HeadError::TooMany)));
}

#[test]
fn persistence() {
    for (start, fields, keep_alive) in [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.1", "Connection: keep-alive, Close\r\n", false),
        ("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
        ("HTTP/1.0", "Proxy-Connection: keep-alive\r\n", false),
        ("HTTP/1.1", "Connection: closed\r\n", true),
    ] {
        let head = whole(&format!("GET / {start}\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(head.keep_alive, keep_alive, "{start} {fields:?}");
    }
}

#[test]
fn upgrades() {
    for (version, fields, upgrade) in [
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", Some("websocket")),
        ("1.1", "Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\n", Some("websocket")),
        ("1.1", "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n", Some("a")),
        ("1.1", "Upgrade: websocket\r\n", None),
        ("1.1", "Connection: upgrade\r\n", None),
        ("1.1", "Connection: upgrade\r\nUpgrade:\r\n", None),
        ("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n", None),
    ] {
        let head = whole(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(head.upgrade.map(|value| head.slice(value)), upgrade.map(str::as_bytes), "{fields:?}");
    }
}

#[test]
fn expectations() {
    let expect = |version: &str, fields: &str| {
        let text = format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        parse(text.as_bytes()).map(|(_, head)| head.expect_continue)
    };
    assert_eq!(expect("1.1", "Expect: 100-continue\r\nContent-Length: 5\r\n"), Ok(true));
    assert_eq!(expect("1.1", "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n"), Ok(true));
    assert_eq!(expect("1.1", "Expect: 100-continue\r\n"), Ok(false));
    assert_eq!(expect("1.1", "Expect: 100-continue\r\nContent-Length: 0\r\n"), Ok(false));
    assert_eq!(expect("1.0", "Expect: 100-continue\r\nContent-Length: 5\r\n"), Ok(false));
    assert_eq!(expect("1.0", "Expect: tea\r\n"), Ok(false));
    for value in ["", "100", "100-continue, 100-continue", "100-continue;q=1", "tea", "100-continu"] {
        assert_eq!(
            expect("1.1", &format!("Expect: {value}\r\nContent-Length: 5\r\n")),
            Err(HeadError::Expect),
            "{value}"
        );
    }
    assert_eq!(expect("1.1", "Expect: 100-continue\r\nExpect: tea\r\n"), Err(HeadError::Expect));
}

#[test]
fn trailers_wanted() {
    for (value, wanted) in [("trailers", true), ("gzip, Trailers", true), ("gzip;q=0.5", false), ("", false)]
    {
        let head = whole(&format!("GET / HTTP/1.1\r\nHost: a\r\nTE: {value}\r\nConnection: te\r\n\r\n"));
        assert_eq!(head.wants_trailers, wanted, "{value:?}");
    }
}

fn padded(line: usize, head: usize, fields: usize) -> Vec<u8> {
    let mut text =
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n", "x".repeat(line - "GET / HTTP/1.1".len())).into_bytes();
    text.extend(b"a:\r\n".repeat(fields - 2));
    let left = head - text.len() - b"b:\r\n\r\n".len();
    text.extend([&b"b:"[..], &vec![b'x'; left], b"\r\n\r\n"].concat());
    assert_eq!(text.len(), head);
    text
}

#[test]
fn limits_are_exact() {
    for reads in [1, usize::MAX] {
        let parse = |text: &[u8]| {
            let (mut head, mut parser) = (RequestHead::default(), RequestParser::default());
            let mut at = 0usize;
            loop {
                at = text.len().min(at.saturating_add(reads));
                match parser.advance(&text[..at], &mut head, &LIMITS) {
                    Ok(Progress::Partial) if at < text.len() => {}
                    other => return (other, at),
                }
            }
        };
        assert_eq!(parse(&padded(64, 256, 4)).0, Ok(Progress::Complete(256)));
        assert_eq!(parse(&padded(65, 256, 4)).0, Err(HeadError::LineTooLong));
        assert_eq!(parse(&padded(64, 257, 4)).0, Err(HeadError::TooLarge));
        assert_eq!(parse(&padded(64, 256, 5)).0, Err(HeadError::TooMany));
    }
    // Detected as soon as no further byte could make it valid.
    let line = [&b"GET /"[..], &[b'x'; 1000]].concat();
    assert_eq!(parse(&line[..65]).map(|parsed| parsed.0), Ok(Progress::Partial));
    assert_eq!(parse(&line[..66]).map(|parsed| parsed.0), Err(HeadError::LineTooLong));
    let head = [&b"GET / HTTP/1.1\r\na:"[..], &[b'x'; 1000]].concat();
    assert_eq!(parse(&head[..255]).map(|parsed| parsed.0), Ok(Progress::Partial));
    assert_eq!(parse(&head[..256]).map(|parsed| parsed.0), Err(HeadError::TooLarge));
    // The limit of the head is below the limit of the line.
    let narrow = HeadLimits { line: 64, head: 10, fields: 4 };
    assert_eq!(parse_within(&line[..10], &narrow).map(|parsed| parsed.0), Err(HeadError::TooLarge));
    let boundless = HeadLimits { line: usize::MAX, head: usize::MAX, fields: usize::MAX };
    assert!(parse_within(&padded(64, 256, 4), &boundless).is_ok());
}

#[test]
fn the_method_is_known_of_a_line_that_makes_no_sense() {
    let long = format!("HEAD /{}", "x".repeat(1000));
    for text in
        ["HEAD /a b HTTP/1.1\r\n", "HEAD a HTTP/1.1\r\n", "HEAD /\0", "HEAD / HTTP/9.9\r\n", "HEAD /", &long]
    {
        for step in [1, usize::MAX] {
            let (mut head, mut parser) = (RequestHead::default(), RequestParser::default());
            let mut end = 0_usize;
            while end < text.len() {
                end = text.len().min(end.saturating_add(step));
                if parser.advance(&text.as_bytes()[..end], &mut head, &LIMITS).is_err() {
                    break;
                }
            }
            assert_eq!(head.method, Method::Head, "{text:?}");
        }
    }
    let mut head = RequestHead::default();
    let _ = RequestParser::default().advance(b"HEAD", &mut head, &LIMITS);
    assert_eq!(head.method, Method::Get, "it may go on");
}

#[test]
fn rejected_bytes_can_be_shown() {
    for (text, shown) in [
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Some("GET  / HTTP/1.1")),
        ("\x16\x03\x01", Some("\x16\x03\x01")),
        ("GET / HTTP/9.9\r\n\r\n", Some("GET / HTTP/9.9")),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", Some("X : y")),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", Some("Content-Length: +5")),
        ("GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", Some(":authority: a:81, host: a")),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Some("Host: a b")),
        ("GET / HTTP/1.1\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", None),
    ] {
        let (mut head, mut parser) = (RequestHead::default(), RequestParser::default());
        let error = parser.advance(text.as_bytes(), &mut head, &LIMITS).expect_err(text);
        let rejected_bytes = parser.rejected_bytes(text.as_bytes(), error, &head);
        assert_eq!(rejected_bytes.as_deref(), shown.map(str::as_bytes), "{text:?}");
    }
}

#[test]
fn a_limit_that_shrinks_in_the_middle_is_no_panic() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: value";
    for read in 0..text.len() {
        let (mut head, mut parser) = (RequestHead::default(), RequestParser::default());
        let _ = parser.advance(&text[..read], &mut head, &LIMITS);
        let _ = parser.advance(text, &mut head, &HeadLimits { line: 3, head: 5, fields: 0 });
    }
}

#[test]
fn the_lines_so_far_are_there_for_the_log() {
    let (mut head, mut parser) = (RequestHead::default(), RequestParser::default());
    let text = b"GET /a HTTP/1.1\r\nUser-Agent: b\r\nbad header\r\n";
    assert_eq!(parser.advance(&text[..20], &mut head, &LIMITS), Ok(Progress::Partial));
    assert_eq!(head.slice(head.target), b"/a");
    assert_eq!(parser.advance(text, &mut head, &LIMITS), Err(HeadError::Field));
    assert_eq!((head.method, head.slice(head.path)), (Method::Get, &b"/a"[..]));
    assert_eq!(head.head.get(Name::UserAgent), Some(&b"b"[..]));

    // Nothing of it remains for the next head.
    for text in [&b"G"[..], b"GET /b HTTP/9.9\r\n", b"\n"] {
        let _ = RequestParser::default().advance(text, &mut head, &LIMITS);
        assert_eq!(
            (head.slice(head.target), head.slice(head.host), head.head.fields().len()),
            (&b""[..], &b""[..], 0)
        );
        assert!(!head.head.has(Name::UserAgent));
    }
}

#[test]
fn sets_of_names_agree_with_the_fields() {
    let head = whole("GET / HTTP/1.1\r\nHost: a\r\nCookie: a\r\nX: y\r\nCookie: b\r\n\r\n").head;
    let seen = |head: &Head, name| (head.has(name), head.is_repeated(name), head.all(name).count());
    assert_eq!(seen(&head, Name::Cookie), (true, true, 2));
    assert_eq!(seen(&head, Name::Host), (true, false, 1));
    assert_eq!(seen(&head, Name::Other), (true, false, 1));
    assert_eq!(seen(&head, Name::Te), (false, false, 0));
}
