//! Attack class 6: `Expect: 100-continue` in all its variants, and 1xx.

use std::time::Duration;

use tollgate_tests::{Gateway, Origin, ReadError, Response};

fn head(version: &str, expect: &str) -> String {
    format!("POST /x HTTP/{version}\r\nHost: a\r\nExpect: {expect}\r\nContent-Length: 4\r\n\r\n")
}

fn with_100() -> Origin {
    Origin::play(|conn| {
        while let Some(mut request) = conn.head() {
            if request.headers.lists("Expect", "100-continue") {
                conn.send("HTTP/1.1 100 Continue\r\n\r\n");
            }
            if !conn.body(&mut request) {
                return;
            }
            conn.ok(&String::from_utf8_lossy(&request.body));
        }
    })
}

#[test]
fn a_client_that_waits_gets_100_exactly_once() {
    for expect in ["100-continue", "100-Continue", "100-CONTINUE"] {
        let origin = with_100();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..3 {
            client.send(head("1.1", expect));
            assert_eq!(client.interim().status, 100);
            client.send("body");
            let response = client.response();
            assert_eq!((response.text().as_str(), response.interim.len()), ("body", 0));
        }
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_client_that_waits_is_not_left_waiting_by_an_origin_without_100() {
    // An old origin ignores the expectation and waits for the body. Either the gateway sends the 100, or the
    // client sends its body after a while, as RFC 9110, section 10.1.1 requires.
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send(head("1.1", "100-continue"));
    client.wire().set_deadline(Duration::from_millis(300));
    match client.wire().response_head("POST") {
        Ok(interim) => assert_eq!(interim.status, 100),
        Err(error) => assert_eq!(error, ReadError::TimedOut),
    }
    client.wire().set_deadline(tollgate_tests::DEADLINE);
    client.send("body");
    let response = client.response();
    assert_eq!(response.text(), "POST /x body");
    client.expect_alive();
}

#[test]
fn a_client_that_does_not_wait_is_answered() {
    let origin = with_100();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for _ in 0..3 {
        client.send(head("1.1", "100-continue") + "body");
        let response: Response = client.response();
        assert_eq!(response.text(), "body");
        assert!(response.interim.len() <= 1, "{response:?}");
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_final_answer_instead_of_100_is_passed_on() {
    // The next bytes may be the body or a new request. The gateway must not guess.
    let origin = Origin::play(|conn| {
        if conn.head().is_some() {
            conn.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 37\r\n\r\n");
    let response = client.response();
    if response.interim.is_empty() {
        assert_eq!((response.status, response.text().as_str()), (401, "no"));
    }
    client.send("GET /smuggled HTTP/1.1\r\nHost: aaaa\r\n\r\n");
    match client.try_response("GET") {
        Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
        Ok(response) => panic!("the body was answered as a request: {response:?}"),
    }
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn other_expectations_fail() {
    for expect in ["200-ok", "100-continue, 200-ok", "100-continue=1", "100continue"] {
        let origin = Origin::echo();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send(head("1.1", expect));
        let response = client.response();
        assert_eq!((response.status, response.reason()), (417, "expectation_failed"), "{expect}");
        client.expect_close();
        assert_eq!(origin.count(), 0, "{expect}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn an_expectation_of_1_0_is_ignored() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            conn.ok(&String::from_utf8_lossy(&request.body));
        }
    });
    let gateway = Gateway::to(&origin);
    let response = gateway.client().ask(head("1.0", "100-continue") + "body");
    assert_eq!((response.text().as_str(), response.interim.len()), ("body", 0));
}

#[test]
fn an_expectation_without_a_body_does_no_harm() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.ask("GET /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(response.text(), "GET /x ");
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_gateway_s_own_refusal_comes_before_100() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "limits: {{body: 10}}\nroutes: [{{match: /x, to: [\"{}\"]}}]",
        origin.address()
    ));
    let mut client = gateway.client();
    client.send("POST /none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.interim.len()), (404, 0));
    let mut client = gateway.client();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.interim.len()), (413, 0));
    assert_eq!(origin.connections(), 0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn interim_answers_pass_in_order() {
    let origin = Origin::fixed(
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/");
        let interim: Vec<_> = response.interim.iter().map(|r| (r.status, r.header("Link"))).collect();
        assert_eq!(
            interim,
            [(102, None), (103, Some("</a.css>; rel=preload")), (103, Some("</b.css>; rel=preload"))]
        );
        assert_eq!(response.text(), "ok");
    }
    assert_eq!(origin.connections(), 1);
    gateway.reconcile(&[&origin]);
}
