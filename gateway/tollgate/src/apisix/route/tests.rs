//! Tests the conversion of routes in both directions.

use super::*;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn builder(body: Value) -> Result<DerivedDocuments, String> {
    documents(&Objects::default(), "1", ObjectFields::new(object(body), ""))
}

#[test]
fn routes_of_older_versions_are_converted_back() {
    for body in [
        json!({"uri": "/hello", "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1980": 1}}}),
        json!({"uris": ["/a", "/b/*"], "hosts": ["a.example", "*.b.example"], "methods": ["GET", "PUT"], "upstream_id": "u1"}),
        json!({"uri": "/*", "host": "a.example", "timeout": {"connect": 0.5, "read": 3.0, "send": 2.0},
               "upstream": {"type": "chash", "hash_on": "header", "key": "X-User", "nodes": {"h:80": 2, "i:80": 0}, "retries": 2, "retry_timeout": 1.5}}),
        json!({"uri": "/s", "upstream": {"type": "least_conn", "nodes": {"h:443": 1}, "scheme": "https", "retries": 0}}),
        json!({"uri": "/off", "status": 0, "upstream_id": "u1"}),
        json!({"uri": "/q", "upstream": {"type": "chash", "hash_on": "vars", "key": "arg_user", "nodes": {"h:80": 1}}}),
    ] {
        let all = builder(body.clone()).expect("good");
        let (route, own) =
            (&all[&("routes", resource_name("1"))], all.get(&("upstreams", route_upstream_name("1"))));
        let mut shown = to_apisix("1", route, own).expect("ours");
        assert_eq!(shown.shift_remove("id"), Some(json!("1")));
        assert_eq!(Value::Object(shown), body);
    }
    let all = builder(json!({"uri": "/a", "upstream": {"nodes": {"h": 1}}})).expect("good");
    let own = &all[&("upstreams", route_upstream_name("1"))];
    assert_eq!(own["endpoints"][0]["address"], "h:80");
    let mut route = all[&("routes", resource_name("1"))].clone();
    route["policies"] = json!({"ip": {"deny": "10.0.0.0/8"}});
    assert_eq!(to_apisix("1", &route, Some(own)), None, "the upstream has settings that APISIX lacks");
}

#[test]
fn settings_without_a_counterpart_are_rejected_by_name() {
    let nodes = json!({"h:80": 1});
    let plugin =
        |name: &str, conf: Value| json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {name: conf}});
    for (body, name) in [
        (plugin("openid-connect", json!({})), "`plugins/openid-connect`"),
        (plugin("limit-count", json!({"count": 1})), "`plugins/limit-count/time_window`"),
        (
            plugin("limit-count", json!({"count": 1, "time_window": 1, "rules": []})),
            "`plugins/limit-count/rules`",
        ),
        (
            plugin("limit-count", json!({"count": 1, "time_window": 1, "key": "server_addr"})),
            "`plugins/limit-count/key`",
        ),
        (
            plugin("limit-count", json!({"count": 1, "time_window": 1, "rejected_msg": "no"})),
            "`plugins/limit-count/rejected_msg`",
        ),
        (
            plugin("limit-req", json!({"rate": 1, "burst": 2, "nodelay": false, "key": "uri"})),
            "`plugins/limit-req/nodelay`",
        ),
        (plugin("key-auth", json!({"anonymous_consumer": "a"})), "`plugins/key-auth/anonymous_consumer`"),
        (
            plugin("cors", json!({"allow_origins_by_metadata": []})),
            "`plugins/cors/allow_origins_by_metadata`",
        ),
        (plugin("proxy-rewrite", json!({"method": "GET"})), "`plugins/proxy-rewrite/method`"),
        (plugin("proxy-rewrite", json!({"headers": {"X": "$nope"}})), "`$nope`"),
        (plugin("response-rewrite", json!({"body": "x"})), "`plugins/response-rewrite/body`"),
        (
            plugin("redirect", json!({"http_to_https": true, "append_query_string": true})),
            "`plugins/redirect/append_query_string`",
        ),
        (plugin("redirect", json!({"regex_uri": ["a"]})), "`plugins/redirect/regex_uri`"),
        (plugin("redirect", json!({"uri": "/$nope"})), "`$nope`"),
        (
            plugin("api-breaker", json!({"break_response_code": 502})),
            "`plugins/api-breaker/break_response_code`",
        ),
        (plugin("cors", json!({"_meta": {"priority": 1}})), "`plugins/cors/_meta/priority`"),
        (plugin("made-up", json!({})), "`plugins/made-up`"),
        (json!({"uri": "/a", "upstream": {"nodes": nodes}, "vars": [["remote_port", ">", 1]]}), "`vars/0`"),
        (json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {}}}), "`upstream/checks/active`"),
        (
            json!({"uri": "/a", "upstream": {"nodes": nodes, "checks": {"active": {"http_method": "PUT"}}}}),
            "`upstream/checks/active/http_method`",
        ),
        (json!({"uri": "/a", "upstream": {"nodes": nodes, "pass_host": "x"}}), "`upstream/pass_host`"),
        (
            json!({"uri": "/a", "upstream": {"nodes": nodes, "pass_host": "rewrite"}}),
            "`upstream/upstream_host`",
        ),
        (
            json!({"uri": "/a", "upstream": {"nodes": nodes, "retry_timeout": "3s"}}),
            "`upstream/retry_timeout`",
        ),
        (json!({"uri": "/a", "upstream": {"nodes": nodes, "type": "ewma"}}), "`upstream/type`"),
        (
            json!({"uri": "/a", "upstream": {"nodes": [{"host": "h", "weight": 1, "metadata": {}}]}}),
            "`upstream/nodes/0/metadata`",
        ),
        (json!({"uri": "/a", "timeout": {"send": 0}, "upstream": {"nodes": nodes}}), "`timeout/send`"),
        (json!({"uri": "/a", "status": 2, "upstream": {"nodes": nodes}}), "`status`"),
        (json!({"uri": "/a", "priority": 7, "upstream": {"nodes": nodes}}), "`priority`"),
        (json!({"uri": "/a", "service_id": "s"}), "`service_id`"),
        (
            json!({"uri": "/a", "remote_addr": "10.0.0.1", "remote_addrs": ["::1"], "upstream": {"nodes": nodes}}),
            "`remote_addr`",
        ),
        (json!({"uri": "/a*", "upstream": {"nodes": nodes}}), "`/a*`"),
        (json!({"uri": "a", "upstream": {"nodes": nodes}}), "`a`"),
        (json!({"uri": "/a"}), "`upstream`"),
        (json!({"uri": "/a", "upstream": {}}), "`upstream/nodes`"),
        (json!({"upstream": {"nodes": nodes}}), "`uri`"),
        (json!({"uri": "/a", "id": "2", "upstream": {"nodes": nodes}}), "`id`"),
        (json!({"uri": "/a", "upstream_id": "1", "upstream": {"nodes": nodes}}), "exclude"),
    ] {
        let error = builder(body.clone()).expect_err(&body.to_string());
        assert!(error.contains(name), "{body}: {error}");
    }
}
