//! WebSocket over HTTP/2 (RFC 8441), on either side and on both.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use h2::Reason;
use h2::ext::Protocol;
use http::Request;
use tollgate_tests::http2::{Cut, Http2, Stream};
use tollgate_tests::{
    Gateway, Http2Origin, Http2Settings, Origin, OriginStream, ReadError, Response, Signal, eventually,
    websocket_accept,
};

use super::{reconcile, to};

/// The sample key of RFC 6455, 1.3, and its answer.
const SAMPLE: (&str, &str) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

/// Starts an HTTP/1 origin that switches protocols and echoes at `/ws`.
fn http_1() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            match request.target.as_str() {
                "/ws" => {
                    let accept =
                        websocket_accept(request.headers.get("sec-websocket-key").unwrap_or_default());
                    conn.send(format!(
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
                    ));
                    return conn.echo_bytes();
                }
                "/no" => {
                    conn.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
                }
                _ => conn.ok("what?"),
            }
        }
    })
}

/// Starts an HTTP/2 origin that does the same, if `allows` is set.
fn http_2(allows: bool) -> Http2Origin {
    let settings = Http2Settings { connect: allows, ..Http2Settings::default() };
    Http2Origin::play_with(settings, |stream: &mut OriginStream| {
        if stream.request.headers.get(":protocol") != Some("websocket") {
            return stream.echo();
        }
        if stream.request.target == "/no" {
            stream.head(403, &[("content-length", "2")], false);
            stream.send("no", true);
            return;
        }
        if stream.request.target == "/hinted" {
            stream.interim(103, &[("link", "</a>")]);
        }
        stream.head(200, &[("sec-websocket-protocol", "chat")], false);
        while let Some(data) = stream.data() {
            stream.send(data, false);
        }
        stream.send("", true);
    })
}

fn connect(path: &str) -> Request<()> {
    Request::builder()
        .method("CONNECT")
        .uri(format!("http://a.example{path}"))
        .header("sec-websocket-version", "13")
        .header("origin", "http://a.example")
        .extension(Protocol::from_static("websocket"))
        .body(())
        .expect("a request")
}

fn switched(client: &mut Http2) -> Stream {
    let mut stream = client.begin(connect("/ws"), false).expect("begun");
    let response = stream.head().expect("a head");
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("sec-websocket-protocol"), Some("chat"));
    for name in ["upgrade", "connection", "sec-websocket-accept", "content-length"] {
        assert!(!response.headers.has(name), "{response:?}");
    }
    stream
}

fn echoes(stream: &mut Stream, bytes: &[u8]) {
    stream.send(bytes.to_vec(), false).expect("sent");
    let mut back = Vec::new();
    while back.len() < bytes.len() {
        back.extend_from_slice(&stream.data().expect("no cut").expect("no end"));
    }
    assert!(back == bytes, "{} bytes", back.len());
}

fn ends(mut stream: Stream) {
    stream.send("", true).expect("sent");
    assert_is_over(&mut stream);
}

/// Asserts that the other side has ended in order, without further data.
fn assert_is_over(stream: &mut Stream) {
    let rest = std::iter::from_fn(|| stream.data().expect("no cut"));
    assert_eq!(rest.flatten().count(), 0);
}

/// Returns the upgrade request of an HTTP/1 client.
pub(super) fn ask(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n",
        SAMPLE.0
    )
}

#[test]
fn to_an_endpoint_of_http_1() {
    let origin = http_1();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let mut stream = switched(&mut client);
    for n in 0..20_usize {
        echoes(&mut stream, format!("\u{0}\r\n\r\nframe {n}").as_bytes());
    }
    echoes(&mut stream, &vec![7; 300_000]);
    ends(stream);
    let got = origin.request();
    assert_eq!((got.method.as_str(), got.target.as_str()), ("GET", "/ws"));
    assert_eq!(got.headers.get("upgrade"), Some("websocket"));
    assert!(got.headers.lists("connection", "upgrade"), "{got:?}");
    assert_eq!(got.headers.get("sec-websocket-version"), Some("13"));
    assert_eq!(got.headers.get("sec-websocket-key").map(str::len), Some(24));
    assert_eq!(gateway.wait_records(1)[0]["status"], 101);
}

