//! The host names that the admin listener answers to, and the security headers of its answers.

use std::sync::Arc;

use tollgate_tests::{Client, Gateway, Response};

const PATHS: [&str; 12] = [
    "/",
    "/metrics",
    "/cost",
    "/status",
    "/upstreams",
    "/healthz",
    "/readyz",
    "/dashboard/",
    "/dashboard/app.js",
    "/api/v1",
    "/api/v1/live",
    "/apisix/admin/routes",
];

fn ask(gateway: &Gateway, path: &str, host: &str, lines: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}Connection: close\r\n\r\n"))
}

#[test]
fn a_name_that_could_be_a_strangers_is_refused_everywhere() {
    let gateway = Gateway::start("store: $DIR/store\nroutes: [{match: /a, respond: a}]");
    let port = gateway.admin_address().port();
    for path in PATHS.into_iter().chain(["/no-such-page"]) {
        for host in ["evil.example", "localhost.evil.example", "gateway", "evil.example:80"] {
            assert_eq!(ask(&gateway, path, host, "").status, 403, "{path} at {host}");
        }
        let twice = ask(&gateway, path, "localhost", "Host: evil.example\r\n");
        assert!(matches!(twice.status, 400 | 403), "{path}: {twice:?}");
        let target = ask(&gateway, &format!("http://evil.example{path}"), "localhost", "");
        assert_eq!(target.status, 403, "{path}");
    }
    for path in PATHS {
        for host in
            [format!("127.0.0.1:{port}"), "localhost".to_owned(), "[::1]:1".to_owned(), "10.0.0.7".to_owned()]
        {
            let answer = ask(&gateway, path, &host, "");
            assert!(answer.status < 400, "{path} at {host}: {answer:?}");
        }
    }
    assert!(gateway.metrics().sum("tollgate_admin_refused_total", "reason=\"host\"") > Some(0.0));
}

#[test]
fn the_operator_names_further_hosts() {
    let gateway = Gateway::start(
        "admin: {bind: $ADMIN, hosts: [gateway.internal, prometheus-target]}\nroutes: [{match: /a, respond: a}]",
    );
    for (host, status) in [
        ("gateway.internal:9911", 200),
        ("GATEWAY.internal", 200),
        ("prometheus-target", 200),
        ("evil.example", 403),
    ] {
        assert_eq!(ask(&gateway, "/metrics", host, "").status, status, "{host}");
    }
    // If a token is required, any host name is accepted: a foreign page has no token.
    let gateway = Gateway::start(
        "admin: {bind: $ADMIN, tokens: {a: {role: read, token: reader-reader-reader}}}\nroutes: [{match: /a, respond: a}]",
    );
    let line = "Authorization: Bearer reader-reader-reader\r\n";
    assert_eq!(ask(&gateway, "/metrics", "gateway.internal", line).status, 200);
    assert_eq!(ask(&gateway, "/metrics", "gateway.internal", "").status, 401);
}

#[test]
fn every_answer_tells_browsers_to_take_care() {
    let gateway = Gateway::start("store: $DIR/store\nroutes: [{match: /a, respond: a}]");
    let browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    for (path, lines) in PATHS.into_iter().map(|path| (path, "")).chain([
        ("/upstreams", browser),
        ("/no-such-page", ""),
        ("/dashboard/none.js", ""),
    ]) {
        let answer = ask(&gateway, path, "localhost", lines);
        let field = |name: &str| answer.headers.get(name).unwrap_or_default().to_owned();
        assert_eq!(field("x-content-type-options"), "nosniff", "{path}: {answer:?}");
        assert_eq!(field("x-frame-options"), "DENY", "{path}");
        assert_eq!(field("referrer-policy"), "no-referrer", "{path}");
        assert!(field("content-security-policy").contains("frame-ancestors 'none'"), "{path}: {answer:?}");
        assert!(!field("cache-control").is_empty(), "{path}");
    }
    let refused = ask(&gateway, "/metrics", "evil.example", "");
    assert_eq!(refused.headers.get("x-content-type-options"), Some("nosniff"));
    // A browser applies the page's style because the policy names its hash.
    let page = ask(&gateway, "/upstreams", "localhost", browser);
    let policy = page.headers.get("content-security-policy").expect("a policy");
    assert!(policy.contains("style-src 'sha256-") && page.text().contains("<style>"), "{policy}");
}
