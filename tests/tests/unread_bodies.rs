//! The gateway's own answer to a request whose body has arrived or arrives shortly: the connection stays
//! open.

use std::time::Duration;

use tollgate_tests::{Gate, Gateway, Origin, Response, refused_address};

const NEXT: &str = "GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n";

fn gateway(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nlimits: {{body: 1MiB}}\nroutes:\n- {{match: /fixed, respond: {{status: 200, body: next}}}}\n\
         - {{match: /moved, redirect: {{path: /fixed}}}}\n- {{match: /dead, to: \"{dead}\", retry: off}}\n\
         - {{match: /small, to: \"{origin}\", limits: {{body: 3B}}}}\n\
         - {{match: /collected, to: \"{origin}\", limits: {{body: 3B}}, buffer: {{request: on}}}}\n\
         - {{match: /denied, to: \"{origin}\", policies: {{ip: {{allow: 10.0.0.0/8}}}}}}\n\
         - {{match: /keyed, to: \"{origin}\", policies: {{api_key: on}}}}\nconsumers: {{a: {{api_keys: \"sha256:{key}\"}}}}\n",
        key = "0".repeat(64),
        dead = refused_address(),
        origin = origin.address()
    ))
}

/// Returns a body of ten bytes in several framings, and an empty body.
fn bodies() -> [(&'static str, String); 4] {
    [
        ("Content-Length: 10", "0123456789".to_owned()),
        ("Transfer-Encoding: chunked", "a\r\n0123456789\r\n0\r\n\r\n".to_owned()),
        ("Transfer-Encoding: chunked", "5;a=b\r\n01234\r\n5\r\n56789\r\n0\r\nX-Sum: 1\r\n\r\n".to_owned()),
        ("Content-Length: 0", String::new()),
    ]
}

fn keeps(response: &Response, shown: &str) {
    assert!(!response.says_close(), "{shown}: {response:?}");
}

const PATHS: [(&str, u16); 8] = [
    ("/nowhere", 404),
    ("/fixed", 200),
    ("/moved", 302),
    ("/dead", 502),
    ("/denied", 403),
    ("/keyed", 401),
    ("/small", 413),
    ("/collected", 413),
];

#[test]
fn a_body_that_is_all_here_never_costs_the_connection() {
    let origin = Origin::ok();
    let gateway = gateway(&origin);
    for (path, status) in PATHS {
        for (field, body) in bodies() {
            let shown = format!("{path} {field} {body:?}");
            let mut client = gateway.client();
            for _ in 0..2 {
                client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n{body}{NEXT}"));
                let response = client.response();
                let expected = if body.is_empty() && status == 413 { 200 } else { status };
                assert_eq!(response.status, expected, "{shown}");
                keeps(&response, &shown);
                assert_eq!(client.response().text(), "next", "{shown}");
            }
        }
    }
}

#[test]
fn a_body_that_comes_shortly_after_its_head_does_not_either() {
    let origin = Origin::ok();
    let gateway = gateway(&origin);
    for (path, status) in PATHS.into_iter().filter(|(path, _)| *path != "/collected") {
        for (field, body) in bodies() {
            if body.is_empty() || path == "/small" && field.starts_with("Content") {
                continue;
            }
            let shown = format!("{path} {field}");
            let mut client = gateway.client();
            client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
            if path != "/small" && path != "/dead" {
                // The answer arrives before the body.
                let response = client.response();
                assert_eq!(response.status, status, "{shown}");
                keeps(&response, &shown);
                client.dribble(&body);
                client.send(NEXT);
            } else {
                client.send(&body);
                client.send(NEXT);
                assert_eq!(client.response().status, status, "{shown}");
            }
            assert_eq!(client.response().text(), "next", "{shown}");
        }
    }
}

#[test]
fn awaited_bodies_are_bounded() {
    let origin = Origin::ok();
    let gateway = gateway(&origin);
    // A long body, of which little has arrived: the gateway closes at once.
    let mut client = gateway.client();
    let response = client.ask("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome");
    assert!(response.status == 404 && response.says_close(), "{response:?}");
    client.expect_close();
    // More chunks than the gateway waits for.
    let mut client = gateway.client();
    client.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.response().status, 404);
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    client.send(chunk.repeat(20));
    client.expect_close();
    // A body that never arrives: the gateway waits only briefly.
    let mut client = gateway.client();
    let response = client.ask("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    assert_eq!(response.status, 404);
    client.expect_close();
    // Invalid chunk framing.
    let mut client = gateway.client();
    client
        .send(format!("POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n{NEXT}"));
    let response = client.response();
    assert!(response.status == 404 && response.says_close(), "{response:?}");
    client.expect_close();
    // After `Expect: 100-continue` the client may send the body or not.
    let mut client = gateway.client();
    let response =
        client.ask("POST /nowhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    assert!(response.status == 404 && response.says_close(), "{response:?}");
    assert_eq!(origin.count(), 0);
}

#[test]
fn an_endpoint_that_breaks_off_does_not_cost_the_clients_connection() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        if let Some(request) = conn.head() {
            if request.target == "/whole" {
                conn.wire().take(15).ok();
            }
            held.wait();
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /fixed, respond: {{status: 200, body: next}}}}\n\
         - {{match: /*, to: \"{}\", retry: off}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    client.send(
        "POST /whole HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
    );
    gate.open();
    let response = client.response();
    assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
    keeps(&response, "whole");
    assert_eq!(client.ask(NEXT).text(), "next");
    client.expect_silence(Duration::from_millis(20));
}
