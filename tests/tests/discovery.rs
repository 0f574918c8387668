//! Endpoints from DNS and from files. The gateway follows their changes, and keeps the last endpoints when a
//! look-up fails.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_tests::{Dns, DnsError, DnsRecord, DnsSays, Gateway, Origin, Signal, eventually};

/// Starts an origin that answers with its name and keeps connections open.
fn named_on(listener: TcpListener, name: &'static str) -> Origin {
    Origin::play_on(listener, move |conn| {
        while conn.request().is_some() {
            conn.ok(name);
        }
    })
}

/// Starts origins on `127.0.0.1`, `127.0.0.2`, ..., all with the same port.
fn neighbours<const N: usize>(names: [&'static str; N]) -> ([Origin; N], u16) {
    'port: loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = first.local_addr().expect("bound").port();
        let mut listeners = vec![first];
        for n in 1..N {
            let address = Ipv4Addr::new(127, 0, 0, u8::try_from(n + 1).expect("few"));
            match TcpListener::bind((address, port)) {
                Ok(listener) => listeners.push(listener),
                Err(_) => continue 'port,
            }
        }
        let mut listeners = listeners.into_iter().zip(names);
        let origins = std::array::from_fn(|_| {
            let (listener, name) = listeners.next().expect("as many");
            named_on(listener, name)
        });
        return (origins, port);
    }
}

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn looking_up(discover: &str) -> String {
    format!(
        "upstreams:\n  app:\n    discover: {discover}\n\
         routes:\n  - {{match: \"/*\", to: app}}\n"
    )
}

/// Returns a config that looks a name up as often as possible: its TTL counts as 100 ms.
fn quick(dns: &Dns, what: &str) -> String {
    looking_up(&format!("{{{what}, servers: \"{}\", min_ttl: 100ms, max_ttl: 100ms}}", dns.address()))
}

/// Returns the distinct bodies of `requests` answers.
fn answered_by(gateway: &Gateway, requests: usize) -> Vec<String> {
    let mut client = gateway.client();
    let mut names: Vec<String> = (0..requests).map(|_| client.get("/").text()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_change_of_address_under_load_loses_no_request() {
    let ([one, two], port) = neighbours(["one", "two"]);
    let dns = Dns::start();
    dns.say_addresses("app.test", 1, &[ONE]);
    let gateway =
        Gateway::start(&format!("workers: 2\n{}", quick(&dns, &format!("dns: app.test, port: {port}"))));
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (stop, mut client) = (Arc::clone(&stop), gateway.client());
            std::thread::spawn(move || {
                let mut sent = 0_usize;
                while !stop.load(Ordering::SeqCst) {
                    let response = client.get("/");
                    assert_eq!(response.status, 200, "{response:?}");
                    sent += 1;
                }
                sent
            })
        })
        .collect();
    for round in 0..6 {
        let (address, name) = if round % 2 == 0 { (TWO, "two") } else { (ONE, "one") };
        dns.say_addresses("app.test", 1, &[address]);
        eventually("the new address", || answered_by(&gateway, 10) == [name]);
    }
    stop.store(true, Ordering::SeqCst);
    let sent: usize =
        clients.into_iter().map(|client| client.join().expect("every request is answered")).sum();
    assert!(sent > 20, "{sent}");
    gateway.reconcile(&[&one, &two]);
    // When DNS drops an endpoint, its idle connections close, and no new ones open.
    dns.say_addresses("app.test", 1, &[TWO]);
    eventually("the old endpoint's connections to be closed", || one.open() == 0);
}

#[test]
fn requests_are_spread_over_all_addresses() {
    let ([_one, _two, _three], port) = neighbours(["one", "two", "three"]);
    let dns = Dns::start();
    dns.say_addresses("app.test", 1, &[ONE, TWO]);
    let gateway = Gateway::start(&quick(&dns, &format!("dns: app.test, port: {port}")));
    assert_eq!(answered_by(&gateway, 4), ["one", "two"]);
    dns.say_addresses("app.test", 1, &[ONE, TWO, Ipv4Addr::new(127, 0, 0, 3)]);
    eventually("the third", || answered_by(&gateway, 6) == ["one", "three", "two"]);
}

#[test]
fn listed_endpoints_count_beside_discovered_ones() {
    let ([_one, _two], port) = neighbours(["one", "two"]);
    let dns = Dns::start();
    dns.say_addresses("app.test", 1, &[TWO]);
    let gateway = Gateway::start(&format!(
        "upstreams:\n  app:\n    endpoints: 127.0.0.1:{port}\n    \
         discover: {{dns: app.test, port: {port}, servers: \"{}\"}}\n\
         routes:\n  - {{match: \"/*\", to: app}}\n",
        dns.address()
    ));
    assert_eq!(answered_by(&gateway, 4), ["one", "two"]);
}

