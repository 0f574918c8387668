//! Limits of upstream connections, which all workers together never exceed; the queue in front of them;
//! connections that change their worker; connections that are opened in advance.

use std::thread;
use std::time::Duration;

use tollgate_tests::{Client, Established, Gate, Gateway, Origin, Signal, eventually};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn config(origin: &Origin, workers: usize, upstream: &str) -> String {
    format!(
        "workers: {workers}\nroutes: [{{match: \"/*\", to: u}}]\n\
         upstreams: {{u: {{endpoints: [\"{}\"], {upstream}}}}}\n",
        origin.address()
    )
}

fn metric(gateway: &Gateway, name: &str) -> u64 {
    gateway.metrics().sum(name, "upstream=\"u\"").map_or(0, |value| value as u64)
}

/// Starts an origin whose connections each carry one to seven requests. It answers while the gate is open.
fn restless() -> (Gate, Origin) {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        let lives = 1 + conn.index() % 7;
        for request in 0..lives {
            if conn.request().is_none() {
                return;
            }
            opened.wait();
            let close = if request + 1 == lives { "Connection: close\r\n" } else { "" };
            conn.send(format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 2\r\n\r\nok"));
        }
    });
    (gate, origin)
}

/// Runs many clients, each with a few requests in sequence, and returns the statuses of the answers.
fn crowd(gateway: &Gateway, clients: usize, requests: usize) -> Vec<u16> {
    const THREADS: usize = 8;
    thread::scope(|scope| {
        let crowds: Vec<_> = (0..THREADS)
            .map(|_| {
                let mut clients: Vec<_> = (0..clients / THREADS).map(|_| gateway.client()).collect();
                scope.spawn(move || {
                    let mut statuses = Vec::new();
                    for _ in 0..requests {
                        clients.iter_mut().for_each(|client| client.send(GET));
                        statuses.extend(clients.iter_mut().map(|client| client.response().status));
                    }
                    statuses
                })
            })
            .collect();
        crowds.into_iter().flat_map(|crowd| crowd.join().expect("answers")).collect()
    })
}

#[test]
fn never_more_than_the_cap() {
    const CAP: usize = 50;
    for workers in [1, 2, 4] {
        for limit in ["connections", "endpoint_connections"] {
            let (gate, origin) = restless();
            let limits = format!("limits: {{{limit}: {CAP}}}, queue: {{size: 400, timeout: 20s}}");
            let gateway = Gateway::start(&config(&origin, workers, &limits));
            let table = Established::watch(origin.address().port(), Duration::ZERO);
            // Connections open and close.
            gate.open();
            let statuses = crowd(&gateway, 400, 8);
            assert!(statuses.len() == 3200 && statuses.iter().all(|status| *status == 200));
            assert!(origin.connections() > 10 * CAP, "connections came and went: {}", origin.connections());
            // The limit is reached, and hundreds of requests wait.
            gate.close();
            thread::scope(|scope| {
                let crowd = scope.spawn(|| crowd(&gateway, 400, 1));
                waiting(&gateway, 400 - CAP as u64);
                // Requests that hold a permit may still be connecting.
                eventually("all that may be", || {
                    metric(&gateway, "tollgate_upstream_connections") == CAP as u64
                });
                table.look();
                gate.open();
                assert!(crowd.join().expect("answers").iter().all(|status| *status == 200));
            });
            let most = table.end();
            assert_eq!((most.opened, most.accepted), (CAP, CAP), "{workers} workers, {} looks", most.looks);
            assert_eq!(metric(&gateway, "tollgate_upstream_queue_length"), 0);
            gateway.reconcile(&[&origin]);
        }
    }
}

/// Starts an origin that answers while the gate is open.
fn gated() -> (Gate, Origin) {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("ok");
        }
    });
    (gate, origin)
}

fn waiting(gateway: &Gateway, requests: u64) {
    eventually("requests in the queue", || metric(gateway, "tollgate_upstream_queue_length") == requests);
}

