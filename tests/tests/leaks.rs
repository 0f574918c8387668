//! Mixed load for ten minutes: resident memory, descriptors and held permits stay flat.
//!
//! Requests succeed, are aborted and are reset on both HTTP versions while the gateway reloads its file and
//! routes come and go over the admin API. Each of these paths has state to release; a path that forgets some
//! of it grows with time. The first two minutes are left to caches, pools and the allocator to reach their
//! working size.
//!
//! `make leaks` runs this; `LEAK_SECONDS` shortens it for a trial, but then the figures mean less.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::http2::{self, Http2};
use tollgate_tests::{Client, Gateway, Origin, Signal, eventually};

/// How long the load lasts, in seconds, unless `LEAK_SECONDS` overrides it.
const SECONDS: u64 = 600;
/// Parts of the run of equal length. The first part (two minutes of ten) is not judged; the second is
/// compared with the last.
const PARTS: u32 = 5;
/// How much the mean of resident memory may grow from the second part to the last.
const MOST_GROWTH: f64 = 0.05;
/// Routes that the admin API's client adds and removes in turn.
const ROUTES: usize = 50;
/// The size of a body that fits into the buffers of neither side.
const BODY_BYTES: usize = 4 << 20;
/// The pause of each kind of client between two rounds. Two cores carry all of them, and late answers do not
/// reach the limits.
const PAUSE: Duration = Duration::from_millis(20);
/// The least number of rounds a second of each kind of client. Below it, the run proves nothing about that
/// kind.
const FEWEST_ROUNDS_PER_SECOND: f64 = 0.2;

const CONFIG: &str = "\
access_log: {to: $DIR/access.log, format: json}
store: $DIR/store
upstreams:
  main: {endpoints: [$ORIGIN], limits: {connections: 64}}
routes:
  - match: \"/limited/*\"
    to: main
    policies: {concurrency: {limit: 32, by: address}, rate_limit: {rate: 100000/s}}
  - match: \"/*\"
    to: main
    policies: {headers: {response: {set: {X-A: b}}}, compression: on}
";

/// Starts an origin that answers by path: at once, late, or with a body that a client leaves half read.
fn origin() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if request.target.contains("late") {
                conn.pause(Duration::from_millis(200));
            }
            if request.target.contains("large") {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
                if !conn.send(head) || !conn.send(vec![b'x'; BODY_BYTES]) {
                    return;
                }
                continue;
            }
            if request.target.contains("broken") {
                conn.reset();
                return;
            }
            conn.ok("ok");
        }
    })
}

/// Threads that repeat an action until they are stopped, and the counts of their rounds.
struct Chores {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Chores {
    fn new() -> Self {
        Self { stop: Arc::default(), threads: Vec::new() }
    }

    fn repeat(&mut self, name: &'static str, pause: Duration, mut action: impl FnMut() + Send + 'static) {
        let (stop, count) = (self.stop.clone(), Arc::new(AtomicU64::new(0)));
        let counted = count.clone();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                action();
                counted.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(pause);
            }
        });
        self.threads.push((name, count, thread));
    }

    /// Stops all threads, and returns how many rounds each ran.
    fn end(self) -> Vec<(&'static str, u64)> {
        self.stop.store(true, Ordering::SeqCst);
        let join = |(name, count, thread): (_, Arc<AtomicU64>, JoinHandle<()>)| {
            thread.join().unwrap_or_else(|_| panic!("the thread `{name}` panicked"));
            (name, count.load(Ordering::SeqCst))
        };
        self.threads.into_iter().map(join).collect()
    }
}

/// Runs `action` with a client, if the gateway accepts the connection.
fn with_client(address: SocketAddr, action: impl FnOnce(Client)) {
    if let Some(client) = Client::try_connect(address) {
        action(client);
    }
}