#[test]
fn to_an_endpoint_of_http_2() {
    let origin = http_2(true);
    let gateway = to(&origin);
    let mut client = gateway.http2();
    let mut streams: Vec<_> = (0..5).map(|_| switched(&mut client)).collect();
    for stream in &mut streams {
        echoes(stream, &vec![9; 100_000]);
    }
    assert_eq!(origin.connections().0, 1, "they share one");
    streams.into_iter().for_each(ends);
    let got = &origin.requests()[0];
    assert_eq!((got.method.as_str(), got.target.as_str()), ("CONNECT", "/ws"));
    assert_eq!(got.headers.get(":protocol"), Some("websocket"));
    for name in ["upgrade", "connection", "sec-websocket-key"] {
        assert!(!got.headers.has(name), "{got:?}");
    }
    let _ = gateway.wait_records(5);
}

#[test]
fn a_client_of_http_1_to_an_endpoint_of_http_2() {
    let origin = http_2(true);
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send(ask("/no"));
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
    client.send(ask("/ws"));
    let response = client.head();
    assert_eq!(response.status, 101, "{response:?}");
    assert_eq!(response.header("upgrade"), Some("websocket"));
    assert!(response.headers.lists("connection", "upgrade"));
    assert_eq!(response.header("sec-websocket-accept"), Some(SAMPLE.1));
    client.send("hello");
    assert_eq!(client.wire().take(5), Ok(b"hello".to_vec()));
    client.half_close();
    client.expect_close();
    let got = origin.requests().pop().expect("two");
    assert!(!got.headers.has("sec-websocket-key"), "{got:?}");
    let _ = gateway.wait_records(2);
}

#[test]
fn an_interim_head_before_the_switch_changes_nothing() {
    let origin = http_2(true);
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send(ask("/hinted"));
    assert_eq!(client.interim().status, 103);
    assert_eq!(client.head().status, 101);
    for word in ["hello", "again"] {
        client.send(word);
        assert_eq!(client.wire().take(5), Ok(word.as_bytes().to_vec()));
    }
    client.half_close();
    client.expect_close();
    let _ = gateway.wait_records(1);
}

#[test]
fn a_refused_upgrade_is_reported() {
    let plain = http_2(false);
    let gateway = to(&plain);
    let mut client = gateway.http2();
    let failed = client.begin(connect("/ws"), false).expect("begun").response().expect("an answer");
    assert_eq!((failed.status, failed.reason()), (502, "http_upgrade_failed"));
    let mut http_1_client = gateway.client();
    let failed = http_1_client.ask(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n",
    );
    assert_eq!((failed.status, failed.reason()), (502, "http_upgrade_failed"));
    assert_eq!(http_1_client.get("/").text(), "GET / ", "the connection goes on");
    assert_eq!(plain.count(), 1, "nothing of it was sent");

    // An HTTP/1 endpoint that treats it as an ordinary request: its 200 must not look like acceptance.
    let origin = http_1();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let failed = client.begin(connect("/other"), false).expect("begun").response().expect("an answer");
    assert_eq!((failed.status, failed.reason()), (502, "http_upgrade_failed"));
    let no = client.begin(connect("/no"), false).expect("begun").response().expect("an answer");
    assert_eq!((no.status, no.text().as_str()), (403, "no"));
    gateway.reconcile(&[&origin]);

    let gateway =
        Gateway::start(&format!("routes: [{{match: \"/*\", to: \"{}\", upgrade: off}}]\n", origin.address()));
    let mut client = gateway.http2();
    let refused = client.begin(connect("/ws"), false).expect("begun").response().expect("an answer");
    assert_eq!((refused.status, refused.reason()), (405, "connect_refused"));
}

#[test]
fn a_protocol_that_is_no_name_is_asked_for_in_no_stream() {
    let origin = http_2(true);
    let gateway = to(&origin);
    let mut client = gateway.client();
    // From here on there is a connection whose endpoint has announced that it permits CONNECT.
    client.send(ask("/no"));
    assert_eq!(client.response().status, 403);
    for protocol in [&b"websocket/\xff"[..], b"websocket/", b"websocket/1\"3"] {
        let head = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ";
        let failed = client.ask([head, protocol, b"\r\n\r\n"].concat());
        assert_eq!((failed.status, failed.reason()), (502, "http_upgrade_failed"), "{protocol:?}");
    }
    assert_eq!(client.get("/").text(), "GET / ", "the worker and the connection go on");
    reconcile(&gateway, &origin);
}

