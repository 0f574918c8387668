//! The limit of concurrent requests that adapts to the latency.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollgate_tests::{Gate, Gateway, Origin, Response, eventually};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn config(origin: &Origin, adaptive: &str) -> String {
    format!(
        "workers: 2\nupstreams: {{u: {{endpoints: [\"{}\"], adaptive: {adaptive}}}}}\nroutes:\n  \
         - {{match: \"/*\", to: u, upgrade: websocket}}\n  - {{match: \"/low\", to: u, priority: low}}\n  \
         - {{match: \"/high\", to: u, priority: high}}\n",
        origin.address()
    )
}

fn metric(gateway: &Gateway, name: &str, labels: &str) -> u64 {
    gateway.metrics().sum(name, labels).map_or(0, |value| value as u64)
}

fn shown(gateway: &Gateway) -> Value {
    let text = gateway.admin("/upstreams").text();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("JSON: {text}"));
    value["upstreams"][0]["adaptive"].clone()
}

fn is_shed(response: &Response) -> bool {
    (response.status, response.reason()) == (503, "adaptive_limit")
}

/// Starts an origin that answers while the gate is open.
fn gated() -> (Gate, Origin) {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("ok");
        }
    });
    (gate, origin)
}

#[test]
fn no_more_than_the_limit_over_all_workers() {
    let (gate, origin) = gated();
    let gateway = Gateway::start(&config(&origin, "{min: 4, max: 4}"));
    let mut clients: Vec<_> = (0..4).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.send(GET));
    eventually("four requests under way", || origin.count() == 4);
    for _ in 0..4 {
        let refused = gateway.client().get("/");
        assert!(is_shed(&refused), "{refused:?}");
    }
    let adaptive = shown(&gateway);
    assert_eq!((&adaptive["limit"], &adaptive["in_flight"]), (&4.into(), &4.into()));
    assert_eq!(metric(&gateway, "tollgate_upstream_adaptive_limit", "upstream=\"u\""), 4);
    assert_eq!(metric(&gateway, "tollgate_upstream_adaptive_in_flight", "upstream=\"u\""), 4);
    assert_eq!(metric(&gateway, "tollgate_upstream_adaptive_shed_total", "priority=\"normal\""), 4);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.response().status == 200));
    assert_eq!(gateway.client().get("/").status, 200);
    assert_eq!(shown(&gateway)["in_flight"], 0);
    assert_eq!(origin.count(), 5, "what is turned away is not sent");
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_lowest_priority_is_turned_away_first() {
    let (gate, origin) = gated();
    gate.open();
    let gateway = Gateway::start(&config(&origin, "{min: 3, max: 3, interval: 10ms}"));
    let mut client = gateway.client();
    // All priorities are in use. A worker reports this with an answer, a few times in each interval.
    eventually("a place to be kept for each priority above", || {
        assert_eq!((client.get("/high").status, client.get("/").status), (200, 200));
        gate.close();
        let mut first = gateway.client();
        first.send("GET /low HTTP/1.1\r\nHost: a\r\n\r\n");
        let before = origin.count();
        eventually("one of low priority under way", || shown(&gateway)["in_flight"] == 1);
        let mut second = gateway.client();
        second.send("GET /low HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("the second to be decided on", || {
            shown(&gateway)["in_flight"] == 2
                || metric(&gateway, "tollgate_upstream_adaptive_shed_total", "priority=\"low\"") > 0
        });
        gate.open();
        assert_eq!(first.response().status, 200);
        assert!(origin.count() >= before);
        is_shed(&second.response())
    });
    gate.close();
    let mut kept = Vec::new();
    for (target, taken) in
        [("/low", true), ("/low", false), ("/", true), ("/", false), ("/high", true), ("/high", false)]
    {
        let mut client = gateway.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        if taken {
            kept.push(client);
            eventually("one more under way", || shown(&gateway)["in_flight"] == kept.len());
        } else {
            let response = client.response();
            assert!(is_shed(&response), "{target}: {response:?}");
        }
    }
    gate.open();
    assert!(kept.iter_mut().all(|client| client.response().status == 200));
    gateway.reconcile(&[&origin]);
}

