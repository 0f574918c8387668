//! The schemas of bodies that the configuration does not describe: results, problems, figures and levels of the log.

use serde_json::{Map, Value, json};
use tollgate_config::section::Word;
use tollgate_config::{KINDS, LogComponent, LogLevel};

pub(super) fn recent_rates() -> Value {
    json!({ "type": ["object", "null"], "properties": {
        "rate": { "type": "number" }, "errors": { "type": "number" },
        "p50": { "type": ["number", "null"] }, "p99": { "type": ["number", "null"] },
    } })
}

pub(super) fn live_page(item: &Value) -> Value {
    json!({ "type": "object", "properties": {
        "time": { "type": "number" }, "window": { "type": "number" }, "total": { "type": "integer" },
        "found": { "type": "integer" }, "offset": { "type": "integer" }, "rate": { "type": "number" },
        "items": { "type": "array", "items": item },
    } })
}

pub(super) fn reloaded() -> Value {
    let list_of = |kind: &str| json!({ "type": "array", "items": { "type": kind } });
    json!({ "type": "object", "properties": {
        "file": { "type": "string" }, "generation": { "type": "integer" }, "routes": { "type": "integer" },
        "routes_read": { "type": "integer" }, "milliseconds": { "type": "number" },
        "changes": done()["properties"]["changes"], "settings": list_of("string"),
        "needs_restart": list_of("string"), "problem": { "type": ["string", "null"] },
        "warnings": list_of("object"),
    } })
}

pub(super) fn stopping() -> Value {
    json!({ "type": "object", "properties": {
        "state": { "enum": ["draining"] }, "pid": { "type": "integer" }, "in_flight": { "type": "integer" },
        "timeout": { "type": ["number", "null"] },
    } })
}

pub(super) fn cache_state() -> Value {
    let names = [
        "objects",
        "bytes",
        "capacity",
        "hits",
        "misses",
        "followed",
        "evictions",
        "refused",
        "compressed",
        "compressed_bytes",
    ];
    let counts = names.map(|name| (name.to_owned(), json!({ "type": "integer" })));
    let mut properties: Map<String, Value> = counts.into_iter().collect();
    properties.insert("hit_ratio".to_owned(), json!({ "type": ["number", "null"] }));
    properties.insert("disk".to_owned(), disk_tier());
    json!({ "type": "object", "properties": properties })
}

fn disk_tier() -> Value {
    let names = [
        "objects",
        "bytes",
        "capacity",
        "waiting_bytes",
        "waiting_purges",
        "hits",
        "read_bytes",
        "writes",
        "written_bytes",
        "drops",
        "evictions",
        "errors",
    ];
    let counts = names.map(|name| (name.to_owned(), json!({ "type": "integer" })));
    let mut properties: Map<String, Value> = counts.into_iter().collect();
    let states = ["waiting", "starting", "held", "ready", "suspended", "closed"];
    properties.insert("state".to_owned(), json!({ "enum": states }));
    for name in ["problem", "problem_since", "last_error"] {
        properties.insert(name.to_owned(), json!({ "type": ["string", "null"] }));
    }
    properties.insert("emptied_at_start".to_owned(), json!({ "type": "boolean" }));
    let about = "Absent without a disk tier.";
    json!({ "type": "object", "description": about, "properties": properties })
}

pub(super) fn cache_objects() -> Value {
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

pub(super) fn cache_purge() -> Value {
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

pub(super) fn log_levels() -> Value {
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

pub(super) fn log_state() -> Value {
    let mut state = log_levels();
    state["properties"]["format"] = json!({ "enum": ["text", "json"] });
    state["properties"]["output"] = json!({ "type": "string" });
    state["properties"]["lost"] = json!({ "type": "integer" });
    state
}

pub(super) fn transaction() -> Value {
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

pub(super) fn done() -> Value {
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

pub(super) fn problem() -> Value {
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
