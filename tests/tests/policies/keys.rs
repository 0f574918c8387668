//! The key (`by`) by which limits, quotas and concurrency limits count requests.

use tollgate_tests::{Gateway, Origin, eventually};

use super::concurrency::slow;
use super::jwt::{SECRET, hs256};

/// A key, and requests to tell apart by it.
struct Case {
    by: &'static str,
    /// Two requests with the same key, which differ in everything else.
    same: [String; 2],
    other: String,
    /// A request without the key, if there can be one.
    lacking: Option<String>,
}

/// Returns a request with a token with these claims.
fn get(target: &str, claims: &str, fields: &str) -> String {
    let token = hs256(claims);
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n{fields}\r\n")
}

fn cases() -> [Case; 5] {
    let (ann, ben) = (r#""sub":"ann""#, r#""sub":"ben""#);
    [
        Case {
            by: "consumer",
            same: [get("/a/", ann, ""), get("/b/", r#""sub":"ann","tenant":"x""#, "")],
            other: get("/a/", ben, ""),
            lacking: Some(get("/a/", r#""tenant":"x""#, "")),
        },
        Case {
            by: "claim tenant",
            same: [
                get("/a/", r#""sub":"ann","tenant":"x""#, ""),
                get("/b/", r#""sub":"ben","tenant":"x""#, ""),
            ],
            other: get("/a/", r#""sub":"ann","tenant":"y""#, ""),
            lacking: Some(get("/a/", ann, "")),
        },
        Case {
            by: "route",
            same: [get("/a/1", ann, ""), get("/a/2", ben, "")],
            other: get("/b/1", ann, ""),
            lacking: None,
        },
        Case {
            by: "cookie id",
            same: [get("/a/", ann, "Cookie: id=x\r\n"), get("/b/", ben, "Cookie: a=b; id=x\r\n")],
            other: get("/a/", ann, "Cookie: id=y\r\n"),
            lacking: Some(get("/a/", ann, "Cookie: ids=x\r\n")),
        },
        Case {
            by: "query key",
            same: [get("/a/?key=x", ann, ""), get("/b/?a=b&key=%78", ben, "")],
            other: get("/a/?key=y", ann, ""),
            lacking: Some(get("/a/?keys=x", ann, "")),
        },
    ]
}

/// Starts a gateway with two routes under one policy.
fn gateway(origin: &Origin, policy: &str) -> Gateway {
    let to = origin.address();
    Gateway::start(&format!(
        "policies: {{jwt: {{secret: {SECRET}}}, {policy}}}\n\
         routes: [{{name: a, match: /a/*, to: \"{to}\"}}, {{name: b, match: /b/*, to: \"{to}\"}}]\n"
    ))
}

#[test]
fn a_limit_and_a_quota_are_for_each_key_and_one_for_all_without() {
    let origin = Origin::ok();
    for Case { by, same: [first, second], other, lacking } in cases() {
        let limit = format!("rate_limit: {{rate: 1/h, by: {by}}}");
        let quota = format!("quota: {{limit: 1, per: month, by: {by}}}");
        for policy in [limit, quota] {
            let gateway = gateway(&origin, &policy);
            let mut client = gateway.client();
            let mut status = |request: &str| client.ask(request).status;
            assert_eq!([status(&first), status(&second), status(&other)], [200, 429, 200], "{policy}");
            if let Some(lacking) = &lacking {
                assert_eq!([status(lacking), status(lacking)], [200, 429], "{policy}");
            }
        }
    }
}

#[test]
fn concurrency_is_limited_per_key_and_for_requests_without_one() {
    for Case { by, same: [first, second], other, lacking } in cases() {
        let (gate, origin) = slow();
        let gateway = gateway(&origin, &format!("concurrency: {{limit: 1, by: {by}}}"));
        let mut held = Vec::new();
        for request in [&first, &other].into_iter().chain(&lacking) {
            let mut client = gateway.client();
            client.send(request);
            held.push(client);
            eventually("it is under way", || origin.count() == held.len());
        }
        for request in [&second].into_iter().chain(&lacking) {
            let answer = gateway.client().ask(request);
            assert_eq!((answer.status, answer.reason()), (429, "concurrency_limited"), "by {by}");
        }
        gate.open();
        for client in &mut held {
            assert_eq!(client.response().status, 200, "by {by}");
        }
    }
}
