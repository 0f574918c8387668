//! A fixed response instead of an error, an endpoint's or the gateway's own.

use serde_json::json;
use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Http2Origin, Origin, eventually, refused_address};

use super::{by_target, by_target_in_http2, fallbacks, field, gateway, reported};

const SORRY: &str = "{on: [5xx, 404], respond: {headers: {X-Page: yes}, body: sorry}}";

#[test]
fn it_takes_the_place_of_an_endpoints_body() {
    let origin = by_target();
    let gateway = gateway(&origin.address().to_string(), SORRY, "", "");
    let mut client = gateway.client();
    for status in [500, 503, 404, 599] {
        let response = client.get(&format!("/{status}"));
        assert_eq!(reported(&response), (status, "sorry".to_owned()));
        assert_eq!((response.header("x-page"), response.header("x-own")), (Some("yes"), None));
        assert_eq!(response.header("tollgate-reason"), None);
        // Fields that tell the client how to react still come from the endpoint.
        assert_eq!(response.header("retry-after"), Some("7"));
        assert_eq!(response.header("www-authenticate"), Some("Basic"));
    }
    for status in [200, 403, 400] {
        let response = client.get(&format!("/{status}"));
        assert_eq!((response.status, response.header("x-own")), (status, Some("yes")));
    }
    let head =
        client.wire().send(b"HEAD /503 HTTP/1.1\r\nHost: a\r\n\r\n").map(|()| client.response_to("HEAD"));
    let head = head.expect("sent");
    assert_eq!((head.status, head.header("content-length")), (503, Some("5")));
    assert_eq!(client.get("/200").status, 200, "nothing is left of the answer to HEAD");
    assert_eq!(origin.connections(), 1, "the rest of each answer was read, and its connection used again");

    let records = gateway.wait_records(9);
    let first = &records[0];
    assert_eq!(
        (first["status"].as_u64(), field(first, "reason"), first["attempts"].as_u64()),
        (Some(500), "-", Some(1))
    );
    assert_eq!(first["endpoint_statuses"][0], 500, "{first}");
    assert_eq!(fallbacks(&gateway, &origin.address().to_string()), 5);
    gateway.reconcile(&[&origin]);
}

#[test]
fn it_takes_the_place_of_the_gateways_own_error() {
    let nobody = refused_address();
    let gateway = gateway(
        &nobody.to_string(),
        "[{on: 502, respond: {status: 200, json: {items: []}}}, {on: 503, respond: later}]",
        "",
        "",
    );
    let mut client = gateway.client();
    let response = client.get("/");
    assert_eq!(reported(&response), (200, "{\"items\":[]}".to_owned()));
    assert_eq!(
        (response.header("content-type"), response.reason()),
        (Some("application/json"), "connection_refused")
    );
    // The gateway reads the rest of a body to keep the connection.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
    assert_eq!(client.response().status, 200);
    client.send("halfGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let mut http2 = gateway.http2();
    assert_eq!(reported(&http2.get("/")), (200, "{\"items\":[]}".to_owned()));
    let records = gateway.wait_records(4);
    assert!(records.iter().all(|record| record["status"] == 200 && record["reason"] == "connection_refused"));
}

/// An attempt that a fallback replaces is one of the earlier ones; the last one does not stand there twice.
#[test]
fn the_log_has_each_attempt_once() {
    let (nobody, origin) = (refused_address(), by_target());
    let respond = "{on: 5xx, respond: {status: 418, body: sorry}}";
    for (to, reasons, statuses) in [
        (nobody, json!(["connection_refused"]), json!([null])),
        (origin.address(), json!([null]), json!([503])),
    ] {
        let gateway = gateway(&to.to_string(), respond, ", retry: off", "");
        assert_eq!(reported(&gateway.client().get("/503")), (418, "sorry".to_owned()));
        let record = &gateway.wait_records(1)[0];
        assert_eq!(
            (&record["endpoints"], &record["endpoint_reasons"], &record["endpoint_statuses"]),
            (&json!([to.to_string()]), &reasons, &statuses),
            "{record}"
        );
        assert_eq!(record["endpoint_ms"].as_array().map(Vec::len), Some(1), "{record}");
    }
}

#[test]
fn http2_on_either_side() {
    let (origin, second) = (by_target(), by_target_in_http2());
    for to in [origin.address().to_string(), format!("h2c://{}", second.address())] {
        let gateway = gateway(&to, SORRY, "", "");
        let mut client = gateway.http2();
        for _ in 0..3 {
            let response = client.get("/503");
            assert_eq!((reported(&response), response.header("x-own")), ((503, "sorry".to_owned()), None));
            assert_eq!(response.header("retry-after"), Some("7"));
            assert_eq!(client.ask(request("HEAD", "/503", &[])).status, 503);
            assert_eq!(client.get("/200").header("x-own"), Some("yes"));
        }
        assert_eq!(reported(&gateway.client().get("/404")), (404, "sorry".to_owned()));
    }
    assert_eq!(origin.connections(), 1);
    assert_eq!(second.connections().0, 1);
}

#[test]
fn a_body_without_an_end_is_left_behind() {
    let endless = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n");
            while conn.send("5\r\nhello\r\n") {}
        }
    });
    let silent = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 503 X\r\nContent-Length: 10\r\n\r\nhello");
            conn.wait_close();
        }
    });
    let closing = Origin::fixed_then_close("HTTP/1.0 500 X\r\n\r\nuntil the end");
    let broken = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for origin in [&endless, &silent, &closing, &broken] {
        let gateway = gateway(&origin.address().to_string(), SORRY, "", "");
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!(response.text(), "sorry");
            eventually("the connection's end", || origin.open() == 0);
        }
        assert_eq!(origin.connections(), 2, "no connection of which the end is not known is used again");
    }
    let endless = Http2Origin::play(|stream| {
        stream.head(500, &[], false);
        stream.send("x".repeat(1000), false);
        stream.wait_reset();
    });
    let gateway = gateway(&format!("h2c://{}", endless.address()), SORRY, "", "");
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "sorry");
    }
    eventually("resets", || endless.resets().len() == 3);
}

