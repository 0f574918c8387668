//! Bodies, trailers, and how much of them the gateway buffers.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_tests::frames::{END_STREAM, INITIAL_WINDOW_SIZE, frame, kind};
use tollgate_tests::http2::request;
use tollgate_tests::{Framing, Gate, Gateway, Http2Origin, Origin, eventually};

use super::rules::{first_request_with, head};
use super::{reconcile, to};

#[test]
fn bodies_with_and_without_a_length() {
    let origin = Http2Origin::echo();
    let gateway = to(&origin);
    let mut client = gateway.client();
    assert_eq!(client.post("/a", b"hello").text(), "POST /a hello");
    client.send(
        "POST /b HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    assert_eq!(client.response().text(), "POST /b abcde");
    let mut http2 = gateway.http2();
    let mut known = http2.begin(request("POST", "/c", &[("content-length", "10")]), false).expect("begun");
    known.send("01234", false).expect("sent");
    known.send("56789", true).expect("sent");
    assert_eq!(known.response().expect("an answer").text(), "POST /c 0123456789");
    let mut unknown = http2.begin(request("POST", "/d", &[]), false).expect("begun");
    unknown.send("01234", false).expect("sent");
    unknown.send("", true).expect("sent");
    assert_eq!(unknown.response().expect("an answer").text(), "POST /d 01234");
    let framings: Vec<_> = origin.requests().iter().map(|request| request.framing).collect();
    assert_eq!(framings, [Framing::Length(5), Framing::Close, Framing::Length(10), Framing::Close]);
    assert!(origin.requests().iter().all(|request| request.complete));
    reconcile(&gateway, &origin);
}

#[test]
fn trailers_go_both_ways() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        stream.head(200, &[("content-type", "application/grpc")], false);
        stream.send("ok", false);
        stream.trailers(&[("grpc-status", "0"), ("x-sum", "7"), ("content-length", "9")]);
    });
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: a.example\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
         4\r\nbody\r\n0\r\nX-Check: 5\r\nHost: b\r\n\r\n",
    );
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    let expected = [("grpc-status".to_owned(), "0".to_owned()), ("x-sum".to_owned(), "7".to_owned())];
    assert_eq!(response.trailers.0, expected);
    let got = &origin.requests()[0];
    assert_eq!(got.trailers.0, [("x-check".to_owned(), "5".to_owned())]);
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(request("POST", "/", &[("te", "trailers")]), false).expect("begun");
    stream.send("body", false).expect("sent");
    stream.send_trailers(&[("x-check", "6")]).expect("sent");
    let response = stream.response().expect("an answer");
    assert_eq!((response.text().as_str(), response.trailers.0.as_slice()), ("ok", &expected[..]));
    assert_eq!(origin.requests()[1].trailers.get("x-check"), Some("6"));
    reconcile(&gateway, &origin);
}

#[test]
fn large_bodies_arrive_byte_by_byte() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        stream.head(200, &[], false);
        let body = stream.request.body.clone();
        stream.send(body, true);
    });
    let gateway = to(&origin);
    let body: Vec<u8> =
        (0..3_000_000_u32).map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    assert!(gateway.client().post("/", &body).body == body);
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(request("POST", "/", &[]), false).expect("begun");
    stream.send(body.clone(), true).expect("sent");
    assert!(stream.response().expect("an answer").body == body);
    reconcile(&gateway, &origin);
}

#[test]
fn a_client_that_reads_nothing_blocks_no_other() {
    const PAUSE: Duration = Duration::from_millis(300);
    let (sent, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&sent), Arc::clone(&stopped));
    let origin = Http2Origin::play(move |stream| {
        if stream.request.target != "/large" {
            return stream.echo();
        }
        stream.head(200, &[], false);
        // Sends until nothing is accepted for a while.
        counts.0.fetch_add(stream.send_what_goes(PAUSE, 64 << 20), Ordering::SeqCst);
        counts.1.fetch_add(1, Ordering::SeqCst);
        stream.wait_reset();
    });
    let gateway = to(&origin);
    let before = gateway.memory_kib("VmRSS");
    // HTTP/2 windows that never reopen, and an HTTP/1 client with a small socket buffer.
    let mut http2 = gateway.http2_with(16 * 1024);
    let slow: Vec<_> =
        (0..8).map(|_| http2.begin(request("GET", "/large", &[]), true).expect("begun")).collect();
    let mut small = gateway.small_client(4096);
    small.send("GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n");
    eventually("all of them", || origin.count() == 9);
    eventually("nothing more to go", || stopped.load(Ordering::SeqCst) == 9);
    assert_eq!(gateway.client().get("/other").text(), "GET /other ", "others go on, on the same connection");
    assert_eq!(origin.connections().0, 1);
    // Nine windows of 64 KiB, the sockets' buffers, and the bytes in transit.
    let all = sent.load(Ordering::SeqCst);
    assert!(all < 16 << 20, "{all} bytes");
    let grown = gateway.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 24 * 1024, "{grown} KiB");
    drop(slow);
}

#[test]
fn an_endpoint_that_reads_nothing_stops_the_client() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Http2Origin::play(move |stream| {
        held.wait();
        stream.body();
        let length = stream.request.body.len().to_string();
        stream.ok(&length);
    });
    let gateway = to(&origin);
    let before = gateway.memory_kib("VmRSS");
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(request("POST", "/", &[]), false).expect("begun");
    let sent = stream.send_what_goes(Duration::from_millis(500), 64 << 20);
    // The origin's window, the client's window, and the gateway's buffer between them.
    assert!(sent < 1 << 20, "{sent} bytes");
    assert!(gateway.memory_kib("VmRSS").saturating_sub(before) < 8 * 1024);
    gate.open();
    stream.send("end", true).expect("sent");
    assert_eq!(stream.response().expect("an answer").text(), (sent + 3).to_string());
    reconcile(&gateway, &origin);
}

/// The gateway reads the endpoint's answer, although it has filled its own output and the endpoint reads none of it.
#[test]
fn an_answer_arrives_while_the_endpoint_reads_nothing() {
    const MOST: u32 = i32::MAX as u32;
    let (stuck, done) = (Gate::new(), Gate::new());
    let gates = (stuck.clone(), done.clone());
    let origin = Origin::play(move |conn| {
        if first_request_with(conn, &[(INITIAL_WINDOW_SIZE, MOST)]).is_none() {
            return;
        }
        conn.send(frame(kind::WINDOW_UPDATE, 0, 0, &(MOST - 65_535).to_be_bytes()));
        gates.0.wait();
        conn.send([head(1, 0), frame(kind::DATA, END_STREAM, 1, b"enough")].concat());
        gates.1.wait();
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 1_u64 << 40));
    let mut socket = client.wire().stream().expect("a socket");
    socket.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    // Until all buffers on the way are full.
    while socket.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    stuck.open();
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "enough"));
    done.open();
}
