use super::*;
use crate::Name;

const LIMITS: HeadLimits = HeadLimits { line: 8, head: 128, fields: 4 };

fn parse(asked: Method, text: &[u8]) -> Result<(Progress, ResponseHead), HeadError> {
    let mut head = ResponseHead::default();
    ResponseParser::default().advance(text, asked, &mut head, &LIMITS).map(|progress| (progress, head))
}

fn whole(asked: Method, text: &str) -> ResponseHead {
    match parse(asked, format!("{text}what follows").as_bytes()) {
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
        ("HTTP/1.1 599", Version::Http11, 599, "599"),
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
    use Length::{Chunked, Exactly, None as Nothing, UntilClose};
    let length = |asked, status: u16, fields: &str| {
        let text = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        parse(asked, text.as_bytes()).map(|(_, head)| (head.length, head.keep_alive))
    };
    const SIZED: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    for (asked, status, fields, expected) in [
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
        assert_eq!(length(asked, status, fields), Ok(expected), "{asked:?} {status} {fields:?}");
    }
    for asked in [Method::Get, Method::Head] {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
        ] {
            assert_eq!(length(asked, 200, fields), Err(HeadError::Length), "{fields:?}");
        }
        assert_eq!(length(asked, 200, "Transfer-Encoding: gzip, chunked\r\n"), Err(HeadError::Coding));
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
fn nothing_is_left_of_the_one_before() {
    let mut head = whole(Method::Get, "HTTP/1.1 200 OK\r\nServer: a\r\n\r\n");
    assert_eq!(
        ResponseParser::default().advance(b"HTTP/1.1 0", Method::Get, &mut head, &LIMITS),
        Ok(Progress::Partial)
    );
    assert!(head.head.get(Name::Server).is_none() && head.head.bytes().is_empty() && head.status == 0);
}
