//! `fault`: requests that are delayed or fail on purpose.

use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Origin, tollgate};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

#[test]
fn only_requests_with_the_header_fail() {
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
fn a_delayed_request_blocks_no_other() {
    let origin = Origin::ok();
    let policy = "workers: 1\npolicies: {fault: {delay: {time: 500ms}, header: X-Late}}";
    let gateway = Gateway::with(&origin, policy);
    let (mut late, mut prompt) = (gateway.client(), gateway.client());
    let began = Instant::now();
    late.send(format!("{ASK}X-Late: 1\r\n\r\n"));
    assert_eq!(prompt.ask(format!("{ASK}\r\n")).status, 200);
    // The waiting request has not been sent yet, unless this test itself was delayed.
    assert!(origin.count() == 1 || began.elapsed() > Duration::from_millis(500));
    assert_eq!(late.response().status, 200);
    assert!(began.elapsed() >= Duration::from_millis(500), "never early");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_client_that_leaves_ends_its_delay() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "policies: {fault: {delay: {time: 300s}}}");
    let mut client = gateway.client();
    client.send(format!("{ASK}\r\n"));
    client.reset();
    let records = gateway.wait_records(1);
    assert_eq!(records[0]["reason"].as_str(), Some("client_closed"));
    assert_eq!(origin.count(), 0);
}

#[test]
fn percentages_have_decimals() {
    // 0.5 % of 20,000 requests are 100; more than six deviations from that are not chance.
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "policies: {fault: {abort: {status: 599, percent: 0.5}}}");
    let mut client = gateway.client();
    let mut aborted = 0;
    for _ in 0..200 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        aborted += (0..100).filter(|_| client.response().status == 599).count();
    }
    assert!((40..=160).contains(&aborted), "{aborted}");
    for (key, good) in [
        ("policies: {trace: {otlp: \"http://127.0.0.1:1/\", sample: 0.1%}}", true),
        ("policies: {fault: {abort: {status: 503, percent: 0.0001}}}", true),
        ("policies: {fault: {delay: {time: 1s, percent: 12.5%}}}", true),
        ("policies: {mirror: {to: up, percent: 0.1}}", true),
        ("overload: {shed_from: 92.5%, files: 99.9%}", true),
        ("policies: {trace: {otlp: \"http://127.0.0.1:1/\", sample: 0.1}}", false),
        ("policies: {fault: {abort: {status: 503, percent: 0.00001}}}", true),
        ("policies: {fault: {abort: {status: 503, percent: 0.00000000001}}}", false),
        ("policies: {mirror: {to: up, percent: 1/3000000}}", true),
        ("overload: {shed_from: 9/10}", true),
        ("policies: {mirror: {to: up, percent: 1/0}}", false),
        ("policies: {mirror: {to: up, percent: 100.1}}", false),
        ("policies: {mirror: {to: up, percent: -0.1}}", false),
    ] {
        let file = gateway.directory().join("percent.yaml");
        let up = "up: {endpoints: [\"127.0.0.1:1\"], balance: {panic_threshold: 12.5%}, outlier: {max_ejected: 33.3}, \
            retry: {budget: 2.5%}, breaker: {failures: 1.5}}";
        let text = format!("listen: 127.0.0.1:8080\nroutes: [{{to: up}}]\nupstreams: {{{up}}}\n{key}\n");
        std::fs::write(&file, text).expect("written");
        let ran = tollgate(&["check", file.to_str().expect("text")]);
        assert_eq!(ran.code == Some(0), good, "{key}: {ran:?}");
    }
}
