//! `POST /api/v1/explain` with policies: it calls no service, and starts no thread.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_tests::{Client, Gateway, Origin, eventually};

/// Returns the kind and verdict of each policy for a request to this URL.
fn explain(gateway: &Gateway, url: &str) -> Vec<(String, String)> {
    let body = json!({ "method": "GET", "url": url, "headers": ["Authorization: Basic YTpi"] }).to_string();
    let answer = post(gateway, "", &body);
    let answer: Value = serde_json::from_str(&answer.text()).expect("JSON");
    let policies = answer["policies"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    policies.iter().map(|policy| (text(&policy["kind"]), text(&policy["verdict"]))).collect()
}

fn post(gateway: &Gateway, fields: &str, body: &str) -> tollgate_tests::Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let length = body.len();
    client.send(format!(
        "POST /api/v1/explain HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    ));
    client.response_to("POST")
}

/// Returns how many threads of the gateway have this name.
fn threads(gateway: &Gateway, name: &str) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway.pid())).expect("the gateway runs");
    let named = |task: std::io::Result<fs::DirEntry>| {
        let comm = fs::read_to_string(task.expect("an entry").path().join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    };
    tasks.map(named).filter(|named| *named).count()
}

#[test]
fn explain_calls_no_service_and_leaves_no_thread() {
    let (origin, service) = (Origin::ok(), Origin::ok());
    let url = service.address();
    let gateway = Gateway::with(
        &origin,
        &format!(
            "consumers: {{a: {{password: $2b$04$YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.}}}}\n\
             policies:\n  trace: {{otlp: \"http://{url}/v1/traces\"}}\n  basic: on\n  \
             forward_auth: {{url: \"http://{url}/\"}}\n  ext_authz: {{url: \"http://{url}\"}}\n  \
             rate_limit: {{rate: 1/s, redis: {{url: \"redis://{url}\"}}}}\n  \
             quota: {{limit: 1, per: day, redis: {{url: \"redis://{url}\"}}}}"
        ),
    );
    // A thread has its name only once it runs.
    eventually("the exporter's thread", || threads(&gateway, "policies") == 1);
    let before = (threads(&gateway, "policies"), threads(&gateway, "passwords"));
    for _ in 0..20 {
        let verdicts = explain(&gateway, "/x");
        for kind in ["basic", "forward_auth", "ext_authz", "rate_limit", "quota"] {
            let (_, verdict) = verdicts.iter().find(|(other, _)| other == kind).expect("it is met");
            assert!(verdict.starts_with("asks"), "{kind}: {verdict}");
        }
    }
    assert_eq!((threads(&gateway, "policies"), threads(&gateway, "passwords")), before);
    assert_eq!((service.connections(), service.count()), (0, 0));
}

#[test]
fn verdicts_that_need_an_identity_stay_open() {
    let origin = Origin::ok();
    let said = |policies: &str| {
        let gateway = Gateway::with(
            &origin,
            &format!(
                "consumers: {{a: {{password: $2b$04$YUDH4LPhF5SiQuEneCdn9.ltTxgeJ.A7tkKykgt8kADTseU/KH3b.}}}}\n\
                 policies: {{{policies}, authorize: {{allow: {{groups: admin}}}}, ip: {{allow: 127.0.0.1}}, headers: {{request: {{set: {{X-A: b}}}}}}}}"
            ),
        );
        explain(&gateway, "/x").into_iter().map(|(_, verdict)| verdict).collect::<Vec<_>>()
    };
    let asks = "asks somebody else; here it continues";
    let depends = "depends on who it is; here it continues";
    assert_eq!(said("basic: on"), ["continues", asks, depends, "continues"]);
    let service = "forward_auth: {url: \"http://127.0.0.1:1/\"}";
    assert_eq!(said(service), ["continues", asks, depends, "continues"]);
    // No service would be called, so the verdict is final.
    assert_eq!(said("cors: off"), ["continues", "ends here", "not reached"]);
}

#[test]
fn no_page_of_others_has_a_request_explained() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let body = r#"{"method": "GET", "url": "/x"}"#;
    let foreign = "Origin: http://evil.example\r\nContent-Type: text/plain\r\n";
    assert_eq!(post(&gateway, foreign, body).status, 403);
    assert_eq!(post(&gateway, "", body).status, 200);
}

#[test]
fn a_canary_leads_to_the_upstream_that_it_names_and_to_no_other_routes() {
    let gateway = Gateway::start(
        "policies: {canary: {to: next}}\nrequest_id: on\nroutes:\n  \
         - {match: /both, to: [stable, {upstream: next, weight: 0}]}\n  - {match: /stable, to: stable}\n\
         upstreams:\n  stable: {endpoints: \"127.0.0.1:1\", policies: {fault: {abort: {status: 418}}}}\n  \
         next: {endpoints: \"127.0.0.1:2\", policies: {ip: {deny: 192.0.2.1}}}\n",
    );
    let kinds = |url: &str| explain(&gateway, url).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds("/both"), ["canary", "ip"], "with weight 0 as well");
    assert_eq!(kinds("/stable"), ["canary", "fault"], "not one of its upstreams: by the weights");
}