#[test]
fn slow_clients_do_not_use_it_up() {
    let origin = Origin::play(|conn| {
        while let Some(mut request) = conn.head() {
            match request.target.as_str() {
                "/websocket" => {
                    conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                    return conn.echo_bytes();
                }
                "/stream" => {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
                    conn.wait_close();
                    return;
                }
                _ => {
                    if !conn.body(&mut request) {
                        return;
                    }
                    conn.ok("ok");
                }
            }
        }
    });
    let gateway = Gateway::start(&config(&origin, "{min: 1, max: 1}"));
    let mut upload = gateway.client();
    upload.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf ");
    eventually("the upload at the origin", || origin.count() == 1);
    eventually("nothing to count", || shown(&gateway)["in_flight"] == 0);
    let mut socket = gateway.client();
    socket.send("GET /websocket HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(socket.head().status, 101);
    let mut stream = gateway.client();
    stream.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stream.head().status, 200);
    assert_eq!(gateway.client().get("/").status, 200, "the only place is free");
    upload.send("half.");
    assert_eq!(upload.response().status, 200);
    eventually("nothing to count", || shown(&gateway)["in_flight"] == 0);
}

#[test]
fn failed_and_cancelled_requests_return_their_permit() {
    let (gate, origin) = gated();
    let gateway = Gateway::start(&config(&origin, "{min: 1, max: 1}"));
    for round in 1..=3 {
        let mut gone = gateway.client();
        gone.send(GET);
        eventually("a request under way", || origin.count() == round);
        gone.reset();
        eventually("its place to be free", || shown(&gateway)["in_flight"] == 0);
    }
    gate.open();
    assert_eq!(gateway.client().get("/").status, 200);
}

/// Starts an origin that answers after a pause, and one request at a time while the flag is set.
fn single_file(one_at_a_time: &Arc<AtomicBool>) -> Origin {
    let (turn, one_at_a_time) = (Mutex::new(()), one_at_a_time.clone());
    Origin::play(move |conn| {
        while conn.request().is_some() {
            let kept = one_at_a_time.load(Ordering::SeqCst).then(|| turn.lock().expect("a turn"));
            thread::sleep(Duration::from_millis(5));
            drop(kept);
            conn.ok("ok");
        }
    })
}

#[test]
fn it_falls_as_the_upstream_slows_and_recovers_with_it() {
    const CLIENTS: usize = 24;
    let one_at_a_time = Arc::new(AtomicBool::new(false));
    let origin = single_file(&one_at_a_time);
    // With this tolerance, load from other tests is not taken for overload; only a much higher latency is.
    let gateway =
        Gateway::start(&config(&origin, "{min: 2, max: 1000, interval: 50ms, probe: 2s, tolerance: 200%}"));
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let limit = || metric(&gateway, "tollgate_upstream_adaptive_limit", "");
    let shed = || metric(&gateway, "tollgate_upstream_adaptive_shed_total", "");
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = gateway.client();
                while !stop.load(Ordering::SeqCst) {
                    let response = client.get("/");
                    if response.status == 200 {
                        answered.fetch_add(1, Ordering::SeqCst);
                    } else {
                        assert!(is_shed(&response), "{response:?}");
                        thread::sleep(Duration::from_millis(5));
                    }
                }
            });
        }
        // A panic inside must not leave the clients running forever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("all to be let in", || limit() >= CLIENTS as u64);
            let before = shed();
            one_at_a_time.store(true, Ordering::SeqCst);
            eventually("the limit to fall", || limit() <= CLIENTS as u64 / 2 && shed() > before + 20);
            one_at_a_time.store(false, Ordering::SeqCst);
            eventually("the limit to rise again", || limit() >= CLIENTS as u64);
        }));
        stop.store(true, Ordering::SeqCst);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(answered.load(Ordering::SeqCst) > 100);
    assert!(shown(&gateway)["base_ms"].as_f64().is_some_and(|base| base >= 4.0));
}

#[test]
fn a_reload_keeps_what_is_known_and_takes_new_bounds() {
    let (gate, origin) = gated();
    gate.open();
    let gateway = Gateway::start(&config(&origin, "on"));
    let mut client = gateway.client();
    for _ in 0..30 {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("the latency without load", || {
        let _ = client.get("/");
        shown(&gateway)["base_ms"].is_f64()
    });
    let reload = |adaptive: &str, generation: f64| {
        gateway.write_config(&config(&origin, adaptive));
        gateway.signal(tollgate_tests::Signal::HUP);
        eventually("the reload", || {
            gateway.metrics().sum("tollgate_config_generation", "") == Some(generation)
        });
        let _ = gateway.client().get("/");
    };
    reload("{min: 2, max: 5}", 2.0);
    let adaptive = shown(&gateway);
    assert_eq!(adaptive["limit"], 5);
    assert!(adaptive["base_ms"].is_f64(), "{adaptive}");
    reload("off", 3.0);
    assert_eq!(shown(&gateway), Value::Null);
    assert_eq!(gateway.client().get("/").status, 200);
}
