//! `fault`: requests that are late or fail on purpose.

use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Origin};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

#[test]
fn those_that_ask_for_it_fail() {
    let origin = Origin::ok();
    let policy = "policies: {fault: {abort: {status: 418}, header: \"X-Fault: yes\"}}";
    let gateway = Gateway::with(&origin, policy);
    let mut client = gateway.client();
    assert_eq!(client.ask(format!("{ASK}X-Fault: yes\r\n\r\n")).status, 418);
    assert_eq!(client.ask(format!("{ASK}X-Fault: no\r\n\r\n")).status, 200);
    assert_eq!(client.ask(format!("{ASK}\r\n")).status, 200);
    assert_eq!(origin.count(), 2);
    let records = gateway.wait_records(3);
    assert_eq!(records[0]["detail"].as_str(), Some("aborted on purpose"));
    gateway.reconcile(&[&origin]);
}

#[test]
fn who_waits_holds_up_nobody() {
    let origin = Origin::ok();
    let policy = "workers: 1\npolicies: {fault: {delay: {time: 500ms}, header: X-Late}}";
    let gateway = Gateway::with(&origin, policy);
    let (mut late, mut prompt) = (gateway.client(), gateway.client());
    let began = Instant::now();
    late.send(format!("{ASK}X-Late: 1\r\n\r\n"));
    assert_eq!(prompt.ask(format!("{ASK}\r\n")).status, 200);
    // The one that waits has not gone anywhere yet, if the other one was not held up itself.
    assert!(origin.count() == 1 || began.elapsed() > Duration::from_millis(500));
    assert_eq!(late.response().status, 200);
    assert!(began.elapsed() >= Duration::from_millis(500), "never early");
    assert_eq!(origin.count(), 2);
}

#[test]
fn who_goes_while_it_waits_is_not_waited_for() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "policies: {fault: {delay: {time: 300s}}}");
    let mut client = gateway.client();
    client.send(format!("{ASK}\r\n"));
    client.reset();
    let records = gateway.wait_records(1);
    assert_eq!(records[0]["reason"].as_str(), Some("client_closed"));
    assert_eq!(origin.count(), 0);
}
