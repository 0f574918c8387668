//! The front for clients of Apache APISIX's admin API, through the real binary.

mod consumers;
mod objects;
mod plugins;

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_tests::{Client, Gateway, Origin, Response};

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

/// Returns the gateway's answer to a request with these header lines.
fn ask(gateway: &Gateway, path: &str, lines: &str) -> Response {
    gateway.client().ask(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"))
}

/// Writes an object and asserts that the front accepts it.
fn put(gateway: &Gateway, path: &str, object: &Value) {
    let answer = curl(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
}

/// Returns a route's `upstream` with this origin as its only node.
fn nodes(origin: &Origin) -> Value {
    json!({"type": "roundrobin", "nodes": {origin.address().to_string(): 1}})
}

/// Writes an APISIX object to the same path of the gateway's own API.
fn put_raw(gateway: &Gateway, path: &str) -> Response {
    tollgate_tests::api::put(gateway, path, &json!({"uri": "/other"}))
}
