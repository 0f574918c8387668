//! A rule of an HTTPRoute or a GRPCRoute, in the gateway's form.
//!
//! `http` and `grpc` convert the rules of their kinds to [`Rule`]s; the helpers here convert the parts that both kinds
//! have.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::resources::{BackendReference, Filter, ValueMatch};
use crate::translate::plain;

/// A rule of an HTTPRoute or a GRPCRoute.
pub struct Rule<'a> {
    /// Its name, which policies refer to.
    pub name: Option<&'a str>,
    /// The alternatives, without hosts, in the gateway's form.
    pub matches: Vec<Map<String, Value>>,
    pub filters: &'a [Filter],
    pub backends: &'a [BackendReference],
    /// Settings of the gateway's route: `timeouts` and `retry`.
    pub settings: Map<String, Value>,
    /// The part of the rule that the gateway cannot serve.
    pub unsupported: Option<String>,
}

/// Converts the matches of a rule; a rule without any matches every request. Also returns why a match is not
/// supported, if one is not.
pub fn matches<T>(
    from: &[T],
    conditions: impl Fn(&T) -> Result<Map<String, Value>, String>,
) -> (Vec<Map<String, Value>>, Option<String>) {
    let mut unsupported = None;
    let mut matches = Vec::new();
    for one in from {
        match conditions(one) {
            Ok(conditions) => matches.push(conditions),
            Err(why) => unsupported = Some(why),
        }
    }
    if from.is_empty() {
        matches.push(every_request());
    }
    (matches, unsupported)
}

/// Returns the conditions that every request fulfils.
pub fn every_request() -> Map<String, Value> {
    Map::from_iter([("path".to_owned(), json!({ "prefix": "/" }))])
}

/// Returns conditions on header fields or query parameters in the gateway's form. Of several conditions on one
/// name only the first counts.
pub fn values(conditions: &[ValueMatch], ignore_case: bool) -> Result<Option<Value>, String> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for condition in conditions {
        let name = match ignore_case {
            true => condition.name.to_ascii_lowercase(),
            false => condition.name.clone(),
        };
        let value = match condition.kind.as_deref().unwrap_or("Exact") {
            "Exact" => json!({ "exact": plain(&condition.value) }),
            "RegularExpression" => json!({ "regex": plain(&condition.value) }),
            other => return Err(format!("matches of the type {other} are not supported")),
        };
        all.entry(name).or_insert(value);
    }
    Ok((!all.is_empty()).then(|| all.into_iter().collect::<Map<_, _>>().into()))
}
