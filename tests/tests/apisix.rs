//! The front for clients of Apache APISIX's admin API, through the real binary.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_tests::api::json_of;
use tollgate_tests::{Client, Gateway, Origin, Response, TlsPeer};

fn stored() -> Gateway {
    Gateway::start("store: $DIR/store\nroutes: []")
}

/// Sends a request as `curl -X METHOD -d BODY` does.
fn curl(gateway: &Gateway, method: &str, path: &str, lines: &str, body: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let (host, length) = (gateway.admin_address(), body.len());
    client.ask(format!(
        "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: curl/7.64.1\r\nAccept: */*\r\n{lines}\
         Content-Length: {length}\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n{body}"
    ))
}

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
fn what_has_no_counterpart_is_refused_by_name_and_changes_nothing() {
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

/// Returns the gateway's answer to a request with these header lines.
fn ask(gateway: &Gateway, path: &str, lines: &str) -> Response {
    gateway.client().ask(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"))
}

/// Writes an object and asserts that the front accepts it.
fn put(gateway: &Gateway, path: &str, object: &Value) {
    let answer = curl(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
}

/// Writes an APISIX object to the same path of the gateway's own API.
fn put_raw(gateway: &Gateway, path: &str) -> Response {
    tollgate_tests::api::put(gateway, path, &json!({"uri": "/other"}))
}

/// Returns a route's `upstream` with this origin as its only node.
fn nodes(origin: &Origin) -> Value {
    json!({"type": "roundrobin", "nodes": {origin.address().to_string(): 1}})
}

#[test]
fn limits_are_those_of_the_gateway_and_read_back_as_they_were_written() {
    let (origin, gateway) = (Origin::ok(), stored());
    let count = json!({"count": 2, "time_window": 3600, "rejected_code": 503, "key_type": "var_combination",
                       "key": "$http_x_a $remote_addr"});
    let route = json!({"uri": "/count", "plugins": {"limit-count": count}, "upstream": nodes(&origin)});
    put(&gateway, "routes/1", &route);
    let statuses: Vec<_> = (0..3).map(|_| ask(&gateway, "/count", "X-A: a\r\n")).collect();
    assert_eq!(statuses.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 503]);
    assert!(statuses[0].headers.get("RateLimit").is_some());
    assert_eq!(statuses[2].headers.get("Tollgate-Reason"), Some("rate_limited"));
    assert_eq!(ask(&gateway, "/count", "X-A: b\r\n").status, 200);
    let shown = json_of(&curl(&gateway, "GET", "routes/1", "", ""));
    assert_eq!(shown["value"]["plugins"], route["plugins"]);
    let record = gateway.wait_records(4).into_iter().find(|record| record["reason"] == "rate_limited");
    assert_eq!(record.expect("one was refused")["status"], 503);
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/req", "plugins": {"limit-req": {"rate": 0.01, "burst": 1, "nodelay": true, "key": "remote_addr",
                "rejected_code": 429}}, "upstream": nodes(&origin)}),
    );
    let statuses: Vec<_> = (0..3).map(|_| ask(&gateway, "/req", "").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/conn", "plugins": {"limit-conn": {"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"}},
                "upstream": nodes(&origin)}),
    );
    assert_eq!(ask(&gateway, "/conn", "").status, 200);
    // The gateway's own API shows the translated route.
    let text = gateway.admin("/api/v1/routes/apisix-3").text();
    assert!(text.contains("concurrency"), "{text}");
    // A plugin can be disabled without being removed.
    let off = json!({"plugins": {"limit-req": {"_meta": {"disable": true}}}}).to_string();
    assert_eq!(curl(&gateway, "PATCH", "routes/2", "", &off).status, 200);
    assert_eq!(ask(&gateway, "/req", "").status, 200);
}

