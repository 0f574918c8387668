//! The circuit breaker: when it opens, what clients receive while it is open, and how it closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_tests::{Gateway, Origin, eventually};

/// Starts an origin that answers 503 while `is_sick` is set. A request for `/slow` takes 300 ms.
fn sick(is_sick: &Arc<AtomicBool>) -> Origin {
    let is_sick = is_sick.clone();
    Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/slow" {
                conn.pause(std::time::Duration::from_millis(300));
            }
            if is_sick.load(Ordering::SeqCst) {
                conn.send("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
            } else {
                conn.ok("well");
            }
        }
    })
}

fn gateway(origin: &Origin, breaker: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u}}]\nworkers: 2\n\
         upstreams: {{u: {{endpoints: [\"{}\"], outlier: off, breaker: {{{breaker}}}}}}}\n",
        origin.address()
    ))
}

fn figure(gateway: &Gateway, name: &str) -> f64 {
    gateway.metrics().sum(&format!("tollgate_upstream_breaker_{name}"), "upstream=\"u\"").expect("the metric")
}

#[test]
fn opens_probes_and_closes() {
    let is_sick = Arc::new(AtomicBool::new(true));
    let origin = sick(&is_sick);
    let gateway = gateway(&origin, "minimum: 10, open: 3s, probes: 2");
    // Several connections, so that both workers count.
    let mut clients: Vec<_> = (0..4).map(|_| gateway.client()).collect();
    let mut refused = 0;
    for turn in 0..40 {
        let response = clients[turn % 4].get("/");
        assert_eq!(response.status, 503);
        refused += usize::from(response.reason() == "circuit_open");
        assert!(!response.says_close());
    }
    assert!(refused >= 26, "it opened after 10, and at most a few probed since: {refused} refused");
    assert_eq!(origin.count(), 40 - refused);
    assert!(figure(&gateway, "opened_total") >= 1.0);
    assert_eq!(figure(&gateway, "refused_total"), refused as f64);

    is_sick.store(false, Ordering::SeqCst);
    eventually("good probes to close it", || {
        let _ = clients[0].get("/");
        figure(&gateway, "open") == 0.0
    });
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "well");
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_body_behind_a_refusal_is_passed_over() {
    let origin = sick(&Arc::new(AtomicBool::new(true)));
    let gateway = gateway(&origin, "minimum: 1, open: 1m");
    let mut client = gateway.client();
    assert_eq!(client.post("/", b"body").reason(), "-");
    for _ in 0..3 {
        let response = client.post("/", b"body");
        assert_eq!((response.status, response.reason(), response.says_close()), (503, "circuit_open", false));
    }
    assert_eq!(origin.count(), 1);
    let record = &gateway.wait_records(4)[3];
    assert_eq!((&record["attempts"], &record["upstream"]), (&0.into(), &"u".into()));
    gateway.reconcile(&[&origin]);
}

#[test]
fn slow_responses_open_the_breaker() {
    let origin = sick(&Arc::new(AtomicBool::new(false)));
    let gateway = gateway(&origin, "slow: 50%, slow_after: 100ms, minimum: 4, open: 1m");
    let mut client = gateway.client();
    for target in ["/", "/", "/slow", "/slow"] {
        assert_eq!(client.get(target).text(), "well");
    }
    assert_eq!(client.get("/").reason(), "circuit_open");
    assert_eq!(figure(&gateway, "open"), 1.0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_client_s_own_faults_do_not_open_it() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "minimum: 1, failures: 1%, open: 1m");
    for _ in 0..5 {
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno chunk");
        assert_eq!(client.response().reason(), "bad_chunk");
    }
    assert_eq!(gateway.client().get("/").status, 200);
    assert_eq!(figure(&gateway, "opened_total"), 0.0);
}

#[test]
fn a_reload_keeps_it_open_and_one_without_it_closes_it() {
    let origin = sick(&Arc::new(AtomicBool::new(true)));
    let text = |more: &str| {
        format!(
            "routes: [{{match: \"/*\", to: u}}]\n\
             upstreams: {{u: {{endpoints: [\"{}\"], outlier: off{more}}}}}\n",
            origin.address()
        )
    };
    let gateway = Gateway::start(&text(", breaker: {minimum: 1, open: 1m}"));
    let mut client = gateway.client();
    assert_eq!(client.get("/").reason(), "-");
    assert_eq!(client.get("/").reason(), "circuit_open");
    gateway.write_config(&text(", breaker: {minimum: 1, open: 2m}"));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the new plan", || gateway.metrics().sum("tollgate_config_generation", "") == Some(2.0));
    assert_eq!(client.get("/").reason(), "circuit_open");
    gateway.write_config(&text(""));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the plan without a breaker", || client.get("/").reason() == "-");
    assert_eq!(figure(&gateway, "open"), 0.0);
}
