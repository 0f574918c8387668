//! Requests that cannot be translated safely into HTTP/1 (class 10 of the smuggling classes). The stream ends
//! with an error or a 400, the origin receives nothing, and the connection stays open.

use tollgate_tests::frames::{END_HEADERS, END_STREAM, Frame, Frames, fields, frame, kind, pseudo};
use tollgate_tests::{Gateway, Origin};

const PLAIN: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.example")];

/// Returns the status with which a stream ended; `None` if it was reset.
fn outcome(frames: &mut Frames, stream: u32) -> Option<u16> {
    let ends = |frame: &Frame| {
        frame.stream == stream && matches!(frame.kind, kind::HEADERS | kind::RST_STREAM)
            || frame.kind == kind::GOAWAY
    };
    let end = frames.wait_for(ends).expect("the stream ends");
    if end.kind == kind::HEADERS { end.status() } else { None }
}

#[test]
fn fields_that_http_1_would_misread() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let extra = [
        ("x", "a\r\nb: c"),
        ("x", "a\nb: c"),
        ("x", "a\rb: c"),
        ("x", "a\0b"),
        ("x", " a"),
        ("x", "a "),
        ("x", "a\t"),
        ("x\r\ny", "a"),
        ("x\ny: z", "a"),
        ("x y", "a"),
        ("x:y", "a"),
        ("X-Upper", "a"),
        ("", "a"),
        (":path", "/two"),
        (":other", "a"),
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("host", "b.example"),
        ("host", ""),
        ("content-length", "5"),
        ("content-length", "+0"),
        ("content-length", "0, 0"),
        ("cookie", "a\r\nb: c"),
        ("expect", "200-ok"),
    ];
    let mut refused = 0;
    for field in extra {
        let mut frames = gateway.frames(&[]);
        frames.ask(1, &[&PLAIN[..], &[field]].concat());
        let outcome = outcome(&mut frames, 1);
        // 417 is not in HPACK's static table, so `status` cannot read it.
        assert!(matches!(outcome, None | Some(400)), "{field:?}: {outcome:?}");
        refused += 1;
    }
    assert_eq!((origin.count(), refused), (0, extra.len()));
    let mut frames = gateway.frames(&[]);
    frames.ask(1, &[&PLAIN[..], &[("host", "A.Example"), ("te", "trailers")]].concat());
    assert_eq!(outcome(&mut frames, 1), Some(200), "what agrees is no mistake");
}

#[test]
fn targets_and_hosts() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for (name, value) in [
        (":path", ""),
        (":path", "a"),
        (":path", "*"),
        (":path", "http://b.example/"),
        (":path", "/ HTTP/1.1\r\nx: y"),
        (":path", "/a b"),
        (":path", "/\u{e9}"),
        (":path", "/%2e%2e%2f\u{0}"),
        (":authority", "a b"),
        (":authority", "user@a.example"),
        (":authority", "a.example\r\nx: y"),
        (":authority", "a.example, b"),
        (":authority", "a.example:99999"),
        (":authority", ""),
        (":method", "GET / HTTP/1.1\r\nx: y\r\n\r\nGET"),
        (":method", ""),
        (":method", "G T"),
        (":scheme", ""),
    ] {
        let mut frames = gateway.frames(&[]);
        let head = PLAIN.map(|field| if field.0 == name { (name, value) } else { field });
        frames.ask(1, &head);
        let outcome = outcome(&mut frames, 1);
        assert!(matches!(outcome, None | Some(400)), "{name}: {value:?}: {outcome:?}");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn lengths_that_disagree() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let post = PLAIN.map(|field| if field.0 == ":method" { (":method", "POST") } else { field });
    for (length, pieces) in [("5", &["abc"][..]), ("5", &["abc", "def"]), ("0", &["a"]), ("5", &[""])] {
        let mut frames = gateway.frames(&[]);
        let head = [&post[..], &[("content-length", length)]].concat();
        frames.send(kind::HEADERS, END_HEADERS, 1, &fields(&head));
        for (at, piece) in pieces.iter().enumerate() {
            let last = if at + 1 == pieces.len() { END_STREAM } else { 0 };
            frames.send(kind::DATA, last, 1, piece.as_bytes());
        }
        let outcome = outcome(&mut frames, 1);
        assert!(matches!(outcome, None | Some(400)), "{length}: {pieces:?}: {outcome:?}");
    }
    assert!(origin.requests().iter().all(|request| !request.complete), "{:?}", origin.requests());
}

