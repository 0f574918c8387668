//! Repeated attempts: requests that the endpoint has not processed, and requests that it may have acted upon.

use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use h2::Reason;
use tollgate_tests::frames::END_STREAM;
use tollgate_tests::http2::{Cut, get, request};
use tollgate_tests::{DEADLINE, Gate, Gateway, Http2Origin, Origin, Signal, eventually};

use super::rules::{first_request, head};
use super::{reconcile, to, with};

/// Starts an origin that resets the first `times` requests with this reason once their heads arrive, and then
/// echoes.
fn resetting(times: usize, reason: Reason) -> Http2Origin {
    let seen = AtomicUsize::new(0);
    Http2Origin::play(move |stream| {
        if seen.fetch_add(1, Ordering::SeqCst) < times {
            return stream.reset(reason);
        }
        stream.echo();
    })
}

#[test]
fn a_refused_stream_is_tried_again_whatever_its_method() {
    let origin = resetting(1, Reason::REFUSED_STREAM);
    let gateway = with(&origin, "    retry: {attempts: 2, on: [connect_failure]}\n");
    assert_eq!(gateway.client().post("/", b"body").text(), "POST / body");
    assert_eq!(gateway.wait_records(1)[0]["attempts"], 2);
    assert_eq!(origin.connections().0, 1, "the connection goes on");
    reconcile(&gateway, &origin);
}

#[test]
fn a_request_that_is_always_refused_uses_up_its_attempts() {
    let origin = resetting(usize::MAX, Reason::REFUSED_STREAM);
    let gateway = with(&origin, "    retry: {attempts: 3, on: [connect_failure]}\n    outlier: off\n");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.header("tollgate-reason")), (502, Some("connection_refused")));
    reconcile(&gateway, &origin);
}

/// An overloaded endpoint refuses streams. Requests that went on to the others without an attempt would spread the overload.
#[test]
fn a_refused_stream_costs_an_attempt_although_other_endpoints_are_left() {
    let origins = [(); 4].map(|()| resetting(usize::MAX, Reason::REFUSED_STREAM));
    let endpoints: Vec<_> = origins.iter().map(|origin| format!("\"h2c://{}\"", origin.address())).collect();
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up:\n    endpoints: [{}]\n    outlier: off\n\
         \x20   retry: {{attempts: 2, on: [connect_failure], budget: 100%}}\n",
        endpoints.join(", ")
    ));
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
    assert_eq!(gateway.wait_records(1)[0]["attempts"], 2);
    assert_eq!(origins.iter().map(Http2Origin::count).sum::<usize>(), 2);
}

#[test]
fn a_request_refused_in_mid_body_is_not_retried() {
    for hedge in ["off", "{after: 10s}"] {
        let origin = Http2Origin::play(|stream| {
            // A part of the body has arrived.
            stream.data();
            stream.reset(Reason::REFUSED_STREAM);
        });
        let gateway = with(
            &origin,
            &format!("    retry: {{attempts: 3, on: [connect_failure, reset]}}\n    hedge: {hedge}\n"),
        );
        let mut client = gateway.http2();
        let mut upload = client.begin(request("POST", "/", &[]), false).expect("begun");
        upload.send("some", false).expect("sent");
        let response = upload.response().expect("an answer");
        assert_eq!((response.status, response.header("tollgate-reason")), (502, Some("connection_refused")));
        assert_eq!((origin.count(), gateway.wait_records(1)[0]["attempts"].clone()), (1, 1.into()));
        reconcile(&gateway, &origin);
    }
}

#[test]
fn a_reset_may_have_been_acted_upon() {
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR] {
        let origin = resetting(1, reason);
        let gateway = with(&origin, "    retry: {attempts: 2, on: [reset]}\n");
        // The first request uses a new connection, so that it cannot hit an idle connection that was closed.
        let response = gateway.client().post("/", b"body");
        assert_eq!(
            (response.status, response.header("tollgate-reason")),
            (502, Some("connection_terminated"))
        );
        assert_eq!(gateway.client().get("/").text(), "GET / ", "{reason:?}");
        reconcile(&gateway, &origin);
        let origin = resetting(1, reason);
        let gateway = with(&origin, "    retry: {attempts: 2, on: [reset]}\n");
        assert_eq!(gateway.client().get("/").text(), "GET / ");
        assert_eq!(gateway.wait_records(1)[0]["attempts"], 2);
        reconcile(&gateway, &origin);
    }
}

#[test]
fn a_reset_on_a_connection_that_was_used_before_costs_an_attempt() {
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR] {
        let seen = AtomicUsize::new(0);
        let origin = Http2Origin::play(move |stream| match seen.fetch_add(1, Ordering::SeqCst) {
            0 => stream.echo(),
            _ => stream.reset(reason),
        });
        let gateway = with(&origin, "    retry: {attempts: 2, on: [reset]}\n");
        assert_eq!(gateway.client().get("/").text(), "GET / ");
        let response = gateway.client().get("/");
        assert_eq!(
            (response.status, response.header("tollgate-reason")),
            (502, Some("connection_terminated"))
        );
        assert_eq!(
            (origin.count(), gateway.wait_records(2)[1]["attempts"].clone()),
            (3, 2.into()),
            "{reason:?}"
        );
        reconcile(&gateway, &origin);
    }
}

