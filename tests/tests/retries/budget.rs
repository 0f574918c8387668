//! However many requests fail, the upstream gets little more than the clients send; and one dead endpoint is
//! not noticed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tollgate_tests::{Gateway, Origin};

use super::{addresses, always, gateway, mute};

/// Sends `requests` requests on each of `clients` concurrent connections. Returns how many were answered 200.
fn load(gateway: &Gateway, clients: usize, requests: usize) -> usize {
    let good = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = gateway.client();
                for _ in 0..requests {
                    good.fetch_add(usize::from(client.get("/").status == 200), Ordering::Relaxed);
                }
            });
        }
    });
    good.into_inner()
}

fn storm(origins: &[&Origin]) {
    let gateway = gateway(
        &addresses(origins),
        ", retry: {attempts: 5, on: [reset, 5xx], backoff: 1ms, backoff_max: 2ms}",
        "",
        "workers: 4",
    );
    let (clients, requests) = (8, 100);
    let start = Instant::now();
    assert_eq!(load(&gateway, clients, requests), 0);
    let (asked, seen) = (clients * requests, origins.iter().map(|origin| origin.count()).sum::<usize>());
    // A span of 10 s allows 20 % of its requests, or 30 retries by `budget_min` if these are more. A busy
    // machine may need several spans, and the last ones may hold few requests.
    let further_spans = start.elapsed().as_secs() as usize / 10;
    let allowed = asked / 5 + further_spans * 30;
    assert!(seen <= asked + allowed, "{seen} upstream requests for {asked}, {allowed} retries allowed");
    assert!(seen > asked, "nothing was tried again");
    let metrics = gateway.metrics();
    let sum = |name| metrics.sum(name, "").expect("the metric") as usize;
    assert_eq!(sum("tollgate_upstream_retries_total"), seen - asked);
    assert!(sum("tollgate_upstream_retries_denied_total") > 0);
    gateway.reconcile(origins);
}

#[test]
fn a_storm_of_bad_answers() {
    storm(&[&always(503), &always(502), &always(500)]);
}

#[test]
fn a_storm_of_broken_connections() {
    storm(&[&mute(), &mute()]);
}

#[test]
fn a_quiet_upstream_is_tried_again_though_everything_fails() {
    let mute = mute();
    let gateway = gateway(&addresses(&[&mute]), "", "", "");
    let mut client = gateway.client();
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 502);
    }
    assert_eq!(mute.count(), 10);
    gateway.reconcile(&[&mute]);
}

#[test]
fn clients_do_not_notice_one_dead_origin_of_three() {
    let (clients, requests) = (8, 300);
    let (dying, left) = (Origin::named("dying"), [Origin::named("a"), Origin::named("b")]);
    let endpoints: Vec<_> = addresses(&[&dying, &left[0], &left[1]]);
    let endpoints: Vec<_> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    let gateway =
        Gateway::start(&format!("routes: [{{match: \"/*\", to: [{}]}}]\nworkers: 2\n", endpoints.join(", ")));
    let good = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&gateway, clients, requests));
        tollgate_tests::eventually("it to be used", || dying.count() > 100);
        drop(dying);
        load.join().expect("no panic")
    });
    assert_eq!(
        good,
        clients * requests,
        "{:#?}",
        gateway.records().iter().find(|record| record["status"] != 200)
    );
    assert!(left.iter().all(|origin| origin.count() > requests));
}
