//! Tests the parser of response heads.

use super::*;
use crate::Name;

const LIMITS: HeadLimits = HeadLimits { line: 8, head: 128, fields: 4 };

fn parse(request_method: Method, text: &[u8]) -> Result<(Progress, ResponseHead), HeadError> {
    let mut head = ResponseHead::default();
    ResponseParser::default()
        .advance(text, request_method, &mut head, &LIMITS)
        .map(|progress| (progress, head))
}

/// The stored text of a head, which is what gets forwarded.
fn kept(text: &str) -> String {
    let mut response = ResponseHead::default();
    let mut parser = ResponseParser::default();
    let mut whole = None;
    // Byte by byte, and at once.
    for end in 0..=text.len() {
        match parser.advance(&text.as_bytes()[..end], Method::Get, &mut response, &LIMITS) {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete(end)) => whole = Some(end),
            Err(error) => panic!("{text:?}: {error:?}"),
        }
    }
    assert_eq!(whole, Some(text.len()), "{text:?}");
    let Ok((_, at_once)) = parse(Method::Get, text.as_bytes()) else { panic!("{text:?}") };
    assert_eq!(format!("{response:?}"), format!("{at_once:?}"));
    let mut lines = Vec::new();
    response.head.copy_lines(&mut lines, true, |_| true);
    assert_eq!([&lines, &b"\r\n"[..]].concat(), response.head.bytes());
    for field in response.head.fields() {
        let line =
            [response.head.slice(field.name), b": ", response.head.slice(field.value), b"\r\n"].concat();
        let range = crate::Range { start: field.name.start, end: field.line_end };
        assert_eq!(response.head.slice(range), line);
    }
    String::from_utf8_lossy(response.head.bytes()).into_owned()
}

#[test]
fn repairable_heads_are_repaired() {
    for (text, mended) in [
        ("HTTP/1.1 200\r\nA: b\r\n\r\n", "HTTP/1.1 200 \r\nA: b\r\n\r\n"),
        ("HTTP/1.0 404\r\n\r\n", "HTTP/1.0 404 \r\n\r\n"),
        ("HTTP/1.1 200 \r\nX-Foo : bar\r\nB \t :c\r\n\r\n", "HTTP/1.1 200 \r\nX-Foo: bar\r\nB: c\r\n\r\n"),
        ("HTTP/1.1 200 \r\nA: b\r\n  c \r\n\td\r\n\r\n", "HTTP/1.1 200 \r\nA: b    c   \td\r\n\r\n"),
        ("HTTP/1.1 200 \r\nA:\r\n b\r\nC: d\r\n \r\n\r\n", "HTTP/1.1 200 \r\nA: b\r\nC: d\r\n\r\n"),
        ("HTTP/1.1 200 \r\nContent-Length: 0002\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n"),
    ] {
        assert_eq!(kept(text), mended);
    }
}

#[test]
fn a_strict_reader_mends_no_field() {
    for fields in ["X : y\r\n", "X: y\r\n z\r\n", "Transfer-Encoding : chunked\r\n"] {
        let text = format!("HTTP/1.1 200 x\r\n{fields}\r\n");
        let mut response = ResponseHead::default();
        let read = ResponseParser::strict().advance(text.as_bytes(), Method::Get, &mut response, &LIMITS);
        assert_eq!(read, Err(HeadError::Field), "{fields:?}");
    }
}

