//! Bodies, trailers, and how much of them the gateway keeps.

use tollgate_tests::http2::request;
use tollgate_tests::{Framing, Http2Origin};

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