#[test]
fn the_connection_goes_on_behind_a_bad_request() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut frames = gateway.frames(&[]);
    frames.ask(1, &[&PLAIN[..], &[("host", "b.example")]].concat());
    assert_eq!(outcome(&mut frames, 1), Some(400));
    frames.ask(3, &[&PLAIN[..], &[("connection", "x")]].concat());
    assert_eq!(outcome(&mut frames, 3), Some(400));
    let reset = frames.wait_for(|frame| frame.stream == 3 && frame.kind == kind::RST_STREAM);
    assert_eq!(reset.expect("it breaks the protocol").payload, [0, 0, 0, 1], "PROTOCOL_ERROR");
    frames.ask(5, &pseudo("/a%2fb"));
    assert_eq!(outcome(&mut frames, 5), Some(400), "a path with two readings");
    frames.ask(7, &pseudo("/"));
    assert_eq!(outcome(&mut frames, 7), Some(200));
    assert_eq!(origin.count(), 1);
    let reasons: Vec<_> = gateway.wait_records(4).iter().map(|record| record["reason"].clone()).collect();
    assert_eq!(reasons[..3], ["bad_host", "bad_header", "bad_path"]);
}

#[test]
fn connect_is_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut frames = gateway.frames(&[]);
    frames.ask(1, &[(":method", "CONNECT"), (":authority", "a.example:80")]);
    let head = frames.wait_for(|frame| frame.kind == kind::HEADERS).expect("an answer");
    assert_ne!(head.status(), Some(200));
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["reason"], &record["status"]), (&"connect_refused".into(), &405.into()));
}

#[test]
fn heads_past_a_limit() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {headers: 4KiB, header_count: 10, request_line: 1KiB}");
    let long = |length: usize| "v".repeat(length);
    let path = format!("/{}", long(2000));
    let (value, many) = (long(5000), [("x", "y"); 12]);
    let heads = [
        (pseudo(&path).to_vec(), "request_line_too_long"),
        ([&PLAIN[..], &[("x", value.as_str())]].concat(), "headers_too_large"),
        ([&PLAIN[..], &many].concat(), "too_many_headers"),
    ];
    for (at, (head, reason)) in heads.into_iter().enumerate() {
        let mut frames = gateway.frames(&[]);
        frames.ask(1, &head);
        frames.wait_for(|frame| frame.kind == kind::HEADERS).expect("an answer");
        let mut reasons = gateway.wait_records(at + 1).into_iter().map(|record| record["reason"].clone());
        assert!(reasons.next_back() == Some(reason.into()), "{reason}");
    }
    assert_eq!(origin.count(), 0);
}

/// The body arrives with the head in one packet, before the gateway has checked its length.
#[test]
fn a_body_longer_than_announced_that_comes_with_its_head() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut frames = gateway.frames(&[]);
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a.example"),
        ("content-length", "1"),
    ]);
    let mut ended = None;
    for stream in (1..).step_by(2).take(1_100) {
        let both =
            [frame(kind::HEADERS, END_HEADERS, stream, &head), frame(kind::DATA, 0, stream, b"ab")].concat();
        frames.send_bytes(&both);
        let end = frames.wait_for(|frame| {
            frame.kind == kind::GOAWAY || frame.stream == stream && frame.kind == kind::RST_STREAM
        });
        match end {
            Some(end) if end.kind == kind::RST_STREAM => assert_eq!(end.code(), 1, "PROTOCOL_ERROR"),
            Some(end) => {
                ended = Some((stream, end.code()));
                break;
            }
            None => panic!("stream {stream}: the connection ends without a word"),
        }
    }
    // A client that repeats this wants to make the gateway start useless requests (CVE-2025-8671). The GOAWAY
    // arrived after the reset of the 1,001st stream.
    assert_eq!(ended, Some((2_003, 11)), "ENHANCE_YOUR_CALM");
    assert_eq!(origin.count(), 0, "nothing of it goes anywhere");
}
