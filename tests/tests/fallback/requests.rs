//! A request that goes to another upstream.

use serde_json::json;
use tollgate_tests::http2::request;
use tollgate_tests::{Gate, Gateway, Http2Origin, Origin, refused_address};

use super::{by_target, fallbacks, field, reported};

/// Starts a gateway with these upstreams; all requests go to `a`.
fn gateway(upstreams: &[(&str, &str)], fallback: &str, route: &str, keys: &str) -> Gateway {
    let upstreams: Vec<_> = upstreams
        .iter()
        .map(|(name, endpoints)| format!("{name}: {{endpoints: [{endpoints}], outlier: off{keys}}}"))
        .collect();
    Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: \"/*\", to: a{route}, fallback: {fallback}}}]\n\
         upstreams: {{{}}}\n",
        upstreams.join(", ")
    ))
}

fn quoted(address: impl std::fmt::Display) -> String {
    format!("\"{address}\"")
}

#[test]
fn after_no_connection_and_after_a_status() {
    let (origin, echo) = (by_target(), Origin::echo());
    let nobody = quoted(refused_address());
    for a in [nobody.clone(), quoted(origin.address())] {
        let gateway = gateway(&[("a", &a), ("b", &quoted(echo.address()))], "{to: b}", "", "");
        let mut client = gateway.client();
        let response = client.get("/503?x=1");
        assert_eq!(reported(&response), (200, "GET /503?x=1 ".to_owned()));
        assert_eq!(response.header("tollgate-reason"), None);
        // With a body that arrived with its head: an idempotent method may send it again.
        let put = "PUT /502 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
        client.send(format!("{put}GET /504 HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(reported(&client.response()), (200, "PUT /502 body".to_owned()));
        assert_eq!(reported(&client.response()), (200, "GET /504 ".to_owned()));
        let mut http2 = gateway.http2();
        assert_eq!(reported(&http2.get("/503")), (200, "GET /503 ".to_owned()));
        let records = gateway.wait_records(4);
        for record in &records {
            assert_eq!((field(record, "upstream"), field(record, "reason")), ("b", "-"), "{record}");
        }
        // A refused connection is not an attempt.
        let (attempts, endpoints, statuses) = match a == nobody {
            true => (1, 3, json!([null, null, 200])),
            false => (2, 2, json!([503, 200])),
        };
        assert_eq!(records[0]["attempts"], attempts);
        assert_eq!(records[0]["endpoints"].as_array().map(Vec::len), Some(endpoints));
        assert_eq!(records[0]["endpoint_statuses"], statuses);
        assert_eq!(fallbacks(&gateway, "a"), 4);
        assert_eq!(fallbacks(&gateway, "b"), 0);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn not_where_the_request_cannot_be_sent_again() {
    let (origin, echo) = (by_target(), Origin::echo());
    let upstreams = [("a", quoted(origin.address())), ("b", quoted(echo.address()))];
    let upstreams = upstreams.each_ref().map(|(name, endpoint)| (*name, endpoint.as_str()));
    let gateway_1 = gateway(&upstreams, "[{to: b}, {on: 504, respond: sorry}]", "", "");
    let mut client = gateway_1.client();
    let post = "POST /503 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let response = client.ask(post);
    assert_eq!(reported(&response), (503, "own /503 body".to_owned()), "a POST may have been acted upon");
    assert_eq!(response.header("x-own"), Some("yes"));
    let before = origin.bytes_received();
    client.send("PUT /503 HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
    tollgate_tests::eventually("the first half", || origin.bytes_received() > before);
    client.send("half");
    assert_eq!(reported(&client.response()), (503, "own /503 halfhalf".to_owned()), "its body is gone");
    assert_eq!(
        reported(&client.ask(post.replace("503", "504"))),
        (504, "sorry".to_owned()),
        "the next one that fits"
    );
    // A POST falls back if the configuration permits it, and if its body was collected.
    let methods = ", retry: {methods: [POST, GET]}, buffer: request";
    let gateway_2 = gateway(&upstreams, "{to: b}", methods, "");
    let mut client = gateway_2.client();
    assert_eq!(reported(&client.ask(post)), (200, "POST /503 body".to_owned()));
    client.send("POST /503 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    client.send("4\r\nhalf\r\n0\r\n\r\nGET /503 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reported(&client.response()), (200, "POST /503 halfhalf".to_owned()));
    assert_eq!(reported(&client.response()), (200, "GET /503 ".to_owned()));
    let mut http2 = gateway_2.http2();
    let mut stream = http2.begin(request("POST", "/503", &[]), false).expect("begun");
    stream.send("half", false).expect("sent");
    stream.send("half", true).expect("sent");
    assert_eq!(reported(&stream.response().expect("an answer")), (200, "POST /503 halfhalf".to_owned()));
    // A request that no endpoint has received may go to any upstream.
    let nobody = quoted(refused_address());
    let gateway_3 = gateway(&[("a", &nobody), upstreams[1]], "{to: b}", "", "");
    assert_eq!(reported(&gateway_3.client().ask(post)), (200, "POST /503 body".to_owned()));
}

#[test]
fn between_versions_of_http() {
    let (origin, http2) = (by_target(), Http2Origin::echo());
    let (a, b) = (quoted(origin.address()), quoted(format!("h2c://{}", http2.address())));
    let failing = Http2Origin::play(|stream| {
        stream.body();
        stream.head(503, &[], true);
    });
    let c = quoted(format!("h2c://{}", failing.address()));
    let echo = Origin::echo();
    let d = quoted(echo.address());
    for (first, second) in [(&a, &b), (&c, &d), (&c, &b)] {
        let gateway = gateway(&[("a", first), ("b", second)], "{to: b}", ", buffer: request", "");
        for _ in 0..2 {
            assert_eq!(gateway.client().get("/503").text().trim_end(), "GET /503");
            let put = request("PUT", "/503", &[("content-length", "4")]);
            let mut client = gateway.http2();
            let mut stream = client.begin(put, false).expect("begun");
            stream.send("body", true).expect("sent");
            assert_eq!(stream.response().expect("an answer").text(), "PUT /503 body");
        }
    }
}

#[test]
fn retries_come_first_and_hedges_fall_back_too() {
    let (origin, echo) = (by_target(), Origin::echo());
    let (a, b) = (quoted(origin.address()), quoted(echo.address()));
    let gateway_1 = gateway(&[("a", &a), ("b", &b)], "{to: b}", ", retry: {attempts: 3, on: 503}", "");
    assert_eq!(reported(&gateway_1.client().get("/503")), (200, "GET /503 ".to_owned()));
    assert_eq!((origin.count(), echo.count()), (3, 1));
    let records = gateway_1.wait_records(1);
    assert_eq!((records[0]["attempts"].as_u64(), field(&records[0], "upstream")), (Some(4), "b"));
    gateway_1.reconcile(&[&origin, &echo]);

    let gate = Gate::new();
    let opened = gate.clone();
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.send("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let both = format!("{}, {a}", quoted(slow.address()));
    let gateway_2 = gateway(&[("a", &both), ("b", &b)], "{to: b}", "", ", hedge: 20ms");
    for _ in 0..4 {
        assert_eq!(reported(&gateway_2.client().get("/503")), (200, "GET /503 ".to_owned()));
    }
    gate.open();
}

#[test]
fn an_open_breaker_and_a_limit() {
    let (origin, echo) = (by_target(), Origin::echo());
    let (a, b) = (quoted(origin.address()), quoted(echo.address()));
    let gateway_1 = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: \"/*\", to: a, fallback: {{on: 503, to: b}}}}]\n\
         upstreams: {{a: {{endpoints: [{a}], outlier: off, breaker: {{minimum: 2, failures: 50, open: 1h}}}}, b: {b}}}\n"
    ));
    let mut client = gateway_1.client();
    for _ in 0..3 {
        let _ = client.get("/500");
    }
    let seen = origin.count();
    let response = client.get("/500");
    assert_eq!(reported(&response), (200, "GET /500 ".to_owned()), "the breaker is open");
    assert_eq!(origin.count(), seen);
    let gate = Gate::new();
    let opened = gate.clone();
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("slow");
        }
    });
    let gateway_2 = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: \"/*\", to: a, fallback: {{on: 503, to: b}}}}]\n\
         upstreams: {{a: {{endpoints: [{}], limits: {{requests: 1}}}}, b: {b}}}\n",
        quoted(slow.address())
    ));
    let mut waiting = gateway_2.client();
    waiting.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    tollgate_tests::eventually("the upstream has it", || slow.count() == 1);
    assert_eq!(reported(&gateway_2.client().get("/")), (200, "GET / ".to_owned()), "the upstream is full");
    gate.open();
    assert_eq!(reported(&waiting.response()), (200, "slow".to_owned()));
}

