//! `mirror`: copies of requests go to another upstream, and no client waits for their answers.

use tollgate_tests::{Gate, Gateway, Http2Origin, Origin, eventually, http2, refused_address};

/// Starts a gateway with a route to `main` and a mirror to `shadow`.
fn gateway(main: &Origin, shadow: impl std::fmt::Display, mirror: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{match: /in/*, name: r, to: main, rewrite: {{prefix: /}}, \
         policies: {{headers: {{request: {{set: {{X-Env: prod}}}}}}, mirror: {{to: shadow{mirror}}}}}}}]\n\
         upstreams: {{main: \"{}\", shadow: \"{shadow}\"}}\n",
        main.address()
    ))
}

fn events(gateway: &Gateway, event: &str) -> f64 {
    gateway.metrics().sum("tollgate_policy_events_total", &format!("event=\"{event}\"")).unwrap_or(0.0)
}

#[test]
fn a_copy_is_what_the_main_upstream_gets_and_is_marked() {
    let (main, shadow) = (Origin::ok(), Origin::fixed("HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nnot"));
    let gateway = gateway(&main, shadow.address(), ", host: shadow.internal");
    let mut client = gateway.client();
    let ask = "GET /in/a?b=c HTTP/1.1\r\nHost: a\r\nTollgate-Shadow: me\r\nX-A: 1\r\n\r\n";
    for n in 1..=3 {
        assert_eq!(client.ask(ask).status, 200);
        // Otherwise the second copy would find the first one's connection in use.
        eventually("its copy is answered otherwise", || events(&gateway, "other_status") == f64::from(n));
    }
    assert_eq!(shadow.count(), 3);
    for copy in shadow.requests() {
        assert_eq!(
            (copy.target.as_str(), copy.headers.get("X-A"), copy.headers.get("X-Env")),
            ("/a?b=c", Some("1"), Some("prod"))
        );
        assert_eq!(copy.headers.all("Tollgate-Shadow"), ["1"]);
        assert_eq!(copy.headers.get("Host"), Some("shadow.internal"));
    }
    assert_eq!(main.requests()[0].headers.get("Host"), Some("a"));
    assert_eq!((events(&gateway, "sent"), events(&gateway, "same_status")), (3.0, 0.0));
    assert_eq!(shadow.connections(), 1, "its connections are kept");
    gateway.reconcile(&[&main]);
}

#[test]
fn the_name_of_an_upstream_is_enough() {
    let (main, shadow) = (Origin::ok(), Origin::ok());
    let gateway = Gateway::start(&format!(
        "routes: [{{match: /*, to: main, policies: {{mirror: shadow}}}}]\n\
         upstreams: {{main: \"{}\", shadow: \"{}\"}}\n",
        main.address(),
        shadow.address()
    ));
    assert_eq!(gateway.client().get("/a").status, 200);
    eventually("its copy is answered alike", || events(&gateway, "same_status") == 1.0);
    assert_eq!(shadow.requests()[0].headers.get("Tollgate-Shadow"), Some("1"));
}

/// Within five standard deviations: about one run in a million fails by chance.
#[test]
fn a_percentage_of_requests_is_copied() {
    let (main, shadow) = (Origin::ok(), Origin::ok());
    let gateway = gateway(&main, shadow.address(), ", percent: 25, in_flight: 400");
    let mut client = gateway.client();
    for n in 0..400 {
        assert_eq!(client.get(&format!("/in/{n}")).status, 200);
    }
    eventually("all copies are answered", || {
        let count = shadow.count();
        count > 0 && events(&gateway, "same_status") == count as f64
    });
    let mut copied: Vec<_> = shadow.requests().into_iter().map(|copy| copy.target).collect();
    let count = copied.len();
    assert!((57..=143).contains(&count), "{count} of 400");
    copied.sort();
    copied.dedup();
    assert_eq!((copied.len(), main.count()), (count, 400), "none is copied twice");
    assert_eq!((events(&gateway, "dropped"), events(&gateway, "failed")), (0.0, 0.0));
}

#[test]
fn bodies_go_along_in_any_framing() {
    let (main, shadow) = (Origin::echo(), Origin::echo());
    let gateway = gateway(&main, shadow.address(), "");
    let mut client = gateway.client();
    assert_eq!(client.post("/in/", b"with a length").text(), "POST / with a length");
    client.send("POST /in/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nin p\r\n");
    eventually("the begin of it", || main.count() == 2);
    client.send("5\r\nieces\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "POST / in pieces");
    let mut client = gateway.http2();
    let mut stream = client.begin(http2::request("POST", "/in/", &[]), false).expect("a stream");
    stream.send("of HTTP/2", true).expect("sent");
    assert_eq!(stream.response().expect("an answer").text(), "POST / of HTTP/2");
    eventually("three copies", || shadow.count() == 3);
    eventually("all are the same", || events(&gateway, "same_status") == 3.0);
    let mut bodies: Vec<_> =
        shadow.requests().iter().map(|copy| String::from_utf8_lossy(&copy.body).into_owned()).collect();
    bodies.sort();
    assert_eq!(bodies, ["in pieces", "of HTTP/2", "with a length"]);
}

#[test]
fn a_body_beyond_the_bound_is_not_copied() {
    let (main, shadow) = (Origin::echo(), Origin::echo());
    let gateway = gateway(&main, shadow.address(), ", body: 8");
    let mut client = gateway.client();
    assert_eq!(client.post("/in/", b"123456789").text(), "POST / 123456789");
    client.send("POST /in/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "POST / 1234567890");
    assert_eq!(client.post("/in/", b"12345678").text(), "POST / 12345678");
    eventually("the short one", || shadow.count() == 1);
    eventually("it is known", || events(&gateway, "given_up") == 2.0);
    assert_eq!(shadow.request().body, b"12345678");
}

#[test]
fn a_shadow_that_is_dead_or_does_not_answer_costs_its_requests_nothing() {
    let main = Origin::ok();
    let dead = gateway(&main, refused_address(), "");
    let mut client = dead.client();
    for _ in 0..50 {
        assert_eq!(client.get("/in/").status, 200);
    }
    // After one refused connection, the gateway tries no more for a while.
    eventually("none is sent", || events(&dead, "failed") + events(&dead, "dropped") == 50.0);
    assert!(events(&dead, "failed") >= 1.0);
    dead.reconcile(&[&main]);

    // The shadow answers nothing before the gate opens: a client that waited for it would hang.
    let gate = Gate::default();
    let held = gate.clone();
    let shadow = Origin::play(move |connection| {
        while connection.request().is_some() {
            held.wait();
            connection.ok("late");
        }
    });
    let main = Origin::ok();
    let slow = gateway(&main, shadow.address(), ", in_flight: 5, timeout: 60s");
    let mut client = slow.client();
    for _ in 0..50 {
        assert_eq!(client.get("/in/").status, 200);
    }
    eventually("five are under way and the others dropped", || {
        shadow.count() == 5 && events(&slow, "dropped") == 45.0
    });
    gate.open();
    eventually("the five are answered", || events(&slow, "same_status") == 5.0);
    assert_eq!(client.get("/in/").status, 200);
    eventually("there is room again", || shadow.count() == 6);
}

#[test]
fn a_slow_copy_is_cancelled() {
    let main = Origin::ok();
    let shadow = Origin::play(|connection| {
        connection.request();
        connection.wait_close();
    });
    let gateway = gateway(&main, shadow.address(), ", timeout: 50ms");
    assert_eq!(gateway.client().get("/in/").status, 200);
    eventually("it has failed", || events(&gateway, "failed") == 1.0);
    eventually("its connection is closed", || shadow.open() == 0);
}

#[test]
fn a_shadow_may_speak_http2() {
    let (main, shadow) = (Origin::ok(), Http2Origin::echo());
    let gateway = gateway(&main, format!("h2c://{}", shadow.address()), "");
    let mut client = gateway.client();
    assert_eq!(client.post("/in/x", b"body").status, 200);
    eventually("it is the same", || events(&gateway, "same_status") == 1.0);
    assert_eq!(shadow.requests()[0].body, b"body");
}

#[test]
fn a_client_that_leaves_cancels_its_copies() {
    let main = Origin::ok();
    let shadow = Origin::ok();
    let gateway = gateway(&main, shadow.address(), ", in_flight: 1");
    let mut client = gateway.client();
    client.send("POST /in/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    eventually("it is under way", || main.connections() == 1);
    client.reset();
    eventually("the copy is given up", || events(&gateway, "given_up") == 1.0);
    assert_eq!(gateway.client().get("/in/").status, 200);
    eventually("the place is free", || shadow.count() == 1);
}

#[test]
fn several_mirrors_take_their_own_shares() {
    let (main, all, none) = (Origin::ok(), Origin::ok(), Origin::ok());
    let gateway = Gateway::start(&format!(
        "routes: [{{match: /*, to: main, policies: {{mirror: [all, {{to: none, percent: 1/3000000}}]}}}}]\n\
         upstreams: {{main: \"{}\", all: \"{}\", none: \"{}\"}}\n",
        main.address(),
        all.address(),
        none.address()
    ));
    let mut client = gateway.client();
    for n in 1..=50 {
        assert_eq!(client.get(&format!("/{n}")).status, 200);
        eventually("the copy to the first mirror", || all.count() == n);
    }
    // One of three million: a request of fifty is among them once in 60,000 runs.
    assert_eq!(none.count(), 0);
    gateway.reconcile(&[&main]);
}
