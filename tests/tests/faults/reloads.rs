//! Reloads and binary upgrades under constant load, with WebSockets that stay open over all of them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_tests::{Client, Gateway, Origin, Signal, eventually};

use super::is_optimised;
use super::load::Load;

/// A protocol switch with the answer to the sample key of RFC 6455, 1.3.
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const ASK: &str = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Starts an origin that switches protocols and echoes; it answers plain requests.
fn echoing() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if request.headers.has("Upgrade") {
                conn.send(SWITCH);
                conn.echo_bytes();
                return;
            }
            conn.ok("ok");
        }
    })
}

/// WebSockets that are used repeatedly.
struct Sockets {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl Sockets {
    fn open(gateway: &Gateway, count: usize) -> Self {
        let open = |_| {
            let mut client = gateway.client();
            client.send(ASK);
            assert_eq!(client.head().status, 101);
            client
        };
        let mut clients: Vec<Client> = (0..count).map(open).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut rounds, mut dropped) = (0, Vec::new());
            // One more round after the end shows that none was dropped at the last moment.
            let mut last = false;
            while !last {
                last = stopped.load(Ordering::SeqCst);
                clients.retain_mut(|client| {
                    let text = format!("round {rounds} of {}", client.address());
                    client.send(&text);
                    match client.wire().take(text.len()) {
                        Ok(echo) if echo == text.as_bytes() => true,
                        other => {
                            dropped.push(format!("round {rounds}: {other:?}"));
                            false
                        }
                    }
                });
                rounds += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            (rounds, dropped)
        });
        Self { stop, thread }
    }

    /// Closes them. Returns how often each was used, and the errors of dropped requests.
    fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("the sockets' thread does not panic")
    }
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_hundred_reloads_and_five_upgrades() {
    const RELOADS: usize = 100;
    const UPGRADES: usize = 5;
    const SOCKETS: usize = 100;
    let origin = echoing();
    let config = |turn: usize| {
        format!(
            "workers: 2\naccess_log: off\ntimeouts: {{drain: 10m}}\nroutes:\n  - {{match: \"/*\", to: [\"{}\"]}}\n  \
             - {{match: /turn, respond: \"turn {turn}\"}}\n",
            origin.address()
        )
    };
    let mut gateway = Gateway::start(&config(0));
    let sockets = Sockets::open(&gateway, SOCKETS);
    let started = Instant::now();
    let load = Load::start(gateway.address(), 20, Duration::from_millis(12));
    for turn in 1..=RELOADS {
        gateway.write_config(&config(turn));
        gateway.signal(Signal::HUP);
        let expected = format!("turn {turn}");
        eventually("the new plan", || gateway.client().get("/turn").text() == expected);
        std::thread::sleep(Duration::from_millis(100));
        if turn % (RELOADS / UPGRADES) == 0 {
            gateway.upgrade();
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    let answers = load.end();
    let seconds = started.elapsed().as_secs_f64();
    let (rounds, dropped) = sockets.end();
    eprintln!(
        "reloads {RELOADS}, upgrades {UPGRADES}, requests {} ({:.0} a second), failed {}, WebSockets {SOCKETS}, each \
         used {rounds} times, dropped {}; p50 {:?}, p99 {:?}",
        answers.count(),
        answers.count() as f64 / seconds,
        answers.failures.len(),
        dropped.len(),
        answers.percentile(0.5),
        answers.percentile(0.99),
    );
    assert_eq!((answers.failures, dropped), (Vec::new(), Vec::new()));
    assert!(answers.times.len() as f64 >= 1000.0 * seconds, "fewer than 1,000 requests a second");
    // Nothing keeps the old processes alive.
    (0..UPGRADES).for_each(|number| gateway.wait_predecessor(number));
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn ten_thousand_routes_of_which_one_changes() {
    const ROUTES: usize = 10_000;
    const RELOADS: usize = 10;
    let config = |turn: usize| {
        let mut text = String::from("workers: 2\naccess_log: off\nroutes:\n");
        for route in 0..ROUTES - 1 {
            writeln!(
                text,
                "  - {{match: \"service-{}.example.com/v{route}/*\", respond: \"{route}\"}}",
                route % 100
            )
            .expect("a String takes everything");
        }
        writeln!(text, "  - {{match: \"/*\", respond: \"turn {turn}\"}}").expect("a String takes everything");
        text
    };
    let gateway = Gateway::start(&config(0));
    let load = || Load::start(gateway.address(), 8, Duration::from_millis(2));
    let quiet = load();
    std::thread::sleep(Duration::from_secs(4));
    let quiet = quiet.end();
    let meanwhile = load();
    let mut took: Vec<f64> = Vec::new();
    for turn in 1..=RELOADS {
        gateway.write_config(&config(turn));
        gateway.signal(Signal::HUP);
        let expected = format!("turn {turn}");
        eventually("the new plan", || gateway.client().get("/").text() == expected);
        let mut last = None;
        eventually("what the reload took", || {
            let status: Value = serde_json::from_str(&gateway.admin("/status").text()).expect("JSON");
            let generation = status["config"]["generation"].as_u64();
            last = status["config"]["last_reload"]["milliseconds"].as_f64();
            generation == Some(turn as u64 + 1) && last.is_some()
        });
        took.extend(last);
        std::thread::sleep(Duration::from_millis(300));
    }
    let meanwhile = meanwhile.end();
    took.sort_by(f64::total_cmp);
    let (median, longest) = (took[RELOADS / 2], took[RELOADS - 1]);
    eprintln!(
        "reload of {ROUTES} routes with one changed: median {median:.1} ms, longest {longest:.1} ms; answers without \
         reloads p50 {:?}, p99 {:?}, longest {:?}; meanwhile p50 {:?}, p99 {:?}, longest {:?}; {} failed",
        quiet.percentile(0.5),
        quiet.percentile(0.99),
        quiet.percentile(1.0),
        meanwhile.percentile(0.5),
        meanwhile.percentile(0.99),
        meanwhile.percentile(1.0),
        quiet.failures.len() + meanwhile.failures.len(),
    );
    assert_eq!((quiet.failures, meanwhile.failures), (Vec::new(), Vec::new()));
    assert!(!is_optimised() || median < 30.0, "a reload takes {median:.1} ms");
}
