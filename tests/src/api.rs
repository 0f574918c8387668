//! Requests to the admin API.

use std::sync::Arc;

use serde_json::Value;

use crate::{Client, Gateway, Response};

/// The header line for a JSON body.
pub const JSON: &str = "Content-Type: application/json\r\n";

/// Sends a request to the API on a connection of its own. `lines` holds further header lines, each with its
/// CR LF.
///
/// # Panics
/// Panics if there is no whole answer.
pub fn call(gateway: &Gateway, method: &str, path: &str, lines: &str, body: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let length = body.len();
    client.ask(format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

/// Creates or replaces a resource by `PUT` with a JSON body.
///
/// # Panics
/// Panics if there is no whole answer.
pub fn put(gateway: &Gateway, path: &str, value: &Value) -> Response {
    call(gateway, "PUT", path, JSON, &value.to_string())
}

/// Parses the body of an answer as JSON.
///
/// # Panics
/// Panics if the body is not JSON.
pub fn json_of(response: &Response) -> Value {
    serde_json::from_str(&response.text()).expect("JSON")
}
