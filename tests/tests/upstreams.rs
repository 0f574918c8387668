//! Endpoints and their connections: weights, pools, names, unix sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use tollgate_tests::{Gate, Gateway, Origin, Signal, eventually};

/// Sends `n` requests, and returns the bodies of the answers joined.
fn sequence(gateway: &Gateway, n: usize) -> String {
    let mut client = gateway.client();
    (0..n).map(|_| client.get("/").text()).collect()
}

fn count(text: &str, c: char) -> usize {
    text.chars().filter(|x| *x == c).count()
}

#[test]
fn round_robin_by_weight_is_smooth() {
    let (a, b, c) = (Origin::named("a"), Origin::named("b"), Origin::named("c"));
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u}}]\nupstreams:\n  u:\n    endpoints:\n\
         \x20     - {{address: \"{}\", weight: 5}}\n      - {{address: \"{}\", weight: 1}}\n      - {{address: \"{}\"}}\n",
        a.address(),
        b.address(),
        c.address()
    ));
    let seen = sequence(&gateway, 70);
    assert_eq!((count(&seen, 'a'), count(&seen, 'b'), count(&seen, 'c')), (50, 10, 10), "{seen}");
    // Smooth: the heavy endpoint has exactly five of any seven, and no b or c repeats without an a between.
    for window in seen.as_bytes().windows(7) {
        let window = String::from_utf8_lossy(window);
        assert_eq!((count(&window, 'a'), count(&window, 'b'), count(&window, 'c')), (5, 1, 1), "{seen}");
    }
    assert!(!seen.contains("aaaaaa"), "{seen}");
    gateway.reconcile(&[&a, &b, &c]);
}

#[test]
fn targets_of_a_route_have_weights() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gateway = Gateway::start(&format!(
        "routes:\n  - match: \"/*\"\n    to: [{{address: \"{}\", weight: 3}}, {{upstream: other}}]\nupstreams: {{other: \"{}\"}}\n",
        a.address(),
        b.address()
    ));
    let seen = sequence(&gateway, 40);
    assert_eq!((count(&seen, 'a'), count(&seen, 'b')), (30, 10), "{seen}");
}

/// A deployment that is scaled to zero.
#[test]
fn an_upstream_without_endpoints_answers_503_until_it_has_some() {
    let origin = Origin::named("a");
    let config = |list: &str| {
        format!(
            "listen: \"$LISTEN\"\nroutes:\n- {{match: /a, to: short}}\n- {{match: /b, to: long}}\n\
             - {{match: /c, to: short, fallback: {{on: 503, respond: {{status: 200, body: later}}}}}}\n\
             upstreams: {{short: {list}, long: {{endpoints: {list}, balance: least_requests}}}}\n"
        )
    };
    let gateway = Gateway::start(&config("[]"));
    let mut client = gateway.client();
    for path in ["/a", "/b"] {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.reason().to_owned()), (503, "no_endpoints".to_owned()), "{path}");
    }
    assert_eq!(client.get("/c").text(), "later", "a fallback takes it");
    gateway.write_config(&config(&format!("[\"{}\"]", origin.address())));
    gateway.signal(Signal::HUP);
    eventually("the endpoint", || client.get("/a").status == 200);
    assert_eq!(client.get("/b").text(), "a");
    gateway.write_config(&config("[]"));
    gateway.signal(Signal::HUP);
    eventually("no endpoint", || client.get("/a").status == 503);
    assert_eq!(client.get("/b").reason(), "no_endpoints");
}

