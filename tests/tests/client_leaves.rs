//! A client that closes while it waits. The gateway ends the work for its request at once, and nothing counts
//! against the endpoint.

use std::io::Write;
use std::time::Duration;

use h2::Reason;
use serde_json::Value;
use tollgate_tests::{Client, Gate, Gateway, Http2Origin, Origin, eventually, http2};

const ASK: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// Starts an origin that reads requests and never answers.
fn silent() -> Origin {
    Origin::play(|conn| while conn.request().is_some() {})
}

/// Starts a gateway with these upstreams, and with further keys of the route and of the file.
fn gateway(upstreams: &str, route: &str, file: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{name: r, match: \"/*\", to: u{route}}}]\nupstreams: {{{upstreams}}}\n{file}\n"
    ))
}

/// Returns the only record, which must be of a client that closed.
fn left(gateway: &Gateway) -> Value {
    let record = gateway.wait_records(1)[0].clone();
    assert_eq!(record["reason"], "client_closed", "{record:#}");
    record
}

/// Ends the client's direction, as an HTTP/1 client does.
fn end(client: &Client) {
    client.half_close();
}

/// Sends as much as the kernel accepts, and returns how many bytes that was.
fn fill(client: &mut Client) -> usize {
    let stream = client.wire().stream().expect("open");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let mut sent = 0;
    while sent < 64 << 20 {
        match (&*stream).write(&[b'x'; 65_536]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn a_close_while_the_response_is_awaited_ends_the_exchange() {
    let behind = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    let old = "GET /a HTTP/1.0\r\n\r\n";
    for (message, more) in [(ASK, ""), (ASK, behind), (post, ""), (chunked, behind), (old, "")] {
        let origin = silent();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send(message);
        eventually("the request at the origin", || origin.count() == 1);
        // The bytes after the request stay unread.
        client.send(more);
        end(&client);
        eventually("the origin's connection to end", || origin.open() == 0);
        let record = left(&gateway);
        assert_eq!((&record["status"], &record["attempts"]), (&0.into(), &1.into()), "{message}");
        client.expect_close();
        assert_eq!(origin.count(), 1);
    }
}

#[test]
fn a_request_and_its_end_at_once_are_a_client_that_has_left() {
    let origin = silent();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send(ASK);
    end(&client);
    client.expect_close();
    left(&gateway);
    eventually("the origin to be let go", || origin.open() == 0);
}

#[test]
fn the_gateways_own_answers_come_all_the_same() {
    let gateway = Gateway::start("routes: [{match: \"/*\", respond: {status: 200, body: own}}]\n");
    let mut client = gateway.client();
    client.send(ASK);
    end(&client);
    assert_eq!(client.response().text(), "own");
}

#[test]
fn pipelined_bytes_are_not_read_without_bound() {
    let origin = silent();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the request at the origin", || origin.count() == 1);
    let sent = fill(&mut client);
    assert!(sent < 64 << 20, "the gateway reads what nobody wants");
    assert!(gateway.peak_kib() < 64 << 10, "{} KiB", gateway.peak_kib());
    client.reset();
    eventually("the origin's connection to end", || origin.open() == 0);
    left(&gateway);
}

#[test]
fn bytes_behind_a_request_are_its_next_request_all_the_same() {
    let opened = Gate::new();
    let wait = opened.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            wait.wait();
            conn.ok(&request.target);
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the request at the origin", || origin.count() == 1);
    // Two segments, each an event of its own.
    client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\nGET /c HTT");
    client.send("P/1.1\r\nHost: a\r\n\r\n");
    opened.open();
    for target in ["/a", "/b", "/c"] {
        assert_eq!(client.response().text(), target);
    }
    assert_eq!(client.get("/d").text(), "/d");
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_close_in_the_middle_of_the_response_ends_it() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send(ASK);
    assert_eq!(client.head().status, 200);
    end(&client);
    eventually("the origin's connection to end", || origin.open() == 0);
    assert_eq!(left(&gateway)["status"], 200);
}

/// A FIN of the client would wait behind the bytes that the gateway's kernel does not accept; a reset does
/// not.
#[test]
fn a_reset_ends_an_upload_that_the_endpoint_does_not_read() {
    let origin = Origin::play(|conn| {
        if conn.head().is_some() {
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n");
    eventually("the head at the origin", || origin.count() == 1);
    fill(&mut client);
    client.reset();
    eventually("the origin's connection to end", || origin.open() == 0);
    left(&gateway);
}

#[test]
fn a_client_that_leaves_is_removed_from_the_queue() {
    for close in [true, false] {
        let origin = silent();
        let upstream = format!(
            "u: {{endpoints: [\"{}\"], limits: {{connections: 1}}, queue: {{size: 8, timeout: 10m}}}}",
            origin.address()
        );
        let gateway = gateway(&upstream, "", "");
        let mut first = gateway.client();
        first.send(ASK);
        eventually("the first at the origin", || origin.count() == 1);
        let mut second = gateway.client();
        second.send(ASK);
        let queued = || gateway.metrics().sum("tollgate_upstream_queue_length", "");
        eventually("the second to wait", || queued() == Some(1.0));
        if close {
            end(&second);
        } else {
            second.reset();
        }
        eventually("the second to be gone", || queued() == Some(0.0));
        let record = left(&gateway);
        assert_eq!(record["attempts"], 0);
        assert_eq!(origin.count(), 1);
    }
}

#[test]
fn a_client_that_closes_ends_the_wait_for_another_attempt() {
    let mute = Origin::play(|conn| drop(conn.request()));
    let upstream = format!(
        "u: {{endpoints: [\"{}\"], outlier: off, retry: {{backoff: 1m, backoff_max: 1m}}}}",
        mute.address()
    );
    let gateway = gateway(&upstream, "", "");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the first attempt", || mute.count() == 1 && mute.open() == 0);
    end(&client);
    assert_eq!(left(&gateway)["attempts"], 1);
    assert_eq!(mute.count(), 1);
}

#[test]
fn a_client_that_closes_ends_both_of_two_attempts() {
    let (one, other) = (silent(), silent());
    let upstream = format!(
        "u: {{endpoints: [\"{}\", \"{}\"], hedge: {{after: 10ms}}, retry: {{budget_min: 100}}}}",
        one.address(),
        other.address()
    );
    let gateway = gateway(&upstream, "", "");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("both attempts", || one.count() + other.count() == 2);
    end(&client);
    eventually("both connections to end", || one.open() + other.open() == 0);
    left(&gateway);
}

#[test]
fn a_stream_to_an_http2_endpoint_is_cancelled() {
    let origin = Http2Origin::play(|stream| {
        stream.wait_reset();
    });
    let gateway = gateway(&format!("u: \"h2c://{}\"", origin.address()), "", "");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the request at the origin", || origin.count() == 1);
    end(&client);
    eventually("its reset", || origin.resets() == [Reason::CANCEL]);
    left(&gateway);
}

#[test]
fn a_client_that_closes_cancels_its_authorisation() {
    let (origin, service) = (Origin::ok(), silent());
    let policy =
        format!(", policies: {{forward_auth: {{url: \"http://{}/\", timeout: 1m}}}}", service.address());
    let gateway = gateway(&format!("u: \"{}\"", origin.address()), &policy, "");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the question", || service.count() == 1);
    end(&client);
    eventually("the question to be called off", || service.open() == 0);
    left(&gateway);
    let mut client = gateway.http2();
    let stream = client.begin(http2::get("/"), true).expect("a stream");
    eventually("the question", || service.count() == 2);
    stream.reset();
    eventually("the question to be called off", || service.open() == 0);
    assert_eq!(origin.count(), 0);
}

#[test]
fn nor_by_a_service_that_speaks_grpc() {
    let origin = Origin::ok();
    let service = Http2Origin::play(|stream| {
        stream.wait_reset();
    });
    let policy =
        format!(", policies: {{ext_authz: {{url: \"http://{}/\", timeout: 1m}}}}", service.address());
    let gateway = gateway(&format!("u: \"{}\"", origin.address()), &policy, "");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the question", || service.count() == 1);
    end(&client);
    eventually("the question to be called off", || service.resets() == [Reason::CANCEL]);
    left(&gateway);
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_client_that_closes_ends_the_parts_of_an_answer() {
    let (one, other) = (silent(), silent());
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", respond: 404, policies: {{aggregate: {{parts: {{a: {{to: a}}, b: {{to: b}}}}}}}}}}]\n\
         upstreams: {{a: \"{}\", b: \"{}\"}}\n",
        one.address(),
        other.address()
    ));
    let mut client = gateway.client();
    client.send(ASK);
    eventually("both questions", || one.count() + other.count() == 2);
    end(&client);
    eventually("both connections to end", || one.open() + other.open() == 0);
    left(&gateway);
}

#[test]
fn a_client_that_closes_ends_its_copies() {
    let (main, shadow) = (silent(), silent());
    let upstreams = format!("u: \"{}\", shadow: \"{}\"", main.address(), shadow.address());
    let gateway = gateway(&upstreams, ", policies: {mirror: {to: shadow, timeout: 10m}}", "");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("both", || main.count() + shadow.count() == 2);
    end(&client);
    eventually("both connections to end", || main.open() + shadow.open() == 0);
    left(&gateway);
}

#[test]
fn a_copy_outlives_a_request_that_was_answered() {
    let (gate, opened) = (Gate::new(), Gate::new());
    let (wait, done) = (opened.clone(), gate.clone());
    let main = Origin::ok();
    let shadow = Origin::play(move |conn| {
        if conn.request().is_some() {
            wait.wait();
            conn.ok("late");
            done.open();
        }
    });
    let upstreams = format!("u: \"{}\", shadow: \"{}\"", main.address(), shadow.address());
    let gateway = gateway(&upstreams, ", policies: {mirror: {to: shadow, timeout: 10m}}", "");
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    drop(client);
    eventually("the copy", || shadow.count() == 1);
    opened.open();
    gate.wait();
    let same = || gateway.metrics().sum("tollgate_policy_events_total", "event=\"same_status\"");
    eventually("the copy's answer", || same() == Some(1.0));
}

#[test]
fn permits_are_free_at_once_and_nothing_counts_against_the_endpoint() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/wait" {
                conn.wait_close();
                return;
            }
            opened.wait();
            conn.ok("ok");
        }
    });
    let upstream = format!(
        "u: {{endpoints: [\"{}\"], breaker: {{minimum: 1, failures: 1%}}, adaptive: on, retry: {{on: [reset, timeout, 502, 503, 504]}}}}",
        origin.address()
    );
    let gateway = gateway(&upstream, ", policies: {concurrency: {limit: 1}}", "");
    for round in 1..=20 {
        let mut client = gateway.client();
        client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("the request at the origin", || origin.count() == round);
        end(&client);
        eventually("the origin's connection to end", || origin.open() == 0);
        let _ = gateway.wait_records(round);
    }
    gate.open();
    assert_eq!(gateway.client().get("/").status, 200);
    let records = gateway.wait_records(21);
    assert!(records[..20].iter().all(|record| record["reason"] == "client_closed"), "{records:#?}");
    let metrics = gateway.metrics();
    for name in [
        "tollgate_upstream_ejections_total",
        "tollgate_upstream_ejections_refused_total",
        "tollgate_upstream_failures_total",
        "tollgate_upstream_retries_total",
        "tollgate_upstream_breaker_opened_total",
    ] {
        assert_eq!(metrics.sum(name, "").unwrap_or(0.0), 0.0, "{name}");
    }
    let upstreams: Value = serde_json::from_slice(&gateway.admin("/upstreams").body).expect("JSON");
    let endpoint = &upstreams["upstreams"][0]["endpoints"][0];
    assert_eq!(
        (&endpoint["state"], &endpoint["failures"]),
        (&"available".into(), &0.into()),
        "{upstreams:#}"
    );
}

#[test]
fn a_listener_may_let_clients_end_their_direction_and_stay() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            opened.wait();
            conn.ok(&request.target);
        }
    });
    let gateway = Gateway::with(&origin, "listen: {bind: $LISTEN, half_close: on}");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the request at the origin", || origin.count() == 1);
    client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    end(&client);
    gate.open();
    assert_eq!(client.response().text(), "/a");
    assert_eq!(client.response().text(), "/b");
    client.expect_close();
    // A reset ends the request here too, also behind unread bytes.
    let origin = silent();
    let gateway = Gateway::with(&origin, "listen: {bind: $LISTEN, half_close: on}");
    let mut client = gateway.client();
    client.send(ASK);
    eventually("the request at the origin", || origin.count() == 1);
    client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    client.reset();
    eventually("the origin's connection to end", || origin.open() == 0);
    left(&gateway);
}
