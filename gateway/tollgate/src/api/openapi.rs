//! The OpenAPI 3.1 description of the admin API, generated from the kinds of resources and the
//! configuration's schema.

use axum::Json;
use serde_json::{Map, Value, json};
use tollgate_config::{KINDS, LogComponent, LogLevel, schema};

/// `GET /api/v1/openapi.json`.
pub async fn document() -> Json<Value> {
    Json(openapi())
}

/// Returns the document.
pub fn openapi() -> Value {
    let mut schemas = definitions();
    schemas.insert("problem".to_owned(), problem());
    schemas.insert("done".to_owned(), done());
    let mut paths = Map::new();
    for kind in &KINDS {
        paths.insert(format!("/api/v1/{}", kind.name), list(kind.name, kind.noun));
        let mut one = one(kind.noun, &moved((kind.schema)()));
        // Objects of APISIX can only be read here. They are written through the APISIX front.
        if let (true, Some(methods)) = (kind.name == "apisix", one.as_object_mut()) {
            methods.retain(|method, _| !matches!(method.as_str(), "put" | "patch" | "delete"));
        }
        paths.insert(format!("/api/v1/{}/{{name}}", kind.name), one);
    }
    let get = |summary: &str, parameters: Value| json!({ "get": operation(summary, parameters, None, ok(json!({}))) });
    let post = |summary: &str, parameters: Value, body: Option<Value>| json!({ "post": operation(summary, parameters, body, changed()) });
    paths.insert("/api/v1".to_owned(), get("What runs.", json!([])));
    paths.insert("/api/v1/config".to_owned(), get("All resources, in the file's language.", json!([])));
    paths.insert("/api/v1/openapi.json".to_owned(), get("This document.", json!([])));
    paths.insert(
        "/api/v1/history".to_owned(),
        get(
            "Versions of the store, the newest first.",
            json!([query("before", "integer"), query("limit", "integer")]),
        ),
    );
    paths.insert(
        "/api/v1/history/{version}".to_owned(),
        get(
            "One version, with what it changed, or all that is different at it from an earlier one.",
            json!([version(), query("since", "integer")]),
        ),
    );
    paths.insert(
        "/api/v1/rollback/{version}".to_owned(),
        post("All becomes as it was at a version.", json!([version(), query("dry_run", "boolean")]), None),
    );
    paths.insert(
        "/api/v1/transactions".to_owned(),
        post("Several changes, all or none.", json!([query("dry_run", "boolean")]), Some(transaction())),
    );
    paths.insert(
        "/api/v1/live".to_owned(),
        get(
            "What goes on: counts, workers, routes, endpoints, cost, history.",
            json!([query("after", "number")]),
        ),
    );
    let log = operation("Levels of the log.", json!([]), None, ok(log_state()));
    let set_log = operation(
        "Changes levels of the log, until the file is loaded again.",
        json!([]),
        Some(log_levels()),
        ok(log_state()),
    );
    paths.insert("/api/v1/log".to_owned(), json!({ "get": log, "put": set_log }));
    paths.insert(
        "/api/v1/trace".to_owned(),
        get(
            "Follows requests: one line of JSON for each that ends, with its steps. Needs the role `write`.",
            json!([
                query("host", "string"),
                query("path", "string"),
                query("client", "string"),
                query("status", "string"),
                query("reason", "string"),
                query("limit", "integer"),
            ]),
        ),
    );
    paths.insert("/api/v1/etcd".to_owned(), get("How it stands with etcd.", json!([])));
    let question = json!({ "type": "object", "required": ["method", "url"] });
    let mut explain = operation(
        "Where a request would go by the plan in force, and why.",
        json!([]),
        Some(json!({})),
        ok(json!({})),
    );
    explain["requestBody"]["content"] = json!({ "application/json": { "schema": question } });
    paths.insert("/api/v1/explain".to_owned(), json!({ "post": explain }));
    let to = json!({ "type": "object", "properties": { "to": { "type": "string" } }, "required": ["to"] });
    paths.insert(
        "/api/v1/store/backup".to_owned(),
        post(
            "Copies the store to a new file, beside the store or in a directory of `admin.files`.",
            json!([]),
            Some(to),
        ),
    );
    paths.insert("/api/v1/store/compact".to_owned(), post("Makes the store's file small.", json!([]), None));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the gateway runs, and changing it while it runs.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Returns the definitions of the configuration's schema, with references that point into this document.
fn definitions() -> Map<String, Value> {
    let Value::Object(mut definitions) = moved(schema()["$defs"].clone()) else { return Map::new() };
    definitions.retain(|name, _| name != "configuration");
    definitions
}

fn moved(value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| match (key.as_str(), value.as_str()) {
                    ("$ref", Some(to)) => {
                        (key.clone(), to.replace("#/$defs/", "#/components/schemas/").into())
                    }
                    _ => (key, moved(value)),
                })
                .collect(),
        ),
        Value::Array(items) => items.into_iter().map(moved).collect(),
        other => other,
    }
}

fn query(name: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": kind } })
}

fn version() -> Value {
    json!({ "name": "version", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 0 } })
}

fn name() -> Value {
    json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } })
}

fn header(name: &str) -> Value {
    json!({ "name": name, "in": "header", "schema": { "type": "string" } })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema }, "application/yaml": { "schema": schema } })
}

fn ok(schema: Value) -> Value {
    json!({ "200": { "description": "Here it is.", "content": content(&schema) }, "default": error() })
}

fn changed() -> Value {
    let done = content(&json!({ "$ref": "#/components/schemas/done" }));
    json!({
        "200": { "description": "It is durable, and all workers run it.", "content": done },
        "default": error(),
    })
}

