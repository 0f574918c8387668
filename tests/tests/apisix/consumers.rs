//! Consumers of APISIX and their credentials: keys, passwords, tokens.

use tollgate_tests::api::json_of;

use super::*;

#[test]
fn keys_and_passwords_of_consumers_work_and_are_never_shown() {
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
