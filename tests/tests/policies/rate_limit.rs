//! `rate_limit`: how many requests are admitted in a time. Rates are so low that no test lasts until a
//! further request is permitted.

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
fn requests_beyond_the_limit_get_429_with_retry_after() {
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
    let reported = answer.headers.get("RateLimit").expect("how it stands");
    assert!(reported.starts_with("\"all\";r=0;t=3"), "{reported}");
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
    // Addresses that the client writes before the proxy's own entry are ignored.
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

/// Exactly the burst passes, whichever of four workers serves a request. The rate permits no further request within
/// this test.
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

/// Never more than the rate and the burst, whichever of four workers serves them; and no refusal that is not
/// necessary.
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

#[test]
fn several_things_are_one_key() {
    let origin = Origin::ok();
    let gateway = Gateway::with(
        &origin,
        "forwarded: {trusted_proxies: 127.0.0.0/8}\n\
         policies: {rate_limit: {rate: 1/h, by: [address, header X-Tenant, method], headers: on}}",
    );
    let mut client = gateway.client();
    let mut ask = |method: &str, address: &str, tenant: &str| {
        let tenant = if tenant.is_empty() { String::new() } else { format!("X-Tenant: {tenant}\r\n") };
        client.ask(format!("{method} / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n{tenant}\r\n"))
    };
    let first = ask("GET", "192.0.2.1", "a");
    assert_eq!(
        first.headers.get("RateLimit-Policy"),
        Some("\"address and header x-tenant and method\";q=1;w=3600")
    );
    let mut status = |method: &str, address: &str, tenant: &str| ask(method, address, tenant).status;
    assert_eq!(status("GET", "192.0.2.1", "a"), 429);
    assert_eq!(status("GET", "192.0.2.1", "b"), 200, "another tenant");
    assert_eq!(status("GET", "192.0.2.2", "a"), 200, "another address");
    assert_eq!(status("OPTIONS", "192.0.2.1", "a"), 200, "another method");
    assert_eq!(
        [status("GET", "192.0.2.1", ""), status("GET", "192.0.2.1", "")],
        [200, 429],
        "without a tenant"
    );
    // The parts of a key are delimited, so that no single value equals two.
    assert_eq!(status("GET", "192.0.2.1", "a3:GET"), 200);
    let gateway = limited(&origin, "{rate: 1/h, by: [header X-A, header X-B]}");
    let mut client = gateway.http2();
    let mut status = |fields: &[(&str, &str)]| client.ask(request("GET", "/", fields)).status;
    for fields in [
        &[("x-a", "a"), ("x-b", "bc")][..],
        &[("x-a", "ab"), ("x-b", "c")],
        &[("x-a", "abc")],
        &[("x-b", "abc")],
        &[],
    ] {
        assert_eq!([status(fields), status(fields)], [200, 429], "{fields:?}");
    }
}

#[test]
fn a_request_can_cost_more_than_one() {
    let origin = Origin::ok();
    for (cost, dear) in [
        (
            "cost: {methods: {POST: 5, GET: 0}, default: 2}",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n",
        ),
        ("cost: {header: X-Cost, default: 2}", "GET / HTTP/1.1\r\nHost: a\r\nX-Cost: 5\r\n"),
    ] {
        for policy in ["rate_limit: {rate: 12/h, ", "quota: {limit: 12, per: month, "] {
            let gateway = Gateway::with(&origin, &format!("policies: {{{policy}{cost}, headers: on}}}}"));
            let mut client = gateway.client();
            let answer = client.ask(format!("{dear}\r\n"));
            let left = answer.headers.get("RateLimit").expect("told");
            assert!(left.contains(";r=7;"), "{left}");
            assert_eq!(client.ask(format!("{dear}\r\n")).status, 200);
            let refused = client.ask(format!("{dear}\r\n"));
            assert_eq!(refused.status, 429, "{policy}{cost}");
            if policy.starts_with("rate") {
                let wait = seconds(refused.headers.get("Retry-After"));
                assert!((800..=900).contains(&wait), "three twelfths of an hour: {wait}");
            }
            let cheap = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
            assert_eq!([client.ask(cheap).status, client.ask(cheap).status], [200, 429], "{policy}{cost}");
            if cost.contains("GET: 0") {
                let free = client.ask(format!("{ASK}\r\n"));
                assert_eq!((free.status, free.headers.get("RateLimit")), (200, None), "it is not counted");
            } else {
                // A client can neither make a request free nor set its cost in another way.
                let lie = client.ask(format!("{ASK}X-Cost: 0\r\n\r\n"));
                assert_eq!(lie.status, 429);
            }
        }
    }
}

#[test]
fn the_response_reports_the_cost_of_its_request() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\r\nX-Cost: 30\r\nContent-Length: 0\r\n\r\n");
    for policy in [
        "rate_limit: {rate: 100/h, cost: {response_header: X-Cost}, headers: on}",
        "quota: {limit: 100, per: month, cost: {response_header: X-Cost}, headers: on}",
    ] {
        let gateway = Gateway::with(&origin, &format!("policies: {{{policy}}}"));
        let (mut client, mut http2) = (gateway.client(), gateway.http2());
        let mut left = Vec::new();
        for _ in 0..2 {
            let answer = client.ask(format!("{ASK}\r\n"));
            assert_eq!((answer.status, answer.headers.get("X-Cost")), (200, None), "it goes no further");
            left.push(answer.headers.get("RateLimit").unwrap_or_default().to_owned());
        }
        assert!(left[0].contains(";r=99;") && left[1].contains(";r=69;"), "{left:?}");
        let statuses: Vec<_> = (0..3).map(|_| http2.get("/").status).collect();
        assert_eq!(statuses, [200, 200, 429], "{policy}");
    }
}