#[test]
fn a_fixed_answer_takes_its_share() {
    let a = Origin::named("a");
    let gateway = Gateway::start(&format!(
        "routes:\n  - match: \"/*\"\n    to: [{{address: \"{}\", weight: 3}}, {{respond: {{status: 500, body: x}}}}]\n\
         \x20 - {{match: /none, to: [{{respond: 418}}]}}\n  - {{match: /off, to: [{{upstream: u}}, {{respond: 418, weight: 0}}]}}\n\
         \x20 - match: /chain\n    policies: {{headers: {{response: {{set: {{X-Seen: yes}}}}}}}}\n    to: [{{upstream: u}}, {{respond: {{status: 404, body: n}}}}]\n\
         upstreams: {{u: {{endpoints: \"{}\", policies: {{headers: {{response: {{set: {{X-Upstream: yes}}}}}}}}}}}}\n",
        a.address(),
        a.address()
    ));
    let seen = sequence(&gateway, 40);
    assert_eq!((count(&seen, 'a'), count(&seen, 'x')), (30, 10), "{seen}");
    let mut client = gateway.client();
    assert_eq!(client.get("/none").status, 418);
    assert!((0..10).all(|_| client.get("/off").status == 200), "a weight of 0 takes none");
    // The policies of an upstream see only the requests that go there.
    for _ in 0..4 {
        let answer = client.get("/chain");
        assert_eq!(answer.headers.get("x-seen"), Some("yes"));
        assert_eq!(answer.headers.get("x-upstream").is_some(), answer.status == 200, "{}", answer.status);
    }
    gateway.reconcile(&[&a]);
}

#[test]
fn a_list_of_endpoints_is_shared_equally_and_weight_0_takes_none() {
    let (a, b, c) = (Origin::named("a"), Origin::named("b"), Origin::named("c"));
    let gateway = Gateway::start(&format!(
        "routes:\n  - match: \"/*\"\n    to: [\"{}\", \"{}\", {{address: \"{}\", weight: 0}}]\n",
        a.address(),
        b.address(),
        c.address()
    ));
    let seen = sequence(&gateway, 20);
    assert_eq!((count(&seen, 'a'), count(&seen, 'b')), (10, 10), "{seen}");
    assert_eq!(c.connections(), 0);
}