#[test]
fn a_status_holds_a_response_back() {
    let seen = AtomicUsize::new(0);
    let origin = Http2Origin::play(move |stream| {
        if seen.fetch_add(1, Ordering::SeqCst) == 0 {
            stream.head(503, &[], false);
            stream.send("not now", true);
            return;
        }
        stream.echo();
    });
    let gateway = with(&origin, "    retry: {attempts: 2, on: [503]}\n");
    assert_eq!(gateway.client().get("/").text(), "GET / ");
    assert_eq!(gateway.http2().get("/").text(), "GET / ");
    assert_eq!(origin.connections().0, 1);
    reconcile(&gateway, &origin);
}

#[test]
fn a_body_that_was_collected_is_sent_again() {
    let origin = resetting(2, Reason::REFUSED_STREAM);
    let address = origin.address();
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: up, buffer: {{request: on}}}}\nupstreams:\n  up:\n    endpoints: \"h2c://{address}\"\n\
         \x20   retry: {{attempts: 3, on: [connect_failure], budget: 100%}}\n    outlier: off\n"
    ));
    let body = vec![b'x'; 300_000];
    let response = gateway.client().post("/", &body);
    assert_eq!((response.status, response.body.len()), (200, 300_000 + "POST / ".len()));
    let last = origin.requests().pop().expect("three");
    assert_eq!(last.headers.get("content-length"), Some("300000"));
    reconcile(&gateway, &origin);
}

#[test]
fn broken_connections_are_reported_as_in_http1() {
    let origin = Http2Origin::play(|stream| match stream.request.target.as_str() {
        "/cut" => {
            stream.head(200, &[("content-length", "10")], false);
            stream.send("01234", false);
            stream.wait_reset();
        }
        _ => stream.echo(),
    });
    let gateway = to(&origin);
    assert_eq!(gateway.client().get("/").status, 200);
    // The idle connection is closed; a request that hits it is repeated if this is safe.
    origin.kill_connections();
    // A POST would not be repeated, so the gateway must have seen the end.
    eventually("the gateway to see the end", || {
        gateway.metrics().sum("tollgate_upstream_connections", "").is_none_or(|open| open == 0.0)
    });
    assert_eq!(gateway.client().post("/", b"x").text(), "POST / x");
    let mut http2 = gateway.http2();
    let mut cut = http2.begin(get("/cut"), true).expect("begun");
    assert_eq!(cut.head().expect("a head").status, 200);
    origin.kill_connections();
    let mut end = cut.data();
    while let Ok(Some(_)) = end {
        end = cut.data();
    }
    assert_eq!(end, Err(Cut::Reset(Reason::INTERNAL_ERROR)));
    eventually("the record", || {
        gateway.records().iter().any(|record| record["reason"] == "http_response_incomplete")
    });
}

#[test]
// The origin resets unread requests with NO_ERROR when its script returns.
fn an_early_answer_needs_no_more_of_the_request() {
    let origin = Http2Origin::play(|stream| {
        stream.ok("enough");
    });
    let gateway = to(&origin);
    let mut http2 = gateway.http2();
    let mut upload = http2.begin(request("POST", "/", &[]), false).expect("begun");
    upload.send("some", false).expect("sent");
    assert_eq!(upload.response().expect("an answer").text(), "enough");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome");
    assert_eq!(client.response().text(), "enough");
    client.expect_close();
    reconcile(&gateway, &origin);
}

#[test]
fn endpoints_that_refuse_connections_are_passed_over() {
    let origin = Http2Origin::echo();
    let (nobody, address) = (tollgate_tests::refused_address(), origin.address());
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: [\"h2c://{nobody}\", \"h2c://{address}\"]}}\n"
    ));
    for _ in 0..4 {
        assert_eq!(gateway.client().post("/", b"x").text(), "POST / x");
    }
    reconcile(&gateway, &origin);
}

#[test]
fn a_timeout_gives_up_the_stream() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Http2Origin::play(move |stream| {
        if stream.request.target == "/slow" {
            let start = Instant::now();
            // Or the connection ends, if no frame arrived on it since the request was sent.
            stream.wait_reset();
            if start.elapsed() < DEADLINE / 2 {
                held.open();
            }
            return;
        }
        stream.echo();
    });
    let gateway = with(&origin, "    timeouts: {response_header: 300ms}\n");
    let response = gateway.client().get("/slow");
    assert_eq!((response.status, response.header("tollgate-reason")), (504, Some("http_response_timeout")));
    gate.wait();
    assert_eq!(gateway.client().get("/").status, 200);
    reconcile(&gateway, &origin);
}

/// The endpoint closes an idle connection, without a GOAWAY, while a request is about to be written to it.
#[test]
fn a_request_that_was_never_written_goes_to_another_connection() {
    let (close, closed) = (Gate::new(), Gate::new());
    let gates = (close.clone(), closed.clone());
    let origin = Origin::play(move |conn| {
        if first_request(conn).is_none() {
            return;
        }
        conn.send(head(1, END_STREAM));
        if conn.index() == 0 {
            gates.0.wait();
            let _ = conn.wire().stream().map(|stream| stream.shutdown(Shutdown::Write));
            gates.1.open();
        }
        conn.wait_close();
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], retry: off}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    // When the gateway continues, it finds the request first, and then the end of the connection.
    gateway.signal(Signal::STOP);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    close.open();
    closed.wait();
    gateway.signal(Signal::CONT);
    assert_eq!(client.response().status, 200, "it was not sent, so any method may be sent again");
    assert_eq!(origin.connections(), 2);
}