#[test]
fn some_requests_are_not_counted() {
    let origin = Origin::ok();
    let exempt =
        "exempt: {addresses: 10.0.0.0/8, methods: [OPTIONS], headers: {X-Probe: s3cret}, groups: staff}";
    for policy in ["rate_limit: {rate: 1/h, ", "quota: {limit: 1, per: month, "] {
        let gateway = Gateway::with(
            &origin,
            &format!(
                "forwarded: {{trusted_proxies: 127.0.0.0/8}}\npolicies: {{{policy}{exempt}, headers: on}}}}"
            ),
        );
        let mut client = gateway.client();
        assert_eq!(client.ask(format!("{ASK}\r\n")).status, 200);
        for _ in 0..3 {
            assert_eq!(client.ask(format!("{ASK}\r\n")).status, 429);
            assert_eq!(client.ask(format!("{ASK}X-Probe: s3cre\r\n\r\n")).status, 429);
            for line in ["X-Probe: s3cret", "X-Forwarded-For: 10.1.2.3", "Forwarded: for=10.1.2.3"] {
                let answer = client.ask(format!("{ASK}{line}\r\n\r\n"));
                assert_eq!((answer.status, answer.headers.get("RateLimit")), (200, None), "{line}");
            }
            assert_eq!(client.ask("OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        }
    }
}

#[test]
fn limits_of_one_scope_count_together() {
    let origin = Origin::ok();
    let to = origin.address();
    for policy in ["rate_limit: {rate: 2/h, scope: shop}", "quota: {limit: 2, per: month, scope: shop}"] {
        let gateway = Gateway::start(&format!(
            "listen: $LISTEN\nadmin: $ADMIN\nroutes: [{{match: /a, to: \"{to}\", policies: {{{policy}}}}}, \
             {{match: /b, to: \"{to}\", policies: {{{policy}}}}}, {{match: /c, to: \"{to}\", policies: {{rate_limit: {{rate: 2/h}}}}}}]"
        ));
        let mut client = gateway.client();
        let statuses: Vec<_> = ["/a", "/b", "/a", "/b", "/c"].map(|path| client.get(path).status).into();
        assert_eq!(statuses, [200, 200, 429, 429, 200], "{policy}");
    }
}

#[test]
fn refusals_have_the_configured_status() {
    let origin = Origin::ok();
    for policy in ["rate_limit: {rate: 1/h, status: 503}", "quota: {limit: 1, per: month, status: 503}"] {
        let gateway = Gateway::with(&origin, &format!("policies: {{{policy}}}"));
        let mut client = gateway.client();
        assert_eq!(client.ask(format!("{ASK}\r\n")).status, 200);
        let answer = client.ask(format!("{ASK}Accept: application/json\r\n\r\n"));
        assert_eq!(answer.status, 503);
        let reason = answer.headers.get("Tollgate-Reason").unwrap_or_default().to_owned();
        assert!(answer.text().contains("\"status\":503"), "{answer:?}");
        assert_eq!(gateway.http2().get("/").status, 503);
        let records = gateway.wait_records(3);
        for record in &records[1..] {
            assert_eq!((&record["status"], record["reason"].as_str()), (&503.into(), Some(reason.as_str())));
        }
    }
}
