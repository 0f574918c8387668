//! The OpenAPI 3.1 description of the admin API, generated from the kinds of resources and the
//! configuration's schema.

use axum::Json;
use serde_json::{Map, Value, json};
use tollgate_config::section::Word;
use tollgate_config::{KINDS, LogComponent, LogLevel, ResourceKind, schema};

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
        paths.insert(format!("/api/v1/{}", kind.name), list(kind));
        let mut one = one(kind, &moved((kind.schema)()));
        // Objects of APISIX can only be read here. They are written through the APISIX front.
        if let (true, Some(methods)) = (kind.name == "apisix", one.as_object_mut()) {
            methods.retain(|method, _| !matches!(method.as_str(), "put" | "patch" | "delete"));
        }
        paths.insert(format!("/api/v1/{}/{{name}}", kind.name), one);
    }
    let get = |id: &str, summary: &str, parameters: Value, refusals: &[u16]| json!({ "get": operation(id, summary, parameters, None, ok(json!({})), refusals) });
    let post = |id: &str, summary: &str, parameters: Value, body: Option<Value>| {
        let refusals = if body.is_some() { CHANGE_WITH_BODY } else { CHANGE };
        json!({ "post": operation(id, summary, parameters, body, changed(), refusals) })
    };
    paths.insert("/api/v1".to_owned(), get("getSummary", "Returns what runs, in numbers.", json!([]), READ));
    paths.insert(
        "/api/v1/config".to_owned(),
        get("getConfig", "Returns all resources, in the form of a file.", json!([]), READ),
    );
    paths.insert(
        "/api/v1/openapi.json".to_owned(),
        get("getOpenapi", "Returns this document.", json!([]), READ),
    );
    paths.insert(
        "/api/v1/history".to_owned(),
        get(
            "listVersions",
            "Lists the versions of the store, the newest first.",
            json!([query("before", "integer"), query("limit", "integer")]),
            READ,
        ),
    );
    paths.insert(
        "/api/v1/history/{version}".to_owned(),
        get(
            "getVersion",
            "Returns a version with its changes, or all differences from an earlier one.",
            json!([version(), query("since", "integer")]),
            READ_ONE,
        ),
    );
    paths.insert(
        "/api/v1/rollback/{version}".to_owned(),
        post(
            "rollBack",
            "Restores the state at a version, as a new version.",
            json!([version(), query("dry_run", "boolean"), query("check", "boolean")]),
            None,
        ),
    );
    paths.insert(
        "/api/v1/transactions".to_owned(),
        post(
            "commitTransaction",
            "Makes several changes, all or none.",
            json!([query("dry_run", "boolean"), query("check", "boolean")]),
            Some(transaction()),
        ),
    );
    paths.insert(
        "/api/v1/live".to_owned(),
        get(
            "getLive",
            "Returns live figures: counts, workers, routes, endpoints, cost and history.",
            json!([
                query("after", "number"),
                query("routes", "integer"),
                query("upstreams", "integer"),
                query("route", "string"),
                query("upstream", "string"),
            ]),
            READ,
        ),
    );
    paths.insert("/api/v1/live/routes".to_owned(), live_routes());
    paths.insert("/api/v1/live/upstreams".to_owned(), live_upstreams());
    paths.insert(
        "/api/v1/live/history".to_owned(),
        get(
            "getHistory",
            "Returns the last hour of the gateway, a route or an upstream, in steps of ten seconds.",
            json!([history_scope(), query("name", "string"), query("after", "number")]),
            READ,
        ),
    );
    let log = operation("getLog", "Returns the levels of the log.", json!([]), None, ok(log_state()), READ);
    let set_log = operation(
        "setLog",
        "Changes levels of the log, until the file is loaded again.",
        json!([]),
        Some(log_levels()),
        ok(log_state()),
        &[400, 401, 403, 415],
    );
    paths.insert("/api/v1/log".to_owned(), json!({ "get": log, "put": set_log }));
    paths.insert(
        "/api/v1/cache".to_owned(),
        json!({ "get": operation("getCache", "Returns the state of the store of responses.", json!([]), None, ok(cache_state()), READ) }),
    );
    let purge = operation(
        "purgeCache",
        "Removes stored responses, or marks them as stale.",
        json!([]),
        Some(cache_purge()),
        ok(json!({ "type": "object", "properties": {
            "purged": { "type": ["integer", "null"], "description": "Stored responses of this gateway; null: not known yet." },
            "version": { "type": "integer", "description": "Only with etcd: the revision of the purge." },
            "gateways": { "type": ["integer", "null"], "description": "Only with etcd: the connected gateways." },
        } })),
        &[400, 401, 403, 415, 503],
    );
    let objects = operation(
        "getCacheObjects",
        "Returns the stored responses that lead in hits, bytes or age. Needs the role `write`.",
        json!([
            query_of("sort", &["hits", "bytes", "age"]),
            query("prefix", "string"),
            query("limit", "integer")
        ]),
        None,
        ok(cache_objects()),
        &[400, 401, 403],
    );
    paths.insert("/api/v1/cache/objects".to_owned(), json!({ "get": objects }));
    paths.insert("/api/v1/cache/purge".to_owned(), json!({ "post": purge }));
    paths.insert(
        "/api/v1/trace".to_owned(),
        get(
            "traceRequests",
            "Follows requests: one line of JSON for each that ends, with its steps. Needs the role `write`.",
            json!([
                query("host", "string"),
                query("path", "string"),
                query("client", "string"),
                query("status", "string"),
                query("reason", "string"),
                query("limit", "integer"),
            ]),
            &[400, 401, 403],
        ),
    );
    paths.insert(
        "/api/v1/etcd".to_owned(),
        get("getEtcd", "Returns the state of the connection to etcd.", json!([]), READ_ONE),
    );
    let question = json!({
        "type": "object",
        "required": ["method", "url"],
        "properties": {
            "method": { "type": "string" }, "url": { "type": "string" },
            "headers": { "type": "array", "items": { "type": "string" } },
            "from": { "type": "string" }, "listener": { "type": "string" }, "all": { "type": "boolean" },
        },
    });
    let mut explain = operation(
        "explainRequest",
        "Returns how a request would be handled by the running plan, and why.",
        json!([]),
        Some(json!({})),
        ok(json!({})),
        &[400, 401, 403, 413],
    );
    explain["requestBody"]["content"] = json!({ "application/json": { "schema": question } });
    paths.insert("/api/v1/explain".to_owned(), json!({ "post": explain }));
    let to = json!({ "type": "object", "properties": { "to": { "type": "string" } }, "required": ["to"] });
    paths.insert(
        "/api/v1/store/backup".to_owned(),
        post(
            "backUpStore",
            "Copies the store to a new file, beside the store or in a directory of `admin.files`.",
            json!([]),
            Some(to),
        ),
    );
    let mut reload = operation(
        "reloadFile",
        "Reads the file again, and answers when every worker runs it.",
        json!([]),
        None,
        ok(reloaded()),
        CHANGE,
    );
    reload["responses"]["200"]["description"] = "Every worker runs the file.".into();
    paths.insert("/api/v1/reload".to_owned(), json!({ "post": reload }));
    let stop = operation(
        "stopProcess",
        "Drains and stops the process. `timeout` is in seconds and replaces `timeouts.drain`. Needs the role `admin`.",
        json!([query("timeout", "number")]),
        None,
        json!({ "202": { "description": "The drain is about to begin.", "content": content(&stopping()) } }),
        READ,
    );
    paths.insert("/api/v1/stop".to_owned(), json!({ "post": stop }));
    paths.insert(
        "/api/v1/store/compact".to_owned(),
        post("compactStore", "Compacts the file of the store.", json!([]), None),
    );

    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Shows what the gateway runs, and changes it under traffic.",
            "license": { "name": "Apache License 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The admin listener that serves this document." }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": refusals(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// The refusals of a request that reads.
