//! WebSocket over HTTP/2 (RFC 8441), on either side and on both.

use h2::Reason;
use h2::ext::Protocol;
use http::Request;
use tollgate_tests::http2::{Cut, Http2, Stream};
use tollgate_tests::{
    Gateway, Http2Origin, Http2Settings, Origin, OriginStream, eventually, websocket_accept,
};

use super::to;

/// The accept that answers the sample key of RFC 6455, 1.3.
const SAMPLE: (&str, &str) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

/// An origin of HTTP/1 that switches and echoes at `/ws`.
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

/// An origin of HTTP/2 that does the same, if it `allows` it.
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
    let rest = std::iter::from_fn(|| stream.data().expect("no cut"));
    assert_eq!(rest.flatten().count(), 0);
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
    let ask = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n",
            SAMPLE.0
        )
    };
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
fn who_does_not_switch_is_told_of() {
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

    // An endpoint of HTTP/1 that takes it for an ordinary request: its 200 must not look like a yes.
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
    assert!(matches!(broken.data(), Err(Cut::Reset(_))));
    let _ = gateway.wait_records(2);
    assert_eq!(origin.connections().0, 1);
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
    // The right answer to another key.
    let mut client = gateway.http2();
    let failed = client.begin(connect("/ws"), false).expect("begun").response().expect("an answer");
    assert_eq!((failed.status, failed.reason()), (502, "http_upgrade_failed"));
}
