//! Requests that return to the gateway that sent them.

use tollgate_tests::{Gateway, Origin, tollgate};

/// Waits until no further request ends, and returns how many requests the gateway has carried.
fn carried(gateway: &Gateway) -> usize {
    let mut count = 0;
    tollgate_tests::eventually("the last of them has ended", || {
        let now = gateway.records().len();
        std::mem::replace(&mut count, now) == now && now > 0
    });
    count
}

#[test]
fn a_route_to_the_gateway_itself_ends_with_508() {
    // The harness listens on an address of its own, to which neither `localhost` nor 0.0.0.0 leads.
    for (to, listen) in [
        ("$LISTEN", "$LISTEN"),
        ("localhost:PORT", "0.0.0.0:PORT"),
        ("0.0.0.0:PORT", "0.0.0.0:PORT"),
        ("h2c://$LISTEN", "$LISTEN"),
    ] {
        let gateway = Gateway::start("routes: [{respond: 200}]");
        let config = format!("listen: \"{listen}\"\nroutes: [{{to: \"{to}\"}}]\n");
        gateway.write_config(&config.replace("PORT", &gateway.address().port().to_string()));
        gateway.signal(tollgate_tests::Signal::HUP);
        tollgate_tests::eventually("the new plan", || gateway.client().get("/").status != 200);
        let response = gateway.client().get("/x");
        assert_eq!((response.status, response.reason()), (508, "loop_detected"), "{to}");
        let of = |path: &str| gateway.records().iter().filter(|record| record["path"] == path).count();
        tollgate_tests::eventually("their records", || of("/x") >= 3);
        // If there were a fourth record, it would be written before the records of a later request.
        gateway.client().get("/last");
        tollgate_tests::eventually("later records", || of("/last") >= 3);
        assert_eq!(of("/x"), 3, "{to}: it came back twice");
        let reasons =
            |reason: &str| gateway.records().iter().filter(|record| record["reason"] == reason).count();
        assert!(reasons("loop_detected") >= 1, "{:#?}", gateway.records());
        assert!(gateway.metrics().sum("tollgate_reasons_total", "reason=\"loop_detected\"").is_some());
    }
}

#[test]
fn a_request_may_come_back_as_often_as_it_is_allowed_to() {
    let origin = Origin::ok();
    let routes = format!(
        "routes:\n  - {{match: /3/*, rewrite: {{prefix: /2}}, to: $LISTEN}}\n  \
         - {{match: /2/*, rewrite: {{prefix: /1}}, to: $LISTEN}}\n  \
         - {{match: /1/*, rewrite: {{prefix: /0}}, to: $LISTEN}}\n  - {{match: /0/*, to: \"{}\"}}\n",
        origin.address()
    );
    let gateway = Gateway::start(&routes);
    for (path, status) in [("/0/x", 200), ("/1/x", 200), ("/2/x", 200), ("/3/x", 508)] {
        assert_eq!(gateway.client().get(path).status, status, "{path}");
    }
    // The marks are forwarded, and so is the mark of another gateway.
    let request = "GET /2/x HTTP/1.1\r\nHost: a\r\nCDN-Loop: other.example\r\n\r\n";
    assert_eq!(gateway.client().ask(request).status, 200);
    let seen = origin.requests().pop().expect("a request").headers;
    let marks: Vec<_> = seen.all("CDN-Loop");
    assert_eq!(marks.len(), 3, "{marks:?}");
    assert!(
        marks[0] == "other.example" && marks[1].starts_with("tollgate-") && marks[1] == marks[2],
        "{marks:?}"
    );
    assert!(
        origin.requests()[0].headers.get("CDN-Loop").is_none(),
        "nothing is said where nothing comes back"
    );
    let gateway = Gateway::start(&format!("limits: {{loops: 0}}\n{routes}"));
    // The gateway detects a route to itself when it opens a connection; later requests are marked.
    gateway.client().get("/1/x");
    assert_eq!(gateway.client().get("/1/x").status, 508);
}

