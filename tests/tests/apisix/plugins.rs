//! Plugins, conditions and upstreams of APISIX: what the gateway does for each.

use tollgate_tests::api::json_of;

use super::*;

#[test]
fn limits_become_the_gateways_and_read_back_as_written() {
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
fn conditions_become_those_of_the_router() {
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
fn hosts_checks_and_priorities_of_an_upstream() {
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
