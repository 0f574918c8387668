//! Reads request bodies as APISIX does: as JSON, whatever their `Content-Type` is.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use serde_json::{Map, Value};

/// The largest body, in bytes. APISIX's own limit is 1.5 MiB.
const BODY_MAX_BYTES: usize = 2 << 20;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads an object. The `Content-Type` is ignored, since `curl -d` sets the one of a form.
pub async fn read(body: Body) -> Result<Map<String, Value>, String> {
    match read_any(body).await? {
        Value::Object(entries) => Ok(entries),
        _ => Err("the body is no object".to_owned()),
    }
}

/// Reads any JSON value.
pub async fn read_any(body: Body) -> Result<Value, String> {
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_MAX_BYTES)).await {
        Err(_) => return Err("the body does not come".to_owned()),
        Ok(Err(_)) => return Err("the body is larger than 2 MiB, or was cut".to_owned()),
        Ok(Ok(bytes)) => bytes,
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| "the body is not UTF-8")?;
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => serde_json::from_str(&without_strays(text))
            .map_err(|_| format!("the body is no JSON: {error}"))?,
    };
    Ok(value)
}

/// Replaces each ideographic comma outside of strings by a space. Input methods leave them behind, and the
/// guide from which most examples of this API are copied has one after its first brace.
fn without_strays(text: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let clean = |c: char| {
        let stray = c == '\u{3001}' && !inside;
        (inside, escaped) = match (inside, escaped, c) {
            (true, true, _) => (true, false),
            (true, false, '\\') => (true, true),
            (true, false, '"') => (false, false),
            (false, _, '"') => (true, false),
            (inside, _, _) => (inside, false),
        };
        if stray { ' ' } else { c }
    };
    text.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_comma_is_no_part_of_a_string() {
        assert_eq!(without_strays("{、\n \"a\": \"b、\\\"、\"、}"), "{ \n \"a\": \"b、\\\"、\" }");
    }
}