#[test]
fn a_full_queue_and_a_long_wait_have_reasons_of_their_own() {
    let (gate, origin) = gated();
    let limits = "limits: {connections: 1}, queue: {size: 2, timeout: 3s}";
    let gateway = Gateway::start(&config(&origin, 2, limits));
    let mut first = gateway.client();
    first.send(GET);
    eventually("the only connection", || origin.count() == 1);
    let mut queued: Vec<_> = (0..2).map(|_| gateway.client()).collect();
    queued.iter_mut().for_each(|client| client.send(GET));
    waiting(&gateway, 2);
    let refused = gateway.client().get("/");
    assert_eq!((refused.status, refused.header("tollgate-reason")), (503, Some("connection_limit_reached")));
    for client in &mut queued {
        let late = client.response();
        assert_eq!((late.status, late.header("tollgate-reason")), (503, Some("queue_timeout")));
    }
    gate.open();
    assert_eq!(first.response().status, 200);
    // The same connections carry further requests.
    for client in &mut queued {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(
        metric(&gateway, "tollgate_upstream_cap_hits_total"),
        3 + metric(&gateway, "tollgate_upstream_queued_total") - 2
    );
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_client_that_resets_leaves_the_queue() {
    let (gate, origin) = gated();
    let limits = "limits: {connections: 1}, queue: {size: 1, timeout: 20s}";
    let gateway = Gateway::start(&config(&origin, 2, limits));
    let mut first = gateway.client();
    first.send(GET);
    eventually("the only connection", || origin.count() == 1);
    let mut gone = gateway.client();
    gone.send(GET);
    waiting(&gateway, 1);
    gone.reset();
    waiting(&gateway, 0);
    let mut next = gateway.client();
    next.send(GET);
    waiting(&gateway, 1);
    gate.open();
    assert_eq!((first.response().status, next.response().status), (200, 200));
    assert_eq!(origin.count(), 2, "what nobody waits for is not sent");
}

/// Returns one client on each of two workers. New connections are shared out, so one of a few attempts
/// reaches the other worker.
fn one_each(gateway: &Gateway, origin: &Origin) -> (Client, Client) {
    let mut first = gateway.client();
    assert_eq!(first.get("/").status, 200);
    // Earlier clients stay open. If they closed, a worker that is late to notice would get no new connection.
    let mut others = Vec::new();
    for _ in 0..50 {
        let mut second = gateway.client();
        assert_eq!(second.get("/").status, 200);
        assert_eq!(origin.connections(), 1);
        // The previous client may cause a late count, but only once, not on every turn.
        let handed_over = metric(gateway, "tollgate_upstream_handed_over_total");
        for _ in 0..3 {
            assert_eq!((first.get("/").status, second.get("/").status), (200, 200));
        }
        if metric(gateway, "tollgate_upstream_handed_over_total") - handed_over >= 4 {
            return (first, second);
        }
        others.push(second);
    }
    panic!("all clients have the same worker");
}

#[test]
fn idle_connections_change_their_worker() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&config(&origin, 2, "limits: {connections: 1}, pool: {idle_timeout: 60s}"));
    let (mut one, mut two) = one_each(&gateway, &origin);
    let before = metric(&gateway, "tollgate_upstream_handed_over_total");
    for _ in 0..20 {
        assert_eq!((one.get("/").status, two.get("/").status), (200, 200));
    }
    assert_eq!(origin.connections(), 1, "one socket served both");
    let handed_over = metric(&gateway, "tollgate_upstream_handed_over_total") - before;
    assert!((39..=40).contains(&handed_over), "{handed_over}");
    eventually("the last one to be idle", || {
        let connections = gateway.metrics();
        let of = |state| connections.sum("tollgate_upstream_connections", &format!("state=\"{state}\""));
        (of("idle"), of("active")) == (Some(1.0), Some(0.0))
    });
    gateway.reconcile(&[&origin]);
}

#[test]
fn an_idle_connection_makes_room_for_one_to_another_endpoint() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    for workers in [1, 2] {
        let gateway = Gateway::start(&format!(
            "workers: {workers}\nroutes: [{{match: \"/*\", to: u}}]\n\
             upstreams: {{u: {{endpoints: [\"{}\", \"{}\"], limits: {{connections: 1}}}}}}\n",
            a.address(),
            b.address()
        ));
        let mut clients: Vec<_> = (0..4).map(|_| gateway.client()).collect();
        let answers: String = (0..5)
            .flat_map(|_| clients.iter_mut().map(|client| client.get("/").text()).collect::<Vec<_>>())
            .collect();
        assert_eq!((answers.matches('a').count(), answers.matches('b').count()), (10, 10), "{answers}");
        eventually("what was closed is seen to be", || a.open() + b.open() <= 1);
    }
}

#[test]
fn an_upgraded_connection_counts() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some_and(|request| request.target == "/ws") {
            conn.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            );
            conn.wait_close();
        }
    });
    let limits = "limits: {connections: 1}, queue: {size: 5, timeout: 100ms}";
    let gateway = Gateway::start(&config(&origin, 2, limits));
    let mut socket = gateway.client();
    socket.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(socket.head().status, 101);
    assert_eq!(gateway.client().get("/").header("tollgate-reason"), Some("queue_timeout"));
    socket.reset();
    eventually("its place to be free", || gateway.client().get("/").status != 503);
}

#[test]
fn a_connect_that_fails_gives_its_place_back() {
    let gateway = Gateway::start(&format!(
        "workers: 2\nroutes: [{{match: \"/*\", to: u}}]\n\
         upstreams: {{u: {{endpoints: [\"{}\"], limits: {{connections: 1}}, outlier: off, retry: off}}}}\n",
        tollgate_tests::refused_address()
    ));
    let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
    for _ in 0..5 {
        clients.iter_mut().for_each(|client| client.send(GET));
        for client in &mut clients {
            assert_eq!(client.response().header("tollgate-reason"), Some("connection_refused"));
        }
    }
}