#[test]
fn a_chain_comes_to_its_end() {
    let (origin, second, third) = (by_target(), by_target(), by_target());
    let upstreams =
        [("a", quoted(origin.address())), ("b", quoted(second.address())), ("c", quoted(third.address()))];
    let upstreams = upstreams.each_ref().map(|(name, endpoint)| (*name, endpoint.as_str()));
    let gateway_1 = gateway(&upstreams, "[{to: b}, {to: c}]", "", "");
    let response = gateway_1.client().get("/503");
    assert_eq!(reported(&response), (503, "own /503 ".to_owned()), "the last one's answer goes through");
    assert_eq!((origin.count(), second.count(), third.count()), (1, 1, 1));
    let records = gateway_1.wait_records(1);
    assert_eq!((records[0]["attempts"].as_u64(), field(&records[0], "upstream")), (Some(3), "c"));
    gateway_1.reconcile(&[&origin, &second, &third]);
    let gateway_2 = gateway(&upstreams, "[{to: b}, {on: 5xx, respond: sorry}]", "", "");
    assert_eq!(reported(&gateway_2.client().get("/502")), (502, "sorry".to_owned()));
    // The fallback is one of the route's own upstreams: requests that failed there go no further.
    let gateway_3 = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: \"/*\", to: [a, b], fallback: {{to: b}}}}]\nupstreams: {{a: {}, b: {}}}\n",
        upstreams[0].1, upstreams[1].1
    ));
    for _ in 0..4 {
        assert_eq!(gateway_3.client().get("/502").status, 502);
    }
    let attempts: Vec<_> =
        gateway_3.wait_records(4).iter().map(|record| record["attempts"].as_u64()).collect();
    assert_eq!(attempts.iter().filter(|attempts| **attempts == Some(1)).count(), 2, "{attempts:?}");
}

#[test]
fn its_own_limit_is_given_back() {
    // The failed upstream releases its permit while the other upstream holds the request.
    let gate = Gate::new();
    let opened = gate.clone();
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("slow");
        }
    });
    let origin = by_target();
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: \"/*\", to: a, fallback: {{to: b}}}}]\n\
         upstreams: {{a: {{endpoints: {}, limits: {{requests: 1}}}}, b: {}}}\n",
        quoted(origin.address()),
        quoted(slow.address())
    ));
    let mut waiting = gateway.client();
    waiting.send("GET /503 HTTP/1.1\r\nHost: a\r\n\r\n");
    tollgate_tests::eventually("the other upstream has it", || slow.count() == 1);
    assert_eq!(gateway.client().get("/200").status, 200);
    gate.open();
    assert_eq!(reported(&waiting.response()), (200, "slow".to_owned()));
}
