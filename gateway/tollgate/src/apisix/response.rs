//! Responses of the APISIX front. Version 3 clients find the object in `value`, older ones in `node`, so it
//! is in both.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tollgate_sources::{ChangeError, ChangeResult};

use super::list::ListedObject;
use crate::access::ApiErrorCode;
use crate::api;

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(format!("{value}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns an object, or reports its deletion. `version`, which changed it last, is used for both of etcd's
/// indexes.
pub fn object_response(
    status: StatusCode,
    action: &str,
    key: &str,
    value: Option<Map<String, Value>>,
    version: Option<u64>,
) -> Response {
    let mut answer = match value {
        Some(value) => json!({
            "action": action,
            "key": key,
            "value": value,
            "node": { "key": key, "value": value },
        }),
        None => json!({ "action": action, "key": key, "deleted": "1", "node": { "key": key } }),
    };
    if let Some(version) = version {
        for name in ["createdIndex", "modifiedIndex"] {
            answer[name] = json!(version);
        }
    }
    json_response(status, &answer)
}

/// Lists objects of a kind, by key and with the version that changed each last. `total` counts all pages.
pub fn list_response(kind: &str, items: Vec<ListedObject>, total: usize) -> Response {
    let list = items.into_iter().map(|(key, value, version)| {
        let mut item = json!({ "key": key, "value": value });
        if let Some(version) = version {
            item["createdIndex"] = json!(version);
            item["modifiedIndex"] = json!(version);
        }
        item
    });
    let list: Vec<_> = list.collect();
    let node = json!({ "key": format!("/apisix/{kind}"), "dir": true, "nodes": list });
    json_response(
        StatusCode::OK,
        &json!({ "action": "get", "total": total, "list": list, "node": node, "count": list.len() }),
    )
}

/// Returns the plugins that this front accepts: a list of names, or an object with the names as keys.
pub fn plugins(as_object: bool) -> Response {
    let names = super::plugins::NAMES;
    let answer = match as_object {
        false => json!(names),
        true => names.iter().map(|name| ((*name).to_owned(), json!({ "name": name }))).collect(),
    };
    json_response(StatusCode::OK, &answer)
}

/// Confirms that an object is valid.
pub fn valid() -> Response {
    json_response(StatusCode::OK, &json!({}))
}

/// Returns an error response.
pub fn wrong(status: StatusCode, message: &str) -> Response {
    let mut response = json_response(status, &json!({ "error_msg": message, "message": message }));
    response.extensions_mut().insert(ApiErrorCode("apisix".to_owned()));
    response
}

/// Returns a 404 for an object that does not exist.
pub fn not_found(what: &str) -> Response {
    wrong(StatusCode::NOT_FOUND, &format!("Key not found: {what}"))
}

/// Returns the response to a change that was refused.
pub fn change_error_response(error: &ChangeError) -> Response {
    let status = match error {
        // APISIX answers an invalid body with 400.
        ChangeError::Invalid(_) => StatusCode::BAD_REQUEST,
        error => api::change_error_response(error).status(),
    };
    wrong(status, &error.to_string())
}

/// Attaches the change to the response, for the audit log.
pub fn with_audit(mut response: Response, done: &ChangeResult) -> Response {
    response.extensions_mut().insert(api::audited_change(done, false));
    response
}