#[test]
fn a_loop_over_another_gateway_is_found_where_all_requests_are_marked() {
    let second = Gateway::start("forwarded: {cdn_loop: always}\nroutes: [{respond: 200}]");
    let first = Gateway::start(&format!(
        "forwarded: {{cdn_loop: always}}\nroutes: [{{to: \"{}\"}}]",
        second.address()
    ));
    second
        .write_config(&format!("forwarded: {{cdn_loop: always}}\nroutes: [{{to: \"{}\"}}]", first.address()));
    second.signal(tollgate_tests::Signal::HUP);
    tollgate_tests::eventually("the new plan", || first.client().get("/").status != 200);
    let response = first.client().get("/x");
    assert_eq!((response.status, response.reason()), (508, "loop_detected"));
    // Requests of the wait before are not counted.
    let all = [first.records(), second.records()].concat();
    let seen = all.iter().filter(|record| record["path"] == "/x").count();
    assert!(seen < 10, "{seen} records");
}

#[test]
fn copies_and_questions_do_not_go_round_for_ever() {
    for policy in [
        "mirror: {to: own}",
        "forward_auth: {url: \"http://$LISTEN/auth\"}",
        "ext_authz: {url: \"http://$LISTEN\", timeout: 5s}",
        "aggregate: {parts: {a: {to: own, path: /x}}}",
    ] {
        let origin = Origin::ok();
        let to = origin.address();
        let gateway = Gateway::start(&format!(
            "upstreams: {{own: [$LISTEN]}}\nroutes: [{{to: \"{to}\", policies: {{{policy}}}}}]\n"
        ));
        gateway.client().get("/x");
        carried(&gateway);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let count = gateway.records().len();
        assert!(count <= 8, "{policy}: one request became {count}");
    }
}

#[test]
fn a_loop_over_a_unix_socket_ends_with_508() {
    let gateway = Gateway::start(
        "listen: [\"$LISTEN\", \"unix:$DIR/own.sock\"]\nroutes: [{match: \"/*\", to: [\"unix:$DIR/own.sock\"]}]\n",
    );
    let response = gateway.client().get("/x");
    assert_eq!((response.status, response.reason()), (508, "loop_detected"));
    let count = carried(&gateway);
    assert!((3..=8).contains(&count), "one request became {count}: {:#?}", gateway.records());
}

/// Each of two attempts returns to the gateway and is hedged again, until the loop reaches its limit.
#[test]
fn hedged_requests_to_the_gateway_itself_are_bounded() {
    let gateway = Gateway::start(
        "listen: [\"$LISTEN\", \"unix:$DIR/own.sock\"]\nroutes: [{match: \"/*\", to: own}]\n\
         upstreams: {own: {endpoints: [$LISTEN, \"unix:$DIR/own.sock\"], hedge: 1ms, retry: {budget_min: 100}}}\n",
    );
    let response = gateway.client().get("/x");
    assert_eq!((response.status, response.reason()), (508, "loop_detected"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let count = carried(&gateway);
    assert!((3..=16).contains(&count), "one request became {count}");
}

#[test]
fn check_warns_of_an_endpoint_that_is_the_gateway() {
    let warns = |listen: &str, to: &str| {
        let file = std::env::temp_dir().join(format!("tollgate-e2e-loop-{}", std::process::id()));
        std::fs::write(&file, format!("listen: \"{listen}\"\nadmin: off\nroutes: [{{to: \"{to}\"}}]\n"))
            .expect("written");
        let ran = tollgate(&["check", file.to_str().expect("text")]);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.all().contains("an address of the gateway itself")
    };
    for (listen, to) in [
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("127.0.0.1:8080", "localhost:8080"),
        (":8080", "127.0.0.1:8080"),
        ("0.0.0.0:8080", "https://localhost:8080"),
        ("[::1]:8080", "h2c://[::1]:8080"),
    ] {
        assert!(warns(listen, to), "{listen} {to}");
    }
    for (listen, to) in [
        ("127.0.0.1:8080", "127.0.0.1:8081"),
        ("127.0.0.1:8080", "10.0.0.1:8080"),
        (":8080", "10.0.0.1:8080"),
    ] {
        assert!(!warns(listen, to), "{listen} {to}");
    }
}
