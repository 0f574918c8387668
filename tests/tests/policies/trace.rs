//! `trace`: spans for a collector, and the forwarded trace context.

use serde_json::Value;
use tollgate_tests::{Gateway, Origin, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Starts a collector that accepts everything.
fn collector() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
}

fn gateway(origin: &Origin, collector: &Origin, more: &str) -> Gateway {
    let url = format!("http://{}/v1/traces", collector.address());
    Gateway::with(origin, &format!("policies: {{trace: {{otlp: \"{url}\"{more}}}}}"))
}

/// Returns all spans that a collector received.
fn spans(collector: &Origin) -> Vec<Value> {
    let documents = collector.whole_requests().into_iter().map(|request| {
        assert_eq!(request.headers.get("Content-Type"), Some("application/json"));
        serde_json::from_slice::<Value>(&request.body).expect("JSON")
    });
    let scopes = documents.flat_map(|document| {
        let resource = &document["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["key"], "service.name");
        resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
    });
    scopes.collect()
}

fn fact<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    &found.unwrap_or_else(|| panic!("no {key} in {span}"))["value"]
}

#[test]
fn a_trace_continues_and_its_span_is_exported() {
    let (origin, collector) = (Origin::ok(), collector());
    let gateway = gateway(&origin, &collector, ", sample: 0%, service: door");
    let context = format!("00-{TRACE}-{PARENT}-01");
    let answer = gateway.client().ask(format!(
        "GET /a/./b?secret=1 HTTP/1.1\r\nHost: a.example\r\nTraceparent: {context}\r\nTracestate: v=1\r\nb3: 1\r\n\r\n"
    ));
    assert_eq!(answer.status, 200);
    let request = origin.request();
    let passed = request.headers.all("traceparent");
    assert_eq!((passed.len(), request.headers.all("tracestate")), (1, vec!["v=1"]));
    assert!(!request.headers.has("b3"), "{request:?}");
    eventually("a span", || !spans(&collector).is_empty());
    let reported = spans(&collector);
    assert_eq!(reported.len(), 1);
    let span = &reported[0];
    assert_eq!(
        (&span["traceId"], &span["parentSpanId"], &span["kind"]),
        (&TRACE.into(), &PARENT.into(), &2.into())
    );
    assert_eq!(passed[0], format!("00-{TRACE}-{}-01", span["spanId"].as_str().expect("an id")));
    assert_eq!(fact(span, "http.response.status_code")["intValue"], "200");
    assert_eq!(fact(span, "url.path")["stringValue"], "/a/b");
    assert_eq!(fact(span, "network.protocol.version")["stringValue"], "1.1");
    let time = |key: &str| span[key].as_str().and_then(|text| text.parse::<u128>().ok()).expect("a time");
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    assert!(!span.to_string().contains("secret"), "queries stay here");
    let line = &gateway.wait_records(1)[0];
    assert_eq!((&line["trace_id"], &line["span_id"]), (&TRACE.into(), &span["spanId"]));
}

#[test]
fn new_traces_are_sampled_and_errors_are_exported() {
    let (origin, collector) = (Origin::ok(), collector());
    let none = gateway(&origin, &collector, ", sample: 0%, propagation: [w3c, b3, b3_multi]");
    none.client().get("/");
    let request = origin.request();
    let parent = request.headers.get("traceparent").expect("a context").to_owned();
    assert!(parent.ends_with("-00"), "{parent}");
    let ids: Vec<&str> = parent.split('-').collect();
    assert_eq!(request.headers.get("b3"), Some(format!("{}-{}-0", ids[1], ids[2]).as_str()));
    assert_eq!(request.headers.get("X-B3-TraceId"), Some(ids[1]));
    drop(none);

    let dead = tollgate_tests::refused_address();
    let url = format!("http://{}/v1/traces", collector.address());
    let all = Gateway::start(&format!(
        "policies: {{trace: {{otlp: \"{url}\"}}}}\nroutes: [{{name: dead, to: \"{dead}\"}}]\n"
    ));
    assert_eq!(all.http2().get("/").status, 502);
    eventually("a span", || !spans(&collector).is_empty());
    let reported = spans(&collector);
    assert_eq!(reported.len(), 1, "of the first gateway there is none");
    assert_eq!(fact(&reported[0], "error.type")["stringValue"], "connection_refused");
    assert_eq!((&reported[0]["name"], &reported[0]["status"]["code"]), (&"GET dead".into(), &2.into()));
    assert_eq!(fact(&reported[0], "network.protocol.version")["stringValue"], "2");
}

#[test]
fn a_strangers_context_is_not_believed_where_it_is_not_to_be() {
    let (origin, collector) = (Origin::ok(), collector());
    let gateway = gateway(&origin, &collector, ", continue: off, sample: 0%");
    gateway.client().ask(format!(
        "GET / HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: v=1\r\n\r\n"
    ));
    let request = origin.request();
    let passed = request.headers.all("traceparent");
    assert_eq!(passed.len(), 1);
    assert!(!passed[0].contains(TRACE) && passed[0].ends_with("-00"), "{passed:?}");
    assert!(!request.headers.has("tracestate"), "{request:?}");
}

#[test]
fn a_collector_that_is_gone_costs_no_request() {
    let origin = Origin::ok();
    let dead = tollgate_tests::refused_address();
    let gateway =
        Gateway::with(&origin, &format!("policies: {{trace: {{otlp: \"http://{dead}/v1/traces\"}}}}"));
    let mut client = gateway.client();
    for _ in 0..20 {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("a word about it", || gateway.stderr().contains("spans are lost so far"));
    gateway.reconcile(&[&origin]);
}
