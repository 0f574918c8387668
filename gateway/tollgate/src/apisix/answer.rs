//! Answers. Version 3 has the object in `value`, those before it in `node`: clients of either find it.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tollgate_sources::{Done, Refusal};

use crate::access::Problem;
use crate::api;

fn document(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(format!("{value}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An object, or that it is gone.
pub fn object(
    status: StatusCode,
    action: &str,
    kind: &str,
    id: &str,
    value: Option<Map<String, Value>>,
) -> Response {
    let key = format!("/apisix/{kind}/{id}");
    let answer = match value {
        Some(value) => json!({
            "action": action,
            "key": key,
            "value": value,
            "node": { "key": key, "value": value },
        }),
        None => json!({ "action": action, "key": key, "deleted": "1", "node": { "key": key } }),
    };
    document(status, &answer)
}

/// Objects of a kind.
pub fn listed(kind: &str, items: Vec<(String, Map<String, Value>)>) -> Response {
    let list =
        items.into_iter().map(|(id, value)| json!({ "key": format!("/apisix/{kind}/{id}"), "value": value }));
    let list: Vec<_> = list.collect();
    let node = json!({ "key": format!("/apisix/{kind}"), "dir": true, "nodes": list });
    document(
        StatusCode::OK,
        &json!({ "action": "get", "total": list.len(), "list": list, "node": node, "count": list.len() }),
    )
}

/// Why not.
pub fn wrong(status: StatusCode, message: &str) -> Response {
    let mut response = document(status, &json!({ "error_msg": message, "message": message }));
    response.extensions_mut().insert(Problem("apisix".to_owned()));
    response
}

/// There is no such object.
pub fn missing(what: &str) -> Response {
    wrong(StatusCode::NOT_FOUND, &format!("Key not found: {what}"))
}

/// Why it was not done.
pub fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        // As APISIX answers a body that it does not take.
        Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
        refusal => api::refused(refusal).status(),
    };
    wrong(status, &refusal.to_string())
}

/// The answer, with what the audit log is told.
pub fn audited(mut response: Response, done: &Done) -> Response {
    response.extensions_mut().insert(api::changed(done, false));
    response
}
