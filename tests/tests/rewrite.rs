//! What a route changes before it forwards: path and host. The query is kept.

use tollgate_tests::{Gateway, Origin};

#[test]
fn what_asks_for_the_server_as_a_whole_stays_so() {
    for rewrite in ["prefix: /new", "prefix: /", "path: /x", "{regex: \"^.*$\", replace: /y}"] {
        let rewrite = if rewrite.starts_with('{') { rewrite.to_owned() } else { format!("{{{rewrite}}}") };
        let origin = Origin::ok();
        let gateway = Gateway::start(&format!(
            "routes:\n  - {{match: \"/*\", rewrite: {rewrite}, to: [{}]}}\n",
            origin.address()
        ));
        assert_eq!(gateway.client().ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        assert_eq!(origin.request().target, "*", "{rewrite}");
    }
}

/// The target and the Host that the origin gets for `GET target`.
fn rewritten(route: &str, target: &str) -> (String, String) {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!("routes:\n  - {{{route}, to: [{}]}}\n", origin.address()));
    let response = gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: front.example\r\n\r\n"));
    assert_eq!(response.status, 200, "{route} {target}: {response:?}");
    let request = origin.request();
    assert_eq!(request.headers.get("X-Forwarded-Host"), Some("front.example"));
    let host =
        request.headers.get("Host").expect("a host").replace(&origin.address().to_string(), "ENDPOINT");
    (request.target, host)
}

#[test]
fn paths() {
    for (route, target, expected) in [
        ("match: \"/v1/*\"", "/v1/x?q=1", "/v1/x?q=1"),
        ("match: \"/v1/*\", rewrite: {prefix: /}", "/v1/x?q=1", "/x?q=1"),
        ("match: \"/v1/*\", rewrite: {prefix: /}", "/v1", "/"),
        ("match: \"/v1/*\", rewrite: {prefix: /}", "/v1/", "/"),
        ("match: \"/v1/*\", rewrite: {prefix: /}", "/v1?q", "/?q"),
        ("match: \"/v1/*\", rewrite: {prefix: /new}", "/v1/x/y", "/new/x/y"),
        ("match: \"/v1/*\", rewrite: {prefix: /new}", "/v1", "/new"),
        ("match: \"/v1/*\", rewrite: {prefix: /new/}", "/v1/x", "/new/x"),
        ("match: \"/*\", rewrite: {prefix: /new}", "/x", "/new/x"),
        ("match: \"/v1/*\", rewrite: {path: /fixed}", "/v1/x/y?q=2", "/fixed?q=2"),
        (
            "match: \"/v1/*\", rewrite: {regex: \"^/v1/([a-z]+)/(.*)$\", replace: \"/$2/$1\"}",
            "/v1/ab/cd/e?z",
            "/cd/e/ab?z",
        ),
        ("match: \"/v1/*\", rewrite: {regex: \"x\", replace: \"yy\"}", "/v1/xax", "/v1/yyayy"),
        // What was matched is what is rewritten: the normal form.
        ("match: \"/v1/*\", rewrite: {prefix: /new}", "/z/..//v1//%61", "/new/a"),
        ("match: \"/v1/*\", rewrite: {prefix: /}", "http://front.example/v1/x?q", "/x?q"),
    ] {
        assert_eq!(rewritten(route, target).0, expected, "{route} {target}");
    }
}

#[test]
fn a_rewrite_cannot_be_used_to_climb() {
    // The replacement is made of pieces that the client chose.
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/v1/*\", rewrite: {{regex: \"^/v1/(.*)-(.*)$\", replace: \"/pub/$1$2\"}}, to: [{}]}}]",
        origin.address()
    ));
    for target in ["/v1/.-./x", "/v1/a/.-./.-./x", "/v1/x-%2e%2e/"] {
        let response = gateway.client().get(target);
        if response.status == 200 {
            let seen = origin.requests().pop().expect("a request").target;
            assert!(seen.starts_with("/pub/") && !seen.contains("/../"), "{target} became {seen}");
        }
    }
}

#[test]
fn hosts() {
    for (rewrite, expected) in [
        ("", "front.example"),
        (", rewrite: {host: internal.example}", "internal.example"),
        (", rewrite: {host: endpoint}", "ENDPOINT"),
        (", rewrite: {host: \"internal.example:8443\", prefix: /x}", "internal.example:8443"),
    ] {
        assert_eq!(rewritten(&format!("match: \"/v1/*\"{rewrite}"), "/v1/a").1, expected, "{rewrite}");
    }
}
