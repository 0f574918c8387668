//! Health of endpoints: an endpoint that probes or traffic mark as unhealthy gets no requests until it
//! recovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;
use tollgate_tests::{Gateway, Origin, ReadError, Service, Signal, eventually};

/// Returns one endpoint of the only upstream from `GET /upstreams`, by its index.
fn endpoint(gateway: &Gateway, index: usize) -> Value {
    let response = gateway.admin("/upstreams");
    assert_eq!(response.status, 200, "{response:?}");
    let all: Value = serde_json::from_str(&response.text()).expect("JSON");
    all["upstreams"][0]["endpoints"][index].clone()
}

fn state(gateway: &Gateway, index: usize) -> String {
    endpoint(gateway, index)["state"].as_str().expect("a state").to_owned()
}

/// Sends `n` requests in sequence, asserts that each gets a 200, and returns the bodies joined.
fn answers(gateway: &Gateway, n: usize) -> String {
    let mut client = gateway.client();
    let one = |_| {
        let response = client.get("/");
        assert_eq!(response.status, 200, "{response:?}");
        response.text()
    };
    (0..n).map(one).collect()
}

/// Starts a gateway with two or more endpoints, and with further keys of the upstream.
fn gateway(addresses: &[std::net::SocketAddr], rules: &str) -> Gateway {
    let endpoints: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: shop}}]\nupstreams:\n  shop:\n    endpoints: [{}]\n    {rules}\n",
        endpoints.join(", ")
    ))
}

/// Starts an origin whose statuses the test sets: one for probes (`/healthz`), one for requests.
fn switchable(name: &'static str) -> (Origin, Arc<AtomicU16>, Arc<AtomicU16>) {
    let (health, traffic) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(200)));
    let (probed, asked) = (health.clone(), traffic.clone());
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            let status = if request.target == "/healthz" { &probed } else { &asked }.load(Ordering::SeqCst);
            conn.send(format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{name}", name.len()));
        }
    });
    (origin, health, traffic)
}

mod probes {
    use super::*;

    #[test]
    fn an_origin_that_answers_500_gets_nothing_until_it_is_well() {
        let ((a, health, _), b) = (switchable("a"), Origin::named("b"));
        let gateway = gateway(
            &[a.address(), b.address()],
            "health: {http: /healthz, interval: 100ms, timeout: 10s, unhealthy: 3, healthy: 2}",
        );
        eventually("both to be healthy", || {
            (0..2).all(|index| endpoint(&gateway, index)["health"] == "healthy")
        });
        assert_eq!(answers(&gateway, 10).matches('a').count(), 5);
        health.store(500, Ordering::SeqCst);
        eventually("it to be unhealthy", || state(&gateway, 0) == "unhealthy");
        assert_eq!(answers(&gateway, 20), "b".repeat(20));
        let shown = endpoint(&gateway, 0);
        assert_eq!(shown["last_probe"]["reason"], "unexpected_status");
        assert_eq!(shown["last_probe"]["detail"], "status 500");
        let metrics = gateway.metrics();
        let label = format!("upstream=\"shop\",endpoint=\"{}\"", a.address());
        assert_eq!(metrics.sum("tollgate_endpoint_up", &label), Some(0.0));
        let unhealthy = metrics.sum("tollgate_upstream_endpoints", "upstream=\"shop\",state=\"unhealthy\"");
        assert_eq!(unhealthy, Some(1.0));
        let bad = metrics.sum("tollgate_upstream_probes_total", "result=\"unexpected_status\"");
        assert!(bad.is_some_and(|count| count >= 3.0), "{bad:?}");
        health.store(200, Ordering::SeqCst);
        eventually("it to be healthy", || state(&gateway, 0) == "available");
        assert_eq!(answers(&gateway, 10).matches('a').count(), 5);
        let lines = gateway.stderr();
        let line = format!("upstream shop: {} is unhealthy: 3 probes failed in a row", a.address());
        assert!(lines.contains(&line), "{lines}");
        assert!(lines.contains(&format!("upstream shop: {} is healthy again", a.address())), "{lines}");
    }