const READ: &[u16] = &[401, 403];
/// The refusals of a request that reads something that may not exist.
const READ_ONE: &[u16] = &[401, 403, 404];
/// The refusals of a change.
const CHANGE: &[u16] = &[400, 401, 403, 404, 409, 412, 422];
/// The refusals of a change that has a body.
const CHANGE_WITH_BODY: &[u16] = &[400, 401, 403, 404, 409, 412, 413, 415, 422];

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
fn refusals() -> Value {
    let one = |(_, name, description): (u16, &str, &str)| (name.to_owned(), error(description));
    Value::Object(REFUSALS.into_iter().map(one).collect())
}

/// Returns the definitions of the configuration's schema, with references that point into this document.
fn definitions() -> Map<String, Value> {
    let Value::Object(mut definitions) = moved(schema()["$defs"].clone()) else { return Map::new() };
    definitions.retain(|name, _| name != "configuration");
    definitions
}

/// Converts a part of the configuration's schema. References point into this document. A mapping that only requires
/// keys, such as an alternative of `oneOf`, also declares them, because generators of clients expect that.
fn moved(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut entries: Map<String, Value> = entries
                .into_iter()
                .map(|(key, value)| match (key.as_str(), value.as_str()) {
                    ("$ref", Some(to)) => {
                        (key.clone(), to.replace("#/$defs/", "#/components/schemas/").into())
                    }
                    _ => (key, moved(value)),
                })
                .collect();
            if let (Some(Value::Array(required)), None) = (entries.get("required"), entries.get("properties"))
            {
                let names = required.iter().filter_map(Value::as_str);
                let declared: Map<String, Value> = names.map(|name| (name.to_owned(), json!({}))).collect();
                entries.insert("properties".to_owned(), declared.into());
            }
            Value::Object(entries)
        }
        Value::Array(items) => items.into_iter().map(moved).collect(),
        other => other,
    }
}

