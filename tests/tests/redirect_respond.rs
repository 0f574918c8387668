//! Routes that answer without an upstream: redirects and fixed responses.

use serde_json::Value;
use tollgate_tests::{Framing, Gateway};

use crate::rewrite::{check, points_at};

#[test]
fn redirects() {
    for (route, host, target, status, location) in [
        ("match: \"/*\", redirect: \"https://new.example/x\"", "a", "/y?q", 302, "https://new.example/x"),
        ("match: \"/*\", redirect: /login", "a", "/y?q", 302, "/login"),
        (
            "match: \"/*\", redirect: {scheme: https, status: 301}",
            "a.example",
            "/y?q=1",
            301,
            "https://a.example/y?q=1",
        ),
        (
            "match: \"/*\", redirect: {scheme: https, status: 308}",
            "a.example:8080",
            "/y",
            308,
            "https://a.example/y",
        ),
        (
            "match: \"/*\", redirect: {scheme: https, port: 8443}",
            "a.example",
            "/y",
            302,
            "https://a.example:8443/y",
        ),
        (
            "match: \"/*\", redirect: {host: b.example, status: 307}",
            "a.example",
            "/y?q",
            307,
            "http://b.example/y?q",
        ),
        (
            "match: \"/old/*\", redirect: {prefix: /new}",
            "a.example",
            "/old/x?q",
            302,
            "http://a.example/new/x?q",
        ),
        (
            "match: \"/old/*\", redirect: {path: /new, status: 303}",
            "a.example",
            "/old/x?q",
            303,
            "http://a.example/new?q",
        ),
    ] {
        let gateway = Gateway::start(&format!("routes:\n  - {{{route}}}\n"));
        let mut client = gateway.client();
        let response = client.ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let got = response.header("Location").unwrap_or_default();
        assert_eq!(response.status, status, "{route}");
        // A redirect to the same authority may be given as a path alone (RFC 9110, section 10.2.2).
        let origin = format!("http://{host}");
        assert!(got == location || Some(got) == location.strip_prefix(&origin), "{route}: {got}");
        assert!(matches!(response.framing, Framing::Length(_)), "{route}: {response:?}");
        client.expect_alive();
        gateway.reconcile(&[]);
    }
}

#[test]
fn a_redirect_cannot_be_turned_elsewhere() {
    // `//evil` in a Location is another authority.
    let gateway = Gateway::start(
        "paths: {merge_slashes: false}\nroutes:\n  - {match: \"/old/*\", redirect: {prefix: /}}\n  - {match: \"/*\", redirect: {scheme: https}}\n",
    );
    for target in ["/old//evil.example", "/old///evil.example", "//evil.example/x"] {
        let response = gateway.client().get(target);
        let location = response.header("Location").unwrap_or_default();
        assert!(!location.starts_with("//") && !location.contains("://evil"), "{target}: {location}");
    }
}

#[test]
fn a_redirect_leads_to_a_place_that_there_is() {
    let gateway = Gateway::start(
        "forwarded: {trusted_proxies: 127.0.0.1}\nroutes:\n  - {match: \"a/old/*\", redirect: {prefix: /new}}\n  \
         - {match: \"a/*\", redirect: {scheme: https}}\n  - {match: \"/x/*\", redirect: {prefix: /y}}\n  \
         - {match: \"/z/*\", redirect: {prefix: /y, host: b}}\n",
    );
    let mut client = gateway.client();
    let mut ask = |head: &str| {
        let response = client.ask(format!("{head}\r\n\r\n"));
        (response.status, response.header("Location").map(str::to_owned), response.reason().to_owned())
    };
    let to = |location: &str| (302, Some(location.to_owned()), "-".to_owned());
    // A trusted proxy in front terminates TLS.
    assert_eq!(ask("GET /old/1 HTTP/1.1\r\nHost: a"), to("http://a/new/1"));
    assert_eq!(ask("GET /old/1 HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https"), to("https://a/new/1"));
    // In URI form, `*` (the server as a whole) has no path.
    assert_eq!(ask("OPTIONS * HTTP/1.1\r\nHost: a"), to("https://a"));
    // A request without a host can only be redirected to a configured host.
    let keep = "HTTP/1.0\r\nConnection: keep-alive";
    assert_eq!(ask(&format!("GET /z/1 {keep}")), to("http://b/y/1"));
    assert_eq!(ask(&format!("GET /x/1 {keep}")), (400, None, "bad_host".to_owned()));
    gateway.reconcile(&[]);
}

