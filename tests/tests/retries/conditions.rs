//! The failures after which a request is retried, and those after which it is not.

use std::time::Duration;

use tollgate_tests::{Gate, Origin, refused_address};

use super::{addresses, always, gateway, mute};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

#[test]
fn no_connection_whatever_the_request() {
    let origin = Origin::echo();
    let gateway = gateway(&[refused_address().to_string(), origin.address().to_string()], "", "", "");
    let mut client = gateway.client();
    for _ in 0..4 {
        assert_eq!(client.get("/").text(), "GET / ");
        assert_eq!(client.ask(POST).text(), "POST / body");
        // A body that is still arriving is not lost either.
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
        client.send("half");
        assert_eq!(client.response().text(), "POST / halfhalf");
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        client.send("4\r\nhalf\r\n0\r\n\r\n");
        assert_eq!(client.response().text(), "POST / halfhalf");
    }
    let retries = gateway.metrics().sum("tollgate_upstream_retries_total", "").expect("the metric");
    assert_eq!(
        retries, 16.0,
        "round robin: what follows a second attempt begins at the first endpoint again"
    );
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_broken_connection_if_the_request_is_idempotent() {
    let (mute, echo) = (mute(), Origin::echo());
    let gateway = gateway(&addresses(&[&mute, &echo]), "", "", "");
    let mut client = gateway.client();
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let response = client
            .wire()
            .send(format!("{method} /x HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
            .map(|()| client.response_to(method));
        assert_eq!(response.expect("sent").status, 200, "{method}");
    }
    assert_eq!((mute.count(), echo.count()), (6, 6));
    let records = gateway.wait_records(6);
    assert!(
        records.iter().all(|record| record["attempts"] == 2 && record["reason"].is_null()),
        "{records:#?}"
    );
    gateway.reconcile(&[&mute, &echo]);
}

#[test]
fn a_post_is_never_delivered_twice() {
    let (mute, echo) = (mute(), Origin::echo());
    let gateway =
        gateway(&addresses(&[&mute, &echo]), ", retry: {on: [connect_failure, reset, timeout, 5xx]}", "", "");
    let mut client = gateway.client();
    for round in 0..10 {
        let response =
            client.ask(format!("POST /{round} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"));
        let met_mute = mute.requests().iter().any(|request| request.target == format!("/{round}"));
        let expected = if met_mute { (502, "connection_terminated") } else { (200, "-") };
        assert_eq!((response.status, response.reason()), expected, "{round}");
    }
    let mut targets: Vec<_> =
        mute.requests().into_iter().chain(echo.requests()).map(|request| request.target).collect();
    targets.sort();
    targets.dedup();
    assert_eq!((targets.len(), mute.count() + echo.count()), (10, 10));
    assert!(mute.count() > 0, "the faulty one was never met");
    gateway.reconcile(&[&mute, &echo]);
}

#[test]
fn a_post_is_retried_if_configured() {
    let (mute, echo) = (mute(), Origin::echo());
    let gateway = gateway(&addresses(&[&mute, &echo]), ", retry: {methods: [POST]}", "", "");
    let mut client = gateway.client();
    assert_eq!(client.ask(POST).text(), "POST / body");
    // A condition that is not listed causes no retry, even for an idempotent request.
    let response = client.get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
    gateway.reconcile(&[&mute, &echo]);
}

#[test]
fn statuses_that_are_listed() {
    let (bad, good) = (always(503), Origin::named("good"));
    let gateway = gateway(&addresses(&[&bad, &good]), ", retry: {on: [502-504]}", "", "");
    let mut client = gateway.client();
    for _ in 0..10 {
        let response = client.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, "good"));
    }
    assert_eq!((bad.count(), good.count()), (10, 10));
    assert_eq!(
        (bad.connections(), good.connections()),
        (1, 1),
        "an answer that was read whole spoils no connection"
    );
    // A POST is not retried: the endpoint may have acted upon it.
    let response = client.ask(POST);
    assert_eq!((response.status, response.text().as_str(), response.reason()), (503, "answer 503", "-"));
    gateway.reconcile(&[&bad, &good]);
}

#[test]
fn other_statuses_pass() {
    let (bad, good) = (always(500), Origin::named("good"));
    let gateway = gateway(&addresses(&[&bad, &good]), ", retry: {on: [502-504]}", "", "");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.text().as_str()), (500, "answer 500"));
    gateway.reconcile(&[&bad, &good]);
}

