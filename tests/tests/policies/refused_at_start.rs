//! Configurations whose policies cannot work as written are refused when they are read, with their position.

use std::fs;

use tollgate_tests::{Authority, tollgate};

use crate::tls::Files;

/// Asserts that the gateway refuses this policy, and names the position and the subject.
fn refused(files: &Files, policy: &str, about: &str) {
    let file = files.path().join("tollgate.yaml");
    let text =
        format!("listen: 127.0.0.1:0\nadmin: off\nroutes:\n- to: 127.0.0.1:1\n  policies:\n    {policy}\n");
    fs::write(&file, &text).expect("written");
    for command in ["check", "run"] {
        let ran = tollgate(&[command, file.to_str().expect("text")]);
        assert_ne!(ran.code, Some(0), "{command}: {policy}: {ran:?}");
        assert!(ran.err.contains(about), "{command}: {policy}: {about} is not in\n{}", ran.err);
        assert!(ran.err.contains("tollgate.yaml:6:") && ran.err.contains("^^^"), "{policy}: {}", ran.err);
    }
}

#[test]
fn a_missing_or_invalid_file_of_authorities() {
    let files = Files::new();
    files.write("empty.pem", "");
    files.write("odd.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for policy in [
        "jwt: {jwks: \"https://id.example/keys\", ca: CA}",
        "forward_auth: {url: \"https://auth.example/\", ca: CA}",
        "ext_authz: {url: \"https://auth.example/\", ca: CA}",
        "trace: {otlp: \"https://collector.example/v1/traces\", ca: CA}",
    ] {
        for file in ["missing.pem", "empty.pem", "odd.pem"] {
            refused(&files, &policy.replace("CA", file), file);
        }
    }
}

#[test]
fn keys_of_tokens_that_are_missing_or_none() {
    let files = Files::new();
    files.write("own.key", &Authority::new().issue(&["a.example"]).key);
    files.write("set.json", "{\"keys\": []}");
    files.write("broken.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n");
    for (file, why) in [
        ("missing.json", "missing.json"),
        ("own.key", "it holds a private key"),
        ("set.json", "no key that verifies"),
        ("broken.pem", "none of RSA"),
    ] {
        refused(&files, &format!("jwt: {{jwks: {file}}}"), why);
    }
}

#[test]
fn an_url_of_a_redis_that_is_none() {
    let files = Files::new();
    for url in ["redis://h:99999/0", "redis://h:6379/first", "redis://:6379x/"] {
        for limit in ["rate_limit: {rate: 1/s", "quota: {limit: 1, per: day"] {
            refused(&files, &format!("{limit}, redis: {{url: \"{url}\"}}}}"), "this is not a Redis URL");
        }
    }
}