fn traffic(chores: &mut Chores, address: SocketAddr) {
    chores.repeat("kept connections", PAUSE, move || {
        with_client(address, |mut client| {
            for target in ["/a", "/limited/a", "/broken", "/late"] {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
                if client.try_response("GET").is_err() {
                    break;
                }
            }
        });
    });
    chores.repeat("clients that leave a late answer", PAUSE, move || {
        with_client(address, |mut client| client.send("GET /limited/late HTTP/1.1\r\nHost: a\r\n\r\n"));
    });
    chores.repeat("clients that reset while they wait", PAUSE, move || {
        with_client(address, |mut client| {
            client.send("GET /limited/late HTTP/1.1\r\nHost: a\r\n\r\n");
            client.reset();
        });
    });
    chores.repeat("downloads that are left half read", PAUSE, move || {
        with_client(address, |mut client| {
            client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
            let _ = client.try_head("GET");
            client.reset();
        });
    });
    chores.repeat("uploads that are left half sent", PAUSE, move || {
        with_client(address, |mut client| {
            client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n"));
            client.send([b'x'; 10_000]);
            client.reset();
        });
    });
    chores.repeat("heads that are left half sent", PAUSE, move || {
        with_client(address, |mut client| client.send("GET /a HTTP/1.1\r\nHost: a\r\nX-Half: "));
    });
    chores.repeat("HTTP/2 streams that are reset", PAUSE, move || {
        let mut client = Http2::connect(address, Arc::default(), 65_535);
        for path in ["/late", "/large", "/limited/late"] {
            if let Ok(stream) = client.begin(http2::get(path), true) {
                stream.reset();
            }
        }
        let _ = client.try_ask(http2::get("/a"));
    });
}

fn change(admin: SocketAddr, number: usize) {
    let name = format!("leak-{}", number % ROUTES);
    let (method, body) = match (number / ROUTES).is_multiple_of(2) {
        true => ("PUT", json!({"match": format!("/{name}"), "respond": "ok"}).to_string()),
        false => ("DELETE", String::new()),
    };
    with_client(admin, |mut client| {
        let length = body.len();
        client.send(format!(
            "{method} /api/v1/routes/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        let _ = client.try_response(method);
    });
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

#[test]
#[ignore = "a leak check of ten minutes: `make leaks`"]
fn memory_is_flat_under_ten_minutes_of_mixed_load() {
    let seconds = std::env::var("LEAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let origin = origin();
    let config = CONFIG.replace("$ORIGIN", &origin.address().to_string());
    let gateway = Gateway::start(&config);
    let files_before = gateway.open_files();

    let mut chores = Chores::new();
    traffic(&mut chores, gateway.address());
    let admin = gateway.admin_address();
    let mut number = 0;
    chores.repeat("changes over the admin API", Duration::from_millis(20), move || {
        change(admin, number);
        number += 1;
    });

    let started = Instant::now();
    let part = Duration::from_secs(seconds) / PARTS;
    let mut resident_kib = vec![Vec::new(); PARTS as usize];
    let mut reloads = 0;
    while started.elapsed() < Duration::from_secs(seconds) {
        gateway.write_config(&format!("{config}  - match: /reload-{reloads}\n    respond: ok\n"));
        gateway.signal(Signal::HUP);
        reloads += 1;
        std::thread::sleep(Duration::from_secs(1));
        let at = (started.elapsed().as_secs_f64() / part.as_secs_f64()) as usize;
        // Anonymous memory only: the machine evicts and reloads pages of the binary on its own.
        resident_kib[at.min(PARTS as usize - 1)].push(gateway.memory_kib("RssAnon"));
    }
    let counts = chores.end();
    let means: Vec<f64> = resident_kib.iter().map(|kib| mean(kib)).collect();
    let growth = means[means.len() - 1] / means[1] - 1.0;
    eprintln!(
        "leaks: {seconds} s, {reloads} reloads, {counts:?}; mean resident memory in {PARTS} parts {means:.0?} KiB: {:+.1} %",
        growth * 100.0
    );
    for (name, count) in counts {
        let fewest = seconds as f64 * FEWEST_ROUNDS_PER_SECOND;
        assert!(count as f64 > fewest, "`{name}` ran {count} times in {seconds} s, too few to tell anything");
    }
    eventually("no request is in flight", || {
        gateway.metrics().sum("tollgate_requests_in_flight", "") == Some(0.0)
    });
    eventually("all descriptors are closed", || gateway.open_files() <= files_before + 16);
    assert!(growth < MOST_GROWTH, "resident memory grew by {:.1} %", growth * 100.0);
}
