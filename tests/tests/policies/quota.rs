//! `quota`: how many requests are admitted in a day or a month.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_tests::{Gateway, Origin};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
const DAY: u64 = 86_400;

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

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

#[test]
fn a_days_requests_are_counted_and_the_next_may_come_at_its_end() {
    let origin = Origin::ok();
    let gateway =
        Gateway::with(&origin, "policies: {quota: {limit: 2, per: day, by: header X-A, headers: on}}");
    let mut client = gateway.client();
    let mut in_one_day = (0..2).map(|n| {
        let before = now();
        let answers = [(); 3].map(|()| client.ask(format!("{ASK}X-A: {n}\r\n\r\n")));
        (before, answers, now())
    });
    // If midnight fell into the first attempt, the second key has the whole next day.
    let (before, answers, after) =
        in_one_day.find(|(before, _, after)| before / DAY == after / DAY).expect("one midnight a day");
    let midnight = (before / DAY + 1) * DAY;
    let is_left = |text: Option<&str>| {
        let seconds: u64 = text.and_then(|text| text.parse().ok()).expect("seconds");
        assert!((midnight - after..=midnight - before).contains(&seconds), "{seconds} s to {midnight}");
    };
    for (answer, (status, remaining)) in answers.iter().zip([(200, 1), (200, 0), (429, 0)]) {
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers.get("RateLimit-Policy"), Some("\"header x-a\";q=2;w=86400"));
        let reported = answer.headers.get("RateLimit").expect("how it stands");
        is_left(reported.strip_prefix(&format!("\"header x-a\";r={remaining};t=")));
    }
    assert_eq!(answers[2].reason(), "quota_exceeded");
    is_left(answers[2].headers.get("Retry-After"));
    gateway.reconcile(&[&origin]);
}
