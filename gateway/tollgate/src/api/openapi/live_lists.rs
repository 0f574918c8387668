//! The paths of the lists of the dashboard: routes and upstreams with their figures.

use serde_json::{Value, json};

use super::operations::{READ, ok, operation, query, query_of};
use super::schemas::{live_page, recent_rates};

/// `GET /api/v1/live/routes`.
pub(super) fn live_routes() -> Value {
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

/// `GET /api/v1/live/upstreams`.
pub(super) fn live_upstreams() -> Value {
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
