//! A new config while traffic flows (SIGHUP): no request is lost, a bad file changes nothing.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tollgate_tests::{Client, Gate, Gateway, Origin, Signal, eventually, free_address};

fn answering(body: &str) -> String {
    format!("routes: [{{match: /version, respond: {body}}}]")
}

fn version(gateway: &Gateway) -> String {
    gateway.client().get("/version").text()
}

#[test]
fn a_new_plan_takes_the_next_request() {
    let gateway = Gateway::start(&answering("one"));
    let mut kept = gateway.client();
    assert_eq!(kept.get("/version").text(), "one");
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
    // The connection that was open continues, with the new plan.
    eventually("the new plan on an old connection", || kept.get("/version").text() == "two");
    gateway.reconcile(&[]);
}

#[test]
fn a_bad_file_leaves_the_old_plan_serving() {
    let gateway = Gateway::start(&answering("one"));
    for bad in ["routes: [", "routez: []", "routes: [{match: /x, to: nowhere}]", ""] {
        let before = gateway.stderr().len();
        gateway.write_config(bad);
        gateway.signal(Signal::HUP);
        eventually("a message about it", || gateway.stderr().len() > before);
        assert_eq!(version(&gateway), "one", "{bad:?}");
    }
    std::fs::remove_file(gateway.config()).expect("removed");
    let before = gateway.stderr().len();
    gateway.signal(Signal::HUP);
    eventually("a message about it", || gateway.stderr().len() > before);
    assert_eq!(version(&gateway), "one");
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
}

#[test]
fn a_request_in_flight_ends_on_its_plan() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n");
            opened.wait();
            conn.send("4\r\n end\r\n0\r\n\r\n");
        }
    });
    let gateway = Gateway::start(&format!("routes: [{{match: /held, to: [\"{}\"]}}]", origin.address()));
    let mut client = gateway.client();
    client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut head = client.head();
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
    gate.open();
    assert_eq!(client.try_body(&mut head), Ok(()));
    assert_eq!(head.text(), "old end");
    gateway.reconcile(&[&origin]);
}

#[test]
fn connections_to_endpoints_survive() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let routes = |extra: &str| {
        format!(
            "routes:\n  - match: \"/*\"\n    to: [{}]\n  - {{match: {extra}, respond: 204}}\n",
            origin.address()
        )
    };
    assert_eq!(gateway.client().get("/").status, 200);
    for i in 0..3 {
        gateway.write_config(&routes(&format!("/new{i}")));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || gateway.client().get(&format!("/new{i}")).status == 204);
        assert_eq!(gateway.client().get("/").status, 200);
    }
    assert_eq!(origin.connections(), 1, "the pool outlives a plan");
}

#[test]
fn no_request_is_lost_over_twenty_reloads_under_load() {
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, "workers: 2");
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let (stop, mut client) = (Arc::clone(&stop), gateway.client());
            std::thread::spawn(move || {
                let mut sent = 0;
                while !stop.load(Ordering::SeqCst) {
                    let target = format!("/{n}/{sent}");
                    let response = client.post(&target, b"body");
                    assert_eq!((response.status, response.text()), (200, format!("POST {target} body")));
                    sent += 1;
                }
                sent
            })
        })
        .collect();
    for i in 0..20 {
        gateway.write_config(&format!(
            "workers: 2\nroutes:\n  - match: \"/*\"\n    to: [{}]\n  - {{match: /plan{i}, respond: 204}}\n",
            origin.address()
        ));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || gateway.client().get(&format!("/plan{i}")).status == 204);
    }
    stop.store(true, Ordering::SeqCst);
    let sent: usize =
        clients.into_iter().map(|client| client.join().expect("every request is answered")).sum();
    assert!(sent > 20, "{sent}");
    gateway.reconcile(&[&origin]);
}

fn status(gateway: &Gateway) -> Value {
    serde_json::from_str(&gateway.admin("/status").text()).expect("JSON")
}

#[test]
fn the_reload_reports_what_is_in_force() {
    let gateway = Gateway::start(&answering("one"));
    let metric = |name: &str| gateway.metrics().sum(name, "").expect("a metric");
    assert_eq!(status(&gateway)["config"]["generation"], 1);
    assert_eq!(metric("tollgate_config_generation"), 1.0);
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the second generation", || status(&gateway)["config"]["generation"] == 2);
    assert_eq!(version(&gateway), "two", "what is told is true");
    let reported = status(&gateway);
    assert_eq!(reported["config"]["last_reload"]["ok"], true, "{reported}");
    gateway.await_message(": 1 route, generation 2, ");
    gateway.write_config("routes: [");
    gateway.signal(Signal::HUP);
    eventually("the failure", || metric("tollgate_config_last_reload_successful") == 0.0);
    let reported = status(&gateway);
    assert_eq!(
        (&reported["config"]["generation"], &reported["config"]["last_reload"]["ok"]),
        (&2.into(), &false.into())
    );
    assert_eq!(metric("tollgate_config_generation"), 2.0);
}

