//! Measures the heap memory of connections to endpoints: idle, and per open stream. One test in a process of
//! its own, so that no other code allocates.

use std::alloc::System;
use std::task::Poll;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_http2::{ClientConnection, ClientSettings, MemoryTotals, PREFACE, RequestPseudo};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The gateway's settings for endpoints.
const SETTINGS: ClientSettings =
    ClientSettings { stream_window: 256 << 10, connection_window: 1 << 20, max_head_bytes: 64 << 10 };

/// The most memory of an idle connection that has served requests.
const IDLE_BYTES_MAX: usize = 8 << 10;

/// The most memory of a stream whose request was sent and whose response has not arrived.
const STREAM_BYTES_MAX: usize = 2 << 10;

const STREAMS: usize = 1000;

fn written(connection: &ClientConnection) -> usize {
    let mut total = 0;
    let end = connection.poll_write(|some| {
        total += some.len();
        Poll::Ready(Ok(some.len()))
    });
    assert!(matches!(end, Poll::Ready(Ok(()))));
    total
}

fn live_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

#[test]
fn an_idle_connection_and_an_open_stream_are_small() {
    let pseudo = RequestPseudo {
        method: b"GET",
        is_secure: false,
        authority: b"a.example.com",
        path: b"/",
        protocol: None,
    };
    let fields = [
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
        ("accept", "*/*"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
    ];
    let ask = |connection: &ClientConnection| {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        connection.send_request(pseudo, fields, false, true).expect("a stream")
    };
    let region = Region::new(ALLOCATOR);
    let totals = MemoryTotals::default();
    let connection = ClientConnection::new(&SETTINGS, &totals);
    // The endpoint's SETTINGS without a limit of streams, and its acknowledgement.
    connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], Duration::ZERO);
    connection.receive(&[0, 0, 0, 4, 1, 0, 0, 0, 0], Duration::ZERO);
    assert!(written(&connection) > PREFACE.len());
    // A request and its response: `:status: 200` and the end of the stream.
    let stream = ask(&connection);
    assert!(written(&connection) > 0);
    connection.receive(&[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88], Duration::ZERO);
    drop(stream);
    written(&connection);
    let idle = live_bytes(&region);
    assert!(idle <= IDLE_BYTES_MAX, "an idle connection takes {idle} bytes");

    let mut streams = Vec::with_capacity(STREAMS);
    let open = Region::new(ALLOCATOR);
    for _ in 0..STREAMS {
        streams.push(ask(&connection));
        assert!(written(&connection) > 0);
    }
    let each = live_bytes(&open) / STREAMS;
    assert!(each <= STREAM_BYTES_MAX, "a stream takes {each} bytes");
}
