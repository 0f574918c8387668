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

/// Starts an origin that sends the head and the first half of [`body`], and the second half once the gate is open.
fn in_two_halves(gate: &Gate, framing: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::play(move |conn| {
        while conn.request().is_some() {
            let body = body();
            let (first, second) = body.split_at(body.len() / 2);
            let chunk = |half: &str| match framing {
                "" => half.to_owned(),
                _ => format!("{:x}\r\n{half}\r\n", half.len()),
            };
            let length = if framing.is_empty() {
                format!("Content-Length: {}\r\n", body.len())
            } else {
                framing.to_owned()
            };
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Type: text/plain\r\n{length}\r\n{}",
                chunk(first)
            ));
            gate.wait();
            let end = if framing.is_empty() { "" } else { "0\r\n\r\n" };
            if !conn.send(format!("{}{end}", chunk(second))) {
                return;
            }
        }
    })
}

#[test]
fn the_range_of_a_leader_arrives_before_the_whole() {
    let gate = Gate::new();
    let origin = in_two_halves(&gate, "");
    let gateway = gateway(&origin, "on");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=5-8\r\n\r\n");
    let part = client.response();
    assert_eq!((part.status, part.text().as_str(), part.framing), (206, "0001", Framing::Length(4)));
    assert_eq!((part.header("Content-Range"), part.header("ETag")), (Some("bytes 5-8/5000"), Some("\"a\"")));
    assert!(part.header("Cache-Status").is_some_and(|it| it.contains("fwd=uri-miss; stored")), "{part:?}");
    // One that lies in both halves begins at once, and ends with the rest.
    let mut across = gateway.client();
    across.send("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=2495-2504\r\n\r\n");
    assert_eq!(across.head().status, 206);
    gate.open();
    while across.wire().pending().len() < 10 {
        assert_eq!(across.wire().fill(), Ok(true));
    }
    assert_eq!(across.wire().pending(), &body().as_bytes()[2495..2505]);
    // The connection of the leader can be used again, and the whole is stored.
    assert!(client.ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").text() == body());
    assert_eq!((get(&gateway, "/", "").text() == body(), origin.count()), (true, 1));
    let records = gateway.wait_records(4);
    let led = records.iter().find(|record| record["cache_status"] == "miss").expect("the leader");
    assert_eq!((&led["status"], &led["bytes_out"]), (&206.into(), &4.into()), "{led}");
}

#[test]
fn a_leader_with_the_current_tag_gets_its_304_before_the_whole() {
    let gate = Gate::new();
    let origin = in_two_halves(&gate, "");
    let gateway = with_policies(&origin, "cache: on, compression: on", "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nIf-None-Match: \"a\"\r\nAccept-Encoding: gzip\r\n\r\n");
    let unchanged = client.response();
    assert_eq!((unchanged.status, unchanged.header("ETag")), (304, Some("\"a\"")));
    assert!(
        !unchanged.headers.has("Content-Type") && !unchanged.headers.has("Content-Encoding"),
        "{unchanged:?}"
    );
    gate.open();
    assert!(client.ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").text() == body());
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_leader_with_a_range_of_an_unknown_length_gets_all_of_it_at_once() {
    let gate = Gate::new();
    let origin = in_two_halves(&gate, "Transfer-Encoding: chunked\r\n");
    let gateway = gateway(&origin, "on");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=5-8\r\n\r\n");
    let mut whole = client.head();
    assert_eq!((whole.status, whole.header("Content-Range")), (200, None));
    gate.open();
    client.try_body(&mut whole).expect("a whole body");
    assert!(whole.text() == body());
    assert_eq!((get(&gateway, "/", "Range: bytes=5-8\r\n").text().as_str(), origin.count()), ("0001", 1));
}

/// The rest of a response is for the store. If it does not arrive, a client that has its part does not see that.
#[test]
fn a_cut_after_the_range_of_a_leader_is_not_its_problem() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 11\r\n\r\nfirst");
                gate.wait();
            }
        })
    };
    let gateway = gateway(&origin, "on");
    let (mut has_it, mut waits) = (gateway.client(), gateway.client());
    has_it.send("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!(has_it.response().text(), "fi");
    waits.send("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=0-7\r\n\r\n");
    let mut head = waits.head();
    gate.open();
    assert!(waits.try_body(&mut head).is_err(), "{head:?}");
    has_it.expect_close();
    let state = api::json_of(&api::call(&gateway, "GET", "/cache", "", ""));
    assert_eq!((state["objects"].as_u64(), origin.count()), (Some(0), 1), "{state}");
}

#[test]
fn several_ranges_come_as_parts() {
    let origin = answering(|_, _| {
        let body = body();
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let gateway = with_policies(&origin, "cache: on, compression: on", "");
    get(&gateway, "/", "");
    let parts = get(&gateway, "/", "Range: bytes=5-8, -5\r\nAccept-Encoding: gzip\r\n");
    let content_type = parts.header("Content-Type").expect("a type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect(content_type);
    let expected = format!(
        "--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-8/5000\r\n\r\n0001\r\n\
         --{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 4995-4999/5000\r\n\r\n0999-\r\n--{boundary}--\r\n"
    );
    assert_eq!((parts.status, parts.text()), (206, expected.clone()));
    assert_eq!(
        (parts.framing, parts.header("Content-Range")),
        (Framing::Length(expected.len() as u64), None)
    );
    assert_eq!((parts.header("ETag"), parts.headers.has("Content-Encoding")), (Some("\"a\""), false));
    // Too many ranges, or ranges that overlap: the whole costs less.
    let many: Vec<String> = (0..17).map(|at| format!("{at}-{at}")).collect();
    for ranges in [many.join(","), "0-2999,1000-4999".to_owned(), "0-,0-,0-".to_owned()] {
        let whole = get(&gateway, "/", &format!("Range: bytes={ranges}\r\n"));
        assert!(whole.status == 200 && whole.text() == body(), "{ranges}");
    }
    // Of several, those that exist.
    let one = get(&gateway, "/", "Range: bytes=9000-, 0-3\r\n");
    assert_eq!((one.status, one.text().as_str()), (206, "0000"));
    assert_eq!(origin.count(), 1);
}

/// The whole is fetched for a client that wants a part. If it is not stored in the end, the client gets its part all the
/// same.
#[test]
fn a_part_of_a_whole_that_is_not_stored_after_all_reaches_the_client() {
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
    let part = client.response();
    assert_eq!((part.status, part.text().as_str(), origin.count()), (206, "fi", 1));
    gate.open();
    assert_eq!((get(&gateway, "/", "Range: bytes=0-1\r\n").text().as_str(), origin.count()), ("fi", 2));
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