#[test]
fn only_changed_routes_are_read() {
    let route = |number: usize, text: &str| format!("  - match: /r{number}\n    respond: {text}\n");
    let file = |change: Option<usize>, added: &str| {
        let routes = (0..300).map(|number| route(number, if change == Some(number) { "new" } else { "old" }));
        format!("routes:\n{}{added}", routes.collect::<String>())
    };
    let gateway = Gateway::start(&file(None, ""));
    let read = || status(&gateway)["config"]["routes_read"].as_u64();
    assert_eq!(read(), Some(300));
    let mut generation = 1;
    let mut reload = |text: &str| {
        gateway.write_config(text);
        gateway.signal(Signal::HUP);
        generation += 1;
        eventually("the new plan", || status(&gateway)["config"]["generation"] == generation);
    };
    let answer = |number: usize| gateway.client().get(&format!("/r{number}")).text();
    reload(&file(Some(150), ""));
    assert_eq!((read(), answer(150), answer(149)), (Some(1), "new".to_owned(), "old".to_owned()));
    reload(&file(Some(7), &route(300, "added")));
    // The gateway reads the routes from the first changed one to the last.
    assert_eq!(
        (read(), answer(7), answer(150), answer(300)),
        (Some(294), "new".into(), "old".into(), "added".into())
    );
    reload(&file(Some(7), ""));
    assert!(read().is_some_and(|read| read <= 1));
    assert_eq!((answer(7), gateway.client().get("/r300").status), ("new".to_owned(), 404));
    // A message names the position in the current file.
    let wrong = file(Some(7), "").replacen("  - match: /r3\n", "\n\n  - match: /r3\n", 1);
    reload(&wrong);
    gateway.write_config(&format!("{wrong}{}", route(150, "twice")));
    gateway.signal(Signal::HUP);
    eventually("the refusal", || gateway.stderr().contains("is not loaded"));
    let reported = gateway.stderr();
    let written = std::fs::read_to_string(gateway.config()).expect("the file");
    let line = |last: bool| {
        let mut numbers =
            (1..).zip(written.lines()).filter(|(_, line)| line.ends_with("/r150")).map(|(number, _)| number);
        let number: Option<usize> = if last { numbers.last() } else { numbers.next() };
        format!("tollgate.yaml:{}:", number.expect("the route"))
    };
    assert!(reported.contains("identical to an earlier one"), "{reported}");
    assert!(reported.contains(&line(false)) && reported.contains(&line(true)), "{reported}");
    assert_eq!(answer(7), "new");
}

#[test]
fn listen_addresses_come_and_go() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.headers.has("Upgrade") {
                conn.send(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                );
                conn.echo_bytes();
                return;
            }
            if request.target == "/held" {
                held.wait();
            }
            conn.ok(&request.target);
        }
    });
    let second = free_address();
    let config = |listen: &str| {
        format!("workers: 2\n{listen}routes: [{{match: \"/*\", to: [\"{}\"]}}]", origin.address())
    };
    let gateway = Gateway::start(&config(""));
    let connect = |address| Client::connect(address, Arc::default());
    assert!(TcpStream::connect(second).is_err());
    gateway.write_config(&config(&format!("listen: [$LISTEN, \"{second}\"]\n")));
    gateway.signal(Signal::HUP);
    eventually("the second address", || TcpStream::connect(second).is_ok());
    let (mut kept, mut other) = (connect(second), connect(second));
    assert_eq!(kept.get("/1").text(), "/1");
    other.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(other.head().status, 101);
    let mut first = gateway.client();
    assert!(!first.get("/").says_close());
    // The request is in progress, so that its answer is the first message after the change even if this test
    // is slow.
    kept.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request is under way", || {
        origin.requests().iter().any(|request| request.target == "/held")
    });

    gateway.write_config(&config(""));
    gateway.signal(Signal::HUP);
    eventually("the second address to be gone", || TcpStream::connect(second).is_err());
    gate.open();
    let last = kept.response();
    assert_eq!((last.text().as_str(), last.says_close()), ("/held", true), "who came that way is told");
    // A WebSocket could stay open for hours: the gateway sends a close frame (1001) and cuts a client that
    // does not answer.
    assert_eq!(other.wire().take(4), Ok(vec![0x88, 2, 3, 0xe9]));
    other.expect_close();
    assert!(!first.get("/").says_close(), "the other address goes on as before");
    // And the address is added again.
    gateway.write_config(&config(&format!("listen: [$LISTEN, \"{second}\"]\n")));
    gateway.signal(Signal::HUP);
    eventually("the second address", || TcpStream::connect(second).is_ok());
    assert!(!connect(second).get("/").says_close());
}

#[test]
fn an_address_in_use_refuses_the_whole_file() {
    let taken = TcpListener::bind(free_address()).expect("a port");
    let address = taken.local_addr().expect("an address");
    let gateway = Gateway::start(&answering("one"));
    gateway.write_config(&format!("listen: [$LISTEN, \"{address}\"]\n{}", answering("two")));
    gateway.signal(Signal::HUP);
    eventually("a message", || gateway.stderr().contains("is not loaded"));
    gateway.await_message("something listens there already");
    assert_eq!(version(&gateway), "one");
    assert_eq!(status(&gateway)["config"]["generation"], 1);
    drop(taken);
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
}

#[test]
fn the_access_log_and_the_admin_listener_move() {
    let gateway = Gateway::start(&answering("one"));
    let mut client = gateway.client();
    client.get("/version");
    let admin = free_address();
    let yaml = format!(
        "admin: \"{admin}\"\naccess_log: {{to: $DIR/second.log, format: \"{{status}} {{target}}\"}}\n{}",
        answering("two")
    );
    gateway.write_config(&yaml);
    gateway.signal(Signal::HUP);
    let lines = || {
        let mut there = Client::connect(admin, Arc::default());
        let page = there.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").text();
        page.lines().find_map(|line| line.strip_prefix("tollgate_access_log_lines_total ").map(str::to_owned))
    };
    eventually("the new admin address", || TcpStream::connect(admin).is_ok());
    eventually("the old one to be gone", || TcpStream::connect(gateway.admin_address()).is_err());
    assert_eq!(client.get("/version").text(), "two");
    let second = gateway.directory().join("second.log");
    eventually("the new log", || std::fs::read_to_string(&second).is_ok_and(|log| log == "200 /version\n"));
    assert_eq!(gateway.records().len(), 1, "the old log has the first request");
    eventually("the counts to go on", || lines().as_deref() == Some("2"));
}
