//! Calls through the gateway: deadlines, codes, retries by code, endpoints that cannot carry calls, probes.

use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_tests::http2::request;
use tollgate_tests::{Authority, Gateway, Http2Origin, Origin, OriginStream, Response, eventually};

use crate::tls::Files;

const GRPC: (&str, &str) = ("content-type", "application/grpc");
/// An empty gRPC message.
const EMPTY: &[u8] = b"\0\0\0\0\0";

/// Ends a call without a message.
fn fail(stream: &mut OriginStream, code: &str) {
    stream.body();
    stream.head(200, &[GRPC, ("grpc-status", code)], true);
}

/// Answers a call with a message.
fn answer(stream: &mut OriginStream, code: &str) {
    stream.body();
    stream.head(200, &[GRPC], false);
    stream.send(EMPTY, false);
    stream.trailers(&[("grpc-status", code)]);
}

fn call(gateway: &Gateway, fields: &[(&str, &str)]) -> Response {
    call_of(gateway, "/shop.Orders/Place", fields)
}

fn call_of(gateway: &Gateway, method: &str, fields: &[(&str, &str)]) -> Response {
    let fields = [&[GRPC, ("te", "trailers")], fields].concat();
    let mut client = gateway.http2();
    let mut stream = client.begin(request("POST", method, &fields), false).expect("begun");
    // A refused call may already be answered, and then accepts no body.
    let _ = stream.send(EMPTY, true);
    stream.response().expect("an answer")
}

#[test]
fn a_call_with_its_trailers() {
    let origin = Http2Origin::play(|stream| answer(stream, "5"));
    let gateway = Gateway::start(&format!("routes: [{{name: r, to: \"h2c://{}\"}}]", origin.address()));
    let response = call(&gateway, &[]);
    assert_eq!((response.status, response.body.as_slice()), (200, EMPTY));
    assert_eq!(response.trailers.get("grpc-status"), Some("5"));
    let got = origin.request();
    assert_eq!((got.headers.get("te"), got.body.as_slice()), (Some("trailers"), EMPTY));
    assert_eq!(gateway.wait_records(1)[0]["grpc_status"], 5);
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tollgate_grpc_requests_total", "route=\"r\",grpc_status=\"5\""), Some(1.0));
    let method = "service=\"shop.Orders\",method=\"Place\",grpc_status=\"5\"";
    assert_eq!(metrics.sum("tollgate_grpc_method_requests_total", method), Some(1.0));
}

#[test]
fn a_method_has_one_series_however_it_is_spelled() {
    let origin = Http2Origin::play(|stream| answer(stream, "0"));
    let gateway = Gateway::start(&format!(
        "routes:\n  - {{match: \"/any/*\", to: \"h2c://{0}\", rewrite: {{path: /shop.Orders/Place}}}}\n  \
         - {{to: \"h2c://{0}\"}}\n",
        origin.address()
    ));
    for spelled in ["/shop.Orders/Place", "/shop.Orders/%50lace", "/shop.Orders/Pl%61%63e", "/any/thing"] {
        assert_eq!(call_of(&gateway, spelled, &[]).status, 200, "{spelled}");
        assert_eq!(origin.requests().last().expect("a request").target, "/shop.Orders/Place");
    }
    let metrics = gateway.metrics();
    let name = "tollgate_grpc_method_requests_total";
    assert_eq!(metrics.sum(name, "service=\"shop.Orders\",method=\"Place\",grpc_status=\"0\""), Some(4.0));
    assert_eq!(metrics.sum(name, ""), Some(4.0));
}

