//! `quota`: how many requests may come in a day or a month.

use tollgate_tests::{Gateway, Origin};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

#[test]
fn a_months_requests_are_counted() {
    let origin = Origin::ok();
    let quota = "policies: {quota: {limit: 2, per: month, by: header X-A, headers: on}}";
    let gateway = Gateway::with(&origin, quota);
    let mut client = gateway.client();
    let first = client.ask(format!("{ASK}X-A: a\r\n\r\n"));
    let (policy, limit) = (first.headers.get("RateLimit-Policy"), first.headers.get("RateLimit"));
    assert!(policy.is_some_and(|policy| policy.starts_with("\"header x-a\";q=2;w=2")), "{policy:?}");
    assert!(limit.is_some_and(|limit| limit.starts_with("\"header x-a\";r=1;t=")), "{limit:?}");
    assert_eq!(client.ask(format!("{ASK}X-A: a\r\n\r\n")).status, 200);
    let refused = client.ask(format!("{ASK}X-A: a\r\n\r\n"));
    assert_eq!((refused.status, refused.headers.get("Tollgate-Reason")), (429, Some("quota_exceeded")));
    let wait: u64 = refused.headers.get("Retry-After").and_then(|text| text.parse().ok()).expect("seconds");
    assert!((1..=31 * 86_400).contains(&wait), "{wait}");
    assert_eq!(client.ask(format!("{ASK}X-A: b\r\n\r\n")).status, 200);
    assert_eq!(gateway.http2().get("/").status, 200, "all without one are one");
    gateway.reconcile(&[&origin]);
}
