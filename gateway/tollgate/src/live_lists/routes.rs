//! The list of routes: `GET /api/v1/live/routes`.
//!
//! A row is a route of the configuration with its counts. Counts under other names, such as `-` and `other`, have rows
//! of their own.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_config::kind;
use tollgate_observe::live::{Figures, RouteLive};
use tollgate_plan::Plan;

use super::page::{Direction, Page, answer, directed, paged};
use crate::admin_context::AdminContext;

/// The query parameters of the list of routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteQuery {
    /// Only routes whose name, match or target contains this text, in any case.
    q: Option<String>,
    state: Option<RouteFilter>,
    #[serde(default)]
    sort: RouteSort,
    order: Option<Direction>,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

/// The selected state of routes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum RouteFilter {
    /// Requests were answered with 5xx in the last seconds.
    Failing,
    /// There were requests in the last seconds.
    Active,
    /// There were none.
    Idle,
    /// The route is disabled.
    Disabled,
}

/// The order of routes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum RouteSort {
    #[default]
    Name,
    Rate,
    Errors,
    P50,
    P99,
    Requests,
}

/// `GET /api/v1/live/routes`.
pub async fn routes(
    State(context): State<AdminContext>,
    Query(query): Query<RouteQuery>,
    headers: HeaderMap,
) -> Response {
    answer(&headers, move || route_page(&context, &query)).await
}

/// A row of the list of routes.
struct RouteRow {
    name: String,
    is_disabled: bool,
    /// The configured route; `None`: the row has counts only, such as `-` and `other`.
    configured: Option<Value>,
    counts: Option<RouteLive>,
    text: String,
}

impl RouteRow {
    fn rate(&self) -> f64 {
        self.counts.as_ref().and_then(|counts| counts.recent).map_or(0.0, |recent| recent.rate)
    }

    fn errors(&self) -> f64 {
        self.counts.as_ref().and_then(|counts| counts.recent).map_or(0.0, |recent| recent.errors)
    }

    fn percentile(&self, slow: bool) -> f64 {
        let recent = self.counts.as_ref().and_then(|counts| counts.recent).unwrap_or_default();
        if slow { recent.p99 } else { recent.p50 }.unwrap_or_default()
    }

    fn requests(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.requests)
    }

    fn is_in(&self, filter: RouteFilter) -> bool {
        match filter {
            RouteFilter::Failing => self.errors() > 0.0,
            RouteFilter::Active => self.rate() > 0.0,
            RouteFilter::Idle => self.rate() == 0.0,
            RouteFilter::Disabled => self.is_disabled,
        }
    }

    fn compare(&self, other: &Self, sort: RouteSort) -> Ordering {
        match sort {
            RouteSort::Name => self.name.cmp(&other.name),
            RouteSort::Rate => {
                self.rate().total_cmp(&other.rate()).then(self.requests().cmp(&other.requests()))
            }
            RouteSort::Errors => self.errors().total_cmp(&other.errors()),
            RouteSort::P50 => self.percentile(false).total_cmp(&other.percentile(false)),
            RouteSort::P99 => self.percentile(true).total_cmp(&other.percentile(true)),
            RouteSort::Requests => self.requests().cmp(&other.requests()),
        }
    }

    /// Returns the row. `uncounted`: what a route without counts has, `null` if its requests may be among
    /// those of `other`.
    fn json(self, uncounted: &Value) -> Value {
        let mut row = self.configured.unwrap_or_else(|| json!({ "name": self.name, "configured": false }));
        match self.counts {
            Some(counts) => {
                row["requests"] = counts.requests.into();
                row["codes"] = json!(counts.codes);
                row["recent"] = json!(counts.recent);
            }
            None => {
                row["requests"] = uncounted.clone();
                row["codes"] = Value::Null;
                row["recent"] = Value::Null;
            }
        }
        row
    }
}

fn route_page(context: &AdminContext, query: &RouteQuery) -> Page {
    let Figures { time, window, routes: mut counted, .. } = context.admin.registry.figures();
    let uncounted = if counted.contains_key("other") { Value::Null } else { 0.into() };
    let rate =
        counted.values().filter_map(|counts| Some(counts.recent?.rate)).fold(0.0, |sum, rate| sum + rate);
    let wanted = query.q.as_deref().unwrap_or_default().trim().to_lowercase();
    let disabled = disabled_routes(&context.plan.borrow());
    let plan = context.plan.borrow().clone();
    let shadowed: HashMap<&str, &str> = plan.shadowed_routes().collect();
    let listed = kind("routes").map(|kind| context.view.list(kind)).unwrap_or_default();
    let mut rows: Vec<RouteRow> = Vec::with_capacity(listed.len() + counted.len());
    for item in &listed {
        let (name, value) = (item.name().to_owned(), item.value());
        let (condition, targets, action) = (match_text(value.get("match")), targets(&value), action(&value));
        let text = match wanted.is_empty() {
            true => String::new(),
            false => searched(&name, &condition, &targets),
        };
        let is_disabled = disabled.contains(&name);
        let configured = json!({
            "name": name, "configured": true, "enabled": !is_disabled, "source": item.source(), "match": condition,
            "action": action, "targets": targets, "listeners": texts(value.get("listeners")),
            "shadowed_by": shadowed.get(name.as_str()),
        });
        rows.push(RouteRow {
            counts: counted.remove(name.as_str()),
            name,
            is_disabled,
            configured: Some(configured),
            text,
        });
    }
    let total = rows.len();
    // Counts under a name that the configuration does not have, or no longer has.
    rows.extend(counted.into_iter().map(|(name, counts)| RouteRow {
        name: name.to_string(),
        is_disabled: false,
        configured: None,
        counts: Some(counts),
        text: name.to_lowercase(),
    }));
    rows.retain(|row| row.text.contains(&wanted) && query.state.is_none_or(|filter| row.is_in(filter)));
    let by_name = query.sort == RouteSort::Name;
    let order = query.order.unwrap_or(if by_name { Direction::Asc } else { Direction::Desc });
    rows.sort_by(|one, other| {
        let least_first = one.compare(other, query.sort);
        directed(least_first, order).then_with(|| one.name.cmp(&other.name))
    });
    let found = rows.len();
    let items = paged(rows, query.offset, query.limit).map(|row| row.json(&uncounted)).collect();
    Page { time, window, total, found, offset: query.offset, rate, items }
}

