//! What comes in a request's body.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::Value;
use tollgate_config::from_yaml;
use tollgate_sources::Refusal;

use super::answer::{problem, refused};

/// Largest body: an import of 100,000 routes is some 10 MiB.
const LARGEST: usize = 64 << 20;
/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a body of JSON or YAML. It must say which: what a browser sends across origins without asking first cannot.
pub async fn read(headers: &HeaderMap, body: Body) -> Result<Value, Box<Response>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let yaml = match kind.as_str() {
        "application/json" | "application/merge-patch+json" => false,
        "application/yaml" | "application/x-yaml" | "text/yaml" => true,
        _ => {
            let message = "the body is to be `Content-Type: application/json` or `application/yaml`";
            return Err(Box::new(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", message)));
        }
    };
    let bad = |message: &str| Box::new(problem(StatusCode::BAD_REQUEST, "bad_request", message));
    let bytes = match tokio::time::timeout(PATIENCE, to_bytes(body, LARGEST)).await {
        Err(_) => {
            return Err(Box::new(problem(StatusCode::REQUEST_TIMEOUT, "timeout", "the body does not come")));
        }
        Ok(Err(_)) => {
            return Err(Box::new(problem(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                "the body is larger than 64 MiB, or was cut",
            )));
        }
        Ok(Ok(bytes)) => bytes,
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| bad("the body is not UTF-8"))?;
    if yaml {
        return from_yaml(text).map_err(|problems| Box::new(refused(&Refusal::Invalid(problems))));
    }
    serde_json::from_str(text).map_err(|error| bad(&format!("the body is no JSON: {error}")))
}
