//! The limits of hedged attempts.

use std::time::Duration;

use tollgate_tests::{Origin, eventually};

use super::{gated, gateway, hedges};

/// Starts an origin that answers after a pause longer than any hedge here.
fn sluggish() -> Origin {
    Origin::play(|conn| {
        while conn.request().is_some() {
            conn.pause(Duration::from_millis(60));
            conn.ok("late");
        }
    })
}

#[test]
fn they_are_a_share_of_the_requests() {
    const CLIENTS: usize = 10;
    const REQUESTS: usize = 20;
    let origins = [sluggish(), sluggish()];
    let all: Vec<_> = origins.iter().collect();
    let gateway =
        gateway(&all, ", hedge: 10ms, retry: {attempts: 5, budget: 10%, budget_min: 0}", "", "workers: 2");
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = gateway.client();
                for _ in 0..REQUESTS {
                    assert_eq!(client.get("/").text(), "late");
                }
            });
        }
    });
    let (sent, _) = hedges(&gateway);
    let most = (CLIENTS * REQUESTS / 10) as u64;
    assert!((1..=most).contains(&sent), "{sent} second attempts, {most} allowed");
    let denied = gateway.metrics().sum("tollgate_upstream_retries_denied_total", "upstream=\"u\"");
    assert!(denied.is_some_and(|denied| denied > 0.0));
    gateway.reconcile(&all);
}

#[test]
fn they_are_within_the_limit_of_retries() {
    let (one, a) = gated("a");
    let (two, b) = gated("b");
    let gateway = gateway(&[&a, &b], ", limits: {retries: 1}", "", "");
    let mut first = gateway.client();
    first.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both to be asked", || a.count() == 1 && b.count() == 1);
    let mut second = gateway.client();
    second.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it to be denied", || {
        gateway.metrics().sum("tollgate_upstream_retries_denied_total", "upstream=\"u\"") == Some(1.0)
    });
    assert_eq!(hedges(&gateway), (1, 0));
    one.open();
    two.open();
    assert!(first.response().text().ends_with(" /1 0"));
    assert!(second.response().text().ends_with(" /2 0"));
    // The losing or the winning attempt has returned its permit.
    one.close();
    two.close();
    let seen = a.count() + b.count();
    first.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both to be asked again", || a.count() + b.count() == seen + 2);
    one.open();
    two.open();
    assert!(first.response().text().ends_with(" /3 0"));
    gateway.reconcile(&[&a, &b]);
}

#[test]
fn they_are_attempts() {
    // The hedged attempt is the second of two attempts, so its failure causes no retry.
    let (one, a) = gated("a");
    let fails = Origin::play(|conn| {
        conn.request();
    });
    let gateway = gateway(&[&a, &fails], ", retry: {attempts: 2}", "", "timeouts: {response_header: 200ms}");
    let mut client = gateway.client();
    let response = client.get("/");
    assert_eq!((response.status, response.reason()), (504, "http_response_timeout"));
    assert_eq!((a.count(), fails.count()), (1, 1));
    one.open();
    gateway.reconcile(&[&a, &fails]);
}

#[test]
fn there_is_none_without_another_endpoint() {
    let (gate, only) = gated("only");
    let gateway = gateway(&[&only], "", "", "");
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it to be asked", || only.count() == 1);
    client.expect_silence(Duration::from_millis(200));
    assert_eq!((only.count(), hedges(&gateway)), (1, (0, 0)));
    gate.open();
    assert_eq!(client.response().text(), "only /x 0");
    gateway.reconcile(&[&only]);
}
