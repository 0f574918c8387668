//! The admin API.

use std::sync::Arc;

use serde_json::Value;

use crate::{Client, Gateway, Response};

/// The line that says that a body is JSON.
pub const JSON: &str = "Content-Type: application/json\r\n";

/// A request to the API, on a connection of its own, with further lines of the head.
///
/// # Panics
/// When there is no whole answer.
pub fn call(gateway: &Gateway, method: &str, path: &str, lines: &str, body: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    let length = body.len();
    client.ask(format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

/// Puts a resource there.
///
/// # Panics
/// When there is no whole answer.
pub fn put(gateway: &Gateway, path: &str, value: &Value) -> Response {
    call(gateway, "PUT", path, JSON, &value.to_string())
}

/// The JSON of an answer.
///
/// # Panics
/// When it is none.
pub fn json_of(response: &Response) -> Value {
    serde_json::from_str(&response.text()).expect("JSON")
}
