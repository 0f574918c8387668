//! A client that compares every byte, and helpers that start origins.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tollgate_lab_origin::{Origin, Settings};

/// A request that keeps the connection open.
pub const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A request that closes the connection.
pub const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Returns an address with any port of this machine.
pub fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Starts an origin with changed settings.
pub fn start(change: impl FnOnce(&mut Settings)) -> Origin {
    let mut settings = Settings::new(any(), any());
    change(&mut settings);
    Origin::start(&settings).unwrap()
}

pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends `text` and returns everything that arrives until the server closes the connection.
pub fn say(to: SocketAddr, text: &str) -> String {
    let mut stream = connect(to);
    stream.write_all(text.as_bytes()).unwrap();
    rest(&mut stream)
}

/// Returns everything that still arrives.
pub fn rest(stream: &mut TcpStream) -> String {
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    got
}

/// Reads the head of one response on a kept connection; its body must be `body`.
pub fn one(stream: &mut TcpStream, body: &str) -> String {
    let mut got = Vec::new();
    let mut byte = [0];
    while !got.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    let mut rest = vec![0; body.len()];
    stream.read_exact(&mut rest).unwrap();
    assert_eq!(rest, body.as_bytes());
    String::from_utf8(got).unwrap()
}