#[test]
fn resets_go_both_ways() {
    let origin =
        Http2Origin::play_with(Http2Settings { connect: true, ..Http2Settings::default() }, |stream| {
            stream.head(200, &[("sec-websocket-protocol", "chat")], false);
            let first = stream.data();
            if first.is_some_and(|first| first == "break") {
                return stream.reset(Reason::CANCEL);
            }
            stream.wait_reset();
        });
    let gateway = to(&origin);
    let mut client = gateway.http2();
    let mut gone = switched(&mut client);
    gone.send("stay", false).expect("sent");
    gone.reset();
    eventually("the endpoint's stream to be reset", || origin.resets().len() == 1);
    let mut broken = switched(&mut client);
    broken.send("break", false).expect("sent");
    assert_eq!(broken.data(), Err(Cut::Reset(Reason::CANCEL)));
    let _ = gateway.wait_records(2);
    assert_eq!(origin.connections().0, 1);
}

#[test]
fn a_reset_of_a_stream_resets_the_connection_of_a_client_of_http_1() {
    let settings = Http2Settings { connect: true, ..Http2Settings::default() };
    let origin = Http2Origin::play_with(settings, |stream| {
        stream.head(200, &[("sec-websocket-protocol", "chat")], false);
        if stream.data().is_some_and(|first| first == "break") {
            return stream.reset(Reason::CANCEL);
        }
        stream.wait_reset();
    });
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send(ask("/ws"));
    assert_eq!(client.head().status, 101);
    client.send("break");
    assert_eq!(client.wire().fill(), Err(ReadError::Truncated));
    let mut client = gateway.client();
    client.send(ask("/ws"));
    assert_eq!(client.head().status, 101);
    client.send("stay");
    client.reset();
    eventually("the endpoint's stream to be reset", || origin.resets() == [Reason::CANCEL]);
    let _ = gateway.wait_records(2);
}

#[test]
fn a_reset_of_a_connection_resets_the_stream_of_a_client_of_http_2() {
    let (sender, ends) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        let Some(request) = conn.request() else { return };
        let accept = websocket_accept(request.headers.get("sec-websocket-key").unwrap_or_default());
        conn.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        ));
        match conn.wire().take(5).as_deref() {
            Ok(b"break") => conn.reset(),
            _ => drop(sender.lock().expect("a sender").send(conn.wire().fill())),
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    let mut broken = switched(&mut client);
    broken.send("break", false).expect("sent");
    assert_eq!(broken.data(), Err(Cut::Reset(Reason::CANCEL)));
    let mut gone = switched(&mut client);
    gone.send("stay!", false).expect("sent");
    eventually("the endpoint to have the word", || origin.bytes(1).ends_with(b"stay!"));
    gone.reset();
    assert_eq!(ends.recv().expect("the endpoint sees it"), Err(ReadError::Truncated));
    // An orderly end stays one.
    let mut ended = switched(&mut client);
    ended.send("stay!", true).expect("sent");
    assert_eq!(ends.recv().expect("the endpoint sees it"), Ok(false));
    let _ = gateway.wait_records(3);
}

#[test]
fn an_endpoint_of_http_1_has_to_prove_that_it_understands() {
    let origin = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            );
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    // The endpoint sends a valid answer, but to another key.
    let mut client = gateway.http2();
    let failed = client.begin(connect("/ws"), false).expect("begun").response().expect("an answer");
    assert_eq!((failed.status, failed.reason()), (502, "http_upgrade_failed"));
}

#[test]
fn a_silent_tunnel_is_reset_after_the_timeout() {
    let origin = http_1();
    let gateway = Gateway::with(&origin, "timeouts: {upgraded: 2s}");
    let mut client = gateway.http2();
    let mut stream = switched(&mut client);
    let begun = Instant::now();
    eventually("longer than that, in small steps", || {
        // Large enough not to count as a flood of useless frames.
        echoes(&mut stream, &[7; 1024]);
        begun.elapsed() > Duration::from_secs(3)
    });
    assert_eq!(stream.data(), Err(Cut::Reset(Reason::INTERNAL_ERROR)));
    eventually("the endpoint to be let go", || origin.open() == 0);
    assert_eq!(client.get("/").text(), "what?", "the connection goes on");
    let record = &gateway.wait_records(2)[0];
    assert_eq!((&record["status"], record["reason"].is_null()), (&101.into(), true), "{record}");
}

