//! `rate_limit`: how many requests may come in a time. Rates are so low that no test lasts until a further one may.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_tests::http2::request;
use tollgate_tests::{Gateway, Origin, Signal, eventually};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

fn limited(origin: &Origin, limit: &str) -> Gateway {
    Gateway::with(origin, &format!("policies: {{rate_limit: {limit}}}"))
}

fn seconds(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).expect("seconds")
}

#[test]
fn past_the_limit_requests_are_refused_and_told_when_to_come_back() {
    let origin = Origin::ok();
    let gateway = limited(&origin, "{rate: 2/h}");
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.ask(format!("{ASK}\r\n"));
        assert_eq!((answer.status, answer.headers.get("RateLimit")), (200, None));
    }
    let answer = client.ask(format!("{ASK}\r\n"));
    assert_eq!((answer.status, answer.headers.get("Tollgate-Reason")), (429, Some("rate_limited")));
    let wait = seconds(answer.headers.get("Retry-After"));
    assert!((1700..=1800).contains(&wait), "half an hour: {wait}");
    assert_eq!(answer.headers.get("RateLimit-Policy"), Some("\"all\";q=2;w=3600"));
    let told = answer.headers.get("RateLimit").expect("how it stands");
    assert!(told.starts_with("\"all\";r=0;t=3"), "{told}");
    client.expect_alive();
    assert_eq!(origin.count(), 2);
    gateway.reconcile(&[&origin]);
}

#[test]
fn every_answer_tells_if_asked_to() {
    let origin = Origin::ok();
    let gateway =
        limited(&origin, "[{rate: 5/h, headers: on, name: per-hour}, {rate: 9/d, burst: 3, headers: on}]");
    let mut client = gateway.client();
    let answer = client.ask(format!("{ASK}\r\n"));
    assert_eq!(answer.headers.get("RateLimit-Policy"), Some("\"per-hour\";q=5;w=3600, \"all\";q=9;w=86400"));
    assert_eq!(answer.headers.get("RateLimit"), Some("\"per-hour\";r=4;t=720, \"all\";r=2;t=9600"));
}

#[test]
fn each_key_has_a_limit_of_its_own() {
    let origin = Origin::ok();
    let gateway = Gateway::with(
        &origin,
        "forwarded: {trusted_proxies: 127.0.0.0/8}\npolicies: {rate_limit: {rate: 1/h, by: address}}",
    );
    let mut client = gateway.client();
    let mut status = |address: &str| client.ask(format!("{ASK}X-Forwarded-For: {address}\r\n\r\n")).status;
    assert_eq!([status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2")], [200, 429, 200]);
    assert_eq!([status("2001:db8::1"), status("2001:db8::2"), status("2001:db8:0:1::1")], [200, 429, 200]);
    // What the client writes before the proxy's word counts for nothing.
    assert_eq!(status("198.51.100.7, 192.0.2.1"), 429);

    let gateway = limited(&origin, "{rate: 1/h, by: header X-Tenant}");
    let mut client = gateway.http2();
    let mut status = |tenant: &str| client.ask(request("GET", "/", &[("x-tenant", tenant)])).status;
    assert_eq!([status("a"), status("a"), status("b")], [200, 429, 200]);
    assert_eq!(client.get("/").status, 200, "all without one are one");
    assert_eq!(client.get("/").status, 429);
}

#[test]
fn a_dry_run_refuses_nothing_and_tells_the_log() {
    let origin = Origin::ok();
    let gateway = limited(&origin, "{rate: 1/h, dry_run: on}");
    let mut client = gateway.client();
    assert_eq!(client.ask(format!("{ASK}\r\n")).status, 200);
    assert_eq!(client.ask(format!("{ASK}\r\n")).status, 200);
    let records = gateway.wait_records(2);
    assert!(records[0]["detail"].is_null(), "there was room for it: {}", records[0]);
    assert_eq!(records[1]["detail"], "a rate limit would refuse it (dry run)");
    gateway.reconcile(&[&origin]);
}

#[test]
fn counts_survive_a_reload() {
    let origin = Origin::ok();
    let gateway = limited(&origin, "{rate: 1/h}");
    let mut client = gateway.client();
    assert_eq!(client.ask(format!("{ASK}\r\n")).status, 200);
    let to = origin.address();
    gateway.write_config(&format!(
        "listen: $LISTEN\nadmin: $ADMIN\npolicies: {{rate_limit: {{rate: 1/h}}}}\nroutes: [{{match: /new, respond: 204, \
         policies: {{rate_limit: off}}}}, {{to: \"{to}\"}}]\n"
    ));
    gateway.signal(Signal::HUP);
    eventually("the new configuration", || client.get("/new").status == 204);
    assert_eq!(client.ask(format!("{ASK}\r\n")).status, 429);
}

/// Not one more than the burst, and not one less, whoever of four workers is asked: within this test no further one may.
#[test]
fn it_counts_exactly_over_all_workers() {
    const BURST: usize = 500;
    let origin = Origin::ok();
    let gateway = Gateway::with(
        &origin,
        &format!("workers: 4\npolicies: {{rate_limit: {{rate: 1/h, burst: {BURST}}}}}"),
    );
    let passed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = gateway.client();
                for _ in 0..2 * BURST / 16 {
                    match client.ask(format!("{ASK}\r\n")).status {
                        200 => drop(passed.fetch_add(1, Ordering::Relaxed)),
                        429 => {}
                        other => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!((passed.into_inner(), origin.count()), (BURST, BURST));
}

/// Never more than the rate and the burst, whoever of four workers is asked; refused only when it must.
#[test]
fn it_is_exact_over_all_workers() {
    const RATE: usize = 20;
    const BURST: usize = 50;
    let origin = Origin::ok();
    let gateway = Gateway::with(
        &origin,
        &format!("workers: 4\npolicies: {{rate_limit: {{rate: {RATE}/s, burst: {BURST}}}}}"),
    );
    let (passed, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = gateway.client();
                while began.elapsed() < Duration::from_secs(2) {
                    let counter = match client.ask(format!("{ASK}\r\n")).status {
                        200 => &passed,
                        429 => &refused,
                        other => panic!("{other}"),
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let elapsed = began.elapsed().as_secs_f64();
    let (passed, refused) = (passed.into_inner(), refused.into_inner());
    let most = BURST as f64 + elapsed * RATE as f64;
    assert!(passed as f64 <= most + 1.0, "{passed} in {elapsed} s, {refused} refused");
    assert!(refused > 0, "more were offered: {passed}");
    assert!(passed >= BURST, "{passed}");
}
