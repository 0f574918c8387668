//! The winner of two attempts, and the fate of the loser.

use std::time::Duration;

use tollgate_tests::{Gateway, Origin, eventually, full_backlog};

use super::{gated, gateway, hedges, quick};

#[test]
fn a_slow_first_endpoint_is_overtaken() {
    let (gate, slow) = gated("slow");
    let quick = quick("quick");
    let gateway = gateway(&[&slow, &quick], "", "", "");
    let mut client = gateway.client();
    assert_eq!(client.get("/1").text(), "quick /1 0");
    assert_eq!(hedges(&gateway), (1, 1));
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["attempts"], &record["status"]), (&2.into(), &200.into()));
    assert_eq!(record["endpoint"], quick.address().to_string());
    // The late answer is dropped, and its connection is not reused.
    gate.open();
    eventually("the loser's connection to end", || slow.open() == 0);
    for turn in 2..8 {
        let answer = client.get(&format!("/{turn}")).text();
        assert!(answer.contains(&format!(" /{turn} ")), "{answer}");
    }
    assert!(slow.connections() > 1 && slow.count() > 1);
    gateway.reconcile(&[&slow, &quick]);
}

#[test]
fn the_first_response_of_two_slow_endpoints_wins() {
    for first_wins in [true, false] {
        let (one, a) = gated("a");
        let (two, b) = gated("b");
        let gateway = gateway(&[&a, &b], "", "", "");
        let mut client = gateway.client();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("both to be asked", || a.count() == 1 && b.count() == 1);
        if first_wins {
            one.open();
        } else {
            two.open();
        }
        let answer = client.response().text();
        assert_eq!(answer, if first_wins { "a /x 0" } else { "b /x 0" });
        assert_eq!(hedges(&gateway), (1, u64::from(!first_wins)));
        one.open();
        two.open();
        let loser = if first_wins { &b } else { &a };
        eventually("the loser's connection to end", || loser.open() == 0);
        client.expect_silence(Duration::from_millis(50));
        gateway.reconcile(&[&a, &b]);
    }
}

#[test]
fn two_that_never_answer_are_one_failure() {
    let (_one, a) = gated("a");
    let (_two, b) = gated("b");
    let gateway = gateway(&[&a, &b], "", "", "timeouts: {response_header: 300ms}");
    let mut client = gateway.client();
    let response = client.get("/x");
    assert_eq!((response.status, response.reason()), (504, "http_response_timeout"));
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["attempts"], &record["status"]), (&2.into(), &504.into()));
    gateway.reconcile(&[&a, &b]);
}