#[test]
fn consumers_show_keys_and_passwords_and_nobody_reads_them() {
    let (origin, gateway) = (Origin::ok(), stored());
    put(&gateway, "consumer_groups/staff", &json!({"plugins": {}}));
    let jack = json!({"username": "jack", "group_id": "staff", "plugins": {"key-auth": {"key": "auth-one"}}});
    put(&gateway, "consumers", &jack);
    put(
        &gateway,
        "consumers/ann",
        &json!({"username": "ann", "plugins": {"basic-auth": {"username": "ann", "password": "hunter2hunter2"}}}),
    );
    put(
        &gateway,
        "routes/1",
        &json!({"uri": "/key", "plugins": {"key-auth": {"hide_credentials": true}}, "upstream": nodes(&origin)}),
    );
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/basic", "plugins": {"basic-auth": {}}, "upstream": nodes(&origin)}),
    );
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/staff", "plugins": {"key-auth": {}, "consumer-restriction": {"type": "consumer_group_id", "whitelist": ["guests"]}},
                "upstream": nodes(&origin)}),
    );
    assert_eq!(ask(&gateway, "/key", "").status, 401);
    assert_eq!(ask(&gateway, "/key", "apikey: auth-two\r\n").status, 401);
    assert_eq!(ask(&gateway, "/key", "apikey: auth-one\r\n").status, 200);
    let request = origin.request();
    assert_eq!(request.headers.get("X-Consumer-Username"), Some("jack"));
    assert_eq!(request.headers.get("apikey"), None, "it is hidden");
    assert_eq!(ask(&gateway, "/key?apikey=auth-one", "").status, 200);
    assert_eq!(ask(&gateway, "/basic", "Authorization: Basic YW5uOmh1bnRlcjJodW50ZXIy\r\n").status, 200);
    assert_eq!(ask(&gateway, "/basic", "Authorization: Basic YW5uOm5v\r\n").status, 401);
    assert_eq!(ask(&gateway, "/staff", "apikey: auth-one\r\n").status, 403);
    for path in ["consumers/jack", "consumers/ann", "consumers"] {
        let text = curl(&gateway, "GET", path, "", "").text();
        assert!(text.contains("(secret)"), "{text}");
        for secret in ["auth-one", "hunter2hunter2", "$2b$", "sha256"] {
            assert!(!text.contains(secret), "{path}: {text}");
        }
    }
    for path in ["/api/v1/apisix", "/api/v1/config", "/api/v1/history"] {
        let text = gateway.admin(path).text();
        assert!(!text.contains("auth-one") && !text.contains("hunter2hunter2"), "{path}: {text}");
    }
    // The object that the front shows can be written back.
    let shown = json_of(&curl(&gateway, "GET", "consumers/jack", "", ""))["value"].clone();
    assert_eq!(shown["username"], "jack");
    put(&gateway, "consumers/jack", &shown);
    assert_eq!(ask(&gateway, "/key", "apikey: auth-one\r\n").status, 200);
    let refused = curl(&gateway, "DELETE", "consumer_groups/staff", "", "");
    assert!(refused.status == 400 && refused.text().contains("consumers/jack"), "{refused:?}");
    assert_eq!(curl(&gateway, "DELETE", "consumers/jack", "", "").status, 200);
    assert_eq!(ask(&gateway, "/key", "apikey: auth-one\r\n").status, 401);
    assert_eq!(curl(&gateway, "DELETE", "consumer_groups/staff", "", "").status, 200);
}

#[test]
fn services_plugin_configs_and_global_rules_reach_the_routes_that_have_them() {
    let (origin, other, gateway) = (Origin::named("own"), Origin::named("other"), stored());
    let limit =
        |count: u64| json!({"count": count, "time_window": 3600, "rejected_code": 429, "key": "remote_addr"});
    put(&gateway, "services/s1", &json!({"plugins": {"limit-count": limit(3)}, "upstream": nodes(&origin)}));
    put(&gateway, "routes/1", &json!({"uri": "/a", "service_id": "s1"}));
    put(&gateway, "routes/2", &json!({"uri": "/b", "service_id": "s1"}));
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/c", "service_id": "s1", "plugins": {"limit-count": limit(1)}}),
    );
    let statuses: Vec<_> = ["/a", "/b", "/a", "/b", "/a"].map(|path| ask(&gateway, path, "").status).into();
    assert_eq!(statuses, [200, 200, 200, 429, 429], "a service's limit is one limit");
    let statuses: Vec<_> = (0..2).map(|_| ask(&gateway, "/c", "").status).collect();
    assert_eq!(statuses, [200, 429], "what the route says counts over its service");
    // A change of a service applies to its routes.
    put(&gateway, "services/s1", &json!({"upstream": nodes(&other)}));
    let answer = ask(&gateway, "/a", "");
    assert!(answer.status == 200 && answer.text().contains("other"), "{answer:?}");
    let refused = curl(&gateway, "DELETE", "services/s1", "", "");
    assert!(refused.status == 400 && refused.text().contains("routes/1"), "{refused:?}");
    put(
        &gateway,
        "plugin_configs/p1",
        &json!({"desc": "d", "plugins": {"response-rewrite": {"headers": {"set": {"X-From": "config"}}}}}),
    );
    put(&gateway, "routes/1", &json!({"uri": "/a", "service_id": "s1", "plugin_config_id": "p1"}));
    assert_eq!(ask(&gateway, "/a", "").headers.get("X-From"), Some("config"));
    assert_eq!(curl(&gateway, "DELETE", "plugin_configs/p1", "", "").status, 400);
    put(&gateway, "global_rules/g1", &json!({"plugins": {"ip-restriction": {"blacklist": ["127.0.0.0/8"]}}}));
    assert_eq!([ask(&gateway, "/a", "").status, ask(&gateway, "/b", "").status], [403, 403]);
    put(&gateway, "global_rules/g1", &json!({"plugins": {"limit-count": limit(1)}}));
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/c", "service_id": "s1", "plugins": {"limit-count": limit(5)}}),
    );
    let statuses: Vec<_> = (0..2).map(|_| ask(&gateway, "/c", "").status).collect();
    assert_eq!(statuses, [200, 429], "both count");
    assert_eq!(curl(&gateway, "DELETE", "global_rules/g1", "", "").status, 200);
    assert_eq!(ask(&gateway, "/c", "").status, 200);
    // A rollback by one version restores the earlier state.
    let text = gateway.admin("/api/v1/history").text();
    let version: Value = serde_json::from_str(&gateway.admin("/api/v1").text()).expect("JSON");
    let version = version["version"].as_u64().expect("a number");
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let back = client.ask(format!(
        "POST /api/v1/rollback/{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        version - 1
    ));
    assert_eq!(back.status, 200, "{back:?} {text}");
    assert_eq!(curl(&gateway, "GET", "global_rules/g1", "", "").status, 200);
    let statuses: Vec<_> = (0..2).map(|_| ask(&gateway, "/b", "").status).collect();
    // The counts are restored too if a request still holds the earlier plan.
    assert_eq!(statuses[1], 429, "the rule is there again");
}

