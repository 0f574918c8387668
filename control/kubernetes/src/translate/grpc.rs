//! The rules of a GRPCRoute.

use serde_json::{Map, Value, json};

use super::plain;
use super::routes::{Rule, every_request, matches, values};
use crate::resources::{GrpcMatch, GrpcMethod, GrpcRule};

/// Converts a rule.
pub fn rule(from: &GrpcRule) -> Rule<'_> {
    let (matches, unsupported) = matches(&from.matches, conditions);
    Rule {
        name: from.name.as_deref(),
        matches,
        filters: &from.filters,
        backends: &from.backend_refs,
        settings: Map::new(),
        unsupported,
    }
}

fn conditions(from: &GrpcMatch) -> Result<Map<String, Value>, String> {
    let mut out = match &from.method {
        Some(method) => call(method)?,
        None => every_request(),
    };
    if let Some(headers) = values(&from.headers, true)? {
        out.insert("headers".to_owned(), headers);
    }
    Ok(out)
}

fn call(method: &GrpcMethod) -> Result<Map<String, Value>, String> {
    let kind = match method.kind.as_deref().unwrap_or("Exact") {
        "Exact" => "exact",
        "RegularExpression" => "regex",
        other => return Err(format!("method matches of the type {other} are not supported")),
    };
    let mut call = Map::new();
    for (key, name) in [("service", &method.service), ("method", &method.method)] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            call.insert(key.to_owned(), json!({ kind: plain(name) }));
        }
    }
    if call.is_empty() {
        return Ok(every_request());
    }
    Ok(Map::from_iter([("grpc".to_owned(), Value::Object(call))]))
}
