//! The changes of a route before it forwards: path, query parameters and host.

use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_tests::{Gateway, Origin, Ran, tollgate};

#[test]
fn options_asterisk_is_not_rewritten() {
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

/// Returns the target and the Host that the origin receives for `GET target`.
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
        // The rewrite applies to the normal form that the router matched.
        ("match: \"/v1/*\", rewrite: {prefix: /new}", "/z/..//v1//%61", "/new/a"),
        ("match: \"/v1/*\", rewrite: {prefix: /}", "http://front.example/v1/x?q", "/x?q"),
    ] {
        assert_eq!(rewritten(route, target).0, expected, "{route} {target}");
    }
}

#[test]
fn a_group_of_the_path_goes_into_the_query() {
    let pattern = "match: {path: {regex: \"/v([0-9]+)/(?<rest>.*)\"}}";
    for (rewrite, target, expected) in [
        ("{path: \"/$rest\", query: {v: $1}}", "/v3/users/77", "/users/77?v=3"),
        ("{path: \"/$rest\", query: {v: $1}}", "/v3/users?a=1&v=9&b", "/users?a=1&b&v=3"),
        ("{query: {v: $1, kind: \"a b\"}}", "/v3/users", "/v3/users?v=3&kind=a%20b"),
        ("{path: /all, query: {of: $rest}}", "/v3/x&y=1;z+", "/all?of=x%26y=1%3Bz%2B"),
        ("{path: /all, query: {of: $rest}}", "/v3/a//%2e/b%23", "/all?of=a/b%23"),
    ] {
        assert_eq!(rewritten(&format!("{pattern}, rewrite: {rewrite}"), target).0, expected, "{rewrite}");
    }
    let prefix = "match: \"/v1/*\", rewrite: {prefix: /, query: {v: \"1\"}}";
    assert_eq!(rewritten(prefix, "/v1/x?q").0, "/x?q&v=1");
    let refused = |route: &str| {
        let ran = check(&format!("{route}, to: \"h:1\""));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.all()
    };
    let err = refused(&format!("{pattern}, rewrite: {{query: {{v: $2x}}}}"));
    assert!(err.contains("the pattern has no group `2x`"), "{err}");
    points_at(&err, "$2x");
    let err = refused("match: /a, rewrite: {query: {v: $1}}");
    assert!(err.contains("this route matches no pattern with capture groups"), "{err}");
    let err = refused(&format!("{pattern}, rewrite: {{path: \"/a?v=$1\"}}"));
    assert!(err.contains("query: {id: $1}"), "{err}");
}

