//! Every wait has the right bound, and a transfer that makes progress is not cut.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tollgate_observe::Reason;

use crate::gateway::{Gateway, eventually};
use crate::origin::Origin;

const SOON: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(100);

/// A slow endpoint that takes a large body bit by bit is not cut, unlike an endpoint that takes nothing.
#[test]
fn an_endpoint_that_takes_a_collected_body_slowly_is_waited_for() {
    let origin = Origin::new(|mut connection, _| {
        let (mut left, mut buffer) = (12 << 20, vec![0; 1 << 20]);
        while left > 0 {
            let count = connection.read(&mut buffer);
            if count == 0 {
                return;
            }
            left = left.max(count) - count;
            if left % (1 << 20) < count {
                std::thread::sleep(TICK);
            }
        }
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let gateway =
        Gateway::to(&origin.to(), ", buffer: {request: 20MiB}", "timeouts: {body: 500ms, send: 500ms}");
    let mut client = gateway.client();
    client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 12 << 20));
    client.send(vec![7; 12 << 20]);
    let answer = client.answer();
    assert!(answer.ends_with("\r\nok"), "{answer}");
    gateway.end(SOON);
}

/// The client is slow, not the endpoint: the client's bound applies, and the log blames the client.
#[test]
fn a_client_that_reads_nothing_is_cut() {
    let origin = Origin::new(|mut connection, _| {
        connection.request();
        let chunk = vec![7; 1 << 16];
        let _ = connection.stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        while connection.stream.write_all(&chunk).is_ok() {}
    });
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {write: 300ms, response_body: off, total: off}");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the cut", || gateway.counts().reasons[Reason::ClientWriteTimeout as usize] == 1);
    drop(client);
    gateway.end(SOON);
}

/// A slow but steady reader of a streamed response is served to the end, although the upstream's bytes must
/// wait for it.
#[test]
fn a_client_that_reads_slowly_is_not_cut() {
    const SIZE: usize = 24 << 20;
    let origin = Origin::new(|mut connection, _| {
        connection.request();
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        connection.send(vec![7; SIZE]);
        connection.wait_for_end();
    });
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {write: 500ms, response_body: 500ms}");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (mut total, mut since, mut buffer) = (0, 0, vec![0; 1 << 18]);
    loop {
        let count = client.stream.read(&mut buffer).expect("read");
        if count == 0 {
            break;
        }
        total += count;
        since += count;
        if since > 2 << 20 {
            since = 0;
            std::thread::sleep(TICK);
        }
    }
    assert!(total > SIZE, "{total}");
    gateway.end(SOON);
}

/// An endpoint that has started to respond may wait for the rest of the upload for as long as it makes
/// progress.
#[test]
fn an_upload_goes_on_after_the_answer_has_begun() {
    let origin = Origin::new(|mut connection, _| {
        let mut buffer = [0; 65536];
        connection.read(&mut buffer);
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut left = 100;
        while left > 0 {
            let count = connection.read(&mut buffer);
            if count == 0 {
                return;
            }
            left -= count.min(left);
        }
        connection.send("4\r\ndone\r\n0\r\n\r\n");
    });
    let gateway = Gateway::to(&origin.to(), "", "timeouts: {response_body: 400ms}");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..10 {
        std::thread::sleep(TICK);
        client.send([b'x'; 10]);
    }
    let answer = String::from_utf8(client.rest().expect("the end")).expect("text");
    assert!(answer.ends_with("4\r\ndone\r\n0\r\n\r\n"), "{answer}");
    assert_eq!(gateway.end(SOON).reason(Reason::None), 1);
}

/// A listener whose queue is full, so that new connections wait.
fn full_backlog() -> (socket2::Socket, Vec<TcpStream>, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    socket.listen(0).expect("listens");
    let address = socket.local_addr().expect("an address").as_socket().expect("an IP address");
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, 2 * TICK) {
        queue.push(stream);
    }
    (socket, queue, address)
}

#[test]
fn the_whole_has_a_bound_whatever_it_waits_for() {
    let (_socket, _queue, address) = full_backlog();
    let bounds = "timeouts: {connect: 10s, body: 10s, total: 300ms}";
    let gateway = Gateway::to(&address.to_string(), ", buffer: {request: true}", bounds);
    let start = Instant::now();
    // The connection never opens. The body that the gateway collects does not end, although bytes keep
    // arriving.
    let answer = gateway.client().ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..10 {
        std::thread::sleep(TICK / 2);
        let _ = client.stream.write(b"x");
    }
    let answer = client.answer();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(start.elapsed() < SOON);
    drop(client);
    assert_eq!(gateway.end(SOON).reason(Reason::RequestTimeout), 2);
}

/// Bounds of a buffer are inclusive, however the end of the body arrives.
#[test]
fn a_body_that_just_fits_its_buffer() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin.to(), ", buffer: {request: {memory: 10, file: 0}}", "");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789");
    std::thread::sleep(TICK);
    assert!(client.ask("\r\n0\r\n\r\n").ends_with("\r\nok"));
    // A declared length above the bound is refused from the head alone: the client need not send the body.
    let answer =
        client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    gateway.end(SOON);
}