#[test]
fn the_last_answer_is_the_client_s() {
    let (first, second) = (always(503), always(504));
    let gateway = gateway(&addresses(&[&first, &second]), ", retry: {on: [5xx], attempts: 4}", "", "");
    let mut client = gateway.client();
    let response = client.get("/");
    assert_eq!((response.status, response.text().as_str(), response.reason()), (504, "answer 504", "-"));
    assert_eq!((first.count(), second.count()), (2, 2));
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["attempts"], &record["status"]), (&4.into(), &504.into()));
    gateway.reconcile(&[&first, &second]);
}

#[test]
fn the_last_reason_is_the_client_s() {
    let bad = always(503);
    let endpoints = [bad.address().to_string(), refused_address().to_string()];
    let gateway = gateway(&endpoints, ", retry: {on: [503, connect_failure]}", "", "");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
    let record = &gateway.wait_records(1)[0];
    // A request that could not be sent is not an attempt that an origin could have seen.
    assert_eq!((&record["attempts"], &record["status"]), (&1.into(), &502.into()));
    gateway.reconcile(&[&bad]);
}

#[test]
fn an_answer_that_never_comes() {
    let gate = Gate::new();
    let opened = gate.clone();
    let silent = Origin::play(move |conn| {
        conn.request();
        opened.wait();
    });
    let good = Origin::named("good");
    let gateway = gateway(&addresses(&[&silent, &good]), ", retry: {on: [timeout], per_try: 200ms}", "", "");
    let mut client = gateway.client();
    assert_eq!(client.get("/").text(), "good");
    assert_eq!(client.get("/").text(), "good");
    gate.open();
    gateway.reconcile(&[&silent, &good]);
}

#[test]
fn timeouts_are_not_tried_again_unless_listed() {
    let silent = Origin::play(|conn| {
        conn.request();
        conn.wait_close();
    });
    let good = Origin::named("good");
    let gateway = gateway(&addresses(&[&silent, &good]), "", "", "timeouts: {response_header: 200ms}");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (504, "http_response_timeout"));
    gateway.reconcile(&[&silent, &good]);
}

#[test]
fn no_retry_after_the_response_has_begun() {
    // A final or an interim head: either is a part of an answer.
    for (begun, status) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf", 200),
        ("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 502),
    ] {
        let cut = Origin::play(move |conn| {
            conn.request();
            conn.send(begun);
            conn.pause(Duration::from_millis(50));
        });
        let good = Origin::named("good");
        let gateway = gateway(&addresses(&[&cut, &good]), ", retry: {on: [reset, 5xx]}", "", "");
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut response = client.try_head("GET").expect("a head");
        assert_eq!(response.status, status);
        assert_eq!(client.try_body(&mut response).is_ok(), status == 502);
        assert_eq!((cut.count(), good.count()), (1, 0));
        gateway.reconcile(&[&cut, &good]);
    }
}

#[test]
fn a_response_that_is_no_http_is_not_tried_again() {
    let garbage = Origin::fixed_then_close("220 mail.example.com\r\n");
    let good = Origin::named("good");
    let gateway = gateway(&addresses(&[&garbage, &good]), "", "", "");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "http_protocol_error"));
    gateway.reconcile(&[&garbage, &good]);
}

#[test]
fn a_long_answer_that_is_held_back_costs_its_connection_only() {
    // First a rest that is longer than the gateway reads to keep a connection; then a short rest that comes
    // later, which it reads.
    for (rest, pause, connections) in [(1 << 20, 0, 3), (100, 20, 1)] {
        let bad = Origin::play(move |conn| {
            while conn.request().is_some() {
                conn.send(format!("HTTP/1.1 503 X\r\nContent-Length: {rest}\r\n\r\n"));
                conn.pause(Duration::from_millis(pause));
                conn.send(vec![b'x'; rest]);
            }
        });
        let good = Origin::named("good");
        // The client pauses, so that the rest can arrive.
        let gateway = gateway(&addresses(&[&bad, &good]), ", retry: {on: [503]}", "", "");
        let mut client = gateway.client();
        for _ in 0..3 {
            assert_eq!(client.get("/").text(), "good");
            std::thread::sleep(Duration::from_millis(10 * pause));
        }
        assert_eq!(bad.connections(), connections, "{rest} bytes");
        gateway.reconcile(&[&bad, &good]);
    }
}

#[test]
fn a_route_has_the_last_word() {
    let (mute, good) = (mute(), Origin::named("good"));
    let gateway = gateway(&addresses(&[&mute, &good]), ", retry: {attempts: 5}", ", retry: off", "");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
    gateway.reconcile(&[&mute, &good]);
}
