//! Tests that a request costs the origin no allocation once its connection has its buffers.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tollgate_lab_origin::{Origin, Settings};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Sends `text` and reads a response of the length of `answer`, `times` times.
fn ask(stream: &mut TcpStream, text: &[u8], answer: &mut [u8], times: usize) {
    for _ in 0..times {
        stream.write_all(text).unwrap();
        stream.read_exact(answer).unwrap();
    }
}

/// A single test, since the counts are of the whole process.
#[test]
fn none_a_request() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: b\r\nContent-Length: 1\r\n\r\nx";
    for (delay_ms, record) in [(0, 0), (1, 0), (0, 4)] {
        let mut settings = Settings::new(any, any);
        (settings.delay_ms, settings.record) = (delay_ms, record);
        let origin = Origin::start(&settings).unwrap();
        let mut stream = TcpStream::connect(origin.address()).unwrap();
        let head = "HTTP/1.1 200 OK\r\nServer: tollgate-lab\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                    Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n01";
        let mut answer = vec![0; 2 * head.len()];
        ask(&mut stream, text, &mut answer, 10);
        let region = Region::new(ALLOCATOR);
        ask(&mut stream, text, &mut answer, 1_000);
        let change = region.change();
        // The text of a new date is one allocation per second.
        assert!(
            change.allocations + change.reallocations < 20,
            "delay {delay_ms}, record {record}: {change:?}"
        );
        assert!(answer.ends_with(b"\r\n\r\n01"));
    }
}
