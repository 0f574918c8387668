//! In the steady state nothing is allocated: heads are reused, and bodies are read in place.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_http::h1::{
    BodyLength, BodyReader, ChunkHeader, Progress, RequestParser, ResponseParser, write_decimal,
};
use tollgate_http::{HeadLimits, Method, Name, RequestHead, ResponseHead};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LIMITS: HeadLimits = HeadLimits { line: 1024, head: 4096, fields: 32 };
const REQUEST: &[u8] = b"POST http://a.example/b?c HTTP/1.1\r\nHost: a.example\r\nConnection: x-a, upgrade\r\n\
    Upgrade: websocket\r\nX-A: b\r\nTE: trailers\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n";

fn exchange(request: &mut RequestHead, response: &mut ResponseHead, out: &mut Vec<u8>) {
    let mut parser = RequestParser::default();
    for end in [10, 60, REQUEST.len() - 1] {
        assert_eq!(parser.advance(&REQUEST[..end], request, &LIMITS), Ok(Progress::Partial));
    }
    assert_eq!(parser.advance(REQUEST, request, &LIMITS), Ok(Progress::Complete(REQUEST.len())));
    let mut parser = ResponseParser::default();
    let read = parser.advance(RESPONSE, Method::Post, response, &LIMITS);
    assert_eq!(read, Ok(Progress::Complete(RESPONSE.len())));

    out.clear();
    request.head.copy_fields(out, |field| !field.id.is_hop_by_hop() && !request.is_nominated(field));
    response.head.copy_fields(out, |_| true);
    assert_eq!(request.head.list(Name::Connection).count(), 2);
    write_decimal(out, 12345);
    out.extend_from_slice(ChunkHeader::new(out.len()).as_bytes());

    let mut body = *b"5;a=b\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    let mut reader = BodyReader::new(BodyLength::Chunked);
    let read = reader.read(&mut body).map(|step| step.data.len());
    assert_eq!((read, reader.is_done()), (Ok(11), true));
}

#[test]
fn a_steady_exchange_allocates_nothing() {
    let (mut request, mut response, mut out) = (RequestHead::default(), ResponseHead::default(), Vec::new());
    exchange(&mut request, &mut response, &mut out);
    let region = Region::new(ALLOCATOR);
    for _ in 0..100 {
        exchange(&mut request, &mut response, &mut out);
    }
    // The test runner's other thread may allocate a little in that time, but less than once an exchange.
    let change = region.change();
    assert!(change.allocations + change.reallocations < 100, "{change:?}");
}
