//! The kinds of requests that are hedged, and that each gets its own answer.

use std::time::Duration;

use tollgate_tests::{Client, Gate, Gateway, Origin, eventually};

use super::{gated, gateway, hedges, quick};

/// Asserts that the request stays alone: the first endpoint has it, and the second never gets it. Then the
/// first one answers.
fn goes_alone(gateway: &Gateway, client: &mut Client, gate: &Gate, slow: &Origin, other: &Origin) {
    eventually("the first to be asked", || slow.count() == 1);
    client.expect_silence(Duration::from_millis(200));
    assert_eq!((other.connections(), hedges(gateway)), (0, (0, 0)));
    gate.open();
}

#[test]
fn unsafe_requests_are_not_hedged() {
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let (gate, slow) = gated("slow");
        let other = quick("other");
        let gateway = gateway(&[&slow, &other], "", "", "");
        let mut client = gateway.client();
        client.send(format!("{method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"));
        goes_alone(&gateway, &mut client, &gate, &slow, &other);
        assert_eq!(client.response().text(), "slow /x 2");
        gateway.reconcile(&[&slow, &other]);
    }
}

#[test]
fn methods_are_as_configured() {
    let (gate, slow) = gated("slow");
    let other = quick("other");
    let gateway = gateway(&[&slow, &other], ", hedge: {after: 20ms, methods: [POST]}", "", "");
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    goes_alone(&gateway, &mut client, &gate, &slow, &other);
    assert_eq!(client.response().text(), "slow /x 0");
    gate.close();
    let mut seen = Vec::new();
    while slow.count() < 2 {
        seen.push(client.post("/y", b"hello").text());
    }
    assert!(seen.iter().all(|answer| answer == "other /y 5"), "{seen:?}");
    assert_eq!(hedges(&gateway).0, 1);
    gate.open();
    gateway.reconcile(&[&slow, &other]);
}

#[test]
fn a_body_that_is_collected_goes_to_both() {
    // In memory, and partly in a file.
    for (route, length) in [
        (", buffer: {request: {memory: 1MiB, file: 0}}", 300_000),
        (", buffer: {request: {memory: 4KiB, file: 1MiB}}", 300_000),
    ] {
        let (gate, slow) = gated("slow");
        let other = quick("other");
        let gateway = gateway(&[&slow, &other], ", hedge: {after: 20ms, methods: PUT}", route, "");
        let mut client = gateway.client();
        let body: Vec<u8> = (0..length).map(|at: u32| (at * 7) as u8).collect();
        client.send(format!("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        client.send(&body);
        assert_eq!(client.response().text(), format!("other /x {length}"));
        gate.open();
        eventually("the first one to have it all", || slow.requests()[0].complete);
        assert!(slow.request().body == body && other.request().body == body);
        assert_eq!(client.get("/y").status, 200);
        gateway.reconcile(&[&slow, &other]);
    }
}

#[test]
fn an_upload_that_is_streamed_is_not() {
    let (gate, slow) = gated("slow");
    let other = quick("other");
    let gateway = gateway(&[&slow, &other], ", hedge: {after: 20ms, methods: PUT}", "", "");
    let mut client = gateway.client();
    client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    eventually("its head to arrive", || slow.count() == 1);
    client.expect_silence(Duration::from_millis(100));
    client.send("world");
    goes_alone(&gateway, &mut client, &gate, &slow, &other);
    assert_eq!(client.response().text(), "slow /x 10");
    gateway.reconcile(&[&slow, &other]);
}

#[test]
fn an_upgrade_is_not() {
    let (gate, slow) = gated("slow");
    let other = quick("other");
    let gateway = gateway(&[&slow, &other], "", "", "");
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    goes_alone(&gateway, &mut client, &gate, &slow, &other);
    assert_eq!(client.response().text(), "slow /x 0");
    gateway.reconcile(&[&slow, &other]);
}

#[test]
fn a_session_stays_where_it_is() {
    let (gate, slow) = gated("slow");
    let other = quick("other");
    let gateway = gateway(&[&slow, &other], ", balance: {sticky: {cookie: s}}", "", "");
    // The cookie is for the endpoint that answered.
    let response = gateway.client().get("/x");
    assert_eq!(response.text(), "other /x 0");
    let cookie = |response: &tollgate_tests::Response| {
        let line = response.headers.get("set-cookie").expect("a cookie").to_owned();
        line.split(';').next().expect("a pair").to_owned()
    };
    let with = |cookie: &str| format!("GET /y HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
    assert_eq!(gateway.client().ask(with(&cookie(&response))).text(), "other /y 0");
    gate.open();
    let mut own = None;
    while own.is_none() {
        let response = gateway.client().get("/x");
        own = response.text().starts_with("slow").then(|| cookie(&response));
    }
    gate.close();
    let (before, asked) = (hedges(&gateway), slow.count());
    let mut client = gateway.client();
    client.send(with(&own.expect("just found")));
    eventually("its own endpoint to be asked", || slow.count() == asked + 1);
    client.expect_silence(Duration::from_millis(100));
    gate.open();
    assert_eq!(client.response().text(), "slow /y 0");
    assert_eq!(hedges(&gateway), before);
    gateway.reconcile(&[&slow, &other]);
}

#[test]
fn interim_responses_come_from_the_winner() {
    let gate = Gate::new();
    let opened = gate.clone();
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 103 Early Hints\r\nLink: slow\r\n\r\nHTTP/1.1 20");
            opened.wait();
            conn.send("0 OK\r\nContent-Length: 4\r\n\r\nslow");
        }
    });
    let quick = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.dribble("HTTP/1.1 103 Early Hints\r\nLink: quick\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nquick");
        }
    });
    let gateway = gateway(&[&slow, &quick], "", "", "");
    let mut client = gateway.client();
    let response = client.get("/");
    assert_eq!(response.text(), "quick");
    let links: Vec<_> = response.interim.iter().map(|interim| interim.headers.get("link")).collect();
    assert_eq!(links, [Some("quick")]);
    gate.open();
    gateway.reconcile(&[&slow, &quick]);
}

