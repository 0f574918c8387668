//! Objects of APISIX: how they are written, read, listed, refused and removed.

use tollgate_tests::TlsPeer;
use tollgate_tests::api::json_of;

use super::*;

/// Returns the body from the published comparison of APISIX and Envoy (2021), with the stray comma `、` that
/// an input method left in it. The node is the test's own.
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
    // The route is in force as soon as the API has answered.
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
    // A route that is switched off is kept, and shown as disabled.
    assert_eq!(curl(&gateway, "PATCH", "routes/1", "", r#"{"status": 0}"#).status, 200);
    assert_eq!(gateway.client().get("/moved/x").status, 404);
    let text = gateway.admin("/api/v1/routes/apisix-1").text();
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON")["enabled"], false, "{text}");
    assert_eq!(curl(&gateway, "PATCH", "routes/1", "", r#"{"status": 1}"#).status, 200);
    assert_eq!(gateway.client().get("/moved/x").status, 200);
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
fn settings_without_a_counterpart_are_rejected_by_name() {
    let gateway = stored();
    let nodes = json!({"127.0.0.1:1": 1});
    for (path, body, name) in [
        (
            "routes/1",
            json!({"uri": "/a", "plugins": {"limit-count": {"count": 2}}, "upstream": {"nodes": nodes}}),
            "plugins/limit-count/time_window",
        ),
        (
            "routes/1",
            json!({"uri": "/a", "plugins": {"openid-connect": {}}, "upstream": {"nodes": nodes}}),
            "policies.jwt",
        ),
        (
            "routes/1",
            json!({"uri": "/a", "plugins": {"cors": {"timing_allow_origins": "*"}}, "upstream": {"nodes": nodes}}),
            "plugins/cors/timing_allow_origins",
        ),
        (
            "routes/1",
            json!({"uri": "/a", "vars": [["remote_port", ">", "1"]], "upstream": {"nodes": nodes}}),
            "vars/0",
        ),
        ("routes/1", json!({"uri": "/a", "service_id": "none"}), "service_id"),
        (
            "routes/1",
            json!({"uri": "/a", "plugin_config_id": "none", "upstream": {"nodes": nodes}}),
            "plugin_config_id",
        ),
        (
            "global_rules/1",
            json!({"plugins": {"limit-count": {"count": 2}}}),
            "plugins/limit-count/time_window",
        ),
        ("consumers/ann", json!({"username": "bob", "plugins": {}}), "username"),
        (
            "consumers/ann",
            json!({"username": "ann", "plugins": {"jwt-auth": {"key": "k", "secret": "s"}}}),
            "plugins/jwt-auth/secret",
        ),
        ("ssls/1", json!({"cert": "x", "key": "y", "snis": ["a"], "client": {"ca": "x"}}), "client"),
        (
            "routes/1",
            json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {}}}),
            "upstream/checks/active",
        ),
        ("routes/1?ttl=60", json!({"uri": "/a", "upstream": {"nodes": nodes}}), "ttl"),
        ("plugin_metadata/cors", json!({"allow_origins": {}}), "plugin_metadata"),
        ("secrets/vault/1", json!({"uri": "http://a"}), "secrets"),
        (
            "consumers/nobody/credentials/1",
            json!({"plugins": {"key-auth": {"key": "k"}}}),
            "consumers/nobody",
        ),
        ("routes/1", json!({"uri": "/a", "upstream_id": "none"}), "apisix-none"),
        ("upstreams/1", json!({"nodes": nodes, "service_name": "x"}), "service_name"),
        ("upstreams/1", json!({"service_name": "x", "discovery_type": "eureka"}), "discover"),
        (
            "upstreams/1",
            json!({"nodes": nodes, "tls": {"client_cert": "x", "client_key": "y"}}),
            "tls.certificate",
        ),
        ("services/1", json!({"upstream": {"nodes": nodes}, "script": "x"}), "script"),
        ("stream_routes/1", json!({"upstream": {"nodes": nodes}}), "stream_routes"),
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
    // The key is valid for this front only.
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let other =
        client.ask(format!("GET /api/v1/routes HTTP/1.1\r\nHost: x\r\n{key}Connection: close\r\n\r\n"));
    assert_eq!(other.status, 401);
    let foreign = format!("{key}Origin: http://evil.example\r\n");
    assert_eq!(curl(&gateway, "DELETE", "routes/1", &foreign, "").status, 403);
}

#[test]
fn certificates_serve_and_their_keys_are_not_shown() {
    let (gateway, authority, _files) = crate::tls::gateway(
        "store: $DIR/store\nlisten: {bind: $LISTEN, tls: {$A}}\nroutes: [{match: \"/*\", respond: here}]\n",
    );
    let own = authority.issue(&["second.example"]);
    let shown = || {
        let client = TlsPeer::trusting(&authority).connect(gateway.address(), "second.example").ok()?;
        Some(client.connection().peer_certificates().expect("shown")[0].to_vec())
    };
    assert_eq!(shown(), None);
    put(&gateway, "ssls/1", &json!({"cert": own.chain, "key": own.key, "snis": ["second.example"]}));
    assert_eq!(shown(), Some(own.der()));
    for path in ["/apisix/admin/ssls/1", "/api/v1/certificates/apisix-1", "/api/v1/apisix/ssls%2F1"] {
        let text = gateway.admin(path).text();
        assert!(text.contains("CERTIFICATE") && !text.contains("PRIVATE KEY"), "{path}: {text}");
    }
    let object = json_of(&curl(&gateway, "GET", "ssls/1", "", ""))["value"].clone();
    put(&gateway, "ssls/1", &object);
    assert_eq!(shown(), Some(own.der()), "what is shown can be written back");
    assert_eq!(curl(&gateway, "DELETE", "ssls/1", "", "").status, 200);
    assert_eq!(shown(), None);
    assert!(!gateway.admin("/api/v1/config").text().contains("apisix"));
}

#[test]
fn lists_are_paged_and_chosen_from_and_objects_checked_without_writing() {
    let gateway = stored();
    put(&gateway, "services/s1", &json!({"name": "shop", "upstream": {"nodes": {"127.0.0.1:1": 1}}}));
    for number in 0..12 {
        let route = json!({"name": format!("test-{number}"), "uri": format!("/foo/{number}"), "service_id": "s1",
                           "labels": {"team": "x"}});
        put(&gateway, &format!("routes/r{number}"), &route);
    }
    put(&gateway, "routes/other", &json!({"uri": "/bar", "upstream": {"nodes": {"127.0.0.1:1": 1}}}));
    let list = |query: &str| {
        let list = json_of(&curl(&gateway, "GET", &format!("routes?{query}"), "", ""));
        (list["list"].as_array().map_or(0, Vec::len), list["total"].as_u64().unwrap_or(0))
    };
    assert_eq!(list("page=1&page_size=10"), (10, 13));
    assert_eq!(list("page=2&page_size=10"), (3, 13));
    assert_eq!(list("name=test-1&uri=foo&label="), (3, 3));
    assert_eq!(list("label=team"), (12, 12));
    assert_eq!(list("filter=service_id%3Ds1"), (12, 12));
    assert_eq!(curl(&gateway, "GET", "routes?page=1&page_size=5", "", "").status, 400);
    let one = json_of(&curl(&gateway, "GET", "routes/other", "", ""));
    assert!(one["createdIndex"].is_u64() && one["modifiedIndex"].is_u64(), "{one}");
    let names = json_of(&curl(&gateway, "GET", "plugins/list", "", ""));
    assert!(names.as_array().expect("a list").contains(&json!("limit-count")));
    assert!(json_of(&curl(&gateway, "GET", "plugins?all=true", "", ""))["key-auth"].is_object());
    let good = json!({"uri": "/new", "upstream": {"nodes": {"127.0.0.1:1": 1}}}).to_string();
    assert_eq!(curl(&gateway, "POST", "schema/validate/routes", "", &good).status, 200);
    let bad = curl(&gateway, "POST", "schema/validate/routes", "", r#"{"uri": 1}"#);
    assert!(bad.status == 400 && bad.text().contains("uri"), "{bad:?}");
    assert_eq!(list(""), (13, 13), "nothing was written");
    let schema = curl(&gateway, "GET", "schema/plugins/cors", "", "");
    assert!(schema.status == 404 && schema.text().contains("schema/validate"), "{schema:?}");
}