    #[test]
    fn an_origin_that_is_killed_and_comes_back() {
        let (mut a, b) = (Service::start("a"), Service::start("b"));
        let gateway =
            gateway(&[a.address(), b.address()], "health: {tcp: on, interval: 100ms, timeout: 10s}");
        eventually("both to be healthy", || {
            (0..2).all(|index| endpoint(&gateway, index)["health"] == "healthy")
        });
        a.kill();
        eventually("it to be unhealthy", || state(&gateway, 0) == "unhealthy");
        assert_eq!(endpoint(&gateway, 0)["last_probe"]["reason"], "connection_refused");
        assert_eq!(answers(&gateway, 20), "b".repeat(20));
        a.restart();
        eventually("it to be healthy", || state(&gateway, 0) == "available");
        assert_eq!(answers(&gateway, 10).matches('a').count(), 5);
    }

    #[test]
    fn an_origin_that_accepts_and_never_answers() {
        let (a, b) = (Service::start("a"), Service::start("b"));
        let gateway = gateway(&[a.address(), b.address()], "health: {http: /, interval: 100ms, timeout: 1s}");
        eventually("both to be healthy", || {
            (0..2).all(|index| endpoint(&gateway, index)["health"] == "healthy")
        });
        a.hang();
        eventually("it to be unhealthy", || state(&gateway, 0) == "unhealthy");
        assert_eq!(endpoint(&gateway, 0)["last_probe"]["reason"], "probe_timeout");
        assert_eq!(answers(&gateway, 20), "b".repeat(20));
        a.go_on();
        eventually("it to be healthy", || state(&gateway, 0) == "available");
        assert_eq!(answers(&gateway, 10).matches('a').count(), 5);
    }

    #[test]
    fn the_first_probe_decides_and_survives_a_reload() {
        let ((a, health, _), b, c) = (switchable("a"), Origin::named("b"), Origin::named("c"));
        health.store(503, Ordering::SeqCst);
        let yaml = |third: &str| {
            format!(
                "routes: [{{match: \"/*\", to: shop}}]\nupstreams:\n  shop:\n    \
                 endpoints: [\"{}\", \"{}\"{third}]\n    health: {{http: /healthz, interval: 1h}}\n",
                a.address(),
                b.address()
            )
        };
        let gateway = Gateway::start(&yaml(""));
        eventually("it to be unhealthy", || state(&gateway, 0) == "unhealthy");
        health.store(200, Ordering::SeqCst);
        gateway.write_config(&yaml(&format!(", \"{}\"", c.address())));
        gateway.signal(Signal::HUP);
        eventually("the new one to be probed", || endpoint(&gateway, 2)["health"] == "healthy");
        assert_eq!(a.count(), 1, "nobody else is, before its time");
        assert_eq!(state(&gateway, 0), "unhealthy");
        let seen = answers(&gateway, 20);
        assert_eq!((seen.matches('b').count(), seen.matches('c').count()), (10, 10), "{seen}");
    }

    #[test]
    fn request_and_expected_response_of_a_probe() {
        let origin = Origin::play(|conn| {
            while let Some(request) = conn.request() {
                assert_eq!(request.target, "/status?deep=1");
                conn.send("HTTP/1.1 418 X\r\nContent-Length: 17\r\n\r\n{\"ready\": \"yes!\"}");
            }
        });
        let gateway = gateway(
            &[origin.address()],
            "health: {http: \"/status?deep=1\", status: [200, 418], body: '\"yes!\"', host: shop.internal, interval: 1h}",
        );
        eventually("a good probe", || endpoint(&gateway, 0)["health"] == "healthy");
        let request = origin.request();
        assert_eq!(request.headers.get("host"), Some("shop.internal"));
        assert!(request.headers.get("user-agent").is_some_and(|agent| agent.contains("health probe")));
    }