#[test]
fn repaired_fields_count_towards_the_limits() {
    for (fields, length) in [
        ("Transfer-Encoding : chunked\r\n", Ok(BodyLength::Chunked)),
        ("Transfer-Encoding:\r\n chunked\r\n", Ok(BodyLength::Chunked)),
        ("Content-Length : 007\r\n", Ok(BodyLength::Exactly(7))),
        ("Content-Length: 0000\r\n", Ok(BodyLength::Exactly(0))),
        ("Content-Length: 1\r\n 2\r\n", Err(HeadError::Length)),
        ("Content-Length: 4\r\nTransfer-Encoding : chunked\r\n", Err(HeadError::Length)),
        ("Transfer-Encoding : chunked\r\nTransfer-Encoding: chunked\r\n", Err(HeadError::Length)),
        (" A: b\r\n", Err(HeadError::Field)),
        ("\tA: b\r\n", Err(HeadError::Field)),
        (" : b\r\n", Err(HeadError::Field)),
        ("A b: c\r\n", Err(HeadError::Field)),
        ("A b\r\n", Err(HeadError::Field)),
        ("A: b\r\n c\0\r\n", Err(HeadError::Field)),
        ("A: b\r\n c\n\r\n", Err(HeadError::Field)),
    ] {
        let text = format!("HTTP/1.1 200 x\r\n{fields}\r\n");
        assert_eq!(parse(Method::Get, text.as_bytes()).map(|(_, head)| head.length), length, "{fields:?}");
    }
    let head = whole(Method::Get, "HTTP/1.1 204 x\r\nConnection : close\r\nX-A: b\r\n , c\r\n\r\n");
    assert!(!head.keep_alive && head.head.get(Name::Connection) == Some(b"close"));
    assert_eq!(head.head.get_by_text(b"x-a"), Some(&b"b   , c"[..]));
}

