//! The choice of a route for a request (docs/matching.md), through the real binary. The matcher has unit
//! tests of its own; these tests combine the forms in the config, the parsed request and the match.

use serde_json::json;
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Gateway, Origin};

/// Returns a route that answers with its own name.
fn route(name: &str, matching: &str) -> String {
    format!("  - {{name: {name}, match: {matching}, respond: {{body: {name}}}}}\n")
}

fn gateway(routes: &[(&str, &str)]) -> Gateway {
    let routes: String = routes.iter().map(|(name, matching)| route(name, matching)).collect();
    Gateway::start(&format!("routes:\n{routes}"))
}

/// Sends each request (method, host, target, further fields) and asserts the route's name, or a 404 if the
/// name is empty.
fn decides(gateway: &Gateway, requests: &[(&str, &str, &str, &str, &str)]) {
    let mut client = gateway.client();
    for (method, host, target, fields, route) in requests {
        let shown = format!("{method} {host} {target} {fields:?}");
        let response = client.ask(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        let got = if response.reason() == "no_route" { String::new() } else { response.text() };
        assert_eq!(got, *route, "{shown}");
        assert_eq!(response.status, if route.is_empty() { 404 } else { 200 }, "{shown}");
    }
    gateway.reconcile(&[]);
}

#[test]
fn characters_without_meaning_match_themselves() {
    let gateway = gateway(&[
        ("pipe", "{path: {exact: '/a|b'}}"),
        ("index", "{path: {prefix: '/files[0]'}}"),
        ("escaped", "{path: {exact: '/a%7cb'}}"),
    ]);
    decides(
        &gateway,
        &[
            ("GET", "a", "/a|b", "", "pipe"),
            ("GET", "a", "/a%7Cb", "", "escaped"),
            ("GET", "a", "/files[0]/x", "", "index"),
            ("GET", "a", "/files%5B0%5D/x", "", ""),
        ],
    );
}

#[test]
fn a_disabled_route_takes_no_request_until_it_is_enabled() {
    let gateway = Gateway::start(
        "store: $DIR/store\nroutes:\n\
         - {name: old, match: /a, respond: {body: old}}\n\
         - {name: new, match: /a, respond: {body: new}, enabled: off}\n\
         - {name: off, match: /b, respond: {body: off}, enabled: false}\n\
         - {name: rest, match: \"/*\", respond: {body: rest}}\n",
    );
    decides(&gateway, &[("GET", "a", "/a", "", "old"), ("GET", "a", "/b", "", "rest")]);
    let question = json!({"method": "GET", "url": "http://a/b"}).to_string();
    let explained = json_of(&call(&gateway, "POST", "/explain", JSON, &question));
    assert_eq!(explained["route"]["name"], "rest");
    let why = explained["others"].as_array().expect("the others");
    let why = why.iter().find(|other| other["name"] == "off").expect("the disabled route");
    assert_eq!(why["why"], "it matches, but it is disabled (`enabled: off`)");

    // Over the API it is switched like any other key, and the list has it in both states.
    let disabled = |gateway: &Gateway| {
        let page = json_of(&call(gateway, "GET", "/live/routes?state=disabled", "", ""));
        let items = page["items"].as_array().expect("items").clone();
        assert!(items.iter().all(|item| item["enabled"] == false), "{items:?}");
        items.iter().map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let route = json!({"match": "/c", "respond": {"body": "c"}, "enabled": false});
    assert_eq!(put(&gateway, "/routes/c", &route).status, 201);
    assert_eq!(disabled(&gateway), ["c", "new", "off"]);
    decides(&gateway, &[("GET", "a", "/c", "", "rest")]);
    let switch = |to: &str| call(&gateway, "PATCH", "/routes/c", JSON, &format!("{{\"enabled\": {to}}}"));
    assert_eq!(switch("null").status, 200);
    decides(&gateway, &[("GET", "a", "/c", "", "c")]);
    assert_eq!(disabled(&gateway), ["new", "off"]);
    assert_eq!(switch("false").status, 200);
    decides(&gateway, &[("GET", "a", "/c", "", "rest")]);

    // It is checked as a whole, and against the others once it is enabled.
    let route = json!({"match": "/d", "to": "missing", "enabled": false});
    assert_eq!(put(&gateway, "/routes/d", &route).status, 422);
    let same = |enabled: bool| json!({"match": "/a", "respond": {"body": "d"}, "enabled": enabled});
    assert_eq!(put(&gateway, "/routes/d", &same(false)).status, 201);
    assert_eq!(put(&gateway, "/routes/d", &same(true)).status, 422);
}

#[test]
fn string_form() {
    let gateway = gateway(&[
        ("host", "api.example.com"),
        ("host-path", "api.example.com/v1/*"),
        ("exact", "\"/v1\""),
        ("prefix", "\"/v2/*\""),
        ("root", "\"/\""),
        ("wild", "\"*.example.com/w/*\""),
    ]);
    decides(
        &gateway,
        &[
            ("GET", "api.example.com", "/", "", "host"),
            ("GET", "API.EXAMPLE.COM:8080", "/x/y", "", "host"),
            ("GET", "api.example.com.", "/x", "", "host"),
            ("GET", "api.example.com", "/v1", "", "host-path"),
            ("GET", "api.example.com", "/v1/x?y", "", "host-path"),
            ("GET", "api.example.com", "/v1x", "", "host"),
            ("GET", "other", "/v1", "", "exact"),
            ("GET", "other", "/v1?q=/v2", "", "exact"),
            ("GET", "other", "/v1/", "", ""),
            ("GET", "other", "/v2", "", "prefix"),
            ("GET", "other", "/v2/", "", "prefix"),
            ("GET", "other", "/v2/a/b", "", "prefix"),
            ("GET", "other", "/v2x", "", ""),
            ("GET", "other", "/V2", "", ""),
            ("GET", "other", "/", "", "root"),
            ("GET", "other", "/x", "", ""),
            ("GET", "a.example.com", "/w", "", "wild"),
            ("GET", "a.b.c.example.com", "/w/x", "", "wild"),
            ("GET", "example.com", "/w", "", ""),
            ("GET", "badexample.com", "/w", "", ""),
        ],
    );
}

#[test]
fn hosts_fall_through_to_less_specific_ones() {
    let gateway = gateway(&[
        ("exact", "a.b.example.com/only/*"),
        ("long", "\"*.b.example.com/long/*\""),
        ("short", "\"*.example.com/short/*\""),
        ("any", "\"/any/*\""),
    ]);
    decides(
        &gateway,
        &[
            ("GET", "a.b.example.com", "/only", "", "exact"),
            ("GET", "a.b.example.com", "/long", "", "long"),
            ("GET", "a.b.example.com", "/short", "", "short"),
            ("GET", "a.b.example.com", "/any", "", "any"),
            ("GET", "a.b.example.com", "/none", "", ""),
            ("GET", "x.example.com", "/long", "", ""),
        ],
    );
}

#[test]
fn precedence_of_paths() {
    let gateway = gateway(&[
        ("all", "\"/*\""),
        ("short", "\"/a/*\""),
        ("long", "\"/a/b/*\""),
        ("regex", "{path: {regex: \"/a/b/[0-9]+\"}}"),
        ("exact", "\"/a/b/7\""),
    ]);
    decides(
        &gateway,
        &[
            ("GET", "h", "/a/b/7", "", "exact"),
            ("GET", "h", "/a/b/8", "", "regex"),
            ("GET", "h", "/a/b/8/9", "", "long"),
            ("GET", "h", "/a/b", "", "long"),
            ("GET", "h", "/a/c", "", "short"),
            ("GET", "h", "/b", "", "all"),
            // The router matches the normal form.
            ("GET", "h", "/x/..//a/%62/7", "", "exact"),
        ],
    );
}

#[test]
fn methods_headers_and_query() {
    let gateway = gateway(&[
        ("plain", "{path: \"/x\"}"),
        ("write", "{path: \"/x\", method: [PUT, POST]}"),
        ("header", "{path: \"/x\", headers: {X-Env: beta}}"),
        ("headers", "{path: \"/x\", headers: {X-Env: beta, x-user: {present: true}}}"),
        ("absent", "{path: \"/y\", headers: {X-Env: {present: false}}}"),
        ("regex", "{path: \"/y\", headers: {X-Env: {regex: \"v[0-9]+\"}}}"),
        ("query", "{path: \"/x\", query: {debug: \"1\"}}"),
        ("queries", "{path: \"/x\", query: {debug: \"1\", \"a b\": {regex: \".+\"}}}"),
    ]);
    decides(
        &gateway,
        &[
            ("GET", "h", "/x", "", "plain"),
            ("POST", "h", "/x", "", "write"),
            ("post", "h", "/x", "", "plain"),
            ("PUT", "h", "/x", "X-Env: beta\r\n", "write"),
            ("GET", "h", "/x", "x-env: beta\r\n", "header"),
            ("GET", "h", "/x", "x-env: BETA\r\n", "plain"),
            ("GET", "h", "/x", "x-env: beta\r\nX-USER:\r\n", "headers"),
            ("GET", "h", "/x", "x-env: alpha\r\nx-env: beta\r\n", "plain"),
            ("GET", "h", "/x?debug=1", "", "query"),
            ("GET", "h", "/x?debug=1", "X-Env: beta\r\n", "header"),
            ("GET", "h", "/x?a=2&debug=%31", "", "query"),
            ("GET", "h", "/x?debug=0&debug=1", "", "plain"),
            ("GET", "h", "/x?debug=1&a+b=c", "", "queries"),
            ("GET", "h", "/x?debug=1&a%20b=", "", "query"),
            ("GET", "h", "/y", "", "absent"),
            ("GET", "h", "/y", "X-Env: v12\r\n", "regex"),
            ("GET", "h", "/y", "X-Env: xv12\r\n", ""),
            ("HEADLESS", "h", "/y", "X-Env:\r\n", ""),
        ],
    );
}

#[test]
fn a_negated_condition_holds_for_every_other_value_and_for_none() {
    let gateway = gateway(&[
        ("other", "{path: /a, headers: {X-Env: {not: prod}}}"),
        ("prod", "{path: /a}"),
        ("people", "{path: /b, headers: {User-Agent: {not_regex: '.*[Bb]ot.*'}}}"),
        ("query", "{path: /c, query: {debug: {not: \"1 2\"}}}"),
        ("pattern", "{path: /d, query: {v: {not_regex: '[0-9]+'}}}"),
    ]);
    decides(
        &gateway,
        &[
            ("GET", "h", "/a", "", "other"),
            ("GET", "h", "/a", "X-Env: test\r\n", "other"),
            ("GET", "h", "/a", "X-Env: prod\r\n", "prod"),
            ("GET", "h", "/a", "X-Env: prod\r\nX-Env: test\r\n", "prod"),
            ("GET", "h", "/b", "User-Agent: a browser\r\n", "people"),
            ("GET", "h", "/b", "User-Agent: a robot\r\n", ""),
            ("GET", "h", "/c", "", "query"),
            ("GET", "h", "/c?debug=12", "", "query"),
            ("GET", "h", "/c?debug=1%202", "", ""),
            ("GET", "h", "/c?debug=1+2&debug=3", "", ""),
            ("GET", "h", "/d?v=x", "", "pattern"),
            ("GET", "h", "/d?v=%31", "", ""),
        ],
    );
}

#[test]
fn a_list_of_matches_is_any_of_them() {
    let gateway = gateway(&[("many", "[\"/a\", \"/b/*\", {path: \"/c\", method: GET}]")]);
    decides(
        &gateway,
        &[
            ("GET", "h", "/a", "", "many"),
            ("GET", "h", "/b/x", "", "many"),
            ("GET", "h", "/c", "", "many"),
            ("POST", "h", "/c", "", ""),
        ],
    );
}

#[test]
fn hosts_of_requests_without_one_and_in_absolute_form() {
    let gateway = gateway(&[("a", "a.example"), ("none", "\"/*\"")]);
    let mut client = gateway.client();
    assert_eq!(client.ask("GET http://A.example:80/x HTTP/1.1\r\nHost: a.example:80\r\n\r\n").text(), "a");
    assert_eq!(client.ask("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").text(), "none");
    assert_eq!(client.ask("GET /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").text(), "none");
    assert_eq!(client.ask("GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").text(), "none");
}

#[test]
fn ten_thousand_routes() {
    use std::fmt::Write;
    let origin = Origin::ok();
    let mut routes = String::from("routes:\n");
    for i in 0..10_000 {
        writeln!(routes, "  - {{match: \"h{}.example/p{i}/*\", respond: {{body: r{i}}}}}", i % 100)
            .expect("a String");
    }
    writeln!(routes, "  - {{match: \"/*\", to: [{}]}}", origin.address()).expect("a String");
    let gateway = Gateway::start(&routes);
    let mut client = gateway.client();
    for i in [0, 1, 99, 5_000, 9_999] {
        let response = client.ask(format!("GET /p{i}/x HTTP/1.1\r\nHost: h{}.example\r\n\r\n", i % 100));
        assert_eq!(response.text(), format!("r{i}"));
    }
    assert_eq!(client.ask("GET /p1/x HTTP/1.1\r\nHost: h2.example\r\n\r\n").text(), "ok");
    gateway.reconcile(&[&origin]);
}
