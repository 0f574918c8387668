//! The front for clients of Apache APISIX's admin API, by the real binary.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_tests::api::json_of;
use tollgate_tests::{Client, Gateway, Origin, Response};

fn stored() -> Gateway {
    Gateway::start("store: $DIR/store\nroutes: []")
}

/// As `curl -X METHOD -d BODY` sends it.
fn curl(gateway: &Gateway, method: &str, path: &str, lines: &str, body: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let (host, length) = (gateway.admin_address(), body.len());
    client.ask(format!(
        "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: curl/7.64.1\r\nAccept: */*\r\n{lines}\
         Content-Length: {length}\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n{body}"
    ))
}

/// The body of the comparison of APISIX and Envoy (2021) as it is printed there, with the comma that an input method has
/// left in it; the node is the test's.
fn published(node: &str) -> String {
    format!(
        "{{、\n    \"uri\": \"/hello\",\n    \"upstream\": {{\n        \"type\": \"roundrobin\",\n        \"nodes\": {{\n            \
         \"{node}\": 1\n        }}\n    }}}}"
    )
}

#[test]
fn the_published_route_is_added_at_run_time() {
    let (origin, gateway) = (Origin::ok(), stored());
    let body = published(&origin.address().to_string());
    assert_eq!(gateway.client().get("/hello").status, 404);
    let answer = curl(&gateway, "PUT", "routes/1", "", &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    // It is in force when it is answered.
    assert_eq!(gateway.client().get("/hello").status, 200);
    assert_eq!(gateway.client().get("/hello/").status, 404, "the path is that path alone");
    assert_eq!(curl(&gateway, "PUT", "routes/1", "", &body).status, 200);
    let nodes = json!({ origin.address().to_string(): 1 });
    let value = json!({"id": "1", "uri": "/hello", "upstream": {"type": "roundrobin", "nodes": nodes}});
    let shown = json_of(&curl(&gateway, "GET", "routes/1", "", ""));
    assert_eq!(
        (&shown["value"], &shown["node"]["value"], &shown["key"]),
        (&value, &value, &json!("/apisix/routes/1"))
    );
    let list = json_of(&curl(&gateway, "GET", "routes", "", ""));
    assert_eq!((&list["total"], &list["list"][0]["value"]), (&json!(1), &value));
    let moved = curl(&gateway, "PATCH", "routes/1", "", r#"{"uri": "/moved/*", "methods": ["GET"]}"#);
    assert_eq!(moved.status, 200, "{moved:?}");
    assert_eq!((gateway.client().get("/moved/x").status, gateway.client().get("/hello").status), (200, 404));
    let gone = curl(&gateway, "DELETE", "routes/1", "", "");
    assert_eq!((gone.status, &json_of(&gone)["deleted"]), (200, &json!("1")), "{gone:?}");
    assert_eq!(gateway.client().get("/moved/x").status, 404);
    assert_eq!(curl(&gateway, "DELETE", "routes/1", "", "").status, 404);
    let text = gateway.admin("/api/v1/config").text();
    assert!(!text.contains("apisix"), "its upstream goes along: {text}");
}

#[test]
fn an_upstream_can_be_shared_and_is_not_removed_under_a_route() {
    let (origin, gateway) = (Origin::ok(), stored());
    let upstream = json!({"type": "least_conn", "nodes": [{"host": origin.address().ip().to_string(), "port": origin.address().port(), "weight": 1}]});
    assert_eq!(curl(&gateway, "PUT", "upstreams/u1", "", &upstream.to_string()).status, 201);
    let route = json!({"uris": ["/a", "/b/*"], "host": "shop.example", "upstream_id": "u1"}).to_string();
    let new = curl(&gateway, "POST", "routes", "", &route);
    assert_eq!(new.status, 201, "{new:?}");
    let id = json_of(&new)["value"]["id"].as_str().expect("an id").to_owned();
    let shop = |path: &str| {
        gateway.client().ask(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n")).status
    };
    assert_eq!(
        (shop("/a"), shop("/b/c"), shop("/c"), gateway.client().get("/a").status),
        (200, 200, 404, 404)
    );
    let refused = curl(&gateway, "DELETE", "upstreams/u1", "", "");
    assert!(refused.status == 400 && refused.text().contains("apisix-u1"), "{refused:?}");
    assert_eq!(curl(&gateway, "DELETE", &format!("routes/{id}"), "", "").status, 200);
    assert_eq!(curl(&gateway, "DELETE", "upstreams/u1", "", "").status, 200);
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_and_changes_nothing() {
    let gateway = stored();
    let nodes = json!({"127.0.0.1:1": 1});
    for (path, body, name) in [
        (
            "routes/1",
            json!({"uri": "/a", "plugins": {"limit-count": {"count": 2}}, "upstream": {"nodes": nodes}}),
            "plugins/limit-count",
        ),
        (
            "routes/1",
            json!({"uri": "/a", "vars": [["arg_x", "==", "1"]], "upstream": {"nodes": nodes}}),
            "vars",
        ),
        ("routes/1", json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {}}}), "upstream/checks"),
        ("routes/1", json!({"uri": "/a", "upstream_id": "none"}), "apisix-none"),
        ("upstreams/1", json!({"nodes": nodes, "service_name": "x"}), "service_name"),
        ("services/1", json!({"upstream": {"nodes": nodes}}), "services"),
        ("routes/a%20b", json!({"uri": "/a", "upstream": {"nodes": nodes}}), "a b"),
    ] {
        let refused = curl(&gateway, "PUT", path, "", &body.to_string());
        let message = json_of(&refused)["error_msg"].as_str().unwrap_or_default().to_owned();
        assert!(matches!(refused.status, 400 | 404) && message.contains(name), "{path} {refused:?}");
    }
    assert_eq!(curl(&gateway, "PUT", "routes/1", "", "{").status, 400);
    assert_eq!(curl(&gateway, "GET", "routes/1", "", "").status, 404);
    let version: Value = serde_json::from_str(&gateway.admin("/api/v1").text()).expect("JSON");
    assert_eq!(version["version"], 0);
}

#[test]
fn a_route_that_was_changed_otherwise_is_not_shown_as_less_than_it_is() {
    let gateway = stored();
    assert_eq!(curl(&gateway, "PUT", "routes/1", "", &published("127.0.0.1:1")).status, 201);
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let body = r#"{"policies": {"ip": {"deny": "10.0.0.0/8"}}}"#;
    let changed = client.ask(format!(
        "PATCH /api/v1/routes/apisix-1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(changed.status, 200, "{changed:?}");
    let shown = curl(&gateway, "GET", "routes/1", "", "");
    assert!(shown.status == 409 && shown.text().contains("/api/v1/routes/apisix-1"), "{shown:?}");
    assert_eq!(curl(&gateway, "PATCH", "routes/1", "", r#"{"uri": "/x"}"#).status, 409);
}

#[test]
fn the_key_is_a_token() {
    let gateway = Gateway::start(
        "store: $DIR/store\nadmin: {bind: $ADMIN, tokens: {apisix: {role: write, token: edd1c9f034335f136f87ad84b625c8f1}}}\nroutes: []",
    );
    let body = published("127.0.0.1:1");
    assert_eq!(curl(&gateway, "PUT", "routes/1", "", &body).status, 401);
    assert_eq!(
        curl(&gateway, "PUT", "routes/1", "X-API-KEY: wrong-wrong-wrong-wrong\r\n", &body).status,
        401
    );
    let key = "X-API-KEY: edd1c9f034335f136f87ad84b625c8f1\r\n";
    assert_eq!(curl(&gateway, "PUT", "routes/1", key, &body).status, 201);
    // It is for this front alone.
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let other =
        client.ask(format!("GET /api/v1/routes HTTP/1.1\r\nHost: x\r\n{key}Connection: close\r\n\r\n"));
    assert_eq!(other.status, 401);
    let foreign = format!("{key}Origin: http://evil.example\r\n");
    assert_eq!(curl(&gateway, "DELETE", "routes/1", &foreign, "").status, 403);
}