fn query(name: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": kind } })
}

fn history_scope() -> Value {
    let schema = json!({ "type": "string", "enum": ["gateway", "route", "upstream"], "default": "gateway" });
    json!({ "name": "scope", "in": "query", "schema": schema })
}

/// Returns a query parameter that has one of these values.
fn query_of(name: &str, values: &[&str]) -> Value {
    json!({ "name": name, "in": "query", "schema": { "enum": values } })
}

fn live_routes() -> Value {
    let parameters = json!([
        query("q", "string"),
        query_of("state", &["failing", "active", "idle", "disabled"]),
        query_of("sort", &["name", "rate", "errors", "p50", "p99", "requests"]),
        query_of("order", &["asc", "desc"]),
        query("offset", "integer"),
        query("limit", "integer"),
    ]);
    let item = json!({ "type": "object", "required": ["name", "configured"], "properties": {
        "name": { "type": "string" }, "configured": { "type": "boolean" }, "enabled": { "type": "boolean" },
        "source": { "enum": ["file", "store", "etcd"] }, "match": { "type": "string" },
        "action": { "enum": ["to", "redirect", "respond", "files"] },
        "targets": { "type": "array", "items": { "type": "object", "properties": {
            "name": { "type": "string" }, "weight": {},
        } } },
        "listeners": { "type": "array", "items": { "type": "string" } },
        "shadowed_by": { "type": ["string", "null"] },
        "requests": { "type": ["integer", "null"] },
        "codes": { "type": ["array", "null"], "items": { "type": "integer" } },
        "recent": recent_rates(),
    } });
    let summary = "Returns routes with their figures, sorted, filtered and paged.";
    json!({ "get": operation("listLiveRoutes", summary, parameters, None, ok(live_page(&item)), READ) })
}

fn live_upstreams() -> Value {
    let parameters = json!([
        query("q", "string"),
        query_of("state", &["unhealthy", "unavailable", "degraded", "unknown", "available"]),
        query_of(
            "sort",
            &["name", "state", "rate", "errors", "p50", "p99", "requests", "connections", "waiting"],
        ),
        query_of("order", &["asc", "desc"]),
        query("offset", "integer"),
        query("limit", "integer"),
        query("endpoints", "integer"),
    ]);
    let item = json!({ "type": "object", "required": ["name", "configured", "state"], "properties": {
        "name": { "type": "string" }, "configured": { "type": "boolean" },
        "state": { "enum": ["unavailable", "degraded", "unknown", "available"] },
        "states": { "type": "object", "additionalProperties": { "type": "integer" } },
        "requests": { "type": "integer" },
        "endpoints": { "type": "array", "items": { "type": "object" } },
        "recent": recent_rates(),
    } });
    let summary = "Returns upstreams and their endpoints with their figures, sorted, filtered and paged.";
    json!({ "get": operation("listLiveUpstreams", summary, parameters, None, ok(live_page(&item)), READ) })
}

