//! How responses and connections end: resets behind a complete response, GOAWAY with the requests before and behind it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_tests::frames::{END_HEADERS, END_STREAM, frame, kind};
use tollgate_tests::{Gate, Gateway, Origin, eventually};

use super::rules::{first_request, head, next_of};

/// `:status: 200`, and `content-length: 10`.
const TEN: &[u8] = &[0x88, 0x0f, 0x0d, 2, b'1', b'0'];

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const CANCEL: u32 = 8;

fn reset(code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, 1, &code.to_be_bytes())
}

/// Starts a gateway in front of an endpoint that answers the head of the first request with these bytes.
fn answering(bytes: Vec<u8>) -> (Origin, Gateway) {
    let origin = Origin::play(move |conn| {
        if first_request(conn).is_some() {
            conn.send(&bytes);
            conn.wait_close();
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], outlier: off, retry: off}}\n",
        origin.address()
    ));
    (origin, gateway)
}

/// A request of which a part of the body follows never.
const UPLOAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nsome";

#[test]
fn a_reset_behind_the_whole_response_takes_nothing_from_it() {
    for code in [NO_ERROR, INTERNAL_ERROR, CANCEL] {
        let whole = [head(1, 0), frame(kind::DATA, END_STREAM, 1, b"enough"), reset(code)].concat();
        let (_origin, gateway) = answering(whole);
        let mut client = gateway.client();
        client.send(UPLOAD);
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "enough"), "code {code}");
        let record = &gateway.wait_records(1)[0];
        assert_eq!(
            (&record["status"], record["reason"].as_str()),
            (&200.into(), None),
            "code {code}: {record}"
        );
    }
}

#[test]
fn a_reset_never_makes_a_response_look_complete() {
    for (begin, what) in
        [(head(1, 0), "without a length"), (frame(kind::HEADERS, END_HEADERS, 1, TEN), "with a length")]
    {
        for code in [NO_ERROR, INTERNAL_ERROR, CANCEL] {
            let part = [begin.clone(), frame(kind::DATA, 0, 1, b"some"), reset(code)].concat();
            let (_origin, gateway) = answering(part);
            let response = gateway.client().try_exchange("/");
            assert!(
                response.as_ref().map_or(true, |got| got.status == 502),
                "{what}, code {code}: {response:?}"
            );
            let record = &gateway.wait_records(1)[0];
            let reason = record["reason"].as_str().unwrap_or("-");
            assert!(
                ["http_response_incomplete", "connection_terminated"].contains(&reason),
                "{what}, code {code}: {record}"
            );
        }
    }
}

#[test]
fn data_that_a_response_must_not_have_reaches_no_client() {
    // 204, 304 and the answer to a HEAD have no content (RFC 9110, 6.4.1), whatever the endpoint sends.
    for (method, status) in [("GET", 0x89), ("GET", 0x8b), ("HEAD", 0x88)] {
        let origin = Origin::play(move |conn| {
            let mut stream = first_request(conn).map(|()| 1);
            while let Some(id) = stream {
                let head = frame(kind::HEADERS, END_HEADERS, id, &[status]);
                conn.send([head, frame(kind::DATA, END_STREAM, id, b"HTTP/1.1 200 OK\r\n\r\n")].concat());
                stream = next_of(conn, kind::HEADERS).map(|next| next.stream);
            }
        });
        let gateway = Gateway::start(&format!(
            "workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
            origin.address()
        ));
        let mut client = gateway.client();
        for _ in 0..3 {
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.response_to(method);
            let expected = [(0x88, 200), (0x89, 204), (0x8b, 304)].iter().find(|(byte, _)| *byte == status);
            assert_eq!(Some(response.status), expected.map(|(_, status)| *status));
            assert!(response.body.is_empty(), "{method} {}", response.status);
        }
        client.expect_alive();
        assert_eq!(origin.connections(), 1);
    }
}

#[test]
fn a_goaway_splits_the_requests_in_progress() {
    let goaway = |last: u32, code: u32| {
        let numbers = [last.to_be_bytes(), code.to_be_bytes()].concat();
        frame(kind::GOAWAY, 0, 0, &[&numbers[..], b"debug data"].concat())
    };
    let in_two_steps = [goaway(0x7fff_ffff, NO_ERROR), goaway(1, NO_ERROR)].concat();
    for goodbye in [goaway(1, INTERNAL_ERROR), in_two_steps] {
        let (count, seen) = (AtomicUsize::new(0), Gate::new());
        let both = seen.clone();
        let origin = Origin::play(move |conn| {
            if first_request(conn).is_none() {
                return;
            }
            // The first connection gets two requests, and processes only one of them.
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                both.open();
                if next_of(conn, kind::HEADERS).is_some() {
                    conn.send(&goodbye);
                    conn.send(frame(kind::HEADERS, END_HEADERS, 1, TEN));
                    conn.send(frame(kind::DATA, END_STREAM, 1, b"the first."));
                }
            } else {
                conn.send(frame(kind::HEADERS, END_HEADERS, 1, TEN));
                conn.send(frame(kind::DATA, END_STREAM, 1, b"the other."));
            }
            conn.wait_close();
        });
        let gateway = Gateway::start(&format!(
            "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], retry: off}}\n",
            origin.address()
        ));
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.send(UPLOAD);
        seen.wait();
        second.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(
            second.response().text(),
            "the other.",
            "it goes to another connection, without a retry policy"
        );
        assert_eq!(first.response().text(), "the first.");
        eventually("the first connection to close", || (origin.connections(), origin.open()) == (2, 1));
        let records = gateway.wait_records(2);
        assert!(records.iter().all(|record| record["status"] == 200), "{records:#?}");
    }
}
