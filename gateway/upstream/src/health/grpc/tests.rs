//! Tests probes by the gRPC health protocol.

use std::future::{Future, poll_fn};
use std::net::TcpListener;
use std::pin::pin;
use std::thread;

use bytes::Bytes;
use http::Response;
use proptest::prelude::*;
use tollgate_net::{Address, Runtime};

use super::*;

#[test]
fn the_question() {
    assert_eq!(encode_request(""), &b"\0\0\0\0\0"[..]);
    assert_eq!(encode_request("a.B"), &b"\0\0\0\0\x05\x0a\x03a.B"[..]);
    let long = encode_request(&"s".repeat(300));
    assert_eq!(&long[..8], b"\0\0\0\x01\x2f\x0a\xac\x02");
    assert_eq!(long.len(), 308);
}

#[test]
fn the_answer() {
    for (framed, status) in [
        (&b"\0\0\0\0\x02\x08\x01"[..], Some(1)),
        (b"\0\0\0\0\x02\x08\x02", Some(2)),
        (b"\0\0\0\0\0", Some(0)),
        (b"\0\0\0\0\x07\x12\x01x\x18\x80\x01\x08", None),
        (b"\0\0\0\0\x08\x12\x01x\x18\x80\x01\x08\x01", Some(1)),
        (b"\0\0\0\0\x05\x1d1234", Some(0)),
        (b"\0\0\0\0\x09\x1912345678", Some(0)),
        (b"\x01\0\0\0\x02\x08\x01", None),
        (b"\0\0\0\0\x03\x08\x01", None),
        (b"\0\0\0\0\x01\x08", None),
        (b"\0\0\0\0\x02\x08\x01\0", None),
        (b"\0\0\0\0\x02\x0b\x01", None),
        (b"\0\0\0", None),
        (b"", None),
    ] {
        assert_eq!(decode_response(framed), status, "{framed:?}");
    }
}

proptest! {
    #[test]
    fn no_response_is_too_large(bytes: Vec<u8>) {
        let _ = decode_response(&bytes);
        let framed = [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat();
        let _ = decode_response(&framed);
    }
}

/// The answer of a server to a call.
#[derive(Clone, Default)]
struct Says {
    status: u16,
    kind: &'static str,
    head: Option<&'static str>,
    message: &'static [u8],
    trailer: Option<&'static str>,
}

/// Probes a server that answers one call. Returns the probe's result, and the path and message that the
/// server received.
fn ask(says: Says, service: &str) -> (Result<(), ProbeFailure>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = Address::Socket(listener.local_addr().expect("an address"));
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_nonblocking(true).expect("non-blocking");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
            let mut connection = h2::server::handshake(stream).await.expect("a handshake");
            let (mut request, mut respond) = connection.accept().await.expect("a call").expect("a call");
            let path = request.uri().path().to_owned();
            let work = async move {
                let mut got = Vec::new();
                while let Some(data) = request.body_mut().data().await {
                    got.extend_from_slice(&data.expect("data"));
                }
                let mut head = Response::builder().status(says.status).header("content-type", says.kind);
                if let Some(status) = says.head {
                    head = head.header("grpc-status", status);
                }
                let ends = says.message.is_empty() && says.trailer.is_none();
                let mut body = respond.send_response(head.body(()).expect("a head"), ends).expect("sent");
                if !ends {
                    body.send_data(Bytes::from_static(says.message), says.trailer.is_none()).expect("sent");
                }
                if let Some(status) = says.trailer {
                    let fields =
                        [(http::HeaderName::from_static("grpc-status"), status.parse().expect("a value"))];
                    body.send_trailers(fields.into_iter().collect()).expect("sent");
                }
                got
            };
            let mut work = pin!(work);
            let got = poll_fn(|cx| {
                let worked = work.as_mut().poll(cx);
                let _ = connection.poll_closed(cx);
                worked
            })
            .await;
            // Runs until the probe has closed the connection.
            let _ = poll_fn(|cx| connection.poll_closed(cx)).await;
            format!("{path} {got:?}")
        })
    });
    let result = Runtime::new().expect("a runtime").run(async {
        check(
            Stream::connect(&address).await.expect("connected"),
            "h.example",
            service,
            &FaultCell::default(),
        )
        .await
    });
    (result, thread.join().expect("no panic"))
}

const SERVES: Says = Says {
    status: 200,
    kind: "application/grpc",
    head: None,
    message: b"\0\0\0\0\x02\x08\x01",
    trailer: Some("0"),
};

#[test]
fn a_service_that_serves() {
    let (result, got) = ask(SERVES, "a.B");
    assert_eq!(result, Ok(()));
    assert_eq!(got, format!("/grpc.health.v1.Health/Check {:?}", b"\0\0\0\0\x05\x0a\x03a.B"));
    assert_eq!(ask(Says { kind: "application/grpc+proto", ..SERVES }, "").0, Ok(()));
}

#[test]
fn and_others() {
    for (says, failure) in [
        (Says { message: b"\0\0\0\0\x02\x08\x02", ..SERVES }, ProbeFailure::NotServing),
        (Says { message: b"\0\0\0\0\0", ..SERVES }, ProbeFailure::NotServing),
        (Says { head: Some("5"), message: b"", trailer: None, ..SERVES }, ProbeFailure::Grpc(5)),
        (Says { trailer: Some("14"), ..SERVES }, ProbeFailure::Grpc(14)),
        (Says { trailer: Some("x"), ..SERVES }, ProbeFailure::Grpc(2)),
        (Says { trailer: None, ..SERVES }, ProbeFailure::Closed),
        (Says { message: b"\0\0\0\0\x02\x08", ..SERVES }, ProbeFailure::Protocol),
        (Says { message: &[0; MESSAGE_MAX_BYTES + 1], ..SERVES }, ProbeFailure::Protocol),
        (Says { kind: "text/html", ..SERVES }, ProbeFailure::Protocol),
        (Says { status: 404, ..SERVES }, ProbeFailure::Status(404)),
    ] {
        assert_eq!(ask(says.clone(), "").0, Err(failure), "{:?} {:?}", says.message.len(), says.trailer);
    }
}

#[test]
fn no_length_of_an_answer_overflows() {
    for length in [0, 1, 3, u32::MAX >> 1, u32::MAX] {
        assert_eq!(decode_response(&[&[0][..], &length.to_be_bytes(), &[8, 1]].concat()), None, "{length}");
    }
    // A field of bytes that is longer than the message, and numbers without an end.
    for field in [
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..],
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x12, 1],
        &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[8],
        &[9, 0, 0],
        &[0x0d, 0],
    ] {
        let length = u32::try_from(field.len()).expect("short").to_be_bytes();
        assert_eq!(decode_response(&[&[0][..], &length, field].concat()), None, "{field:?}");
    }
}