#[test]
fn the_ttl_sets_the_interval_of_queries() {
    let ([_one], port) = neighbours(["one"]);
    let dns = Dns::start();
    dns.say_addresses("app.test", 3600, &[ONE]);
    let yaml = |bounds: &str| {
        looking_up(&format!("{{dns: app.test, port: {port}, servers: \"{}\"{bounds}}}", dns.address()))
    };
    let gateway = Gateway::start(&yaml(""));
    let asked = dns.asked();
    assert!((1..=4).contains(&asked), "A and AAAA: {asked}");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(dns.asked(), asked, "an hour has not passed");
    // A shorter bound repeats the query in spite of the TTL.
    gateway.write_config(&yaml(", min_ttl: 100ms, max_ttl: 200ms"));
    gateway.signal(Signal::HUP);
    eventually("further questions", || dns.asked() > asked + 10);
}

#[test]
fn the_last_good_answer_outlives_every_failure() {
    let ([_one, _two], port) = neighbours(["one", "two"]);
    let dns = Dns::start();
    dns.say_addresses("app.test", 1, &[ONE]);
    let gateway = Gateway::start(&quick(&dns, &format!("dns: app.test, port: {port}")));
    for (says, word) in [
        (DnsSays::Error(DnsError::ServerFailure), "SERVFAIL"),
        (DnsSays::Error(DnsError::NoSuchName), "NXDOMAIN"),
        (DnsSays::Addresses { ttl: 1, addresses: Vec::new() }, "no address"),
        (DnsSays::Silence, "in time"),
    ] {
        dns.say("app.test", says);
        eventually(word, || gateway.stderr().contains(word));
        assert_eq!(answered_by(&gateway, 3), ["one"], "{word}");
    }
    gateway.await_message("it goes on with those that it has");
    dns.say_addresses("app.test", 1, &[TWO]);
    eventually("the server that is back", || answered_by(&gateway, 3) == ["two"]);
    gateway.await_message("can be looked up again");
    let metrics = gateway.metrics();
    let failures =
        metrics.sum("tollgate_upstream_lookup_failures_total", "upstream=\"app\"").expect("counted");
    let lookups = metrics.sum("tollgate_upstream_lookups_total", "upstream=\"app\"").expect("counted");
    assert!(failures >= 4.0 && lookups > failures, "{lookups} {failures}");
    let page = gateway.admin("/upstreams").text();
    assert!(page.contains(&format!("\"source\": \"dns://app.test:{port}\"")), "{page}");
    let age = metrics.sum("tollgate_upstream_lookup_age_seconds", "upstream=\"app\"").expect("known");
    assert!((0.0..20.0).contains(&age), "{age}");
}

#[test]
fn a_dead_name_server_does_not_keep_the_gateway_from_starting() {
    let dns = Dns::start();
    dns.say("app.test", DnsSays::Silence);
    let start = Instant::now();
    let gateway = Gateway::start(&format!(
        "{}  - {{match: /here, respond: 204}}\n",
        quick(&dns, "dns: app.test, port: 80")
    ));
    assert!(start.elapsed() >= Duration::from_secs(2), "it has waited for a first answer");
    assert_eq!(gateway.client().get("/here").status, 204);
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.header("Tollgate-Reason")), (503, Some("destination_unavailable")));
}

