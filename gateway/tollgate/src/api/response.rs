//! Responses of the admin API, in JSON or YAML.

use axum::body::Body;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_config::{DocumentProblem, KINDS, Severity, kind, masked, to_yaml};
use tollgate_sources::{ChangeError, ChangeResult, ResourceDiff};

use crate::access::{ApiErrorCode, AuditedChange};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Returns whether the client prefers YAML.
pub fn wants_yaml(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = accept.split(',').next().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    first.ends_with("/yaml") || first.ends_with("/x-yaml")
}

/// Returns a successful response, in YAML if the client prefers it.
pub fn json_or_yaml(headers: &HeaderMap, value: &Value) -> Response {
    body(StatusCode::OK, wants_yaml(headers), value)
}

/// Returns a response with a body.
pub fn body(status: StatusCode, yaml: bool, value: &Value) -> Response {
    let (kind, text) = match yaml {
        true => (YAML, to_yaml(value)),
        false => (JSON, format!("{value:#}\n")),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds an entity tag (RFC 9110, section 8.8.3): the version that changed the resource last.
pub fn with_etag(mut response: Response, version: u64) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Returns an error response without further details.
pub fn error_response(status: StatusCode, error: &str, message: &str) -> Response {
    with_error_code(status, error, &json!({ "error": error, "message": message }))
}

fn with_error_code(status: StatusCode, error: &str, value: &Value) -> Response {
    let mut response = body(status, false, value);
    response.extensions_mut().insert(ApiErrorCode(error.to_owned()));
    response
}

/// Answers a method that the path does not have.
pub async fn wrong_method() -> Response {
    error_response(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path has other methods: see Allow",
    )
}

/// Returns the response to a change that was refused.
pub fn change_error_response(error: &ChangeError) -> Response {
    let (status, code) = match error {
        ChangeError::NoStore => (StatusCode::CONFLICT, "no_store"),
        ChangeError::NotNow(_) => (StatusCode::SERVICE_UNAVAILABLE, "not_now"),
        ChangeError::DefinedInFile(..) => (StatusCode::CONFLICT, "of_the_file"),
        ChangeError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
        ChangeError::PreconditionFailed(..) => (StatusCode::PRECONDITION_FAILED, "condition_failed"),
        ChangeError::Malformed(_) => (StatusCode::BAD_REQUEST, "bad_request"),
        ChangeError::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
        ChangeError::UnknownVersion(_) => (StatusCode::NOT_FOUND, "no_version"),
        ChangeError::EtcdUnavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "etcd"),
        ChangeError::StoreFailed(_) => (StatusCode::INSUFFICIENT_STORAGE, "store"),
    };
    let mut value = json!({ "error": code, "message": error.to_string() });
    if let ChangeError::Invalid(problems) = error {
        value["problems"] = problems.iter().map(problem_to_json).collect();
    }
    let mut response = with_error_code(status, code, &value);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Returns the response to a file that was refused. Each problem has the keys of [`problem_to_json`] that
/// apply to a file.
pub fn refused_response(message: &str, problems: Vec<Value>) -> Response {
    let value = json!({ "error": "invalid", "message": message, "problems": problems });
    with_error_code(StatusCode::UNPROCESSABLE_ENTITY, "invalid", &value)
}

/// Returns a problem of a configuration as JSON.
pub fn problem_to_json(problem: &DocumentProblem) -> Value {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "hint",
    };
    json!({
        "severity": severity,
        "resource": problem.place,
        "pointer": problem.pointer,
        "message": problem.message,
        "expected": problem.expected,
        "help": problem.help,
        "text": problem.text,
    })
}

/// Returns the response to a change that was made, or would be, together with what the audit log records.
pub async fn change_response(
    status: StatusCode,
    headers: &HeaderMap,
    what: ChangeResult,
    dry_run: bool,
) -> Response {
    /// Up to this number of changes, the control thread itself makes the response.
    const INLINE_CHANGES_MAX: usize = 100;
    let (yaml, few) = (wants_yaml(headers), what.changes.len() <= INLINE_CHANGES_MAX);
    let make = move || {
        let mut response = body(status, yaml, &result_to_json(&what, dry_run));
        response.extensions_mut().insert(audited_change(&what, dry_run));
        response
    };
    if few {
        return make();
    }
    let made = tokio::task::spawn_blocking(make).await;
    let lost = "the change was made, and its answer could not be";
    made.unwrap_or_else(|_| error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal", lost))
}

/// Returns the part of a change that the audit log records.
pub fn audited_change(what: &ChangeResult, dry_run: bool) -> AuditedChange {
    let resources: Vec<_> = what.changes.iter().map(|it| format!("{}/{}", it.kind.name, it.name)).collect();
    // Each request that changes something creates one version.
    let made = u64::from(!dry_run && !resources.is_empty());
    AuditedChange { before: what.version.saturating_sub(made), after: what.version, dry_run, resources }
}

/// Returns a change that was made, or would be, as JSON.
fn result_to_json(done: &ChangeResult, dry_run: bool) -> Value {
    json!({
        "version": done.version,
        "generation": done.generation,
        "dry_run": dry_run,
        "changes": done.changes.iter().map(diff_to_json).collect::<Vec<_>>(),
        "warnings": done.warnings.iter().map(problem_to_json).collect::<Vec<_>>(),
    })
}

fn diff_to_json(difference: &ResourceDiff) -> Value {
    let ResourceDiff { kind, name, before, after } = difference;
    change_to_json(kind.name, name, before.as_deref(), after.as_deref())
}

/// Returns a resource before and after, with its secrets masked.
pub fn change_to_json(kind_name: &str, name: &str, before: Option<&Value>, after: Option<&Value>) -> Value {
    // A history may contain a kind that this program does not know.
    let kind = kind(kind_name).unwrap_or(&KINDS[0]);
    let what = match (before, after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    json!({
        "kind": kind_name,
        "name": name,
        "change": what,
        "before": before.map(|value| masked(kind, value)),
        "after": after.map(|value| masked(kind, value)),
    })
}