fn whole(request_method: Method, text: &str) -> ResponseHead {
    match parse(request_method, format!("{text}what follows").as_bytes()) {
        Ok((Progress::Complete(end), head)) if end == text.len() => head,
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn status_lines() {
    for (line, version, status, rest) in [
        ("HTTP/1.1 200 OK", Version::Http11, 200, "200 OK"),
        ("HTTP/1.0 404 Not\tFound \u{e9}", Version::Http10, 404, "404 Not\tFound \u{e9}"),
        ("HTTP/1.1 200 ", Version::Http11, 200, "200 "),
        ("HTTP/1.1 599", Version::Http11, 599, "599 "),
        ("HTTP/1.1 999 ", Version::Http11, 999, "999 "),
    ] {
        let head = whole(Method::Get, &format!("{line}\r\n\r\n"));
        assert_eq!((head.version, head.status), (version, status), "{line}");
        assert_eq!(head.head.slice(head.status_line), rest.as_bytes());
    }
    for line in [
        "",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 20",
        "HTTP/1.1 099 x",
        "HTTP/1.1 2000",
        "HTTP/1.1 200OK",
        "HTTP/1.1  200",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1 20x OK",
        "HTTP/1.1-200 OK",
        "http/1.1 200 OK",
        "ICY 200 OK",
        " HTTP/1.1 200 OK",
        "HTTP/1.1 200 \0",
        "HTTP/1.1 200\nX",
        "HTTP/11. 200 OK",
        "HTTP/1.10 200 OK",
    ] {
        let text = format!("{line}\r\n\r\n");
        assert_eq!(parse(Method::Get, text.as_bytes()).map(|_| ()), Err(HeadError::StartLine), "{line:?}");
    }
    assert_eq!(parse(Method::Get, b"HTTP/2.0 200 OK\r\n").map(|_| ()), Err(HeadError::Version));
    assert_eq!(parse(Method::Get, b"SSH-").map(|_| ()), Err(HeadError::StartLine));
    assert_eq!(parse(Method::Get, b"").map(|parsed| parsed.0), Ok(Progress::Partial));
}

#[test]
fn lengths() {
    use BodyLength::{Chunked, Exactly, None as Nothing, UntilClose};
    let length = |request_method, status: u16, fields: &str| {
        let text = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        parse(request_method, text.as_bytes()).map(|(_, head)| (head.length, head.keep_alive))
    };
    const SIZED: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    for (request_method, status, fields, expected) in [
        (Method::Get, 200, SIZED, (Exactly(5), true)),
        (Method::Get, 200, CHUNKED, (Chunked, true)),
        (Method::Get, 200, "", (UntilClose, false)),
        (Method::Get, 200, "Connection: keep-alive\r\n", (UntilClose, false)),
        (Method::Post, 500, "Content-Length: 0\r\n", (Exactly(0), true)),
        (Method::Head, 200, SIZED, (Nothing, true)),
        (Method::Head, 200, CHUNKED, (Nothing, true)),
        (Method::Head, 404, "", (Nothing, true)),
        (Method::Get, 100, SIZED, (Nothing, true)),
        (Method::Get, 103, CHUNKED, (Nothing, true)),
        (Method::Get, 199, "", (Nothing, true)),
        (Method::Get, 204, SIZED, (Nothing, true)),
        (Method::Get, 204, CHUNKED, (Nothing, true)),
        (Method::Get, 304, SIZED, (Nothing, true)),
        (Method::Get, 205, SIZED, (Exactly(5), true)),
        (Method::Connect, 200, SIZED, (Nothing, true)),
        (Method::Connect, 403, SIZED, (Exactly(5), true)),
    ] {
        assert_eq!(
            length(request_method, status, fields),
            Ok(expected),
            "{request_method:?} {status} {fields:?}"
        );
    }
    for request_method in [Method::Get, Method::Head] {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
        ] {
            assert_eq!(length(request_method, 200, fields), Err(HeadError::Length), "{fields:?}");
        }
        assert_eq!(
            length(request_method, 200, "Transfer-Encoding: gzip, chunked\r\n"),
            Err(HeadError::Coding)
        );
    }
    let old = b"HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse(Method::Get, old).map(|_| ()), Err(HeadError::Length));
}

#[test]
fn persistence_and_nominations() {
    for (text, keep_alive) in [
        ("HTTP/1.1 200 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false),
        ("HTTP/1.0 200 x\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 x\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
    ] {
        assert_eq!(whole(Method::Get, text).keep_alive, keep_alive, "{text:?}");
    }
    let head = whole(
        Method::Get,
        "HTTP/1.1 204 x\r\nX-A: b\r\nconnection: x-a, set-cookie\r\nSet-Cookie: c\r\n\r\n",
    );
    let nominated: Vec<_> = head.head.fields().iter().map(|field| head.is_nominated(field)).collect();
    assert_eq!((nominated, head.nominates), (vec![true, false, false], true));
}

#[test]
fn interim_responses_and_upgrades() {
    assert!(whole(Method::Get, "HTTP/1.1 100 Continue\r\n\r\n").is_interim());
    assert!(whole(Method::Get, "HTTP/1.1 103 Early\r\nLink: a\r\n\r\n").is_interim());
    assert!(!whole(Method::Get, "HTTP/1.1 200 OK\r\n\r\n").is_interim());
    let switched = "101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert!(!whole(Method::Get, &format!("HTTP/1.1 {switched}")).is_interim());
    for text in [format!("HTTP/1.0 {switched}"), "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n".to_owned()] {
        assert_eq!(parse(Method::Get, text.as_bytes()).map(|_| ()), Err(HeadError::StartLine), "{text:?}");
    }
}

#[test]
fn limits_are_exact() {
    let sized = |size: usize, fields: usize| {
        let mut text = b"HTTP/1.1 200 a long reason\r\n".to_vec();
        text.extend(b"a:\r\n".repeat(fields - 1));
        text.extend([&b"b:"[..], &vec![b'x'; size - text.len() - 6], b"\r\n\r\n"].concat());
        parse(Method::Get, &text).map(|(progress, _)| progress)
    };
    assert_eq!(sized(128, 4), Ok(Progress::Complete(128)));
    assert_eq!(sized(129, 4), Err(HeadError::TooLarge));
    assert_eq!(sized(128, 5), Err(HeadError::TooMany));
    let endless = [&b"HTTP/1.1 200 "[..], &[b'x'; 1000]].concat();
    assert_eq!(parse(Method::Get, &endless[..127]).map(|parsed| parsed.0), Ok(Progress::Partial));
    assert_eq!(parse(Method::Get, &endless[..128]).map(|parsed| parsed.0), Err(HeadError::TooLarge));
}

#[test]
fn a_reused_head_keeps_nothing() {
    let mut head = whole(Method::Get, "HTTP/1.1 200 OK\r\nServer: a\r\n\r\n");
    assert_eq!(
        ResponseParser::default().advance(b"HTTP/1.1 0", Method::Get, &mut head, &LIMITS),
        Ok(Progress::Partial)
    );
    assert!(head.head.get(Name::Server).is_none() && head.head.bytes().is_empty() && head.status == 0);
}
