//! A new config while traffic flows (SIGHUP): no request is lost, a bad file changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_tests::{Gate, Gateway, Origin, Signal, eventually};

fn answering(body: &str) -> String {
    format!("routes: [{{match: /version, respond: {body}}}]")
}

fn version(gateway: &Gateway) -> String {
    gateway.client().get("/version").text()
}

#[test]
fn a_new_plan_takes_the_next_request() {
    let gateway = Gateway::start(&answering("one"));
    let mut kept = gateway.client();
    assert_eq!(kept.get("/version").text(), "one");
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
    // The connection that was open goes on, with the new plan.
    eventually("the new plan on an old connection", || kept.get("/version").text() == "two");
    gateway.reconcile(&[]);
}

#[test]
fn a_bad_file_leaves_the_old_plan_serving() {
    let gateway = Gateway::start(&answering("one"));
    for bad in ["routes: [", "routez: []", "routes: [{match: /x, to: nowhere}]", ""] {
        let before = gateway.stderr().len();
        gateway.write_config(bad);
        gateway.signal(Signal::HUP);
        eventually("a message about it", || gateway.stderr().len() > before);
        assert_eq!(version(&gateway), "one", "{bad:?}");
    }
    std::fs::remove_file(gateway.config()).expect("removed");
    let before = gateway.stderr().len();
    gateway.signal(Signal::HUP);
    eventually("a message about it", || gateway.stderr().len() > before);
    assert_eq!(version(&gateway), "one");
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
}

#[test]
fn a_request_in_flight_ends_on_its_plan() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n");
            opened.wait();
            conn.send("4\r\n end\r\n0\r\n\r\n");
        }
    });
    let gateway = Gateway::start(&format!("routes: [{{match: /held, to: [\"{}\"]}}]", origin.address()));
    let mut client = gateway.client();
    client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut head = client.head();
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
    gate.open();
    assert_eq!(client.try_body(&mut head), Ok(()));
    assert_eq!(head.text(), "old end");
    gateway.reconcile(&[&origin]);
}

#[test]
fn connections_to_endpoints_survive() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let routes = |extra: &str| {
        format!(
            "routes:\n  - match: \"/*\"\n    to: [{}]\n  - {{match: {extra}, respond: 204}}\n",
            origin.address()
        )
    };
    assert_eq!(gateway.client().get("/").status, 200);
    for i in 0..3 {
        gateway.write_config(&routes(&format!("/new{i}")));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || gateway.client().get(&format!("/new{i}")).status == 204);
        assert_eq!(gateway.client().get("/").status, 200);
    }
    assert_eq!(origin.connections(), 1, "the pool outlives a plan");
}

#[test]
fn no_request_is_lost_over_twenty_reloads_under_load() {
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, "workers: 2");
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let (stop, mut client) = (Arc::clone(&stop), gateway.client());
            std::thread::spawn(move || {
                let mut sent = 0;
                while !stop.load(Ordering::SeqCst) {
                    let target = format!("/{n}/{sent}");
                    let response = client.post(&target, b"body");
                    assert_eq!((response.status, response.text()), (200, format!("POST {target} body")));
                    sent += 1;
                }
                sent
            })
        })
        .collect();
    for i in 0..20 {
        gateway.write_config(&format!(
            "workers: 2\nroutes:\n  - match: \"/*\"\n    to: [{}]\n  - {{match: /plan{i}, respond: 204}}\n",
            origin.address()
        ));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || gateway.client().get(&format!("/plan{i}")).status == 204);
    }
    stop.store(true, Ordering::SeqCst);
    let sent: usize =
        clients.into_iter().map(|client| client.join().expect("every request is answered")).sum();
    assert!(sent > 20, "{sent}");
    gateway.reconcile(&[&origin]);
}
