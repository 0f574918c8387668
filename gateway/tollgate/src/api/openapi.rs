//! The OpenAPI 3.1 description of the admin API, generated from the kinds of resources and the
//! configuration's schema. [`operations`] has the parts of an operation, and [`schemas`] the bodies.

use axum::Json;
use serde_json::{Map, Value, json};
use tollgate_config::{KINDS, ResourceKind, schema};

use self::operations::{
    CHANGE, CHANGE_WITH_BODY, READ, READ_ONE, changed, content, header, history_scope, name, ok, operation,
    query, query_of, refusals, version,
};
use self::schemas::{
    cache_objects, cache_purge, cache_state, done, live_page, log_levels, log_state, problem, recent_rates,
    reloaded, stopping, transaction,
};

mod operations;
mod schemas;

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
            "Follows requests and streams: one line of JSON for each that ends, with its steps. Needs the role `write`.",
            json!([
                query("host", "string"),
                query("path", "string"),
                query("client", "string"),
                query("status", "string"),
                query("reason", "string"),
                query("stream", "string"),
                query("limit", "integer"),
            ]),
            &[400, 401, 403],
        ),
    );
    paths.insert(
        "/api/v1/etcd".to_owned(),
        get("getEtcd", "Returns the state of the connection to etcd.", json!([]), READ_ONE),
    );
    let connection = "Returns the state of the connection to a controller.";
    paths.insert("/api/v1/controller".to_owned(), get("getController", connection, json!([]), READ_ONE));
    let fleet = "Returns the gateways of a controller, and the version that each serves.";
    paths.insert("/api/v1/fleet".to_owned(), get("getFleet", fleet, json!([]), READ_ONE));
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
        "source": { "enum": ["file", "store", "etcd", "kubernetes", "controller"] }, "match": { "type": "string" },
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

#[cfg(test)]
mod tests;