#[test]
fn large_responses_are_complete_from_either_attempt() {
    const LENGTH: usize = 3 << 20;
    let body: Vec<u8> = (0..LENGTH).map(|at| (at * 7) as u8).collect();
    let answer =
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").into_bytes(), body.clone()].concat();
    let (gate, slow) = gated("slow");
    let large = Origin::fixed(answer);
    let gateway = gateway(&[&slow, &large], "", "", "");
    let mut client = gateway.client();
    for _ in 0..4 {
        // By the hedged attempt, and by a first one.
        assert!(client.get("/").body == body);
    }
    gate.open();
    gateway.reconcile(&[&slow, &large]);
}

/// Random pauses around the hedge's time. First and second attempts win or end at the same moment, and late
/// answers arrive all the time.
#[test]
fn responses_are_never_mixed_up() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 150;
    let restless = |name: &'static str| {
        Origin::play(move |conn| {
            let mut turn = conn.index() as u64 * 7919 + name.len() as u64;
            while let Some(request) = conn.request() {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let pause = (turn >> 33) % 40;
                if pause > 10 {
                    conn.pause(Duration::from_millis(pause));
                }
                conn.ok(&request.target);
                // At times an idle connection closes when the next request arrives.
                if turn.is_multiple_of(13) {
                    conn.request();
                    return;
                }
            }
        })
    };
    let origins = [restless("a"), restless("bb"), restless("ccc")];
    let all: Vec<_> = origins.iter().collect();
    let gateway = gateway(
        &all,
        ", hedge: 10ms, limits: {connections: 12}, retry: {attempts: 3, budget: 100%, budget_min: 1000}",
        "",
        "workers: 2",
    );
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut client = gateway.client();
                for turn in 0..REQUESTS {
                    let target = format!("/{number}/{turn}");
                    let response = client.get(&target);
                    assert_eq!((response.status, response.text()), (200, target));
                }
            });
        }
    });
    let (sent, won) = hedges(&gateway);
    assert!(sent > won && won > 0, "{sent} sent, {won} won");
    let records = gateway.wait_records(CLIENTS * REQUESTS);
    let attempts: u64 = records.iter().filter_map(|record| record["attempts"].as_u64()).sum();
    let seen: usize = origins.iter().map(|origin| origin.count()).sum();
    // A losing attempt may have used a connection that its origin was closing.
    assert!(seen as u64 <= attempts, "the origins saw {seen} of {attempts} attempts");
    assert_eq!(gateway.answers(), (CLIENTS * REQUESTS) as u64);
}
