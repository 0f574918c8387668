//! Bounds that end the attempts: their number, the total timeout, the client, the limits.

use std::time::{Duration, Instant};

use tollgate_tests::{Gate, Origin, eventually, refused_address};

use super::{addresses, always, gateway, mute};

#[test]
fn attempts_are_limited() {
    let mute = mute();
    for attempts in 1..=4 {
        let before = mute.count();
        let gateway = gateway(&addresses(&[&mute]), &format!(", retry: {{attempts: {attempts}}}"), "", "");
        let response = gateway.client().get("/");
        assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
        assert_eq!(mute.count() - before, attempts);
        assert_eq!(gateway.wait_records(1)[0]["attempts"], attempts);
    }
}

#[test]
fn the_whole_has_its_time_with_all_waits() {
    let endpoints = [refused_address().to_string()];
    let gateway = gateway(
        &endpoints,
        ", retry: {attempts: 16, backoff: 200ms, backoff_max: 200ms}",
        "",
        "timeouts: {total: 500ms}",
    );
    let start = Instant::now();
    let response = gateway.client().get("/");
    // Either the last failure, or the total timeout in the middle of an attempt.
    assert!(["connection_refused", "request_timeout"].contains(&response.reason()), "{response:?}");
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    let retries = gateway.metrics().sum("tollgate_upstream_retries_total", "").expect("the metric");
    assert!((2.0..15.0).contains(&retries), "{retries} retries in {took:?}");
}

#[test]
fn no_attempt_starts_after_the_time_for_attempts() {
    // Each attempt takes 200 ms.
    let origin = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.pause(Duration::from_millis(200));
            conn.send("HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nlate");
        }
    });
    let retry = "attempts: 6, on: 503, backoff: 1ms, backoff_max: 1ms, budget: 100%";
    for (within, most) in [("", 6), (", within: 500ms", 3)] {
        let before = origin.count();
        let upstream = format!(", retry: {{{retry}{within}}}");
        let gateway = gateway(&addresses(&[&origin]), &upstream, "", "");
        let response = gateway.client().get("/");
        assert_eq!((response.status, response.text().as_str()), (503, "late"), "{within}");
        let attempts = origin.count() - before;
        // A machine that is slow starts fewer of them.
        assert!((2..=most).contains(&attempts), "{attempts} attempts{within}");
        assert!(!within.is_empty() || attempts == most, "without a limit, all attempts are made");
    }
    // A connection that is refused costs no attempt, but time.
    let refused: Vec<_> = (0..4).map(|_| refused_address().to_string()).collect();
    let endpoints = [addresses(&[&origin]), refused].concat();
    let retry = ", retry: {attempts: 6, on: [connect_failure, 503], backoff: 1ms, within: 100ms}";
    let gateway = gateway(&endpoints, retry, "", "");
    let before = origin.count();
    for _ in 0..5 {
        let response = gateway.client().get("/");
        assert!([502, 503].contains(&response.status), "{response:?}");
    }
    assert!(origin.count() - before <= 5, "no request is sent twice after 200 ms");
}

#[test]
fn no_wait_that_cannot_end_in_time() {
    let gateway = gateway(
        &[refused_address().to_string()],
        ", retry: {attempts: 9, backoff: 1m, backoff_max: 1m}",
        "",
        "timeouts: {total: 50ms}",
    );
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
}

#[test]
fn a_client_that_is_gone_ends_the_wait() {
    let mute = mute();
    let gateway = gateway(&addresses(&[&mute]), ", retry: {backoff: 1m, backoff_max: 1m}", "", "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the first attempt", || mute.count() == 1 && mute.open() == 0);
    client.reset();
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["reason"], &record["attempts"]), (&"client_closed".into(), &1.into()));
    assert_eq!(mute.count(), 1);
    gateway.reconcile(&[&mute]);
}

#[test]
fn a_half_closed_client_gets_its_answer() {
    let (mute, good) = (mute(), Origin::named("good"));
    let gateway = gateway(&addresses(&[&mute, &good]), "", "", "listen: {bind: $LISTEN, half_close: on}");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.half_close();
    assert_eq!(client.response().text(), "good");
    gateway.reconcile(&[&mute, &good]);
}

#[test]
fn a_stale_connection_counts_for_nothing() {
    // The origin answers the first request of each connection, and closes on the second.
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.ok("ok");
            conn.request();
        }
    });
    let gateway =
        gateway(&addresses(&[&origin]), ", retry: {attempts: 1, budget: 0%, budget_min: 0}", "", "");
    let mut client = gateway.client();
    for _ in 0..10 {
        assert_eq!(client.get("/").text(), "ok");
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tollgate_upstream_stale_total", ""), Some(9.0));
    assert_eq!(metrics.sum("tollgate_upstream_retries_total", ""), Some(0.0));
    gateway.reconcile(&[&origin]);
}

#[test]
fn requests_past_their_limit_are_refused() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("ok");
        }
    });
    let gateway = gateway(&addresses(&[&origin]), ", limits: {requests: 2}", "", "workers: 2");
    let mut clients: Vec<_> = (0..2).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually("two requests", || origin.count() == 2);
    for _ in 0..8 {
        let response = gateway.client().get("/");
        assert_eq!((response.status, response.reason()), (503, "request_limit"));
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
        assert_eq!(client.get("/").status, 200);
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn retries_past_their_limit_are_not_made() {
    let gate = Gate::new();
    let opened = gate.clone();
    let bad = always(503);
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("slow");
        }
    });
    let gateway = gateway(&addresses(&[&bad, &slow]), ", retry: {on: [503]}, limits: {retries: 1}", "", "");
    let mut first = gateway.client();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the retry", || slow.count() == 1);
    // The retry of the first request is in progress, so the next request gets none.
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (503, "-"));
    let denied = gateway.metrics().sum("tollgate_upstream_retries_denied_total", "");
    assert_eq!(denied, Some(1.0));
    gate.open();
    assert_eq!(first.response().text(), "slow");
    gateway.reconcile(&[&bad, &slow]);
}