#[test]
fn fixed_responses() {
    let gateway = Gateway::start(
        "routes:\n\
         \x20 - {match: /status, respond: 204}\n\
         \x20 - {match: /error, respond: 503}\n\
         \x20 - {match: /text, respond: \"hello\\n\"}\n\
         \x20 - {match: /full, respond: {status: 418, headers: {X-A: b, Content-Type: text/css, Set-Cookie: [a=b, c=d]}, body: 'x{}'}}\n\
         \x20 - {match: /json, respond: {json: {a: [1, two, true]}}}\n",
    );
    let mut client = gateway.client();
    let response = client.get("/status");
    assert_eq!((response.status, response.body.len(), response.framing), (204, 0, Framing::None));
    assert_eq!(client.get("/error").status, 503);
    let response = client.get("/text");
    assert_eq!(
        (response.text().as_str(), response.header("Content-Type")),
        ("hello\n", Some("text/plain; charset=utf-8"))
    );
    let response = client.get("/full");
    assert_eq!((response.status, response.text().as_str(), response.header("X-A")), (418, "x{}", Some("b")));
    assert_eq!(response.headers.all("Content-Type"), ["text/css"]);
    assert_eq!(response.headers.all("Set-Cookie"), ["a=b", "c=d"]);
    let response = client.get("/json");
    let value: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    assert_eq!(value, serde_json::json!({"a": [1, "two", true]}));
    client.send("HEAD /text HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response_to("HEAD");
    assert_eq!(response.header("Content-Length"), Some("6"));
    // A body that the route does not use does not shift the next request.
    assert_eq!(client.post("/text", b"GET /smuggled HTTP/1.1\r\n\r\n").text(), "hello\n");
    client.expect_alive();
    for record in gateway.wait_records(8) {
        let expected = if record["path"] == "/alive" { "no_route".into() } else { Value::Null };
        assert_eq!(record["reason"], expected, "{record}");
    }
    gateway.reconcile(&[]);
}

#[test]
fn a_fixed_response_to_an_unread_upload() {
    let gateway = Gateway::start("routes: [{match: /x, respond: 200}]");
    let mut client = gateway.client();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    client.send([b'x'; 1000]);
    assert_eq!(client.response().status, 200);
    // The gateway may close the connection after a large body instead of reading it to its end.
    let mut client = gateway.client();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..100 {
        client.send(format!("2710\r\n{}\r\n", "y".repeat(10_000)));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    gateway.reconcile(&[]);
}

#[test]
fn redirects_take_groups_of_what_the_route_matches() {
    let gateway = Gateway::start(
        "routes:\n  - {match: {path: {regex: '/s/(.*)'}}, redirect: {to: 'https://x.example/$1'}}\n  \
         - {match: {path: {regex: '/short/(?<rest>.*)'}}, redirect: 'https://x.example/?p=$rest#$$1'}\n  \
         - {match: '/u/{id}/{part}', redirect: {path: '/$part/$id', status: 301}}\n  \
         - {match: /r/*, redirect: {regex: '^/r/(.*)$', replace: '/new/$1', host: y.example}}\n  \
         - {match: {path: {regex: '/go(/.*)'}}, redirect: '/$1'}\n  \
         - {match: {path: {regex: '/d/(.*)-(.*)'}}, redirect: 'https://x.example/a/$1$2/b'}\n",
    );
    let mut client = gateway.client();
    let mut http2 = gateway.http2();
    for (target, status, location) in [
        ("/s/x", 302, "https://x.example/x"),
        ("/s/a%2db/c%20d?q", 302, "https://x.example/a-b/c%20d"),
        ("/s//evil.example", 302, "https://x.example/evil.example"),
        ("/short/a&b+c", 302, "https://x.example/?p=a%26b%2Bc#$1"),
        ("/u/7/x?q=1", 301, "http://test.example/x/7?q=1"),
        ("/r/a%20b", 302, "http://y.example/new/a%20b"),
        ("/go/evil.example", 302, "/evil.example"),
        ("/go//evil.example", 302, "/evil.example"),
    ] {
        let response = client.ask(format!("GET {target} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
        assert_eq!((response.status, response.header("Location")), (status, Some(location)), "{target}");
        let response = http2.get(target);
        let location = location.replace("http://test.example", "");
        let got = response.header("Location").unwrap_or_default();
        assert!(response.status == status && got.ends_with(&location), "{target}: {got}");
    }
    let response = client.get("/d/.-.");
    assert_eq!((response.status, response.reason()), (400, "bad_path"));
    gateway.reconcile(&[]);
}

#[test]
fn a_group_cannot_lead_a_redirect_to_another_host() {
    // With empty segments kept, two slashes would start a host.
    let gateway = Gateway::start(
        "paths: {merge_slashes: false}\nroutes:\n  - {match: {path: {regex: '/go(/.*)'}}, redirect: '/$1'}\n  \
         - {match: {path: {regex: '/s/(.*)'}}, redirect: 'https://x.example/$1'}\n",
    );
    for target in ["/go/evil.example", "/go//evil.example", "/go///evil.example"] {
        let response = gateway.client().get(target);
        assert_eq!((response.status, response.header("Location")), (400, None), "{target}");
    }
    let response = gateway.client().get("/s//evil.example");
    assert_eq!(response.header("Location"), Some("https://x.example//evil.example"));
    for to in
        ["https://x.example$1", "https://$1/", "https://x.example:$1/", "//$1/x", "https://$1.x.example/"]
    {
        let ran = check(&format!("match: {{path: {{regex: '/s/(.*)'}}}}, redirect: '{to}'"));
        assert_eq!(ran.code, Some(1), "{to}: {ran:?}");
        points_at(&ran.all(), "$1");
    }
}

#[test]
fn a_group_that_a_redirect_names_and_the_route_does_not_have_is_refused_by_check() {
    for (route, part) in [
        ("match: {path: {regex: '/s/(.*)'}}, redirect: 'https://x.example/$2'", "$2"),
        ("match: {path: {regex: '/s/(.*)'}}, redirect: {path: '/x/$name'}", "$name"),
        ("match: {path: {regex: '/s/(.*)'}}, redirect: {to: 'https://x.example/$1x'}", "$1x"),
        ("match: /s/*, redirect: 'https://x.example/$1'", "$1"),
        ("match: /s/*, redirect: {prefix: '/x/$1'}", "$1"),
        ("match: [/a, {path: {regex: '/s/(.*)'}}], redirect: 'https://x.example/$1'", "$1"),
        ("match: '/u/{id}', redirect: 'https://x.example/$user'", "$user"),
    ] {
        let ran = check(route);
        assert_eq!(ran.code, Some(1), "{route}: {ran:?}");
        points_at(&ran.all(), part);
    }
}
