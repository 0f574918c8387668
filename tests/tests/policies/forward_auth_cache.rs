//! `forward_auth` with `cache`: which requests share a decision of the service, and for how long.

use tollgate_tests::{Gate, Gateway, Metrics, Origin, Response, Signal, eventually};

use super::auth::{both, passed};

/// Starts a service that admits the cookie `session=ann` and the token `good`, and sends each response the number of
/// questions so far. `/cookie` sets a cookie.
fn service() -> Origin {
    Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let shows = |name: &str, value: &str| {
                request.headers.all(name).join("; ").split("; ").any(|one| one == value)
            };
            let target = request.headers.get("X-Forwarded-Uri").unwrap_or_default();
            let more = match target {
                "/cookie" => "Set-Cookie: fresh=1\r\n",
                "/never" => "Cache-Control: no-store\r\n",
                _ => "",
            };
            let user = if shows("Cookie", "session=ann") || shows("X-Token", "good") {
                Some("ann")
            } else if shows("Authorization", "Bearer bob") {
                Some("bob")
            } else {
                None
            };
            conn.send(match user {
                Some(user) => format!("HTTP/1.1 204 No Content\r\n{more}X-User: {user} at {target}\r\n\r\n"),
                None => format!("HTTP/1.1 401 Unauthorized\r\n{more}Content-Length: 2\r\n\r\nno"),
            });
        }
    })
}

fn gateway(origin: &Origin, service: &Origin, more: &str) -> Gateway {
    Gateway::start(&config(origin, service, more))
}

fn config(origin: &Origin, service: &Origin, more: &str) -> String {
    format!(
        "workers: 2\npolicies: {{forward_auth: {{url: \"http://{}/\", timeout: 10s, response_headers: X-User, {more}}}}}\n\
         routes: [{{to: \"{}\"}}]\n",
        service.address(),
        origin.address()
    )
}

/// Returns the statuses of requests with these fields, over HTTP/1 and HTTP/2.
fn statuses(gateway: &Gateway, path: &str, fields: &[(&str, &str)]) -> [u16; 2] {
    both(gateway, path, fields).map(|answer: Response| answer.status)
}

const BY_SESSION: &str = "cache: {key: cookie session, ttl: {2xx: 1h, 401: 1h}}";
const ANN: (&str, &str) = ("Cookie", "session=ann");

#[test]
fn a_decision_holds_for_the_requests_with_its_key() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service, BY_SESSION);
    for _ in 0..3 {
        // On new connections, of which each worker has some. What the service adds is remembered too.
        for got in passed(&gateway, &origin, &[ANN, ("X-User", "root")]) {
            assert_eq!(got.headers.all("X-User"), ["ann at /admin/x"]);
        }
    }
    assert_eq!(service.count(), 1);
    assert_eq!(statuses(&gateway, "/elsewhere", &[("Cookie", "lang=de; session=ann")]), [200; 2]);
    assert_eq!(service.count(), 1, "neither the path nor another cookie is in the key");
    for _ in 0..2 {
        for answer in both(&gateway, "/", &[("Cookie", "session=eve")]) {
            assert_eq!((answer.status, answer.text().as_str()), (401, "no"));
        }
    }
    assert_eq!(service.count(), 2, "what is denied is remembered as well");
    let counted = |event: &str| {
        let metrics: Metrics = gateway.metrics();
        metrics.sum(
            "tollgate_policy_events_total",
            &format!("policy=\"forward_auth\",place=\"gateway\",event=\"{event}\""),
        )
    };
    assert_eq!((counted("hits"), counted("misses")), (Some(10.0), Some(2.0)));
    gateway.reconcile(&[&origin]);
}

#[test]
fn no_client_gets_the_decision_of_another_one() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service, BY_SESSION);
    // The service recognizes these clients by something that the key does not name.
    for fields in [
        [("X-Token", "good"), ("X-Other", "1")],
        [("X-Token", "bad"), ("X-Other", "1")],
        [("Authorization", "Bearer bob"), ("X-Other", "1")],
        [("Authorization", "Bearer eve"), ("X-Other", "1")],
        [("Authorization", "Bearer bob"), ("Cookie", "session=none")],
        [("Authorization", "Bearer eve"), ("Cookie", "session=none")],
        [("Cookie", "session=none"), ("Cookie", "session=ann")],
        [("Cookie", "session=none"), ("Cookie", "session=eve")],
    ] {
        let good = fields.iter().any(|(_, value)| ["good", "Bearer bob", "session=ann"].contains(value));
        let expected = if good { 200 } else { 401 };
        assert_eq!(statuses(&gateway, "/", &fields), [expected; 2], "{fields:?}");
    }
    // Without a session, every request is asked about.
    let before = service.count();
    assert_eq!(statuses(&gateway, "/", &[("X-Token", "good")]), [200; 2]);
    assert_eq!(statuses(&gateway, "/", &[]), [401; 2]);
    assert_eq!(service.count(), before + 4);
}

