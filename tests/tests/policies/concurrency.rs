//! `concurrency`: how many requests may be in progress at the same time.

use tollgate_tests::http2::request;
use tollgate_tests::{Gate, Gateway, Origin, eventually};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

/// Starts an origin that answers while the gate is open.
pub fn slow() -> (Gate, Origin) {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("late");
        }
    });
    (gate, origin)
}

#[test]
fn as_many_as_may_are_under_way_over_all_workers_and_versions() {
    let (gate, origin) = slow();
    let policies = "workers: 4\npolicies: {concurrency: [{limit: 5}, {limit: 2, by: header X-A}]}";
    let gateway = Gateway::with(&origin, policies);
    let mut held: Vec<_> = ["a", "a", "b", "b", "c"].map(|a| (gateway.client(), a)).into();
    for (client, a) in &mut held {
        client.send(format!("{ASK}X-A: {a}\r\n\r\n"));
    }
    eventually("all to be under way", || origin.count() == 5);
    let answer = gateway.client().ask(format!("{ASK}X-A: d\r\n\r\n"));
    assert_eq!((answer.status, answer.headers.get("Tollgate-Reason")), (429, Some("concurrency_limited")));
    assert_eq!(gateway.http2().get("/").status, 429);
    // One client closes without its answer: its permit is free, and only this one.
    let (gone, _) = held.remove(0);
    gone.reset();
    let mut client = gateway.http2();
    let ask = |a| request("GET", "/", &[("x-a", a)]);
    let mut refused = client.ask(ask("b")).status;
    assert_eq!(refused, 429, "two of `b` are under way");
    gate.open();
    eventually("a place", || {
        refused = client.ask(ask("b")).status;
        refused == 200
    });
    for (client, _) in &mut held {
        assert_eq!(client.response().status, 200);
    }
    // All permits are free once the requests are recorded.
    eventually("all to have ended", || gateway.metrics().sum("tollgate_requests_in_flight", "") == Some(0.0));
    gate.close();
    let before = origin.count();
    let mut again: Vec<_> = ["a", "a", "b", "b", "c"].map(|a| (gateway.client(), a)).into();
    for (client, a) in &mut again {
        client.send(format!("{ASK}X-A: {a}\r\n\r\n"));
    }
    eventually("all to be under way again", || origin.count() == before + 5);
    gate.open();
}

#[test]
fn a_request_can_take_several_places_or_none() {
    let (gate, origin) = slow();
    let policies = "policies: {concurrency: {limit: 5, by: [header X-A, method], cost: {header: X-Cost}, \
                    exempt: {headers: {X-Probe: s3cret}}}}";
    let gateway = Gateway::with(&origin, policies);
    let mut dear = gateway.client();
    dear.send(format!("{ASK}X-A: a\r\nX-Cost: 4\r\n\r\n"));
    eventually("it is under way", || origin.count() == 1);
    assert_eq!(gateway.client().ask(format!("{ASK}X-A: a\r\nX-Cost: 2\r\n\r\n")).status, 429);
    let mut others: Vec<_> = (0..3).map(|_| gateway.client()).collect();
    others[0].send(format!("{ASK}X-A: a\r\n\r\n"));
    others[1].send(format!("{ASK}X-A: b\r\nX-Cost: 5\r\n\r\n"));
    others[2].send(format!("{ASK}X-A: a\r\nX-Probe: s3cret\r\n\r\n"));
    eventually("all are under way", || origin.count() == 4);
    assert_eq!(gateway.client().ask(format!("{ASK}X-A: a\r\n\r\n")).status, 429);
    gate.open();
    assert_eq!(dear.response().status, 200);
    others.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    eventually("all places are free", || {
        gateway.client().ask(format!("{ASK}X-A: a\r\nX-Cost: 5\r\n\r\n")).status == 200
    });
}