fn error() -> Value {
    json!({
        "description": "Why not.",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/problem" } } },
    })
}

fn operation(summary: &str, parameters: Value, body: Option<Value>, responses: Value) -> Value {
    let mut operation = json!({ "summary": summary, "parameters": parameters, "responses": responses, "security": [{}, { "token": [] }] });
    if let Some(schema) = body {
        operation["requestBody"] = json!({ "required": true, "content": content(&schema) });
    }
    operation
}

fn list(kind: &str, noun: &str) -> Value {
    let parameters = json!([
        query("name", "string"),
        query("source", "string"),
        query("q", "string"),
        query("after", "string"),
        query("limit", "integer"),
    ]);
    let item = json!({ "type": "object", "properties": {
        "name": { "type": "string" }, "source": { "type": "string" }, "version": { "type": ["integer", "null"] },
        "value": {},
    } });
    let schema = json!({ "type": "object", "properties": {
        "total": { "type": "integer" }, "found": { "type": "integer" }, "items": { "type": "array", "items": item },
    } });
    let _ = noun;
    json!({ "get": operation(&format!("The {kind}, of the file and of the store."), parameters, None, ok(schema)) })
}

fn one(noun: &str, schema: &Value) -> Value {
    let parameters =
        json!([name(), query("dry_run", "boolean"), header("If-Match"), header("If-None-Match")]);
    let write =
        |summary: String, body: Option<Value>| operation(&summary, parameters.clone(), body, changed());
    json!({
        "get": operation(&format!("A {noun}, as it is written."), json!([name()]), None, ok(schema.clone())),
        "put": write(format!("Writes a {noun}, new or in place of the one of its name."), Some(schema.clone())),
        "patch": write(format!("Changes a {noun} (RFC 7396)."), Some(json!({}))),
        "delete": write(format!("Removes a {noun}."), None),
    })
}

fn log_levels() -> Value {
    let level = json!({ "enum": LogLevel::ALL.map(LogLevel::as_str) });
    let components: Map<_, _> = LogComponent::ALL
        .map(|component| (component.as_str().to_owned(), level.clone()))
        .into_iter()
        .collect();
    let components = json!({ "type": "object", "properties": components, "additionalProperties": false });
    json!({
        "type": "object",
        "properties": { "level": level, "components": components },
        "additionalProperties": false,
    })
}

fn log_state() -> Value {
    let mut state = log_levels();
    state["properties"]["format"] = json!({ "enum": ["text", "json"] });
    state["properties"]["output"] = json!({ "type": "string" });
    state["properties"]["lost"] = json!({ "type": "integer" });
    state
}

fn transaction() -> Value {
    let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    json!({
        "type": "object",
        "required": ["changes"],
        "properties": { "changes": { "type": "array", "items": {
            "type": "object",
            "required": ["op", "kind", "name"],
            "additionalProperties": false,
            "properties": {
                "op": { "enum": ["put", "patch", "delete"] },
                "kind": { "enum": kinds },
                "name": { "type": "string" },
                "value": {},
                "if_version": { "type": ["integer", "null"] },
            },
        } } },
    })
}

fn done() -> Value {
    json!({
        "type": "object",
        "required": ["version", "generation", "changes"],
        "properties": {
            "version": { "type": "integer" }, "generation": { "type": "integer" }, "dry_run": { "type": "boolean" },
            "changes": { "type": "array", "items": { "type": "object", "properties": {
                "kind": { "type": "string" }, "name": { "type": "string" },
                "change": { "enum": ["added", "changed", "removed"] }, "before": {}, "after": {},
            } } },
            "warnings": { "type": "array", "items": {} },
        },
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": { "type": "string" }, "message": { "type": "string" },
            "problems": { "type": "array", "items": { "type": "object", "properties": {
                "severity": { "enum": ["error", "warning"] }, "resource": { "type": "string" },
                "pointer": { "type": "string" }, "message": { "type": "string" },
                "expected": { "type": ["string", "null"] },
                "help": { "type": "array", "items": { "type": "string" } }, "text": { "type": "string" },
            } } },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` resolves, and every variable in a path is a parameter.
    #[test]
    fn the_description_is_whole() {
        tollgate_policy::register();
        let document = openapi();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(references.len() > 50);
        for reference in references {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let parameters = operation["parameters"].as_array().expect("parameters");
                for part in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
                    assert!(parameters.iter().any(|it| it["name"] == part), "{method} {path}: {part}");
                }
            }
        }
    }

    /// The document describes exactly the paths that the routers have.
    #[test]
    fn the_description_is_of_the_paths_that_there_are() {
        tollgate_policy::register();
        let sources = [
            include_str!("mod.rs"),
            include_str!("../live.rs"),
            include_str!("../etcd.rs"),
            include_str!("../trace/api.rs"),
        ]
        .concat();
        let quoted = sources.split('"').filter(|text| text.starts_with("/api/v1"));
        let mut there: Vec<String> = Vec::new();
        for path in quoted {
            let path = path.replace("{*name}", "{name}");
            match path.contains("{kind}") {
                true => there.extend(KINDS.iter().map(|kind| path.replace("{kind}", kind.name))),
                false => there.push(path),
            }
        }
        there.sort();
        let document = openapi();
        let mut described: Vec<_> = document["paths"].as_object().expect("paths").keys().cloned().collect();
        described.sort();
        assert_eq!(described, there);
    }

    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(entries) => {
                found.extend(entries.get("$ref").and_then(Value::as_str).map(str::to_owned));
                entries.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
}
