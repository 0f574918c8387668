//! A call that ends by the client's deadline counts against nothing, whether the gateway or the endpoint ends
//! it.

use std::thread;
use std::time::Duration;

use h2::Reason;
use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Http2Origin, OriginStream, Response};

const GRPC: (&str, &str) = ("content-type", "application/grpc");
/// An empty gRPC message.
const EMPTY: &[u8] = b"\0\0\0\0\0";

/// How an endpoint answers a call with a deadline.
type Script = fn(&mut OriginStream);

/// Returns the time that the gateway grants an endpoint for a call.
fn time_left(stream: &OriginStream) -> Duration {
    let value = stream.request.headers.get("grpc-timeout").expect("a deadline").to_owned();
    let (count, unit) = value.split_at(value.len() - 1);
    let count: u64 = count.parse().expect("digits");
    match unit {
        "n" => Duration::from_nanos(count),
        "u" => Duration::from_micros(count),
        "m" => Duration::from_millis(count),
        _ => Duration::from_secs(count),
    }
}

/// Starts two endpoints that answer calls with a deadline by this script and others well, and a gateway that
/// counts every kind of failure.
fn gateway(script: Script) -> (Gateway, [Http2Origin; 2]) {
    let origin = || {
        Http2Origin::play(move |stream| {
            stream.body();
            if stream.request.headers.get("grpc-timeout").is_some() {
                return script(stream);
            }
            stream.head(200, &[GRPC, ("grpc-status", "0")], true);
        })
    };
    let origins = [origin(), origin()];
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u, grpc_web: on}}]\n\
         upstreams: {{u: {{endpoints: [\"h2c://{}\", \"h2c://{}\"], outlier: {{max_ejected: 100%}}, adaptive: on, \
         breaker: {{minimum: 2, failures: 10%}}, retry: {{on: [deadline_exceeded, unavailable, unknown], methods: [POST]}}}}}}\n",
        origins[0].address(),
        origins[1].address()
    ));
    (gateway, origins)
}

fn call(gateway: &Gateway, fields: &[(&str, &str)]) -> Response {
    let fields = [&[GRPC, ("te", "trailers")], fields].concat();
    let mut client = gateway.http2();
    let mut stream = client.begin(request("POST", "/shop.Orders/Place", &fields), false).expect("begun");
    let _ = stream.send(EMPTY, true);
    stream.response().expect("an answer")
}

fn code(response: &Response) -> Option<&str> {
    response.trailers.get("grpc-status").or(response.headers.get("grpc-status"))
}

fn counts_against_it(gateway: &Gateway) -> f64 {
    let metrics = gateway.metrics();
    let names = [
        "tollgate_upstream_ejections_total",
        "tollgate_upstream_ejections_refused_total",
        "tollgate_upstream_breaker_opened_total",
        "tollgate_upstream_retries_total",
        "tollgate_upstream_retries_denied_total",
        "tollgate_upstream_failures_total",
    ];
    names.iter().map(|name| metrics.sum(name, "").unwrap_or(0.0)).sum()
}

fn in_time(stream: &mut OriginStream) {
    thread::sleep(time_left(stream));
}

fn expired(stream: &mut OriginStream) {
    in_time(stream);
    stream.head(200, &[GRPC, ("grpc-status", "4")], true);
}

fn expired_behind_a_message(stream: &mut OriginStream) {
    stream.head(200, &[GRPC], false);
    stream.send(EMPTY, false);
    in_time(stream);
    stream.trailers(&[("grpc-status", "4")]);
}

fn unknown(stream: &mut OriginStream) {
    in_time(stream);
    stream.head(200, &[GRPC, ("grpc-status", "2"), ("grpc-message", "context deadline exceeded")], true);
}

fn status_504(stream: &mut OriginStream) {
    in_time(stream);
    stream.head(504, &[], true);
}

fn reset(stream: &mut OriginStream) {
    in_time(stream);
    stream.reset(Reason::CANCEL);
}

fn silent(stream: &mut OriginStream) {
    stream.wait_reset();
}

#[test]
fn a_deadline_of_the_clients_counts_against_nothing() {
    let scripts: [(&str, Script); 6] = [
        ("expired", expired),
        ("expired behind a message", expired_behind_a_message),
        ("unknown", unknown),
        ("status 504", status_504),
        ("reset", reset),
        ("silent", silent),
    ];
    for (name, script) in scripts {
        let (gateway, _origins) = gateway(script);
        for _ in 0..12 {
            let fields = [GRPC, ("te", "trailers"), ("grpc-timeout", "50m")];
            let mut client = gateway.http2();
            let ask = request("POST", "/shop.Orders/Place", &fields);
            let mut stream = client.begin(ask, false).expect("begun");
            let _ = stream.send(EMPTY, true);
            // A response that has started may be cut off.
            if let Ok(response) = stream.response() {
                assert_ne!(response.headers.get("tollgate-reason"), Some("circuit_open"));
            }
        }
        for _ in 0..12 {
            assert_eq!(code(&call(&gateway, &[])), Some("0"));
        }
        assert_eq!(counts_against_it(&gateway), 0.0, "{name}: {:#?}", gateway.records());
    }
}

#[test]
fn nor_does_one_of_a_browsers() {
    let (gateway, _origins) = gateway(expired);
    for _ in 0..12 {
        let mut client = gateway.client();
        client.send(
            "POST /shop.Orders/Place HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\ngrpc-timeout: 50m\r\n\
             Content-Length: 5\r\n\r\n\0\0\0\0\0",
        );
        assert_eq!(code(&client.response()), Some("4"));
    }
    assert_eq!(code(&call(&gateway, &[])), Some("0"));
    assert_eq!(counts_against_it(&gateway), 0.0);
}

#[test]
fn a_status_long_before_the_deadline_is_the_endpoints() {
    let (gateway, _origins) = gateway(|stream| stream.head(200, &[GRPC, ("grpc-status", "4")], true));
    for _ in 0..4 {
        call(&gateway, &[("grpc-timeout", "30S")]);
    }
    assert!(counts_against_it(&gateway) > 0.0);
}

#[test]
fn a_call_that_its_client_resets_counts_against_nothing() {
    let (gateway, origins) = gateway(silent);
    for round in 1..=12 {
        let mut client = gateway.http2();
        let fields = [GRPC, ("te", "trailers"), ("grpc-timeout", "30S")];
        let mut stream = client.begin(request("POST", "/shop.Orders/Place", &fields), false).expect("begun");
        stream.send(EMPTY, true).expect("sent");
        tollgate_tests::eventually("the call", || origins[0].count() + origins[1].count() == round);
        stream.reset();
        tollgate_tests::eventually("its reset", || {
            origins[0].resets().len() + origins[1].resets().len() == round
        });
    }
    assert_eq!(code(&call(&gateway, &[])), Some("0"));
    assert_eq!(counts_against_it(&gateway), 0.0);
}