#[test]
fn rewrites_redirects_and_headers() {
    let origin = Origin::ok();
    let gateway = Gateway::start("store: $DIR/store\nrequest_id: {header: X-Request-Id}\nroutes: []");
    let plugins = json!({
        "proxy-rewrite": {"regex_uri": ["^/s/(.*)$", "/t/$1"], "host": "in.example",
                          "headers": {"set": {"X-Client": "$remote_addr", "X-Path": "${uri}"}, "add": {"X-More": "1"}, "remove": ["X-Secret"]}},
        "response-rewrite": {"headers": {"set": {"X-Out": "out"}, "remove": ["X-Gone"]}},
        "request-id": {"header_name": "X-Trace", "include_in_response": true},
        "cors": {"allow_origins": "https://a.example,https://b.example", "allow_methods": "GET,PUT", "allow_headers": "X-A", "max_age": 7},
        "prometheus": {"prefer_name": true},
        "ip-restriction": {"whitelist": ["127.0.0.0/8"]}
    });
    put(&gateway, "routes/1", &json!({"uri": "/s/*", "plugins": plugins, "upstream": nodes(&origin)}));
    let answer = ask(&gateway, "/s/x?q", "X-Secret: 1\r\nOrigin: https://b.example\r\n");
    assert_eq!(answer.status, 200, "{answer:?}");
    let request = origin.request();
    assert!(request.target == "/t/x?q", "{request:?}");
    let got = |name: &str| request.headers.get(name);
    assert_eq!(
        (got("Host"), got("X-Client"), got("X-Path")),
        (Some("in.example"), Some("127.0.0.1"), Some("/s/x"))
    );
    assert_eq!((got("X-More"), got("X-Secret")), (Some("1"), None));
    assert!(got("X-Trace").is_some() && got("X-Trace") == answer.headers.get("X-Trace"), "{answer:?}");
    assert_eq!(answer.headers.get("X-Out"), Some("out"));
    assert_eq!(answer.headers.get("Access-Control-Allow-Origin"), Some("https://b.example"));
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/old", "plugins": {"redirect": {"uri": "/new", "ret_code": 301}}}),
    );
    let answer = ask(&gateway, "/old", "");
    assert_eq!((answer.status, answer.headers.get("Location")), (301, Some("/new")));
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/up/*", "plugins": {"redirect": {"uri": "https://$host$request_uri", "ret_code": 308}}}),
    );
    let answer = ask(&gateway, "/up/x?y", "");
    assert_eq!((answer.status, answer.headers.get("Location")), (308, Some("https://a.example/up/x?y")));
}

#[test]
fn traffic_is_split_mirrored_blocked_and_broken() {
    let (one, two, gateway) = (Origin::named("one"), Origin::named("two"), stored());
    put(&gateway, "upstreams/u2", &nodes(&two));
    let split = json!({"rules": [
        {"match": [{"vars": [["http_x_new", "==", "yes"], ["arg_v", "in", ["1", "2"]]]}], "weighted_upstreams": [{"upstream_id": "u2", "weight": 1}]},
        {"weighted_upstreams": [{"weight": 1}, {"upstream": nodes(&two), "weight": 0}]}
    ]});
    put(
        &gateway,
        "routes/1",
        &json!({"uri": "/s/*", "plugins": {"traffic-split": split}, "upstream": nodes(&one)}),
    );
    let said = |path: &str, lines: &str| ask(&gateway, path, lines).text();
    assert!(said("/s/a", "").contains("one") && said("/s/a?v=1", "").contains("one"));
    assert!(said("/s/a?v=2", "X-New: yes\r\n").contains("two"));
    assert!(said("/s/a?v=3", "X-New: yes\r\n").contains("one"));
    let refused = curl(&gateway, "DELETE", "upstreams/u2", "", "");
    assert!(refused.status == 400 && refused.text().contains("routes/1"), "{refused:?}");
    let before = two.count();
    let mirror = json!({"host": format!("http://{}", two.address())});
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/m", "plugins": {"proxy-mirror": mirror}, "upstream": nodes(&one)}),
    );
    assert!(said("/m", "").contains("one"));
    tollgate_tests::eventually("a copy", || two.count() == before + 1);
    let blocker = json!({"block_rules": ["root\\.exe", "^/w/private"], "rejected_code": 404});
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/*", "host": "a.example", "plugins": {"uri-blocker": blocker}, "upstream": nodes(&one)}),
    );
    let status = |path: &str| ask(&gateway, path, "").status;
    assert_eq!(
        [status("/w/x"), status("/w/root.exe"), status("/w/private/x"), status("/x/w/private")],
        [200, 404, 404, 200]
    );
    assert_eq!(status("/s/x"), 200);
    let bad = Origin::fixed("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    let breaker = json!({"break_response_code": 503, "unhealthy": {"http_statuses": [500], "failures": 3}, "healthy": {"successes": 1}});
    put(
        &gateway,
        "routes/4",
        &json!({"uri": "/b", "host": "a.example", "plugins": {"api-breaker": breaker}, "upstream": nodes(&bad)}),
    );
    let statuses: Vec<_> = (0..4).map(|_| status("/b")).collect();
    assert_eq!(statuses, [500, 500, 500, 503]);
    assert_eq!(bad.count(), 3);
}

#[test]
fn conditions_are_those_of_the_router() {
    let (origin, gateway) = (Origin::ok(), stored());
    let vars = json!([
        ["arg_a", "~~", "^x+$"],
        ["http_x_b", "~=", "no"],
        ["cookie_c", "==", "d"],
        ["request_method", "in", ["GET", "PUT"]]
    ]);
    put(&gateway, "routes/1", &json!({"uri": "/v", "vars": vars, "upstream": nodes(&origin)}));
    let status = |query: &str, lines: &str| ask(&gateway, &format!("/v{query}"), lines).status;
    assert_eq!(status("?a=xx", "Cookie: z=1; c=d\r\n"), 200);
    assert_eq!(status("?a=xx", "Cookie: c=d; z=1\r\nX-B: yes\r\n"), 200);
    assert_eq!(status("?a=xx", "Cookie: c=d\r\nX-B: no\r\n"), 404);
    assert_eq!(status("?a=xy", "Cookie: c=d\r\n"), 404);
    assert_eq!(status("?a=xx", "Cookie: cc=d\r\n"), 404);
    assert_eq!(status("?a=xx", ""), 404);
    let shown = json_of(&curl(&gateway, "GET", "routes/1", "", ""));
    assert_eq!(shown["value"]["vars"], vars);
    let alone = put_raw(&gateway, "/apisix/routes%2F1");
    assert!(alone.status == 405 && alone.text().contains("/apisix/admin/routes/1"), "{alone:?}");
    let part = curl(&gateway, "PATCH", "routes/1/methods", "", r#"["PUT"]"#);
    assert_eq!((part.status, status("?a=xx", "Cookie: c=d\r\n")), (200, 404), "{part:?}");
    assert_eq!(curl(&gateway, "PATCH", "routes/1/methods", "", "null").status, 200);
    // A disabled route takes no requests, but the API still shows it.
    assert_eq!(curl(&gateway, "PATCH", "routes/1", "", r#"{"status": 0}"#).status, 200);
    assert_eq!(status("?a=xx", "Cookie: c=d\r\n"), 404);
    assert_eq!(json_of(&curl(&gateway, "GET", "routes/1", "", ""))["value"]["status"], 0);
    assert_eq!(curl(&gateway, "PATCH", "routes/1", "", r#"{"status": 1}"#).status, 200);
    assert_eq!(status("?a=xx", "Cookie: c=d\r\n"), 200);
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

/// Returns a token that is signed with this secret (RFC 7519, HS256).
fn token(claims: &Value, secret: &str) -> String {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let tag = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

#[test]
fn tokens_are_verified_by_the_key_of_the_consumer_that_they_name() {
    const JACK: &str = "jacks-secret-of-more-than-32-bytes-0123456789";
    const ANN: &str = "anns-secret-of-more-than-32-bytes-01234567890";
    let (origin, gateway) = (Origin::ok(), stored());
    put(&gateway, "routes/1", &json!({"uri": "/t", "plugins": {"jwt-auth": {}}, "upstream": nodes(&origin)}));
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/jack", "plugins": {"jwt-auth": {}, "consumer-restriction": {"whitelist": ["jack"]}}, "upstream": nodes(&origin)}),
    );
    let claims = |key: &str| json!({"key": key, "exp": 4_000_000_000_u64, "groups": ["staff"]});
    let (jacks, anns) = (token(&claims("jack-key"), JACK), token(&claims("ann-key"), ANN));
    let status =
        |path: &str, token: &str| ask(&gateway, path, &format!("Authorization: Bearer {token}\r\n")).status;
    assert_eq!(status("/t", &jacks), 403, "there is nobody");
    put(
        &gateway,
        "consumers",
        &json!({"username": "jack", "plugins": {"jwt-auth": {"key": "jack-key", "secret": JACK}}}),
    );
    assert_eq!([status("/t", &jacks), status("/t", &anns)], [200, 401]);
    put(
        &gateway,
        "consumers",
        &json!({"username": "ann", "plugins": {"jwt-auth": {"key": "ann-key", "secret": ANN}}}),
    );
    assert_eq!([status("/t", &jacks), status("/t", &anns)], [200, 200]);
    // Ann signs a token that names Jack.
    assert_eq!(status("/t", &token(&claims("jack-key"), ANN)), 401);
    assert_eq!(ask(&gateway, "/t", "").status, 401);
    assert_eq!(ask(&gateway, &format!("/t?jwt={anns}"), "").status, 200);
    assert_eq!(ask(&gateway, "/t", &format!("Cookie: jwt={anns}\r\n")).status, 200);
    assert_eq!([status("/jack", &jacks), status("/jack", &anns)], [200, 403]);
    let text =
        [curl(&gateway, "GET", "consumers", "", "").text(), gateway.admin("/api/v1/config").text()].concat();
    assert!(!text.contains("s-secret-of"), "{text}");
    let shown = json_of(&curl(&gateway, "GET", "consumers/jack", "", ""))["value"].clone();
    put(&gateway, "consumers/jack", &shown);
    assert_eq!(status("/t", &jacks), 200, "what is shown can be written back");
    assert_eq!(curl(&gateway, "DELETE", "consumers/ann", "", "").status, 200);
    assert_eq!([status("/t", &jacks), status("/t", &anns)], [200, 401]);
}

/// Starts a gateway that trusts a local proxy to report the scheme.
fn behind_a_proxy() -> Gateway {
    Gateway::start("store: $DIR/store\nforwarded: {trusted_proxies: 127.0.0.1/32}\nroutes: []")
}

#[test]
fn redirects_lead_to_https_and_by_expressions_and_variables() {
    let (origin, gateway) = (Origin::ok(), behind_a_proxy());
    let redirect = |id: &str, uri: &str, redirect: Value, upstream: bool| {
        let mut route = json!({"uri": uri, "plugins": {"redirect": redirect}});
        if upstream {
            route["upstream"] = nodes(&origin);
        }
        put(&gateway, &format!("routes/{id}"), &route);
    };
    let led = |path: &str, lines: &str| {
        let answer = ask(&gateway, path, lines);
        (answer.status, answer.headers.get("Location").unwrap_or_default().to_owned())
    };
    redirect("1", "/hello/*", json!({"http_to_https": true}), true);
    assert_eq!(led("/hello/x?y=1", ""), (301, "https://a.example/hello/x?y=1".to_owned()));
    let post = gateway.client().ask("POST /hello/x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.headers.get("Location")), (308, Some("https://a.example/hello/x")));
    assert_eq!(led("/hello/x", "X-Forwarded-Proto: https\r\n"), (200, String::new()), "it is https already");
    assert_eq!(origin.count(), 1);
    // A redirect answers without an upstream too.
    redirect("2", "/alone", json!({"http_to_https": true}), false);
    assert_eq!(led("/alone", "").0, 301);
    assert_eq!(led("/alone", "X-Forwarded-Proto: https\r\n").0, 503);
    redirect(
        "3",
        "/i/*",
        json!({"regex_uri": ["^/i/(.*)/(.*)$", "/$1-$2x"], "ret_code": 301, "append_query_string": true}),
        true,
    );
    assert_eq!(led("/i/a/b?c=d", ""), (301, "/a-bx?c=d".to_owned()));
    assert_eq!(led("/i/a", ""), (200, String::new()), "it goes on where nothing is found");
    redirect("4", "/test", json!({"uri": "$uri/index.html?by=${arg_a}", "ret_code": 302}), true);
    assert_eq!(led("/test?a=b%20c", ""), (302, "/test/index.html?by=b%20c".to_owned()));
    redirect("5", "/where", json!({"uri": "https://b.example:8443$request_uri", "ret_code": 307}), false);
    assert_eq!(led("/where?a", ""), (307, "https://b.example:8443/where?a".to_owned()));
    redirect("6", "/old", json!({"uri": "/new?x=1", "append_query_string": true, "encode_uri": true}), false);
    assert_eq!(led("/old?a", ""), (302, "/new?x=1&a".to_owned()));
    assert_eq!(led("/old", ""), (302, "/new?x=1".to_owned()));
    let both = json!({"uri": "/a", "plugins": {"redirect": {"uri": "/b", "http_to_https": true}}});
    let refused = curl(&gateway, "PUT", "routes/7", "", &both.to_string());
    assert!(refused.status == 400 && refused.text().contains("http_to_https"), "{refused:?}");
}

#[test]
fn blocked_are_requests_of_the_route_alone_by_path_and_query() {
    let (origin, gateway) = (Origin::ok(), stored());
    let blocker = json!({"block_rules": ["root\\.exe", "root\\.m+", "select.+(from|limit)"], "rejected_msg": "access is not allowed", "case_insensitive": true});
    put(
        &gateway,
        "routes/1",
        &json!({"uri": "/*", "plugins": {"uri-blocker": blocker}, "upstream": nodes(&origin)}),
    );
    put(&gateway, "routes/2", &json!({"uri": "/free/*", "upstream": nodes(&origin)}));
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/root.exe", "host": "b.example", "plugins": {"uri-blocker": {"block_rules": ["root"]}}, "upstream": nodes(&origin)}),
    );
    let status = |path: &str| ask(&gateway, path, "").status;
    assert_eq!([status("/ROOT.EXE?a=a"), status("/x/root.mm"), status("/x")], [403, 403, 200]);
    assert_eq!(status("/x?q=select%20a%20from%20b"), 403, "the query is looked at");
    assert_eq!(status("/free/root.exe"), 200, "it is another route");
    let whole = gateway.client().ask("GET /root.exe HTTP/1.1\r\nHost: b.example\r\n\r\n");
    assert_eq!(whole.status, 403, "a path that is blocked as a whole");
    let answer = ask(&gateway, "/root.exe", "");
    assert_eq!(answer.headers.get("Content-Type"), Some("application/json"));
    assert_eq!(json_of(&answer)["error_msg"], "access is not allowed");
}

#[test]
fn what_an_upstream_says_of_hosts_checks_and_priorities_holds() {
    let (origin, second, gateway) = (Origin::named("first"), Origin::named("second"), stored());
    let node = |origin: &Origin, priority: i64| json!({"host": "127.0.0.1", "port": origin.address().port(), "weight": 1, "priority": priority});
    let host = |path: &str| {
        assert_eq!(ask(&gateway, path, "").status, 200, "{path}");
        origin.requests().last().and_then(|request| request.headers.get("Host").map(str::to_owned))
    };
    let upstream = |more: Value| {
        let mut upstream = json!({"type": "roundrobin", "nodes": [node(&origin, 0)]});
        upstream.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        upstream
    };
    put(&gateway, "routes/1", &json!({"uri": "/node", "upstream": upstream(json!({"pass_host": "node"}))}));
    put(&gateway, "upstreams/u", &upstream(json!({"pass_host": "rewrite", "upstream_host": "in.example"})));
    put(&gateway, "routes/2", &json!({"uri": "/named", "upstream_id": "u"}));
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/own", "upstream_id": "u", "plugins": {"proxy-rewrite": {"host": "own.example"}}}),
    );
    assert_eq!(host("/node"), Some(origin.address().to_string()));
    assert_eq!(host("/named").as_deref(), Some("in.example"));
    assert_eq!(host("/own").as_deref(), Some("own.example"));
    // A change of an upstream applies to its routes.
    put(&gateway, "upstreams/u", &upstream(json!({"pass_host": "pass"})));
    assert_eq!(host("/named").as_deref(), Some("a.example"));
    let keeps = json!({"size": 10, "idle_timeout": 5, "requests": 100});
    put(
        &gateway,
        "routes/4",
        &json!({"uri": "/spare", "upstream": {"nodes": [node(&second, -1), node(&origin, 3)], "keepalive_pool": keeps,
                "retries": 1, "retry_timeout": 0, "tls": {"verify": false}}}),
    );
    let said = |path: &str| ask(&gateway, path, "").text();
    for _ in 0..4 {
        assert!(said("/spare").contains("first"), "the spare one is not asked");
    }
    // Probes carry the configured fields and detect which endpoints are healthy.
    let checks = json!({
        "active": {"http_path": "/status", "host": "probe.example", "timeout": 5, "req_headers": ["User-Agent: curl/7.29.0", "X-Probe: 1"],
                   "healthy": {"interval": 1, "successes": 1}, "unhealthy": {"interval": 1, "http_failures": 2}},
        "passive": {"healthy": {"http_statuses": [200, 201], "successes": 3}, "unhealthy": {"http_statuses": [500], "http_failures": 3, "tcp_failures": 3}}
    });
    let probed = Origin::ok();
    put(
        &gateway,
        "routes/5",
        &json!({"uri": "/probed", "upstream": {"nodes": [node(&probed, 0)], "checks": checks}}),
    );
    tollgate_tests::eventually("a probe", || probed.count() > 0);
    let probe = probed.requests().remove(0);
    let got = |name: &str| probe.headers.get(name);
    assert_eq!((probe.target.as_str(), got("Host")), ("/status", Some("probe.example")));
    assert_eq!((got("User-Agent"), got("X-Probe")), (Some("curl/7.29.0"), Some("1")));
    let text = gateway.admin("/api/v1/upstreams/apisix-route-5").text();
    for part in ["consecutive_5xx", "panic_threshold", "max_ejected"] {
        assert!(text.contains(part), "{text}");
    }
    put(
        &gateway,
        "routes/6",
        &json!({"uri": "/mine", "remote_addrs": ["127.0.0.0/8", "::1"], "upstream": nodes(&origin)}),
    );
    put(
        &gateway,
        "routes/7",
        &json!({"uri": "/others", "remote_addr": "10.0.0.0/8", "upstream": nodes(&origin)}),
    );
    assert_eq!([ask(&gateway, "/mine", "").status, ask(&gateway, "/others", "").status], [200, 403]);
    put(&gateway, "routes/8", &json!({"uri": "/ws", "enable_websocket": false, "upstream": nodes(&origin)}));
    let lines = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    ask(&gateway, "/ws", lines);
    assert_eq!(origin.requests().last().and_then(|request| request.headers.get("Upgrade")), None);
}

#[test]
fn credentials_are_their_consumers_and_go_with_it() {
    let (origin, gateway) = (Origin::ok(), stored());
    put(&gateway, "consumers", &json!({"username": "jack"}));
    put(
        &gateway,
        "consumers/jack/credentials/one",
        &json!({"desc": "d", "plugins": {"key-auth": {"key": "key-one"}}}),
    );
    put(
        &gateway,
        "consumers/jack/credentials",
        &json!({"id": "two", "plugins": {"key-auth": {"key": "key-two"}}}),
    );
    put(
        &gateway,
        "routes/1",
        &json!({"uri": "/key", "plugins": {"key-auth": {}}, "upstream": nodes(&origin)}),
    );
    let status = |key: &str| ask(&gateway, "/key", &format!("apikey: {key}\r\n")).status;
    assert_eq!([status("key-one"), status("key-two"), status("key-three")], [200, 200, 401]);
    let shown = json_of(&curl(&gateway, "GET", "consumers/jack/credentials/two", "", ""));
    assert_eq!(shown["key"], "/apisix/consumers/jack/credentials/two");
    assert_eq!(shown["value"], json!({"id": "two", "plugins": {"key-auth": {"key": "(secret)"}}}));
    let list = json_of(&curl(&gateway, "GET", "consumers/jack/credentials", "", ""));
    assert_eq!(list["total"], 2);
    put(&gateway, "consumers/jack/credentials/two", &shown["value"]);
    assert_eq!(status("key-two"), 200, "what is shown can be written back");
    put(&gateway, "consumers/jack", &json!({"username": "jack", "desc": "changed"}));
    assert_eq!(status("key-one"), 200, "the consumer has its credentials still");
    assert_eq!(curl(&gateway, "DELETE", "consumers/jack/credentials/one", "", "").status, 200);
    assert_eq!([status("key-one"), status("key-two")], [401, 200]);
    let secret = "jacks-secret-of-more-than-32-bytes-0123456789";
    put(
        &gateway,
        "consumers/jack/credentials/jwt",
        &json!({"plugins": {"jwt-auth": {"key": "jack-key", "secret": secret}}}),
    );
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/token", "plugins": {"jwt-auth": {}}, "upstream": nodes(&origin)}),
    );
    let claims = json!({"key": "jack-key", "exp": 4_000_000_000_u64});
    let token = format!("Authorization: Bearer {}\r\n", token(&claims, secret));
    assert_eq!(ask(&gateway, "/token", &token).status, 200);
    let other = curl(&gateway, "PUT", "consumers/jack/credentials/x", "", r#"{"plugins": {"cors": {}}}"#);
    assert!(other.status == 400 && other.text().contains("plugins/cors"), "{other:?}");
    assert_eq!(curl(&gateway, "DELETE", "consumers/jack", "", "").status, 200);
    assert_eq!(status("key-two"), 401);
    assert_ne!(ask(&gateway, "/token", &token).status, 200);
    assert_eq!(curl(&gateway, "GET", "consumers/jack/credentials/two", "", "").status, 404);
    put(&gateway, "consumers", &json!({"username": "jack"}));
    assert_eq!(status("key-two"), 401, "a new consumer of the name has no old keys");
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

#[test]
fn consumers_may_use_their_methods_and_limits_have_rules_and_sentinels() {
    let (origin, gateway) = (Origin::ok(), stored());
    for name in ["john", "jane", "jim"] {
        put(
            &gateway,
            "consumers",
            &json!({"username": name, "plugins": {"key-auth": {"key": format!("{name}-key")}}}),
        );
    }
    let by_methods = json!([{"user": "john", "methods": ["GET"]}, {"user": "jane", "methods": ["POST"]}]);
    put(
        &gateway,
        "routes/1",
        &json!({"uri": "/get", "plugins": {"key-auth": {}, "consumer-restriction": {"allowed_by_methods": by_methods}}, "upstream": nodes(&origin)}),
    );
    let status = |method: &str, name: &str| {
        let lines = format!(
            "{method} /get HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\napikey: {name}-key\r\n\r\n"
        );
        gateway.client().ask(lines).status
    };
    assert_eq!([status("GET", "john"), status("POST", "john")], [200, 403]);
    assert_eq!([status("GET", "jane"), status("POST", "jane")], [403, 200]);
    assert_eq!([status("GET", "jim"), status("POST", "jim")], [200, 200], "no rule names jim");
    let rules = json!([
        {"count": 1, "time_window": 3600, "key": "$http_x_a"},
        {"count": 2, "time_window": 3600, "key": "$remote_addr"}
    ]);
    put(
        &gateway,
        "routes/2",
        &json!({"uri": "/rules", "plugins": {"limit-count": {"rules": rules, "rejected_code": 429, "window_type": "sliding"}},
                "upstream": nodes(&origin)}),
    );
    let limited = |value: &str| ask(&gateway, "/rules", &format!("X-A: {value}\r\n")).status;
    assert_eq!([limited("a"), limited("a"), limited("b"), limited("c")], [200, 429, 200, 429]);
    let sentinel = json!({"count": 2, "time_window": 60, "policy": "redis-sentinel", "redis_master_name": "mymaster",
                          "redis_sentinels": [{"host": "127.0.0.1", "port": 1}], "sentinel_password": "s3ntinelp@ss",
                          "redis_password": "p@ssw0rd", "allow_degradation": true});
    put(
        &gateway,
        "routes/3",
        &json!({"uri": "/redis", "plugins": {"limit-count": sentinel}, "upstream": nodes(&origin)}),
    );
    assert_eq!(ask(&gateway, "/redis", "").status, 200, "it is degraded");
    let shown = json_of(&curl(&gateway, "GET", "routes/3", "", ""))["value"].clone();
    let text = gateway.admin("/api/v1/config").text() + &shown.to_string();
    assert!(!text.contains("s3ntinelp@ss") && !text.contains("p@ssw0rd"), "{text}");
    put(&gateway, "routes/3", &shown);
}
