//! Data that the gateway buffers for a slow client reaches it once, and in order.

use std::net::TcpStream;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tollgate_tests::{Origin, TlsClient, TlsPeer};

use super::{gateway, versions};

/// More than a kernel buffers for a client that does not read.
const SIZE: usize = 8 << 20;

/// Returns bytes that depend on their position.
fn body() -> Vec<u8> {
    (0..SIZE as u32).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Reads until `count` bytes have arrived.
fn read(client: &mut TlsClient, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        bytes.extend(client.some().expect("more of the answer"));
    }
    bytes
}

/// Decodes a complete chunked body.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|end| end == b"\r\n").expect("a length");
        let length = std::str::from_utf8(&bytes[..end]).expect("text");
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            assert_eq!(&bytes[end..], b"\r\n\r\n");
            return body;
        }
        let rest = &bytes[end + 2..];
        body.extend(&rest[..length]);
        assert_eq!(&rest[length..length + 2], b"\r\n");
        bytes = &rest[length + 2..];
    }
}

#[test]
fn a_buffered_response_for_a_slow_client_arrives_once() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            match request.target.as_str() {
                "/length" => {
                    conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
                    conn.send(body());
                }
                "/chunked" => {
                    conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for part in body().chunks(100_000) {
                        conn.send(format!("{:x}\r\n", part.len()));
                        conn.send(part);
                        conn.send("\r\n");
                    }
                    conn.send("0\r\n\r\n");
                }
                _ => conn.ok("small"),
            }
        }
    });
    // With a file, and in memory alone.
    for bounds in ["{memory: 64KiB, file: 64MiB}", "{memory: 16KiB, file: 0}"] {
        let (gateway, authority, _files) = gateway(&format!(
            "listen: {{bind: $LISTEN, tls: {{$A}}}}\nroutes: [{{to: [{}], buffer: {{response: {bounds}}}}}]\n",
            origin.address()
        ));
        // The congestion window of the connection to the origin grows, so that much data arrives at once.
        let mut quick =
            TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
        for _ in 0..5 {
            quick.get("a.example", "/length");
        }
        for version in versions() {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_recv_buffer_size(64 << 10).expect("a buffer");
            socket.connect(&gateway.address().into()).expect("the gateway accepts");
            let peer = TlsPeer::speaking(&authority, &[version], None);
            let mut client = peer.shake_hands(TcpStream::from(socket), "a.example").expect("a handshake");
            for path in ["/length", "/chunked"] {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n").as_bytes());
                // Time for the data to pile up.
                std::thread::sleep(Duration::from_millis(100));
                let mut bytes = read(&mut client, SIZE);
                let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
                if path == "/length" {
                    bytes.extend(read(&mut client, (head + SIZE).saturating_sub(bytes.len())));
                    assert!(bytes[head..] == body(), "{path} {bounds} {version:?}: bytes differ");
                } else {
                    while !bytes.ends_with(b"\r\n0\r\n\r\n") {
                        bytes.extend(client.some().expect("more of the answer"));
                    }
                    assert!(unchunked(&bytes[head..]) == body(), "{path} {bounds} {version:?}: bytes differ");
                }
                // None of it precedes the next answer.
                assert!(client.get("a.example", "/small").ends_with("\r\n\r\nsmall"));
            }
        }
    }
}
