//! Ranges of stored responses.

use tollgate_tests::{Framing, Origin};

use super::{answering, ask, gateway, get};

fn body() -> String {
    (0..1000).map(|n| format!("{n:04}-")).collect()
}

/// Starts an origin whose response may be stored, with [`body`].
fn storable() -> Origin {
    answering(|_, _| {
        let body = body();
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    })
}

#[test]
fn a_range_comes_from_the_stored_whole() {
    let origin = storable();
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    for (range, first, last) in
        [("0-9", 0, 9), ("4990-", 4990, 4999), ("-5", 4995, 4999), ("10-99999", 10, 4999)]
    {
        let part = get(&gateway, "/", &format!("Range: bytes={range}\r\n"));
        assert_eq!((part.status, part.text()), (206, body()[first..=last].to_owned()), "{range}");
        assert_eq!(part.header("Content-Range"), Some(format!("bytes {first}-{last}/5000").as_str()));
        assert_eq!(
            (part.framing, part.header("ETag")),
            (Framing::Length((last - first + 1) as u64), Some("\"a\""))
        );
    }
    let beyond = get(&gateway, "/", "Range: bytes=5000-\r\n");
    assert_eq!((beyond.status, beyond.header("Content-Range")), (416, Some("bytes */5000")));
    for lines in ["Range: bytes=0-1\r\nIf-Range: \"b\"\r\n", "Range: items=0-1\r\n", "Range: bytes=x\r\n"] {
        let whole = get(&gateway, "/", lines);
        assert!(whole.status == 200 && whole.text() == body(), "{lines}");
    }
    assert_eq!(get(&gateway, "/", "Range: bytes=0-1\r\nIf-Range: \"a\"\r\n").status, 206);
    assert_eq!(ask(&gateway, "HEAD", "/", "Range: bytes=0-1\r\n").header("Content-Length"), Some("5000"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_range_on_a_miss_fetches_the_whole() {
    let origin = storable();
    let gateway = gateway(&origin, "on");
    let part = get(&gateway, "/", "Range: bytes=5-8\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "0001"));
    assert!(!origin.requests()[0].headers.has("Range"));
    assert_eq!((get(&gateway, "/", "").text(), origin.count()), (body(), 1));
}

#[test]
fn a_partial_response_is_not_taken_for_the_whole() {
    let origin = answering(|_, _| {
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nContent-Range: bytes 0-1/4\r\nContent-Length: 2\r\n\r\nab".to_owned()
    });
    let gateway = gateway(&origin, "{ttl: {206: 1m}}");
    for _ in 0..2 {
        assert_eq!(get(&gateway, "/", "Range: bytes=0-1\r\n").status, 206);
    }
    assert_eq!(origin.count(), 2);
}
