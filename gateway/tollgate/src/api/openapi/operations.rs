//! The parts of an operation in the description: parameters, responses and refusals.

use serde_json::{Value, json};

/// The refusals of a request that reads.
pub(super) const READ: &[u16] = &[401, 403];
/// The refusals of a request that reads something that may not exist.
pub(super) const READ_ONE: &[u16] = &[401, 403, 404];
/// The refusals of a change.
pub(super) const CHANGE: &[u16] = &[400, 401, 403, 404, 409, 412, 422];
/// The refusals of a change that has a body.
pub(super) const CHANGE_WITH_BODY: &[u16] = &[400, 401, 403, 404, 409, 412, 413, 415, 422];

/// The name of each refusal in the document, and its description.
const REFUSALS: [(u16, &str, &str); 9] = [
    (400, "malformed", "The request is malformed."),
    (401, "unauthorized", "A token is missing or unknown."),
    (403, "forbidden", "The role of the token does not suffice, or the host or origin is not admitted."),
    (404, "not_found", "There is no such kind, resource or version."),
    (409, "conflict", "The file has a resource of this name, or there is no store."),
    (412, "condition_failed", "Another change came first."),
    (413, "too_large", "The body is too large."),
    (415, "content_type", "The body is not declared as JSON or YAML."),
    (422, "invalid", "The resulting configuration is not valid."),
];

/// Returns the responses that refuse requests, by name.
pub(super) fn refusals() -> Value {
    let one = |(_, name, description): (u16, &str, &str)| (name.to_owned(), error(description));
    Value::Object(REFUSALS.into_iter().map(one).collect())
}

pub(super) fn query(name: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": kind } })
}

pub(super) fn history_scope() -> Value {
    let schema = json!({ "type": "string", "enum": ["gateway", "route", "upstream"], "default": "gateway" });
    json!({ "name": "scope", "in": "query", "schema": schema })
}

/// Returns a query parameter that has one of these values.
pub(super) fn query_of(name: &str, values: &[&str]) -> Value {
    json!({ "name": name, "in": "query", "schema": { "enum": values } })
}

pub(super) fn version() -> Value {
    json!({ "name": "version", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 0 } })
}

pub(super) fn name() -> Value {
    json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } })
}

pub(super) fn header(name: &str) -> Value {
    json!({ "name": name, "in": "header", "schema": { "type": "string" } })
}

pub(super) fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema }, "application/yaml": { "schema": schema } })
}

pub(super) fn ok(schema: Value) -> Value {
    json!({ "200": { "description": "The requested state.", "content": content(&schema) } })
}

pub(super) fn changed() -> Value {
    let done = content(&json!({ "$ref": "#/components/schemas/done" }));
    json!({ "200": { "description": "The change is durable, and all workers run it.", "content": done } })
}

fn error(description: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/problem" } } },
    })
}

/// Returns an operation. `id` names the function of a generated client.
pub(super) fn operation(
    id: &str,
    summary: &str,
    parameters: Value,
    body: Option<Value>,
    mut responses: Value,
    refused: &[u16],
) -> Value {
    for (status, name, _) in REFUSALS.iter().filter(|(status, ..)| refused.contains(status)) {
        responses[status.to_string()] = json!({ "$ref": format!("#/components/responses/{name}") });
    }
    responses["default"] = error("The request failed; the body has the reason.");
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "parameters": parameters,
        "responses": responses,
        "security": [{}, { "token": [] }],
    });
    if let Some(schema) = body {
        operation["requestBody"] = json!({ "required": true, "content": content(&schema) });
    }
    operation
}