#[test]
fn a_request_whose_body_is_under_way() {
    let early = Origin::play(|conn| {
        while conn.head().is_some() {
            conn.send("HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno");
            conn.wait_close();
        }
    });
    let gateway = gateway(&early.address().to_string(), SORRY, "", "");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    let response = client.response();
    assert_eq!(reported(&response), (503, "sorry".to_owned()));
    assert!(!response.says_close(), "the rest is short, and awaited");
    client.send("helloPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nhello");
    let response = client.response();
    assert_eq!(reported(&response), (503, "sorry".to_owned()));
    assert!(response.says_close(), "nobody waits for 100 MB");
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(request("POST", "/", &[("content-length", "10")]), false).expect("begun");
    stream.send("hello", false).expect("sent");
    assert_eq!(reported(&stream.response().expect("an answer")), (503, "sorry".to_owned()));
    assert_eq!(reported(&http2.get("/")), (503, "sorry".to_owned()), "the connection goes on");
}

#[test]
fn statuses_that_have_no_body() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            match request.target.as_str() {
                "/304" => conn.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"),
                _ => conn.send("HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\nno"),
            };
        }
    });
    let gateway = gateway(&origin.address().to_string(), "{on: 4xx, respond: 204}", "", "");
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.status, response.header("content-length"), response.body.len()), (204, None, 0));
        let response = client.get("/304");
        assert_eq!((response.status, response.header("etag")), (304, Some("\"1\"")));
        assert_eq!(gateway.http2().get("/").status, 204);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn grpc_calls_get_a_grpc_status() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        match stream.request.target.as_str() {
            "/s/Unavailable" => stream.head(
                200,
                &[("content-type", "application/grpc"), ("grpc-status", "14"), ("grpc-message", "no")],
                true,
            ),
            _ => stream.head(503, &[("content-type", "application/grpc"), ("grpc-status", "14")], true),
        }
    });
    let gateway = Gateway::start(&format!(
        "routes:\n- {{match: /gone/*, to: \"h2c://{}\", fallback: {{on: 5xx, respond: sorry}}}}\n\
         - {{match: /*, to: \"h2c://{}\", fallback: {{on: 5xx, respond: sorry}}}}\n",
        refused_address(),
        origin.address()
    ));
    let mut client = gateway.http2();
    let mut call = |path: &str| {
        client.ask(request("POST", path, &[("content-type", "application/grpc"), ("te", "trailers")]))
    };
    for (path, status) in [("/s/Unavailable", 200), ("/s/Http", 503), ("/gone/Call", 200)] {
        let response = call(path);
        assert_eq!(
            (response.status, response.header("grpc-status"), response.body.len()),
            (status, Some("14"), 0)
        );
    }
    assert_eq!(client.get("/gone/page").text(), "sorry", "what is no call has a page");
}

#[test]
fn policies_and_refusals_are_not_the_upstreams() {
    let origin = by_target();
    let gateway = gateway(
        &origin.address().to_string(),
        "{on: [4xx, 5xx], respond: sorry}",
        ", policies: {headers: {response: {set: {X-Policy: met}}}}, limits: {body: 3B}",
        "",
    );
    let mut client = gateway.client();
    let response = client.get("/503");
    assert_eq!((reported(&response), response.header("x-policy")), ((503, "sorry".to_owned()), Some("met")));
    // Errors of the client never reach a fallback.
    let response = client.post("/", b"four");
    assert_eq!((response.status, response.reason()), (413, "body_too_large"));
}

#[test]
fn an_upgrade_that_the_endpoint_refuses() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            match request.target.as_str() {
                "/no" => conn.send("HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno"),
                _ => {
                    conn.send("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: tick\r\n\r\nhello");
                    conn.wait_close();
                    false
                }
            };
        }
    });
    let gateway = gateway(&origin.address().to_string(), SORRY, ", upgrade: tick", "");
    let ask = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: tick\r\n\r\n")
    };
    let mut client = gateway.client();
    assert_eq!(reported(&client.ask(ask("/no"))), (503, "sorry".to_owned()));
    client.send(ask("/yes"));
    assert_eq!(client.head().status, 101);
}