#[test]
fn srv_records_give_ports_weights_and_priorities() {
    let (a, b, spare) = (Origin::named("a"), Origin::named("b"), Origin::named("spare"));
    let dns = Dns::start();
    let say = |services: Vec<(u16, u16, SocketAddr)>| {
        dns.say("_http._tcp.app.test", DnsSays::Services { ttl: 1, services });
    };
    say(vec![(1, 30, a.address()), (1, 10, b.address()), (2, 10, spare.address())]);
    let gateway = Gateway::start(&quick(&dns, "srv: _http._tcp.app.test"));
    let mut client = gateway.client();
    for _ in 0..40 {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!((a.count(), b.count(), spare.count()), (30, 10, 0));
    say(vec![(7, 0, spare.address())]);
    eventually("the only one left", || answered_by(&gateway, 5) == ["spare"]);
}

#[test]
fn a_new_upstream_is_looked_up_before_its_plan_is_in_force() {
    let ([_one, _two], port) = neighbours(["one", "two"]);
    let dns = Dns::start();
    dns.say_addresses("app.test", 60, &[ONE]);
    dns.say_addresses("other.test", 60, &[TWO]);
    let yaml = |name: &str, path: &str| {
        format!(
            "{}  - {{match: {path}, respond: 204}}\n",
            looking_up(&format!("{{dns: {name}, port: {port}, servers: \"{}\"}}", dns.address()))
        )
    };
    let gateway = Gateway::start(&yaml("app.test", "/plan0"));
    assert_eq!(answered_by(&gateway, 3), ["one"]);
    let stop = Arc::new(AtomicBool::new(false));
    let client = {
        let (stop, mut client) = (Arc::clone(&stop), gateway.client());
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let response = client.get("/");
                assert_eq!(response.status, 200, "{response:?}");
            }
        })
    };
    for (round, name) in ["other.test", "app.test", "other.test"].into_iter().enumerate() {
        let path = format!("/plan{}", round + 1);
        gateway.write_config(&yaml(name, &path));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || gateway.client().get(&path).status == 204);
        let expected = if name == "app.test" { "one" } else { "two" };
        assert_eq!(answered_by(&gateway, 3), [expected]);
    }
    stop.store(true, Ordering::SeqCst);
    client.join().expect("every request is answered");
    // A name that does not exist does not inherit the endpoints of the previous name.
    gateway.write_config(&yaml("nowhere.test", "/plan9"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/plan9").status == 204);
    assert_eq!(gateway.client().get("/").status, 503);
}

#[test]
fn a_file_is_followed_and_a_bad_one_changes_nothing() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gateway = Gateway::start(&format!(
        "{}  - {{match: /here, respond: 204}}\n",
        looking_up("{file: endpoints.json}")
    ));
    // The file does not exist yet.
    assert_eq!(gateway.client().get("/").status, 503);
    gateway.await_message("no such file");
    let file = gateway.directory().join("endpoints.json");
    std::fs::write(&file, format!("[\"{}\"]", a.address())).expect("written");
    eventually("the first", || answered_by(&gateway, 2) == ["a"]);
    std::fs::write(&file, "[\"127.0.0.1\"]").expect("written");
    eventually("the mistake", || gateway.stderr().contains("has no port"));
    assert_eq!(answered_by(&gateway, 2), ["a"]);
    let new = gateway.directory().join("new");
    std::fs::write(&new, format!("[{{\"address\": \"{}\", \"weight\": 3}}]", b.address())).expect("written");
    std::fs::rename(&new, &file).expect("renamed");
    eventually("the second", || answered_by(&gateway, 2) == ["b"]);
}

/// A record of another name becomes no endpoint. The records at the end of a chain of CNAMEs do, in any order
/// and any case.
#[test]
fn records_of_other_names_become_no_endpoints() {
    let ([good, bad], port) = neighbours(["good", "bad"]);
    let record = |name: &str, record| (name.to_owned(), record);
    let (one, two) = (|| DnsRecord::Address(ONE), || DnsRecord::Address(TWO));
    let alias = |to: &str| DnsRecord::Alias(to.to_owned());
    for (what, answers) in [
        ("a stranger", vec![record("app.test", one()), record("evil.test", two())]),
        ("a stranger first", vec![record("evil.test", two()), record("App.TEST", one())]),
        (
            "a chain among strangers",
            vec![
                record("x.test", alias("evil.test")),
                record("app.test", alias("a.test")),
                record("a.test", alias("B.test")),
                record("evil.test", two()),
                record("b.test", one()),
            ],
        ),
        ("a name below", vec![record("app.test", one()), record("www.app.test", two())]),
    ] {
        let dns = Dns::start();
        dns.say("app.test", DnsSays::Mixed { answers, along: Vec::new() });
        let gateway = Gateway::start(&quick(&dns, &format!("dns: app.test, port: {port}")));
        eventually(what, || gateway.client().get("/").status == 200);
        assert_eq!(answered_by(&gateway, 8), ["good"], "{what}");
    }
    // SRV records of other names, and addresses of names that are not their targets.
    let dns = Dns::start();
    let service = |target: &str| DnsRecord::Service(port, target.to_owned());
    dns.say(
        "_http._tcp.app.test",
        DnsSays::Mixed {
            answers: vec![
                record("_http._tcp.app.test", service("t.test")),
                record("_http._tcp.evil.test", service("evil.test")),
            ],
            along: vec![record("t.test", one()), record("evil.test", two()), record("u.test", two())],
        },
    );
    let gateway = Gateway::start(&quick(&dns, "srv: _http._tcp.app.test"));
    eventually("the service", || gateway.client().get("/").status == 200);
    assert_eq!(answered_by(&gateway, 8), ["good"]);
    assert_eq!(bad.count(), 0);
    assert!(good.count() > 0);
}