#[test]
fn names_resolve() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: [\"localhost:{}\"]}}]",
        origin.address().port()
    ));
    let mut client = gateway.client();
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn unix_sockets() {
    let path = std::env::temp_dir().join(format!("tollgate-e2e-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a unix socket");
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut seen = Vec::new();
        let mut chunk = [0; 4096];
        for _ in 0..2 {
            while !seen.ends_with(b"\r\n\r\n") {
                let n = stream.read(&mut chunk).expect("bytes");
                assert!(n > 0, "the gateway closed");
                seen.extend_from_slice(&chunk[..n]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix").expect("sent");
            seen.clear();
        }
    });
    let gateway = Gateway::start(&format!("routes: [{{match: \"/*\", to: [\"unix:{}\"]}}]", path.display()));
    let mut client = gateway.client();
    assert_eq!(client.get("/").text(), "unix");
    assert_eq!(client.get("/").text(), "unix");
    serving.join().expect("both requests on one connection");
    let _ = std::fs::remove_file(&path);
}

mod pool {
    use super::*;

    fn gateway(origin: &Origin, pool: &str) -> Gateway {
        Gateway::start(&format!(
            "routes: [{{match: \"/*\", to: u}}]\nupstreams: {{u: {{endpoints: [\"{}\"], pool: {{{pool}}}}}}}\n",
            origin.address()
        ))
    }

    #[test]
    fn max_requests_a_connection() {
        let origin = Origin::ok();
        let gateway = gateway(&origin, "max_requests: 3");
        sequence(&gateway, 9);
        let carried: Vec<usize> = origin.requests().iter().map(|r| r.connection).collect();
        assert_eq!(carried, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        eventually("used connections to be closed", || origin.open() == 0);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn max_age_of_a_connection() {
        let origin = Origin::ok();
        let gateway = gateway(&origin, "max_age: 100ms");
        let mut client = gateway.client();
        eventually("a second connection", || {
            assert_eq!(client.get("/").status, 200);
            origin.connections() >= 2
        });
    }

    #[test]
    fn idle_timeout() {
        let origin = Origin::ok();
        let gateway = gateway(&origin, "idle_timeout: 100ms");
        assert_eq!(gateway.client().get("/").status, 200);
        eventually("the idle connection to be closed", || origin.open() == 0);
        assert_eq!(gateway.client().get("/").status, 200);
        assert_eq!(origin.connections(), 2);
    }

    #[test]
    fn max_idle() {
        let gate = Gate::new();
        let opened = gate.clone();
        let origin = Origin::play(move |conn| {
            while conn.request().is_some() {
                opened.wait();
                conn.ok("ok");
            }
        });
        let gateway = gateway(&origin, "max_idle: 2, idle_timeout: 60s");
        let mut clients: Vec<_> = (0..6).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        eventually("six connections", || origin.count() == 6);
        gate.open();
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        eventually("all but two to be closed", || origin.open() == 2);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn keeps_a_connection_whose_last_read_filled_the_buffer() {
        // Head and body arrive separately, and the body's size is a multiple of every likely buffer's. The
        // last read ends exactly with the response, so no short read shows that nothing remains.
        let origin = Origin::play(|conn| {
            while conn.request().is_some() {
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1 << 20));
                conn.pause(std::time::Duration::from_millis(5));
                conn.send(vec![b'x'; 1 << 20]);
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..50 {
            assert_eq!(client.get("/").body.len(), 1 << 20);
        }
        assert_eq!(origin.connections(), 1, "a connection without a fault was thrown away");
    }

    #[test]
    fn pool_of_two_workers() {
        // Every worker has a pool of its own; both are used well.
        let origin = Origin::ok();
        let gateway = Gateway::with(&origin, "workers: 2");
        let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
        for _ in 0..20 {
            for client in &mut clients {
                assert_eq!(client.get("/").status, 200);
            }
        }
        assert!(origin.connections() <= 2, "{} connections for two workers", origin.connections());
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_slow_endpoint_does_not_hold_up_the_others() {
    let gate = Gate::new();
    let opened = gate.clone();
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("slow");
        }
    });
    let fast = Origin::named("fast");
    let gateway = Gateway::start(&format!(
        "routes:\n  - {{match: /slow, to: [\"{}\"]}}\n  - {{match: /fast, to: [\"{}\"]}}\n",
        slow.address(),
        fast.address()
    ));
    let mut waiting = gateway.client();
    waiting.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the slow request", || slow.count() == 1);
    let mut client = gateway.client();
    for _ in 0..50 {
        assert_eq!(client.get("/fast").text(), "fast");
    }
    gate.open();
    assert_eq!(waiting.response().text(), "slow");
    gateway.reconcile(&[&slow, &fast]);
}

#[test]
fn an_endpoint_is_taken_out_and_put_back_while_requests_come() {
    let origins = [Origin::ok(), Origin::ok()];
    let config = |drain: &str| {
        format!(
            "routes: [{{match: \"/*\", to: shop}}]\nupstreams: {{shop: [{{address: \"{}\", drain: {drain}}}, \"{}\"]}}",
            origins[0].address(),
            origins[1].address()
        )
    };
    let gateway = Gateway::start(&config("off"));
    let endpoint = |of: &str| {
        let shown: serde_json::Value =
            serde_json::from_str(&gateway.admin("/upstreams").text()).expect("JSON");
        shown["upstreams"][0]["endpoints"][0][of].clone()
    };
    let mut client = gateway.client();
    let mut ask = |times: usize| (0..times).for_each(|_| assert_eq!(client.get("/").status, 200));
    ask(6);
    assert!(origins[0].count() >= 2, "both take requests");
    assert_eq!((endpoint("state"), endpoint("connections")), ("available".into(), 1.into()));
    gateway.write_config(&config("on"));
    gateway.signal(Signal::HUP);
    // The idle connection closes before its timeout.
    eventually("the drain", || endpoint("state") == "draining" && endpoint("connections") == 0);
    let before = origins[0].count();
    ask(6);
    assert_eq!(origins[0].count(), before, "nothing new comes");
    gateway.write_config(&config("off"));
    gateway.signal(Signal::HUP);
    eventually("it to be back", || endpoint("state") == "available");
    ask(6);
    assert!(origins[0].count() > before, "it takes requests again");
}