    #[test]
    fn probes_keep_to_the_limit_on_connections() {
        // The limit is one connection, and a request holds it. A probe that ignored the limit would be the
        // second.
        let gate = tollgate_tests::Gate::new();
        let opened = gate.clone();
        let origin = Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                if request.target != "/healthz" {
                    opened.wait();
                }
                conn.ok("ok");
            }
        });
        let gateway = gateway(
            &[origin.address()],
            "health: {http: /healthz, interval: 100ms}\n    limits: {connections: 1}\n    pool: {max_idle: 0}\n    \
             queue: {timeout: 20s}",
        );
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let asked = || origin.requests().iter().any(|request| request.target == "/");
        eventually("the request", asked);
        let skipped = || gateway.metrics().sum("tollgate_upstream_probes_total", "result=\"skipped\"");
        let before = skipped().unwrap_or(0.0);
        eventually("skipped probes", || skipped().is_some_and(|count| count > before + 3.0));
        assert_eq!(origin.open(), 1);
        gate.open();
        assert_eq!(client.response().text(), "ok");
        eventually("probes again", || endpoint(&gateway, 0)["health"] == "healthy");
    }
}

mod ejection {
    use super::*;

    #[test]
    fn an_origin_is_ejected_after_exactly_the_configured_500s() {
        // Counted over all workers: neither of the two sees three failures in a row.
        let ((a, _, traffic), b) = (switchable("a"), Origin::named("b"));
        let gateway = gateway(
            &[a.address(), b.address()],
            "retry: off\n    outlier: {consecutive_5xx: 5, consecutive_gateway_errors: off, ejection: 1s}\nworkers: 2",
        );
        let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
        traffic.store(500, Ordering::SeqCst);
        let statuses: Vec<u16> = (0..200).map(|turn| clients[turn % 8].get("/").status).collect();
        let failed = statuses.iter().filter(|status| **status == 500).count();
        // The second ejection lasts 2 s, and so on. On a slow machine the first may end before the last
        // request, so there may be several.
        let ejections = endpoint(&gateway, 0)["ejections"].as_u64().expect("a number");
        assert!(ejections >= 1);
        assert!(
            (5 * ejections..5 * ejections + 5).contains(&(failed as u64)),
            "{failed} after {ejections} ejections"
        );
        assert_eq!(endpoint(&gateway, 0)["ejection_cause"], "consecutive_5xx");
        traffic.store(200, Ordering::SeqCst);
        eventually("its return", || state(&gateway, 0) == "available");
        assert_eq!(answers(&gateway, 10).matches('a').count(), 5);
        let lines = gateway.stderr();
        let name = a.address();
        assert!(
            lines.contains(&format!("upstream shop: {name} is ejected for 1 s: responses 5xx")),
            "{lines}"
        );
        assert!(lines.contains(&format!("upstream shop: {name} takes requests again")), "{lines}");
        let count = gateway.metrics().sum("tollgate_upstream_ejections_total", "cause=\"consecutive_5xx\"");
        assert!(count.is_some_and(|count| count >= 1.0), "{count:?}");
        gateway.reconcile(&[&a, &b]);
    }

    #[test]
    fn an_origin_that_is_killed_and_comes_back() {
        let (mut a, b) = (Service::start("a"), Service::start("b"));
        let gateway =
            gateway(&[a.address(), b.address()], "outlier: {consecutive_gateway_errors: 2, ejection: 1s}");
        assert_eq!(answers(&gateway, 10).matches('a').count(), 5);
        a.kill();
        // Each failed request is retried at the other endpoint. The next ones pass the dead one over for a second.
        eventually("its ejection", || {
            assert_eq!(answers(&gateway, 20), "b".repeat(20));
            endpoint(&gateway, 0)["ejection_cause"] == "consecutive_gateway_errors"
        });
        a.restart();
        eventually("its return", || state(&gateway, 0) == "available" && answers(&gateway, 2).contains('a'));
    }