#[test]
fn a_deadline_ends_the_call_and_goes_on() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        if stream.request.headers.get("grpc-timeout").is_some_and(|value| value.ends_with('H')) {
            return answer(stream, "0");
        }
        stream.wait_reset();
    });
    // A call that counted as the endpoint's failure would eject it and open the breaker.
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\nupstreams: {{u: {{endpoints: \"h2c://{}\", retry: off, \
         outlier: {{consecutive_5xx: 1, consecutive_gateway_errors: 1}}, breaker: {{minimum: 1, failures: 1%}}}}}}",
        origin.address()
    ));
    let late = call(&gateway, &[("grpc-timeout", "2S")]);
    assert_eq!((late.status, late.header("grpc-status")), (200, Some("4")), "{late:?}");
    assert_eq!(late.header("tollgate-reason"), Some("request_timeout"));
    let sent = origin.request().headers.get("grpc-timeout").expect("a deadline").to_owned();
    let nanos: u64 = match sent.split_at(sent.len() - 1) {
        (count, "n") => count.parse().expect("a number"),
        (count, "u") => count.parse::<u64>().expect("a number") * 1000,
        _ => panic!("{sent}"),
    };
    assert!(nanos <= 2_000_000_000, "{sent}");
    assert_eq!(call(&gateway, &[("grpc-timeout", "99999999H")]).trailers.get("grpc-status"), Some("0"));
    eventually("the endpoint to be told", || origin.resets().len() == 1);
    // The gateway does not validate the field.
    assert_eq!(call(&gateway, &[("grpc-timeout", "1xH")]).trailers.get("grpc-status"), Some("0"));
    assert_eq!(origin.requests()[2].headers.get("grpc-timeout"), Some("1xH"));
}

#[test]
fn a_call_is_tried_again_by_its_code() {
    let turn = AtomicU32::new(0);
    let origin = Http2Origin::play(move |stream| {
        stream.body();
        let want = stream.request.headers.get("x-want").map(str::to_owned);
        match (want.as_deref(), turn.fetch_add(1, Ordering::SeqCst) % 2) {
            (Some("late"), 0) => answer(stream, "14"),
            (Some(code), 0) => fail(stream, code),
            _ => answer(stream, "0"),
        }
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u, buffer: {{request: 1KiB}}}}]\nupstreams: {{u: {{endpoints: \"h2c://{}\", outlier: off, \
         retry: {{on: [unavailable, resource_exhausted], backoff: 1ms}}}}}}",
        origin.address()
    ));
    let again = |code: &str| {
        let response = call(&gateway, &[("x-want", code)]);
        let status = response.header("grpc-status").or(response.trailers.get("grpc-status"));
        let asked = origin.count();
        if !asked.is_multiple_of(2) {
            let _ = call(&gateway, &[]);
        }
        (status.expect("a status").to_owned(), asked.is_multiple_of(2))
    };
    assert_eq!(again("14"), ("0".to_owned(), true));
    assert_eq!(again("8"), ("0".to_owned(), true));
    assert_eq!(again("13"), ("13".to_owned(), false));
    // Its first message was already forwarded.
    assert_eq!(again("late"), ("14".to_owned(), false));
    let bodies = origin.requests();
    assert!(bodies.iter().all(|request| request.body == EMPTY), "{bodies:?}");
}

#[test]
fn codes_count_as_failures() {
    let origin = Http2Origin::play(|stream| match stream.request.headers.get("x-want") {
        Some("late") => answer(stream, "14"),
        code => {
            let code = code.unwrap_or("0").to_owned();
            fail(stream, &code);
        }
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\nupstreams: {{u: {{endpoints: \"h2c://{}\", retry: off, outlier: off, \
         breaker: {{minimum: 4, failures: 100%, open: 1h}}}}}}",
        origin.address()
    ));
    let code = |want| {
        let response = call(&gateway, &[("x-want", want)]);
        response.header("grpc-status").or(response.trailers.get("grpc-status")).map(str::to_owned)
    };
    for want in ["14", "13", "2", "4"] {
        assert_eq!(code(want).as_deref(), Some(want));
    }
    let refused = call(&gateway, &[("x-want", "0")]);
    assert_eq!(
        (refused.header("grpc-status"), refused.header("tollgate-reason")),
        (Some("14"), Some("circuit_open"))
    );
}

#[test]
fn an_endpoint_of_http_1_cannot_carry_it() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let response = call(&gateway, &[]);
    assert_eq!((response.status, response.header("grpc-status")), (200, Some("12")));
    assert_eq!(response.header("tollgate-reason"), Some("grpc_needs_http2"));
    assert_eq!(origin.count(), 0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_length_leaves_room_for_trailers() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        stream.head(200, &[GRPC, ("content-length", "5")], false);
        stream.send(EMPTY, false);
        stream.trailers(&[("grpc-status", "0")]);
    });
    let gateway = Gateway::start(&format!("routes: [{{to: \"h2c://{}\"}}]", origin.address()));
    let response = call(&gateway, &[]);
    assert_eq!((response.body.as_slice(), response.trailers.get("grpc-status")), (EMPTY, Some("0")));
}

#[test]
fn probes_by_the_health_service() {
    let serving = std::sync::Arc::new(AtomicU32::new(1));
    let says = serving.clone();
    let origin = Http2Origin::play(move |stream| {
        stream.body();
        assert_eq!(stream.request.target, "/grpc.health.v1.Health/Check");
        assert_eq!(stream.request.body, b"\0\0\0\0\x0d\x0a\x0bshop.Orders");
        stream.head(200, &[GRPC], false);
        let status = says.load(Ordering::SeqCst) as u8;
        stream.send(vec![0, 0, 0, 0, 2, 8, status], false);
        stream.trailers(&[("grpc-status", "0")]);
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\nupstreams: {{u: {{endpoints: \"h2c://{}\", \
         health: {{grpc: shop.Orders, interval: 100ms, healthy: 1, unhealthy: 1}}}}}}",
        origin.address()
    ));
    let probes = |result: &str| {
        let labels = format!("result=\"{result}\"");
        gateway.metrics().sum("tollgate_upstream_probes_total", &labels).unwrap_or_default()
    };
    let up = || gateway.metrics().sum("tollgate_endpoint_up", "upstream=\"u\"");
    eventually("a good probe", || probes("good") > 0.0);
    assert_eq!(up(), Some(1.0));
    serving.store(2, Ordering::SeqCst);
    eventually("a bad probe", || probes("not_serving") > 0.0 && up() == Some(0.0));
    serving.store(1, Ordering::SeqCst);
    eventually("it to be well again", || up() == Some(1.0));
    assert!(origin.connections().0 >= 3, "each probe has a connection of its own");
}

#[test]
fn probes_by_the_health_service_over_tls() {
    let serving = std::sync::Arc::new(AtomicU32::new(1));
    let says = serving.clone();
    let origin = Http2Origin::play(move |stream| {
        if stream.request.target == "/grpc.health.v1.Health/Check" {
            stream.body();
            stream.head(200, &[GRPC], false);
            stream.send(vec![0, 0, 0, 0, 2, 8, says.load(Ordering::SeqCst) as u8], false);
            return stream.trailers(&[("grpc-status", "0")]);
        }
        answer(stream, "0");
    });
    let (authority, files) = (Authority::new(), Files::new());
    files.write("ca.pem", &authority.pem());
    files.put("own", &authority.issue(&["origin.test"]));
    // A second gateway terminates TLS for the origin.
    let secure = Gateway::start(&format!(
        "listen: {{bind: \"$LISTEN\", http2: only, tls: {{{}}}}}\nroutes: [{{match: \"/*\", to: \"h2c://{}\"}}]\n",
        files.pair("own"),
        origin.address()
    ));
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\nupstreams: {{u: {{endpoints: \"https://{}\", http2: on, \
         tls: {{ca: {}/ca.pem, server_name: origin.test}}, balance: {{panic_threshold: 0}}, \
         health: {{grpc: on, host: origin.test, interval: 100ms, healthy: 1, unhealthy: 1}}}}}}",
        secure.address(),
        files.path().display()
    ));
    let up = || gateway.metrics().sum("tollgate_endpoint_up", "upstream=\"u\"");
    let probes = |result: &str| {
        let labels = format!("result=\"{result}\"");
        gateway.metrics().sum("tollgate_upstream_probes_total", &labels).unwrap_or_default()
    };
    eventually("a good probe", || probes("good") > 0.0 && up() == Some(1.0));
    serving.store(2, Ordering::SeqCst);
    eventually("a bad probe", || probes("not_serving") > 0.0 && up() == Some(0.0));
    assert_eq!(call(&gateway, &[]).header("tollgate-reason"), Some("destination_unavailable"));
    serving.store(1, Ordering::SeqCst);
    eventually("it to be well again", || up() == Some(1.0));
}

#[test]
fn an_endpoint_whose_calls_fail_is_ejected() {
    // The code is in the head alone, or after a message.
    let bad = Http2Origin::play(|stream| match stream.request.headers.get("x-want") {
        Some("late") => answer(stream, "14"),
        _ => fail(stream, "14"),
    });
    let good = Http2Origin::play(|stream| answer(stream, "0"));
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{to: u}}]\nupstreams: {{u: {{endpoints: [\"h2c://{}\", \"h2c://{}\"], retry: off, \
         outlier: {{consecutive_5xx: 3, consecutive_gateway_errors: 3, ejection: 1h, ejection_max: 1h, max_ejected: 50%}}}}}}",
        bad.address(),
        good.address()
    ));
    let mut failed = 0;
    while bad.count() < 3 {
        let response = call(&gateway, &[("x-want", if bad.count() == 1 { "late" } else { "now" })]);
        let status = response.header("grpc-status").or(response.trailers.get("grpc-status"));
        failed += usize::from(status == Some("14"));
    }
    assert_eq!(failed, 3);
    for _ in 0..20 {
        assert_eq!(call(&gateway, &[]).trailers.get("grpc-status"), Some("0"));
    }
    assert_eq!(bad.count(), 3, "it gets no more");
}

#[test]
fn a_slow_call_is_overtaken() {
    let slow = Http2Origin::play(|stream| {
        stream.body();
        stream.wait_reset();
    });
    let quick = Http2Origin::play(|stream| answer(stream, "0"));
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{to: u, buffer: {{request: on}}}}]\nupstreams: {{u: {{endpoints: [\"h2c://{}\", \"h2c://{}\"], outlier: off, \
         hedge: {{after: 500ms, methods: [POST]}}}}}}",
        slow.address(),
        quick.address()
    ));
    while slow.count() == 0 {
        let response = call(&gateway, &[]);
        assert_eq!((response.body.as_slice(), response.trailers.get("grpc-status")), (EMPTY, Some("0")));
    }
    eventually("the slow one to be let go", || slow.resets().len() == 1);
    // The slow attempt may have been cancelled before its endpoint read everything.
    assert!(EMPTY.starts_with(&slow.requests()[0].body), "{:?}", slow.requests());
    assert!(quick.requests().iter().all(|call| call.body == EMPTY), "{:?}", quick.requests());
    let metrics = gateway.metrics();
    let sum = |name| metrics.sum(name, "upstream=\"u\"");
    assert_eq!(
        (sum("tollgate_upstream_hedges_total"), sum("tollgate_upstream_hedges_won_total")),
        (Some(1.0), Some(1.0))
    );
}