#[test]
fn a_reload_changes_the_cap() {
    let (gate, origin) = gated();
    gate.open();
    let wide = "limits: {connections: 6}, queue: {size: 20, timeout: 20s}, pool: {idle_timeout: 60s}";
    let gateway = Gateway::start(&config(&origin, 2, wide));
    gate.close();
    let ask = |clients: &mut Vec<Client>| clients.iter_mut().for_each(|client| client.send(GET));
    let mut clients: Vec<_> = (0..6).map(|_| gateway.client()).collect();
    ask(&mut clients);
    eventually("six connections", || origin.open() == 6);
    gateway.write_config(&config(&origin, 2, &wide.replace("connections: 6", "connections: 2")));
    gateway.signal(Signal::HUP);
    eventually("the reload", || gateway.stderr().contains("reloaded"));
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    // Two workers may each close a connection for the same excess.
    eventually("those above the new cap to be closed", || origin.open() <= 2);
    ask(&mut clients);
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    assert!(origin.open() <= 2, "{}", origin.open());
    // The reload back to the wider limit.
    gate.close();
    ask(&mut clients);
    waiting(&gateway, 4);
    gateway.write_config(&config(&origin, 2, wide));
    gateway.signal(Signal::HUP);
    waiting(&gateway, 0);
    eventually("six connections", || origin.open() == 6);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    gateway.reconcile(&[&origin]);
}

mod warm {
    use super::*;

    #[test]
    fn more_than_are_kept_are_not_opened() {
        let origin = Origin::ok();
        let gateway = Gateway::start(&config(&origin, 1, "pool: {warm: 3, max_idle: 1, idle_timeout: 60s}"));
        eventually("a connection", || origin.connections() >= 1);
        for _ in 0..50 {
            assert_eq!(gateway.client().get("/").status, 200);
        }
        // Without a bound, each new connection would replace the previous one, and there would be thousands.
        assert!(origin.connections() < 110, "{} connections", origin.connections());
    }

    #[test]
    fn connections_are_there_before_the_first_request() {
        let origin = Origin::ok();
        let gateway = Gateway::start(&config(&origin, 2, "pool: {warm: 3, idle_timeout: 60s}"));
        eventually("three for each worker", || origin.open() == 6);
        let mut client = gateway.client();
        assert_eq!(client.get("/").status, 200);
        // Another connection takes its place.
        eventually("one more", || origin.connections() == 7);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn closed_connections_are_reopened() {
        let origin = Origin::play(|conn| {
            if conn.index() >= 4 {
                while conn.request().is_some() {
                    conn.ok("ok");
                }
            }
        });
        let gateway = Gateway::start(&config(&origin, 1, "pool: {warm: 2, idle_timeout: 60s}"));
        eventually("two that stay", || origin.connections() >= 6 && origin.open() == 2);
        assert_eq!(gateway.client().get("/").status, 200);
    }

    #[test]
    fn a_reload_begins_and_ends_it() {
        let origin = Origin::ok();
        let gateway = Gateway::start(&config(&origin, 2, "pool: {idle_timeout: 500ms}"));
        assert_eq!(origin.connections(), 0);
        gateway.write_config(&config(&origin, 2, "pool: {warm: 2, idle_timeout: 500ms}"));
        gateway.signal(Signal::HUP);
        eventually("two for each worker", || origin.open() == 4);
        gateway.write_config(&config(&origin, 2, "pool: {idle_timeout: 500ms}"));
        gateway.signal(Signal::HUP);
        eventually("none", || origin.open() == 0);
    }

    #[test]
    fn it_keeps_to_the_cap_and_gives_way_to_requests() {
        let (gate, origin) = gated();
        let limits = "limits: {connections: 3}, pool: {warm: 4, idle_timeout: 60s}, queue: {timeout: 20s}";
        let gateway = Gateway::start(&config(&origin, 2, limits));
        eventually("as many as may be", || origin.open() == 3);
        let mut clients: Vec<_> = (0..3).map(|_| gateway.client()).collect();
        clients.iter_mut().for_each(|client| client.send(GET));
        eventually("each request to have one", || origin.count() == 3);
        assert_eq!(origin.connections(), 3);
        gate.open();
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    }

    #[test]
    fn an_endpoint_that_refuses_is_tried_again() {
        let address = tollgate_tests::free_address();
        let _gateway = Gateway::start(&format!(
            "routes: [{{match: \"/*\", to: u}}]\nupstreams: {{u: {{endpoints: [\"{address}\"], pool: {{warm: 2}}}}}}\n"
        ));
        // Until here no socket listened on the address.
        let listener = std::net::TcpListener::bind(address).expect("the address");
        let both: Vec<_> = (0..2).map(|_| listener.accept().expect("one in advance")).collect();
        assert_eq!(both.len(), 2);
    }
}
