//! Prints the cost of recording, in nanoseconds per exchange:
//! `cargo run --release -p tollgate-observe --example hot_path`.
//!
//! All data is in the cache, and log lines are formatted but not written. The figures are a lower bound of
//! the cost that a worker pays among other work.

use std::hint::black_box;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tollgate_observe::{
    AccessLog, LogConfig, LogFormat, LogTarget, Reason, Record, Registry, RequestIds, Tally,
};

const ROUNDS: u32 = 2_000_000;

/// Returns the best of five runs; slower runs were disturbed.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS / 5 {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS / 5));
    }
    best
}

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    let registry = Registry::new(true);
    let stats = registry.worker();
    let started = Instant::now();
    let mut record = Record {
        reason: Reason::None,
        status: 200,
        grpc_status: None,
        detail: None,
        client: SocketAddr::from(([192, 0, 2, 7], 40_000)),
        peer: SocketAddr::from(([192, 0, 2, 7], 40_000)),
        is_stream: false,
        secure: false,
        method: b"GET",
        target: b"/v1/items?page=2",
        version: b"HTTP/1.1",
        tls: None,
        sni: None,
        alpn: None,
        ja4: None,
        host: Some(b"api.example.com"),
        referer: None,
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        request_id: None,
        cache: None,
        consumer: None,
        span: None,
        route: "items",
        upstream: "shop",
        endpoint: "10.0.0.1:8080",
        bytes_in: 0,
        bytes_out: 4_000,
        attempts: 1,
        reused: true,
        started,
        connect: None,
        header: Some(Duration::from_micros(700)),
        total: Duration::from_micros(900),
        earlier: 0,
        attempt: Duration::from_micros(900),
        details: &(),
    };
    let tally = Tally {
        reason: record.reason,
        status: record.status,
        protocol: tollgate_observe::Protocol::Http11,
        method: tollgate_observe::RequestMethod::Get,
        route_slot: registry.route_slot("items"),
        upstream_slot: registry.upstream_slot("shop"),
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        header: record.header,
        total: record.total,
    };
    let cost = nanoseconds(|| {
        stats.request_started();
        stats.record(black_box(&tally), || tally.route_slot);
    });
    writeln!(out, "counts            {cost:6.1} ns")?;
    let mut ids = RequestIds::new([7; 16]);
    let mut id = [0; 32];
    let cost = nanoseconds(|| ids.write(black_box(&mut id)));
    writeln!(out, "request id        {cost:6.1} ns")?;
    let formats = [
        ("combined", LogFormat::Combined),
        ("json", LogFormat::Json),
        ("template", LogFormat::Template("{time} {client} {method} {path} {status} {total_ms}".to_owned())),
    ];
    for (name, format) in formats {
        let log = AccessLog::start(LogConfig { target: LogTarget::File("/dev/null".into()), format })?;
        let mut sink = log.sink();
        // The writer is stopped: at the speed of this loop it would compete for the cores, and fall far
        // behind.
        log.close(Duration::from_secs(1));
        let mut line = 0;
        let cost = nanoseconds(|| {
            line += 1;
            // 20 us per request, so that the second changes as often as at 50,000 requests/s.
            record.started = started + Duration::from_micros(20) * line;
            sink.record(black_box(&record));
        });
        writeln!(out, "log line, {name:8}{cost:6.1} ns")?;
    }
    Ok(())
}
