//! Recording an exchange allocates nothing: not for the counters, not for any format of the log, and not when
//! a buffer of lines is handed to the writer. One test in a process of its own, so that only its allocations
//! count.

use std::alloc::System;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_observe::{
    AccessLog, LogConfig, LogFormat, LogTarget, Reason, Record, Registry, RequestIds, Slot, Tally,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LINES: u64 = 120;

fn tally(route_slot: Slot, upstream_slot: Slot) -> Tally {
    Tally {
        reason: Reason::None,
        status: 200,
        protocol: tollgate_observe::Protocol::Http11,
        method: tollgate_observe::RequestMethod::Get,
        route_slot,
        upstream_slot,
        bytes_in: 10,
        bytes_out: 4_000,
        header: Some(Duration::from_micros(700)),
        total: Duration::from_micros(900),
    }
}

fn record(id: &[u8]) -> Record<'_> {
    Record {
        reason: Reason::None,
        status: 200,
        grpc_status: Some(0),
        detail: None,
        client: SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 40_000)),
        peer: SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 40_000)),
        is_stream: false,
        secure: false,
        method: b"GET",
        target: b"/v1/items?page=2&q=caf\xe9",
        version: b"HTTP/1.1",
        tls: None,
        sni: None,
        alpn: None,
        ja4: None,
        host: Some(b"api.example.com"),
        referer: Some(b"https://example.com/\""),
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        request_id: Some(id),
        cache: None,
        consumer: None,
        span: None,
        route: "items",
        upstream: "shop",
        endpoint: "10.0.0.1:8080",
        bytes_in: 10,
        bytes_out: 4_000,
        attempts: 1,
        reused: true,
        started: Instant::now(),
        connect: Some(Duration::from_micros(80)),
        header: Some(Duration::from_micros(700)),
        total: Duration::from_micros(900),
        earlier: 0,
        attempt: Duration::from_micros(900),
        details: &(),
    }
}

#[test]
fn recording_allocates_nothing() {
    let registry = Registry::new(true);
    let stats = registry.worker();
    let (route, upstream) = (registry.route_slot("items"), registry.upstream_slot("shop"));
    let mut ids = RequestIds::new([7; 16]);
    let template = "{time} {time_local} {client} {path} {query} {total_ms} {body_ms} {user_agent}".to_owned();
    for format in [LogFormat::Combined, LogFormat::Json, LogFormat::Template(template)] {
        let config = LogConfig { target: LogTarget::File("/dev/null".into()), format };
        let log = AccessLog::start(config).expect("/dev/null can be written");
        let mut sink = log.sink();
        for round in 1..=6 {
            let region = Region::new(ALLOCATOR);
            // JSON lines are the longest, and fill more than one buffer: one is handed over during the loop.
            for _ in 0..LINES {
                let mut id = [0; 32];
                ids.write(&mut id);
                stats.request_started();
                stats.upstream_reused(upstream);
                stats.record(&tally(route, upstream), || route);
                sink.record(&record(&id));
            }
            sink.flush();
            let end = Instant::now() + Duration::from_secs(20);
            while log.written() < round * LINES && Instant::now() < end {
                // The writer returns the buffer before it counts its lines.
                std::thread::sleep(Duration::from_millis(1));
            }
            let change = region.change();
            // The first rounds allocate the buffers that later rounds reuse.
            if round > 3 {
                assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
            }
        }
        assert_eq!((log.written(), log.dropped()), (6 * LINES, 0));
    }
}