#[test]
fn parts_of_the_key_tell_requests_apart() {
    let (origin, service) = (Origin::ok(), service());
    let gateway =
        gateway(&origin, &service, "cache: {key: [header X-Token, path, method, query], ttl: {2xx: 1h}}");
    let token = ("X-Token", "good");
    for (path, asked) in [("/a", 1), ("/a", 1), ("/b", 2), ("/x/../a", 2), ("/a?q", 3), ("/b", 3)] {
        assert_eq!(statuses(&gateway, path, &[token]), [200; 2], "{path}");
        assert_eq!(service.count(), asked, "{path}");
    }
    let answer = gateway
        .client()
        .ask("POST /a HTTP/1.1\r\nHost: a.example\r\nX-Token: good\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((answer.status, service.count()), (200, 4));
    // A 401 has no time here.
    for asked in [6, 8] {
        assert_eq!(statuses(&gateway, "/a", &[("X-Token", "bad")]), [401; 2]);
        assert_eq!(service.count(), asked);
    }
}

#[test]
fn a_decision_ends_with_its_time_and_with_other_settings() {
    let (origin, service) = (Origin::ok(), service());
    let short = "cache: {key: cookie session, ttl: {2xx: 50ms}}";
    let gateway = gateway(&origin, &service, short);
    passed(&gateway, &origin, &[ANN]);
    eventually("the decision has ended", || {
        passed(&gateway, &origin, &[ANN]);
        service.count() >= 3
    });
    let reload = |more: &str, marker: &str| {
        let marked =
            format!("routes: [{{match: /{marker}, respond: 204, policies: {{forward_auth: off}}}}, ");
        let text = config(&origin, &service, more).replace("routes: [", &marked);
        gateway.write_config(&format!("listen: $LISTEN\nadmin: $ADMIN\n{text}"));
        gateway.signal(Signal::HUP);
        eventually("the new configuration", || statuses(&gateway, &format!("/{marker}"), &[ANN]) == [204; 2]);
    };
    reload(BY_SESSION, "one");
    passed(&gateway, &origin, &[ANN]);
    let asked = service.count();
    reload(BY_SESSION, "two");
    passed(&gateway, &origin, &[ANN]);
    assert_eq!(service.count(), asked, "a reload keeps what is remembered");
    reload(&BY_SESSION.replace("2xx: 1h", "2xx: 2h"), "three");
    passed(&gateway, &origin, &[ANN]);
    assert!(service.count() > asked, "other settings may mean other decisions");
}

#[test]
fn a_remembered_decision_survives_the_service() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service, BY_SESSION);
    passed(&gateway, &origin, &[ANN]);
    drop(service);
    passed(&gateway, &origin, &[ANN]);
    for _ in 0..2 {
        assert_eq!(
            statuses(&gateway, "/", &[("Cookie", "session=bob")]),
            [503; 2],
            "failures are not remembered"
        );
    }
}

#[test]
fn equal_questions_at_one_time_are_one_question() {
    let origin = Origin::ok();
    let gate = Gate::new();
    let wait = gate.clone();
    let service = Origin::play(move |conn| {
        while conn.request().is_some() {
            wait.wait();
            conn.send("HTTP/1.1 204 No Content\r\nX-User: ann\r\n\r\n");
        }
    });
    let gateway = gateway(&origin, &service, BY_SESSION);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nCookie: session=ann\r\n\r\n";
    let mut first = gateway.client();
    first.send(request);
    eventually("the service is asked", || service.count() == 1);
    let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.send(request));
    // The others wait for the answer, although the client that asked has gone. The next one asks then.
    first.reset();
    eventually("the question is asked again", || service.count() == 2);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(service.count(), 2);
}

#[test]
fn a_response_for_one_client_is_not_remembered() {
    let (origin, service) = (Origin::ok(), service());
    let gateway = gateway(&origin, &service, BY_SESSION);
    for path in ["/cookie", "/never"] {
        let before = service.count();
        assert_eq!(statuses(&gateway, path, &[ANN]), [200; 2]);
        assert_eq!(statuses(&gateway, path, &[ANN]), [200; 2]);
        assert_eq!(service.count(), before + 4, "{path}");
    }
}

#[test]
fn cookies_of_the_service_reach_the_client() {
    let service = service();
    for (set_cookies, status, expected) in [
        ("off", 200, 0),
        ("successful", 200, 1),
        ("successful", 500, 0),
        ("always", 200, 1),
        ("always", 500, 1),
    ] {
        let origin =
            Origin::fixed(format!("HTTP/1.1 {status} X\r\nSet-Cookie: own=1\r\nContent-Length: 0\r\n\r\n"));
        let gateway = gateway(&origin, &service, &format!("set_cookies: {set_cookies}"));
        for answer in both(&gateway, "/cookie", &[ANN]) {
            assert_eq!(answer.status, status);
            let cookies = answer.headers.all("Set-Cookie");
            assert!(cookies.contains(&"own=1"), "{cookies:?}");
            assert_eq!(
                cookies.iter().filter(|cookie| **cookie == "fresh=1").count(),
                expected,
                "{set_cookies}"
            );
        }
    }
}

#[test]
fn the_service_is_asked_with_the_configured_method() {
    let origin = Origin::ok();
    for (method, length) in [("HEAD", None), ("POST", Some("0")), ("DELETE", None), ("OPTIONS", None)] {
        let service = Origin::play(|conn| {
            while let Some(request) = conn.request() {
                // A response to HEAD has no body, whatever its length says.
                let body = if request.method == "HEAD" { "" } else { "ok" };
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}"));
            }
        });
        let gateway = gateway(&origin, &service, &format!("method: {method}"));
        passed(&gateway, &origin, &[]);
        for asked in service.requests() {
            assert_eq!((asked.method.as_str(), asked.headers.get("Content-Length")), (method, length));
            assert_eq!(asked.headers.get("X-Original-Method"), Some("GET"));
        }
    }
}
