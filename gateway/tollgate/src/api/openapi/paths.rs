//! The paths of the admin API, by subject.

use serde_json::{Map, Value, json};

use super::operations::{
    CHANGE, CHANGE_WITH_BODY, READ, READ_ONE, changed, content, history_scope, ok, operation, query,
    query_of, version,
};
use super::schemas::{
    cache_objects, cache_purge, cache_state, log_levels, log_state, reloaded, stopping, transaction,
};

/// The paths so far, with their operations.
#[derive(Default)]
pub(super) struct Paths(Map<String, Value>);

impl Paths {
    /// Adds a path.
    pub fn add(&mut self, path: &str, operations: Value) {
        self.0.insert(path.to_owned(), operations);
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// Returns a `GET` without a body, whose answer the document does not describe.
fn get(id: &str, summary: &str, parameters: Value, refusals: &[u16]) -> Value {
    json!({ "get": operation(id, summary, parameters, None, ok(json!({})), refusals) })
}

/// Returns a `POST` that changes something.
fn post(id: &str, summary: &str, parameters: Value, body: Option<Value>) -> Value {
    let refusals = if body.is_some() { CHANGE_WITH_BODY } else { CHANGE };
    json!({ "post": operation(id, summary, parameters, body, changed(), refusals) })
}

/// The summary, all resources, and this document.
pub(super) fn about(paths: &mut Paths) {
    paths.add("/api/v1", get("getSummary", "Returns what runs, in numbers.", json!([]), READ));
    paths.add(
        "/api/v1/config",
        get("getConfig", "Returns all resources, in the form of a file.", json!([]), READ),
    );
    paths.add("/api/v1/openapi.json", get("getOpenapi", "Returns this document.", json!([]), READ));
}

/// The versions of the store, its file, and transactions.
pub(super) fn store(paths: &mut Paths) {
    paths.add(
        "/api/v1/history",
        get(
            "listVersions",
            "Lists the versions of the store, the newest first.",
            json!([query("before", "integer"), query("limit", "integer")]),
            READ,
        ),
    );
    paths.add(
        "/api/v1/history/{version}",
        get(
            "getVersion",
            "Returns a version with its changes, or all differences from an earlier one.",
            json!([version(), query("since", "integer")]),
            READ_ONE,
        ),
    );
    paths.add(
        "/api/v1/rollback/{version}",
        post(
            "rollBack",
            "Restores the state at a version, as a new version.",
            json!([version(), query("dry_run", "boolean"), query("check", "boolean")]),
            None,
        ),
    );
    paths.add(
        "/api/v1/transactions",
        post(
            "commitTransaction",
            "Makes several changes, all or none.",
            json!([query("dry_run", "boolean"), query("check", "boolean")]),
            Some(transaction()),
        ),
    );
    let to = json!({ "type": "object", "properties": { "to": { "type": "string" } }, "required": ["to"] });
    paths.add(
        "/api/v1/store/backup",
        post(
            "backUpStore",
            "Copies the store to a new file, beside the store or in a directory of `admin.files`.",
            json!([]),
            Some(to),
        ),
    );
    paths.add(
        "/api/v1/store/compact",
        post("compactStore", "Compacts the file of the store.", json!([]), None),
    );
}

/// The live document and the last hour.
pub(super) fn live(paths: &mut Paths) {
    paths.add(
        "/api/v1/live",
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
    paths.add(
        "/api/v1/live/history",
        get(
            "getHistory",
            "Returns the last hour of the gateway, a route or an upstream, in steps of ten seconds.",
            json!([history_scope(), query("name", "string"), query("after", "number")]),
            READ,
        ),
    );
}

/// The levels of the gateway's own log.
pub(super) fn log(paths: &mut Paths) {
    let log = operation("getLog", "Returns the levels of the log.", json!([]), None, ok(log_state()), READ);
    let set_log = operation(
        "setLog",
        "Changes levels of the log, until the file is loaded again.",
        json!([]),
        Some(log_levels()),
        ok(log_state()),
        &[400, 401, 403, 415],
    );
    paths.add("/api/v1/log", json!({ "get": log, "put": set_log }));
}

/// The stored responses.
pub(super) fn cache(paths: &mut Paths) {
    paths.add("/api/v1/cache", json!({ "get": operation("getCache", "Returns the state of the store of responses.", json!([]), None, ok(cache_state()), READ) }),
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
    paths.add("/api/v1/cache/objects", json!({ "get": objects }));
    paths.add("/api/v1/cache/purge", json!({ "post": purge }));
}

/// Single requests: traces and explanations.
pub(super) fn requests(paths: &mut Paths) {
    paths.add("/api/v1/trace", get(
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
    paths.add("/api/v1/explain", json!({ "post": explain }));
}

/// The sources of the configuration.
pub(super) fn sources(paths: &mut Paths) {
    paths.add(
        "/api/v1/etcd",
        get("getEtcd", "Returns the state of the connection to etcd.", json!([]), READ_ONE),
    );
    let connection = "Returns the state of the connection to a controller.";
    paths.add("/api/v1/controller", get("getController", connection, json!([]), READ_ONE));
    let fleet = "Returns the gateways of a controller, and the version that each serves.";
    paths.add("/api/v1/fleet", get("getFleet", fleet, json!([]), READ_ONE));
}

/// The process: reload and stop.
pub(super) fn process(paths: &mut Paths) {
    let mut reload = operation(
        "reloadFile",
        "Reads the file again, and answers when every worker runs it.",
        json!([]),
        None,
        ok(reloaded()),
        CHANGE,
    );
    reload["responses"]["200"]["description"] = "Every worker runs the file.".into();
    paths.add("/api/v1/reload", json!({ "post": reload }));
    let stop = operation(
        "stopProcess",
        "Drains and stops the process. `timeout` is in seconds and replaces `timeouts.drain`. Needs the role `admin`.",
        json!([query("timeout", "number")]),
        None,
        json!({ "202": { "description": "The drain is about to begin.", "content": content(&stopping()) } }),
        READ,
    );
    paths.add("/api/v1/stop", json!({ "post": stop }));
}
