//! A thousand clients that ask for one expired response of a slow origin at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_tests::{Client, Gate, Gateway, Origin, eventually};

use super::{ask, get};

const CLIENTS: usize = 1000;
/// How long the origin takes to answer.
const ORIGIN: Duration = Duration::from_millis(300);

/// Returns the body of the origin's response with a number.
fn body(number: usize, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(&format!("{number}:{:07},", text.len()));
    }
    text.truncate(length);
    text
}

/// Only the first response expires during a test.
fn lifetime(number: usize) -> u32 {
    if number == 1 { 1 } else { 60 }
}

fn start(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "workers: 2\nroutes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: on}}}}]\n",
        origin.address()
    ))
}

fn asking(gateway: &Gateway, count: usize) -> Vec<Client> {
    let ask = |_| {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        client
    };
    (0..count).map(ask).collect()
}

/// Stores a response that lives for a second, and waits until it has expired.
fn expire(gateway: &Gateway, origin: &Origin, length: usize) {
    assert!(get(gateway, "/", "").text() == body(1, length));
    // This never reaches the origin.
    let only = "Cache-Control: only-if-cached\r\n";
    eventually("the end of its lifetime", || ask(gateway, "HEAD", "/", only).status == 504);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_thousand_clients_of_an_expired_response_cause_one_request() {
    const LENGTH: usize = 20_000;
    let origin = super::answering(|number, _| {
        if number > 1 {
            thread::sleep(ORIGIN);
        }
        let (seconds, body) = (lifetime(number), body(number, LENGTH));
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age={seconds}\r\nContent-Length: {LENGTH}\r\n\r\n{body}"
        )
    });
    let gateway = start(&origin);
    expire(&gateway, &origin, LENGTH);
    let fresh = body(2, LENGTH);
    let mut clients = asking(&gateway, CLIENTS);
    for client in &mut clients {
        let response = client.response();
        assert!(response.status == 200 && response.text() == fresh, "{}", response.status);
    }
    assert_eq!(origin.count(), 2, "one request for all");
    let is_one = |record: &serde_json::Value| record["method"] == "GET" && record["cache_status"] != "miss";
    let times_of_clients = || -> Vec<f64> {
        gateway.records().iter().filter(|it| is_one(it)).filter_map(|it| it["total_ms"].as_f64()).collect()
    };
    eventually("the records", || times_of_clients().len() == CLIENTS);
    let mut times = times_of_clients();
    times.sort_by(f64::total_cmp);
    let (median, p99) = (times[CLIENTS / 2], times[CLIENTS * 99 / 100]);
    eprintln!("{CLIENTS} clients, origin {ORIGIN:?}: median {median:.0} ms, p99 {p99:.0} ms");
}

#[test]
fn a_first_client_that_leaves_costs_a_thousand_others_nothing() {
    const LENGTH: usize = 512 * 1024;
    let gate = Gate::new();
    let origin = {
        let (gate, count) = (gate.clone(), AtomicUsize::new(0));
        Origin::play(move |conn| {
            while conn.request().is_some() {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let (seconds, body) = (lifetime(number), body(number, LENGTH));
                let (first, second) = body.split_at(LENGTH / 2);
                conn.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age={seconds}\r\nContent-Length: {LENGTH}\r\n\r\n{first}"
                ));
                if number > 1 {
                    gate.wait();
                    conn.pause(ORIGIN);
                }
                if !conn.send(second) {
                    return;
                }
            }
        })
    };
    let gateway = start(&origin);
    expire(&gateway, &origin, LENGTH);
    let mut leader = asking(&gateway, 1).remove(0);
    assert_eq!(leader.head().status, 200);
    let mut others = asking(&gateway, CLIENTS);
    let mut heads: Vec<_> = others.iter_mut().map(Client::head).collect();
    leader.reset();
    gate.open();
    let fresh = body(2, LENGTH);
    for (client, response) in others.iter_mut().zip(&mut heads) {
        client.try_body(response).expect("a whole body");
        assert!(response.status == 200 && response.text() == fresh, "{}", response.status);
        response.body = Vec::new();
    }
    assert_eq!(origin.count(), 2, "one request for all");
}

/// Slow clients of long responses make the gateway hold a bounded amount, whether these are stored, evicted or not stored.
#[test]
fn slow_clients_of_long_responses_cost_bounded_memory() {
    const LENGTH: usize = 4 << 20;
    const SLOW: usize = 40;
    let origin = super::answering(|_, request| {
        let rule = if request.target.starts_with("/never") { "no-store" } else { "max-age=60" };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: {rule}\r\nContent-Length: {LENGTH}\r\n\r\n{}",
            body(1, LENGTH)
        )
    });
    for (kind, is_stored_before) in [("/never", false), ("/led", false), ("/hit", true)] {
        let gateway = Gateway::start(&format!(
            "cache: {{memory: 16MiB}}\nroutes: [{{name: r, match: \"/*\", to: \"{}\", policies: {{cache: on}}}}]\n",
            origin.address()
        ));
        let mut clients = Vec::new();
        for number in 0..SLOW {
            let target = format!("{kind}/{number}");
            if is_stored_before {
                assert_eq!(get(&gateway, &target, "").body.len(), LENGTH);
            }
            let mut client = gateway.small_client(4096);
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
            assert_eq!(client.head().status, 200, "{target}");
            clients.push(client);
        }
        eventually("all responses have begun", || origin.count() >= SLOW);
        let held = gateway.memory_kib("VmRSS");
        // All bodies would be 160 MiB, and twice that in buffers.
        assert!(held < 120 * 1024, "{kind}: {held} KiB");
    }
}