    #[test]
    fn an_origin_that_accepts_and_never_answers() {
        let (a, b) = (Service::start("a"), Service::start("b"));
        let gateway = gateway(
            &[a.address(), b.address()],
            "retry: off\n    timeouts: {response_header: 500ms}\n    \
             outlier: {consecutive_gateway_errors: 2, ejection: 1h, ejection_max: 1h}",
        );
        a.hang();
        let mut client = gateway.client();
        let late: Vec<u16> =
            (0..12).map(|_| client.get("/").status).filter(|status| *status != 200).collect();
        assert_eq!(late, [504, 504]);
        assert_eq!(state(&gateway, 0), "ejected");
        assert_eq!(answers(&gateway, 20), "b".repeat(20));
    }

    #[test]
    fn stalled_clients_eject_no_endpoint() {
        // Each answer starts during its request and ends only after it.
        let early = || {
            Origin::play(|conn| {
                while let Some(mut request) = conn.head() {
                    conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
                    if !conn.body(&mut request) {
                        return;
                    }
                    conn.send("0\r\n\r\n");
                }
            })
        };
        let (a, b) = (early(), early());
        let gateway = gateway(
            &[a.address(), b.address()],
            "retry: off\n    timeouts: {response_body: 300ms}\n    outlier: {consecutive_gateway_errors: 2, ejection: 1m}",
        );
        let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nstall");
        }
        for client in &mut clients {
            let mut response = client.head();
            assert_eq!(response.status, 200);
            assert_eq!(client.try_body(&mut response), Err(ReadError::Truncated));
        }
        let records = gateway.wait_records(8);
        assert!(records.iter().all(|record| record["reason"] == "connection_read_timeout"), "{records:?}");
        for index in 0..2 {
            assert_eq!(endpoint(&gateway, index)["ejections"], 0);
            // Attempts that their clients spoiled count neither for the endpoint nor against it.
            assert_eq!(state(&gateway, index), "unknown");
        }
    }

    #[test]
    fn the_last_healthy_endpoint_is_not_ejected() {
        let origins: Vec<Origin> =
            (0..3).map(|_| Origin::fixed("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")).collect();
        let addresses: Vec<_> = origins.iter().map(Origin::address).collect();
        let gateway = gateway(&addresses, "retry: off\n    outlier: {ejection: 1h, ejection_max: 1h}");
        let mut client = gateway.client();
        for _ in 0..100 {
            assert_eq!(client.get("/").status, 500);
            let out = (0..3).filter(|index| state(&gateway, *index) == "ejected").count();
            assert!(out <= 1, "{out} are out");
        }
        let refused = gateway.metrics().sum("tollgate_upstream_ejections_refused_total", "upstream=\"shop\"");
        assert!(refused.is_some_and(|refused| refused >= 1.0), "{refused:?}");
    }

    #[test]
    fn off_is_off() {
        let (a, b) = (Origin::fixed("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"), Origin::named("b"));
        let gateway = gateway(&[a.address(), b.address()], "retry: off\n    outlier: off");
        let mut client = gateway.client();
        let failed = (0..100).filter(|_| client.get("/").status == 503).count();
        assert_eq!(failed, 50);
        assert_eq!(endpoint(&gateway, 0)["failures"], 50);
    }
}

#[test]
fn the_page_for_browsers_and_terminals() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    assert_eq!(gateway.client().get("/").status, 200);
    let get = |accept: &str| {
        let mut client = tollgate_tests::Client::connect(gateway.admin_address(), Arc::default());
        client.ask(format!(
            "GET /upstreams HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        ))
    };
    let address = origin.address().to_string();
    let page = get("text/html,*/*;q=0.8");
    assert!(page.text().contains(&format!("<td>{address}</td>")), "{page:?}");
    let table = get("text/plain");
    assert!(table.text().lines().any(|line| line.trim_start().starts_with(&address)), "{table:?}");
    assert_eq!(endpoint(&gateway, 0)["address"], address.as_str());
}
