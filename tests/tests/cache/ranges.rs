//! Ranges of stored responses.

use tollgate_tests::{Framing, Gate, Origin, api, eventually};

use super::{answering, ask, gateway, get, with_policies};

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

/// Starts an origin that serves ranges of [`body`], with these lines in each response.
fn serving_ranges(lines: &'static str) -> Origin {
    answering(move |_, request| {
        let body = body();
        let range =
            request.headers.get("Range").and_then(|range| range.strip_prefix("bytes=")).map(str::to_owned);
        let Some((first, last)) = range.as_deref().and_then(|range| range.split_once('-')) else {
            return format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{body}", body.len());
        };
        let (first, last): (usize, usize) =
            (first.parse().expect("a number"), last.parse().expect("a number"));
        format!(
            "HTTP/1.1 206 Partial Content\r\n{lines}Content-Range: bytes {first}-{last}/5000\r\nContent-Length: {}\r\n\r\n{}",
            last - first + 1,
            &body[first..=last]
        )
    })
}

#[test]
fn a_range_of_what_is_not_stored_comes_from_the_origin() {
    for (lines, settings) in [
        ("Cache-Control: no-store\r\n", "on"),
        ("Cache-Control: private, max-age=60\r\n", "on"),
        // Too long to be stored.
        ("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "{max_object: 1KiB}"),
    ] {
        let origin = serving_ranges(lines);
        let gateway = gateway(&origin, settings);
        for _ in 0..3 {
            let part = get(&gateway, "/", "Range: bytes=5-8\r\n");
            assert_eq!((part.status, part.text().as_str()), (206, "0001"), "{lines}");
            assert_eq!(part.header("Content-Range"), Some("bytes 5-8/5000"));
        }
        // The first fetch asked for the whole response; from then on the key is known to be uncacheable.
        let ranges: Vec<bool> = origin.requests().iter().map(|it| it.headers.has("Range")).collect();
        assert_eq!(ranges, [false, true, true, true], "{lines}");
        let whole = get(&gateway, "/", "");
        assert!(whole.status == 200 && whole.text() == body(), "{lines}");
    }
}

#[test]
fn a_long_response_is_not_fetched_whole_for_a_range() {
    let length: usize = 64 << 20;
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let origin = {
        let sent = sent.clone();
        Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                if request.headers.has("Range") {
                    conn.send("HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nContent-Range: bytes 0-1/67108864\r\nContent-Length: 2\r\n\r\nab");
                    continue;
                }
                conn.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n"
                ));
                let piece = vec![b'x'; 1 << 20];
                for _ in 0..length >> 20 {
                    if !conn.send(&piece) {
                        return;
                    }
                    sent.fetch_add(piece.len(), std::sync::atomic::Ordering::SeqCst);
                }
            }
        })
    };
    let gateway = gateway(&origin, "on");
    let part = get(&gateway, "/", "Range: bytes=0-1\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "ab"));
    let sent = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(sent < length / 2, "{sent} bytes of the whole were fetched");
}

#[test]
fn an_unasked_partial_response_poisons_nothing() {
    // The origin answers every request with a part, whatever it asks for.
    let origin = answering(|_, _| {
        "HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Range: bytes 0-1/4\r\nContent-Length: 2\r\n\r\nab".to_owned()
    });
    let gateway = gateway(&origin, "on");
    for (lines, asked) in [("Range: bytes=0-1\r\n", 1), ("", 2), ("Range: bytes=0-1\r\n", 3)] {
        let part = get(&gateway, "/", lines);
        assert_eq!((part.status, origin.count()), (206, asked), "{lines}");
    }
}

/// The whole is fetched for a client that wants a part. If it is not stored in the end, the client gets its part all the
/// same.
#[test]
fn a_part_of_a_whole_that_is_not_stored_after_all_comes_from_the_origin() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                if request.headers.has("Range") {
                    conn.send("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/11\r\nContent-Length: 2\r\n\r\nfi");
                    continue;
                }
                conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 11\r\n\r\nfirst");
                gate.wait();
                conn.send("second");
            }
        })
    };
    let gateway = gateway(&origin, "on");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=0-1\r\n\r\n");
    eventually("the fetch of the whole", || origin.count() == 1);
    let all = r#"{"all": true}"#;
    assert_eq!(api::call(&gateway, "POST", "/cache/purge", api::JSON, all).status, 200);
    gate.open();
    let part = client.response();
    assert_eq!((part.status, part.text().as_str(), origin.count()), (206, "fi", 2));
}

#[test]
fn a_part_of_what_the_store_has_no_room_for_comes_from_the_origin() {
    const LENGTH: usize = 3 << 20;
    let origin = answering(|_, request| match request.headers.has("Range") {
        true => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/{LENGTH}\r\nContent-Length: 2\r\n\r\nab"
        ),
        false => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {LENGTH}\r\n\r\n{}",
            "ab".repeat(LENGTH / 2)
        ),
    });
    let gateway = with_policies(&origin, "cache: on", "cache: {memory: 2MiB}");
    for _ in 0..2 {
        let part = get(&gateway, "/", "Range: bytes=0-1\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "ab"));
    }
}