#[test]
fn a_rewrite_cannot_be_used_to_climb() {
    // The replacement consists of pieces that the client chose.
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

#[test]
fn a_replacement_is_normalised() {
    for (route, target, expected) in [
        ("match: /s/*, rewrite: {regex: '^/s/(.*)$', replace: '/a b/$1'}", "/s/x", "/a%20b/x"),
        (
            "match: /s/*, rewrite: {regex: '^/s/(.*)$', replace: '/é/$1'}",
            "/s/x%c3%a9?q=é",
            "/%C3%A9/x%C3%A9?q=é",
        ),
        ("match: /s/*, rewrite: {regex: '^/s(.*)$', replace: '/x/$1'}", "/s/y", "/x/y"),
        ("match: /s/*, rewrite: {regex: '^/s/(.*)$', replace: '/%7e/$1'}", "/s/a%20b", "/~/a%20b"),
        (
            "match: {path: {regex: '/u/([0-9]+)/(.*)'}}, rewrite: {path: '/$2/by id/$1'}",
            "/u/7/a%3fb",
            "/a%3Fb/by%20id/7",
        ),
        ("match: '/u/{id}/{part}', rewrite: {path: '/$part/$$id/$id'}", "/u/7/x", "/x/$id/7"),
        ("match: {path: {template: '/u/{id}/*'}}, rewrite: {path: '/x/$1'}", "/u/7/y/z", "/x/7"),
    ] {
        let target = target.replace('é', "%C3%A9");
        assert_eq!(rewritten(route, &target).0, expected.replace('é', "%C3%A9"), "{route} {target}");
    }
}

#[test]
fn an_invalid_rewritten_path_is_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes:\n  - {{match: /v1/*, rewrite: {{regex: '^/v1/(.*)-(.*)$', replace: '/pub/$1$2'}}, to: [{0}]}}\n  \
         - {{match: /v2/*, rewrite: {{regex: '25', replace: ''}}, to: [{0}]}}\n  \
         - {{match: {{path: {{regex: '/v3/(.*)-(.*)'}}}}, rewrite: {{path: '/pub/$1$2'}}, to: [{0}]}}\n",
        origin.address()
    ));
    let mut http1 = gateway.client();
    let mut http2 = gateway.http2();
    let targets = [
        ("/v1/.-./x", "dot segment in the path that a rewrite or redirect made"),
        ("/v3/.-./x", "dot segment in the path that a rewrite or redirect made"),
        ("/v2/%252e%252e/x", "dot segment in the path that a rewrite or redirect made"),
        ("/v2/a%252fb", "encoded slash (%2F) in the path"),
        ("/v2/%2500", "NUL in the path"),
    ];
    for (target, _) in targets {
        for response in [http1.get(target), http2.get(target)] {
            assert_eq!((response.status, response.reason()), (400, "bad_path"), "{target}");
        }
    }
    let records = gateway.wait_records(2 * targets.len());
    for (target, detail) in targets {
        let mut own = records.iter().filter(|record| record["target"] == target);
        assert!(own.all(|record| record["detail"] == detail), "{target}: {records:#?}");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_replacement_that_no_request_may_have_is_refused_by_check() {
    for (route, caret) in [
        ("rewrite: {regex: '^/s/(.*)$', replace: '/a/../$1'}", "'/a/../$1'"),
        ("rewrite: {regex: '^/s/(.*)$', replace: '/a%2f$1'}", "'/a%2f$1'"),
        ("rewrite: {regex: '^/s/(.*)$', replace: '/a%00$1'}", "%00"),
        ("rewrite: {regex: '^/s/(.*)$', replace: '/a%4$1'}", "%4"),
        ("rewrite: {regex: '^/s/(.*)$', replace: '/a?x=$1'}", "?"),
        ("rewrite: {regex: '^/s/(.*)$', replace: '/$2'}", "$2"),
        ("rewrite: {regex: '^/s/(.*)$', replace: '/${name}'}", "'/${name}'"),
        ("rewrite: {path: '/x/$1'}", "$1"),
        ("rewrite: {path: '/x%2Fy'}", "'/x%2Fy'"),
        ("rewrite: {prefix: '/x%0d%0a'}", "'/x%0d%0a'"),
    ] {
        let ran = check(&format!("match: /s/*, to: 127.0.0.1:1, {}", route.replace("${", "$${")));
        assert_eq!(ran.code, Some(1), "{route}: {ran:?}");
        points_at(&ran.all(), &caret.replace("${", "$${"));
    }
    let keep = "paths: {encoded_slash: keep}\n";
    let ran = check_with(keep, "match: /s/*, to: 127.0.0.1:1, rewrite: {path: '/x%2Fy'}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Runs `check` on a file with this route.
pub fn check(route: &str) -> Ran {
    check_with("", route)
}

fn check_with(more: &str, route: &str) -> Ran {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("tollgate-e2e-route-{}-{}.yaml", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, format!("listen: 127.0.0.1:8080\n{more}routes:\n  - {{{route}}}\n"))
        .expect("written");
    let ran = tollgate(&["check", file.to_str().expect("text")]);
    std::fs::remove_file(&file).expect("removed");
    ran
}

/// Asserts that a caret in the message points at the start of `part`.
pub fn points_at(text: &str, part: &str) {
    let lines: Vec<_> = text.lines().collect();
    let pointed = lines.windows(2).any(|pair| {
        let caret = pair[1].find('^');
        caret.is_some_and(|caret| pair[0].get(caret..).is_some_and(|rest| rest.starts_with(part)))
    });
    assert!(pointed, "nothing points at {part} in\n{text}");
}