/// Returns the names of the disabled routes.
fn disabled_routes(plan: &Plan) -> HashSet<String> {
    let disabled = (0..).zip(&plan.routes).filter(|(number, _)| plan.routers.conditions(*number).disabled);
    disabled.map(|(_, route)| route.name.clone()).collect()
}

/// Returns the text in which a filter of routes searches.
fn searched(name: &str, condition: &str, targets: &[Target]) -> String {
    let mut text = format!("{name}\n{condition}");
    for target in targets {
        text.push('\n');
        text.push_str(&target.name);
    }
    text.to_lowercase()
}

/// A target of a route, and its weight.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Target {
    name: String,
    weight: Value,
}

/// Returns the targets of a route in each form that `to` has.
fn targets(route: &Value) -> Vec<Target> {
    let one = |entry: &Value| {
        let (name, weight) = match entry {
            Value::String(name) => (name.clone(), None),
            entry => {
                let name = ["upstream", "address"].iter().find_map(|key| entry.get(key)?.as_str());
                let answer = entry.get("respond").map(|_| "respond");
                (name.or(answer).unwrap_or_default().to_owned(), entry.get("weight").cloned())
            }
        };
        Target { name, weight: weight.unwrap_or(1.into()) }
    };
    match route.get("to") {
        None => Vec::new(),
        Some(Value::Array(entries)) => entries.iter().map(one).collect(),
        Some(entry) => vec![one(entry)],
    }
}

/// Returns the key that says what a route does with a request: `to`, or the key that stands in its place.
fn action(route: &Value) -> &'static str {
    ["redirect", "respond", "files"].into_iter().find(|key| route.get(key).is_some()).unwrap_or("to")
}

/// Returns the texts of a list, which may be written as one text.
fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::Array(entries)) => entries.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(text)) => vec![text],
        _ => Vec::new(),
    }
}

/// Returns a match in a few words: methods, host and path, and then the other conditions.
fn match_text(condition: Option<&Value>) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = match condition {
        None => return "*".to_owned(),
        Some(Value::Object(entries)) => entries,
        Some(other) => return plain(other),
    };
    let mut words = Vec::new();
    match entries.get("method") {
        Some(Value::Array(methods)) => words.extend(methods.iter().map(plain)),
        Some(method) => words.push(plain(method)),
        None => {}
    }
    let host = entries.get("host").map(plain).unwrap_or_default();
    let path = match (entries.get("path"), entries.get("grpc")) {
        (Some(Value::Object(forms)), _) => forms.values().next().map(plain).unwrap_or_default(),
        (Some(path), _) => plain(path),
        (None, Some(grpc)) => plain(grpc),
        (None, None) => "/*".to_owned(),
    };
    words.push(format!("{host}{path}"));
    let others =
        entries.iter().filter(|(key, _)| !matches!(key.as_str(), "method" | "host" | "path" | "grpc"));
    words.extend(others.map(|(key, value)| format!("{key} {}", plain(value))));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_in_a_few_words() {
        for (value, text) in [
            (json!("/items/*"), "/items/*"),
            (json!({ "method": ["GET", "HEAD"], "host": "a.example", "path": "/x" }), "GET HEAD a.example/x"),
            (json!({ "host": "a.example" }), "a.example/*"),
            (
                json!({ "path": { "regex": "^/v[0-9]" }, "header": { "x-beta": "yes" } }),
                "^/v[0-9] header {\"x-beta\":\"yes\"}",
            ),
            (json!({ "grpc": "shop.Cart" }), "shop.Cart"),
        ] {
            assert_eq!(match_text(Some(&value)), text);
        }
        assert_eq!(match_text(None), "*");
    }

    #[test]
    fn targets_in_each_form() {
        let names = |to: Value| -> Vec<(String, Value)> {
            targets(&json!({ "to": to })).into_iter().map(|target| (target.name, target.weight)).collect()
        };
        assert_eq!(names(json!("shop")), [("shop".to_owned(), json!(1))]);
        assert_eq!(
            names(json!(["127.0.0.1:80", { "upstream": "shop", "weight": 3 }])),
            [("127.0.0.1:80".to_owned(), json!(1)), ("shop".to_owned(), json!(3))]
        );
        assert_eq!((targets(&json!({})), action(&json!({ "respond": "x" }))), (Vec::new(), "respond"));
    }
}
