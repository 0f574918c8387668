//! The rules of an HTTPRoute.

use serde_json::{Map, Value, json};

use super::plain;
use super::routes::{Rule, matches, values};
use crate::resources::{HttpMatch, HttpRule, PathMatch, Retry, RouteTimeouts};

/// Converts a rule.
pub fn rule(from: &HttpRule) -> Rule<'_> {
    let (matches, unsupported) = matches(&from.matches, conditions);
    let mut settings = Map::new();
    let per_try = from.timeouts.as_ref().and_then(|timeouts| timeouts.backend_request.as_deref());
    if let Some(total) = from.timeouts.as_ref().and_then(total) {
        settings.insert("timeouts".to_owned(), json!({ "total": total }));
    }
    if let Some(retry) = retry(from.retry.as_ref(), per_try) {
        settings.insert("retry".to_owned(), retry);
    }
    Rule {
        name: from.name.as_deref(),
        matches,
        filters: &from.filters,
        backends: &from.backend_refs,
        settings,
        unsupported,
    }
}

fn conditions(from: &HttpMatch) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    out.insert("path".to_owned(), path(from.path.as_ref())?);
    if let Some(method) = &from.method {
        out.insert("method".to_owned(), method.as_str().into());
    }
    if let Some(headers) = values(&from.headers, true)? {
        out.insert("headers".to_owned(), headers);
    }
    if let Some(query) = values(&from.query_params, false)? {
        out.insert("query".to_owned(), query);
    }
    Ok(out)
}

fn path(from: Option<&PathMatch>) -> Result<Value, String> {
    let value = &*plain(from.and_then(|path| path.value.as_deref()).unwrap_or("/"));
    match from.and_then(|path| path.kind.as_deref()).unwrap_or("PathPrefix") {
        "Exact" => Ok(json!({ "exact": value })),
        // `/a/` and `/a` are the same prefix, because a prefix ends at a segment.
        "PathPrefix" => {
            Ok(json!({ "prefix": match value.trim_end_matches('/') { "" => "/", path => path } }))
        }
        "RegularExpression" => Ok(json!({ "regex": value })),
        other => Err(format!("path matches of the type {other} are not supported")),
    }
}

fn total(timeouts: &RouteTimeouts) -> Option<String> {
    timeouts.request.as_deref().map(duration)
}

/// Converts a duration of the Gateway API, where zero means none.
fn duration(text: &str) -> String {
    let is_zero = text.chars().filter(char::is_ascii_digit).all(|digit| digit == '0');
    if is_zero { "off".to_owned() } else { text.to_owned() }
}

/// Converts retries. Without a retry rule the timeout of an attempt is the timeout of the only one.
fn retry(retry: Option<&Retry>, per_try: Option<&str>) -> Option<Value> {
    let per_try = per_try.map(duration).filter(|per_try| per_try != "off");
    let mut out = match retry {
        None => {
            per_try.as_ref()?;
            json!({ "attempts": 1 })
        }
        Some(retry) => {
            let mut on = vec![json!("connect_failure"), json!("reset")];
            if per_try.is_some() {
                on.push(json!("timeout"));
            }
            on.extend(retry.codes.iter().map(|code| json!(code)));
            let attempts = retry.attempts.unwrap_or(1).saturating_add(1).min(16);
            // The rule says how often a request is retried, whatever the share of such requests.
            let mut out = json!({ "attempts": attempts, "on": on, "budget": "100%" });
            if let Some(backoff) = &retry.backoff {
                out["backoff"] = backoff.as_str().into();
                out["backoff_max"] = backoff.as_str().into();
            }
            out
        }
    };
    if let Some(per_try) = per_try {
        out["per_try"] = per_try.into();
    }
    Some(out)
}