#[test]
fn a_failed_first_attempt_leaves_the_second() {
    // The first attempt breaks, or gets an answer that permits a retry.
    for status in [false, true] {
        let (fails, answers) = (tollgate_tests::Gate::new(), tollgate_tests::Gate::new());
        let (fail, answer) = (fails.clone(), answers.clone());
        let bad = Origin::play(move |conn| {
            if conn.request().is_some() {
                fail.wait();
                if status {
                    conn.send("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
                }
            }
        });
        let good = Origin::play(move |conn| {
            while conn.request().is_some() {
                answer.wait();
                conn.ok("good");
            }
        });
        let gateway = gateway(&[&bad, &good], ", retry: {on: [503]}", "", "");
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("both to be asked", || bad.count() == 1 && good.count() == 1);
        fails.open();
        eventually("the first to be gone", || bad.open() == 0);
        client.expect_silence(Duration::from_millis(50));
        answers.open();
        assert_eq!(client.response().text(), "good");
        // There was no further attempt: two are the maximum.
        assert_eq!((bad.count(), good.count()), (1, 1));
        gateway.reconcile(&[&bad, &good]);
    }
}

#[test]
fn a_failed_second_attempt_leaves_the_first() {
    let (gate, slow) = gated("slow");
    let broken = Origin::play(|conn| {
        conn.request();
        conn.send("nonsense");
    });
    let gateway = gateway(&[&slow, &broken], "", "", "");
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the second to have failed", || broken.count() == 1 && broken.open() == 0);
    client.expect_silence(Duration::from_millis(50));
    gate.open();
    assert_eq!(client.response().text(), "slow /x 0");
    assert_eq!(hedges(&gateway), (1, 0));
    gateway.reconcile(&[&slow, &broken]);
}

#[test]
fn the_rejected_bytes_of_an_attempt_are_in_the_line() {
    const STATUS_LINE: &str = "HTTP/9.1 200 OK";
    let malformed = || {
        Origin::play(|conn| {
            conn.request();
            conn.send(format!("{STATUS_LINE}\r\n\r\n"));
            conn.wait_close();
        })
    };
    // The only attempt.
    let only = malformed();
    let alone = gateway(&[&only], "", "", "");
    let response = alone.client().get("/x");
    assert_eq!((response.status, response.reason()), (502, "http_protocol_error"));
    assert_eq!(alone.wait_records(1)[0]["detail"], STATUS_LINE);
    alone.reconcile(&[&only]);
    // The second attempt, while the first goes on.
    let (gate, slow) = gated("slow");
    let second = malformed();
    let both = gateway(&[&slow, &second], "", "", "");
    let mut client = both.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the second to have failed", || second.count() == 1 && second.open() == 0);
    gate.open();
    assert_eq!(client.response().text(), "slow /x 0");
    assert_eq!(both.wait_records(1)[0]["detail"], STATUS_LINE);
    both.reconcile(&[&slow, &second]);
}

#[test]
fn an_endpoint_that_lets_connections_hang_is_overtaken() {
    let (hangs, _keeper) = full_backlog();
    let quick = quick("quick");
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u}}]\n\
         upstreams: {{u: {{endpoints: [\"{hangs}\", \"{}\"], hedge: 20ms}}}}\n",
        quick.address()
    ));
    assert_eq!(gateway.client().get("/x").text(), "quick /x 0");
    let record = &gateway.wait_records(1)[0];
    // Nothing was sent to the other endpoint.
    assert_eq!(record["attempts"], 1);
    assert_eq!(hedges(&gateway), (1, 1));
    gateway.reconcile(&[&quick]);
}

#[test]
fn an_overtaken_endpoint_is_not_blamed() {
    let (gate, slow) = gated("slow");
    let quick = quick("quick");
    let keys = ", outlier: {consecutive_5xx: 1, consecutive_gateway_errors: 1, max_ejected: 100%}, breaker: {minimum: 1, failures: 1%}";
    let gateway = gateway(&[&slow, &quick], keys, "", "");
    let mut client = gateway.client();
    for turn in 0..10 {
        assert_eq!(client.get(&format!("/{turn}")).text(), format!("quick /{turn} 0"));
    }
    let metrics = gateway.metrics();
    for name in ["tollgate_upstream_ejections_total", "tollgate_upstream_breaker_opened_total"] {
        assert_eq!(metrics.sum(name, "upstream=\"u\""), Some(0.0), "{name}");
    }
    assert_eq!(metrics.sum("tollgate_upstream_failures_total", "upstream=\"u\"").unwrap_or(0.0), 0.0);
    gate.open();
    gateway.reconcile(&[&slow, &quick]);
}

#[test]
fn a_loser_gives_its_place_back() {
    let (gate, slow) = gated("slow");
    let quick = quick("quick");
    let gateway = gateway(&[&slow, &quick], ", limits: {connections: 2}, retry: {budget_min: 100}", "", "");
    let mut client = gateway.client();
    for turn in 0..20 {
        assert_eq!(client.get(&format!("/{turn}")).text(), format!("quick /{turn} 0"));
    }
    let (sent, won) = hedges(&gateway);
    assert!(sent >= won && won > 5, "{sent} sent, {won} won");
    gate.open();
    eventually("the losers' connections to end", || slow.open() == 0);
    gateway.reconcile(&[&slow, &quick]);
}

#[test]
fn a_client_that_goes_ends_both() {
    let (one, a) = gated("a");
    let (two, b) = gated("b");
    let gateway = gateway(&[&a, &b], "", "", "");
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both to be asked", || a.count() == 1 && b.count() == 1);
    client.reset();
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["reason"], &record["attempts"]), (&"client_closed".into(), &2.into()));
    one.open();
    two.open();
    eventually("both connections to end", || a.open() == 0 && b.open() == 0);
    gateway.reconcile(&[&a, &b]);
}