fn recent_rates() -> Value {
    json!({ "type": ["object", "null"], "properties": {
        "rate": { "type": "number" }, "errors": { "type": "number" },
        "p50": { "type": ["number", "null"] }, "p99": { "type": ["number", "null"] },
    } })
}

fn live_page(item: &Value) -> Value {
    json!({ "type": "object", "properties": {
        "time": { "type": "number" }, "window": { "type": "number" }, "total": { "type": "integer" },
        "found": { "type": "integer" }, "offset": { "type": "integer" }, "rate": { "type": "number" },
        "items": { "type": "array", "items": item },
    } })
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
    json!({ "200": { "description": "The requested state.", "content": content(&schema) } })
}

fn changed() -> Value {
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
fn operation(
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

/// Returns the name of a kind in the ids of operations: `PolicySet`.
fn type_name(kind: &ResourceKind) -> String {
    if kind.name == "apisix" {
        return "ApisixObject".to_owned();
    }
    let words = kind.noun.split(' ').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

fn list(kind: &ResourceKind) -> Value {
    let parameters = json!([
        query("name", "string"),
        query("source", "string"),
        query("q", "string"),
        query("after", "string"),
        query("offset", "integer"),
        query("limit", "integer"),
        query_of("sort", &["name", "source"]),
        query_of("order", &["asc", "desc"]),
    ]);
    let mut item = json!({ "type": "object", "properties": {
        "name": { "type": "string" }, "source": { "type": "string" }, "version": { "type": ["integer", "null"] },
        "value": {},
    } });
    if kind.name == "routes" {
        item["properties"]["shadowed_by"] = json!({ "type": "string" });
    }
    if kind.name == "listeners" {
        let properties = &mut item["properties"];
        // A listener of the file may have none.
        properties["name"] = json!({ "type": ["string", "null"] });
        for key in ["address", "bound", "problem"] {
            properties[key] = json!({ "type": ["string", "null"] });
        }
        properties["hosts"] = json!({ "type": "array", "items": { "type": "string" } });
        properties["routes"] = json!({ "type": "integer" });
        properties["protocols"] = json!({ "type": "array", "items": { "type": "string" } });
        properties["tls"] = json!({ "type": ["object", "null"] });
    }
    let schema = json!({ "type": "object", "properties": {
        "total": { "type": "integer" }, "found": { "type": "integer" }, "items": { "type": "array", "items": item },
    } });
    let id = format!("list{}s", type_name(kind));
    let summary = format!("Lists the {}s of the file and of the store.", kind.noun);
    json!({ "get": operation(&id, &summary, parameters, None, ok(schema), READ) })
}

fn one(kind: &ResourceKind, schema: &Value) -> Value {
    let (noun, name_of_type) = (kind.noun, type_name(kind));
    let parameters = json!([
        name(),
        query("dry_run", "boolean"),
        query("check", "boolean"),
        header("If-Match"),
        header("If-None-Match"),
    ]);
    let write = |verb: &str, summary: String, body: Option<Value>| {
        let refused = if body.is_some() { CHANGE_WITH_BODY } else { CHANGE };
        let id = format!("{verb}{name_of_type}");
        operation(&id, &summary, parameters.clone(), body, changed(), refused)
    };
    let id = format!("get{name_of_type}");
    let summary = format!("Returns one {noun}, as it is written.");
    let mut put = write("put", format!("Creates or replaces one {noun}."), Some(schema.clone()));
    put["responses"]["201"] = put["responses"]["200"].clone();
    put["responses"]["201"]["description"] =
        "The resource is new; it is durable, and all workers run it.".into();
    json!({
        "get": operation(&id, &summary, json!([name()]), None, ok(schema.clone()), READ_ONE),
        "put": put,
        "patch": write("patch", format!("Merges a patch into one {noun} (RFC 7396)."), Some(json!({}))),
        "delete": write("delete", format!("Removes one {noun}."), None),
    })
}

fn reloaded() -> Value {
    let list_of = |kind: &str| json!({ "type": "array", "items": { "type": kind } });
    json!({ "type": "object", "properties": {
        "file": { "type": "string" }, "generation": { "type": "integer" }, "routes": { "type": "integer" },
        "routes_read": { "type": "integer" }, "milliseconds": { "type": "number" },
        "changes": done()["properties"]["changes"], "settings": list_of("string"),
        "needs_restart": list_of("string"), "problem": { "type": ["string", "null"] },
        "warnings": list_of("object"),
    } })
}

fn stopping() -> Value {
    json!({ "type": "object", "properties": {
        "state": { "enum": ["draining"] }, "pid": { "type": "integer" }, "in_flight": { "type": "integer" },
        "timeout": { "type": ["number", "null"] },
    } })
}

fn cache_state() -> Value {
    let names = ["objects", "bytes", "capacity", "hits", "misses", "followed", "evictions", "refused"];
    let counts = names.map(|name| (name.to_owned(), json!({ "type": "integer" })));
    let mut properties: Map<String, Value> = counts.into_iter().collect();
    properties.insert("hit_ratio".to_owned(), json!({ "type": ["number", "null"] }));
    json!({ "type": "object", "properties": properties })
}

fn cache_objects() -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let item = json!({ "type": "object", "properties": {
        "url": { "type": "string" }, "place": { "type": "string" }, "status": { "type": "integer" },
        "bytes": { "type": "integer" }, "cost": { "type": "integer" }, "age": { "type": "integer" },
        "ttl": { "type": "integer" }, "hits": { "type": "integer" }, "stale": { "type": "boolean" },
        "vary": texts, "tags": texts,
    } });
    json!({ "type": "object", "properties": {
        "found": { "type": "integer" }, "items": { "type": "array", "items": item },
    } })
}

fn cache_purge() -> Value {
    json!({
        "type": "object",
        "description": "Exactly one of `key`, `prefix`, `tag` and `all`.",
        "additionalProperties": false,
        "properties": {
            "key": { "type": "string" },
            "prefix": { "type": "string" },
            "tag": { "type": "string" },
            "all": { "const": true },
            "soft": { "type": "boolean" },
        },
    })
}

fn log_levels() -> Value {
    let level = json!({ "enum": LogLevel::WORDS });
    let components: Map<_, _> =
        LogComponent::ALL.map(|component| (component.word().to_owned(), level.clone())).into_iter().collect();
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
        // The list of listeners has a path of its own beside that of all kinds.
        there.dedup();
        let document = openapi();
        let mut described: Vec<_> = document["paths"].as_object().expect("paths").keys().cloned().collect();
        described.sort();
        assert_eq!(described, there);
    }

    /// What generators of clients and Redocly's linter need: an id for each operation, a refusal, and a declaration of
    /// each required property.
    #[test]
    fn generators_of_clients_find_what_they_need() {
        tollgate_policy::register();
        let document = openapi();
        let mut ids = Vec::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let id =
                    operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}: no id"));
                assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
                ids.push(id.to_owned());
                let mut statuses = operation["responses"].as_object().expect("responses").keys();
                assert!(statuses.any(|status| status.starts_with('4')), "{method} {path}: no 4xx");
            }
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id occurs twice");
        assert!(count >= 30, "{count}");
        assert_eq!(document["servers"][0]["url"], "/");
        assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
        check_required(&document);
    }

    /// Checks that every required property is declared beside it.
    fn check_required(value: &Value) {
        match value {
            Value::Object(entries) => {
                if let Some(Value::Array(required)) = entries.get("required") {
                    let declared = entries.get("properties").and_then(Value::as_object).expect("properties");
                    let names = required.iter().filter_map(Value::as_str);
                    names.for_each(|name| assert!(declared.contains_key(name), "{name} in {value}"));
                }
                entries.values().for_each(check_required);
            }
            Value::Array(items) => items.iter().for_each(check_required),
            _ => {}
        }
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