#[test]
fn a_silent_http2_endpoint_is_reset_for_every_kind_of_client() {
    let settings = Http2Settings { connect: true, ..Http2Settings::default() };
    let origin = Http2Origin::play_with(settings, |stream| {
        stream.head(200, &[("sec-websocket-protocol", "chat")], false);
        stream.wait_reset();
    });
    let gateway = Gateway::start(&format!(
        "timeouts: {{upgraded: 200ms}}\nroutes: [{{match: /*, to: \"h2c://{}\"}}]\n",
        origin.address()
    ));
    let mut client = gateway.http2();
    let mut stream = switched(&mut client);
    assert_eq!(stream.data(), Err(Cut::Reset(Reason::INTERNAL_ERROR)));
    let mut client = gateway.client();
    client.send(ask("/ws"));
    assert_eq!(client.head().status, 101);
    client.expect_close();
    eventually("the endpoint to be told", || origin.resets().len() == 2);
    assert_eq!(origin.resets(), [Reason::CANCEL; 2]);
    let _ = gateway.wait_records(2);
}

/// A WebSocket frame with the message `hi`.
const HI: [u8; 4] = [0x81, 2, b'h', b'i'];
/// The close frame "going away" (1001), as the gateway sends it to a client.
const GOING_AWAY: [u8; 4] = [0x88, 2, 3, 0xe9];
/// The close frame in a client's answer, masked with zeros.
const ANSWER: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 3, 0xe9];

/// Returns whether the last bytes that an endpoint received are this close frame, masked as a client masks
/// it.
fn is_told(heard: &[u8]) -> bool {
    let [0x88, 0x82, mask @ .., one, two] = &heard[heard.len().saturating_sub(8)..] else { return false };
    matches!(mask, [a, b, _, _] if [one ^ a, two ^ b] == [3, 0xe9])
}

/// Drains the gateway, and asserts that both sides of a WebSocket get a close frame.
fn part(mut gateway: Gateway, heard: impl Fn() -> Vec<u8>) {
    let mut client = gateway.http2();
    let mut stream = switched(&mut client);
    echoes(&mut stream, &HI);
    gateway.signal(Signal::TERM);
    let told = stream.data().expect("no cut");
    assert_eq!(told.as_deref(), Some(&GOING_AWAY[..]));
    eventually("the endpoint to be told", || is_told(&heard()));
    // The endpoint has echoed the close frame as its answer; the client answers here.
    stream.send(ANSWER.to_vec(), true).expect("sent");
    assert_is_over(&mut stream);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert_eq!(gateway.records().len(), 1);
}

#[test]
fn both_sides_get_a_close_frame_before_a_drain_ends() {
    let origin = http_1();
    let gateway = Gateway::with(&origin, "timeouts: {drain: 2s}");
    part(gateway, || origin.bytes(0));
}

#[test]
fn both_http2_sides_get_a_close_frame() {
    let heard = Arc::new(Mutex::new(Vec::<u8>::new()));
    let hears = heard.clone();
    let settings = Http2Settings { connect: true, ..Http2Settings::default() };
    let origin = Http2Origin::play_with(settings, move |stream| {
        stream.head(200, &[("sec-websocket-protocol", "chat")], false);
        while let Some(data) = stream.data() {
            hears.lock().expect("heard").extend_from_slice(&data);
            stream.send(data, false);
        }
        stream.send("", true);
    });
    let gateway = Gateway::start(&format!(
        "timeouts: {{drain: 2s}}\nroutes: [{{match: /*, to: \"h2c://{}\"}}]\n",
        origin.address()
    ));
    part(gateway, || heard.lock().expect("heard").clone());
}

/// Asserts that messages pass after a reload to a plan without the endpoint.
fn outlives_a_reload(gateway: &Gateway) {
    let mut client = gateway.http2();
    let mut stream = switched(&mut client);
    echoes(&mut stream, b"before");
    gateway.write_config("routes: [{match: /new, respond: {status: 200, body: new}}]");
    gateway.signal(Signal::HUP);
    eventually("the new plan", || client.get("/new").text() == "new");
    assert_eq!(client.get("/ws").status, 404);
    echoes(&mut stream, b"after");
    stream.send("", true).expect("sent");
    assert!(stream.rest(Response::default()).expect("an end").body.is_empty());
}

#[test]
fn it_outlives_a_reload() {
    let origin = http_1();
    let gateway = Gateway::to(&origin);
    outlives_a_reload(&gateway);
    gateway.reconcile(&[&origin]);
    assert_eq!(gateway.records().iter().filter(|record| record["status"] == 101).count(), 1);
}

#[test]
fn it_outlives_a_reload_where_both_speak_http_2() {
    let origin = http_2(true);
    let gateway = to(&origin);
    outlives_a_reload(&gateway);
    reconcile(&gateway, &origin);
    assert_eq!(gateway.records().iter().filter(|record| record["status"] == 101).count(), 1);
}
