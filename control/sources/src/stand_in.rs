//! Stands in for documents that were refused, so that requests do not go where they should not.
//!
//! After a refusal the last valid version of a document stays in force, or nothing. Both may admit clients that the
//! refused version keeps out: the last version may be without its policies, and the requests of a route that is not
//! there take a less specific route. The source of documents calls [`stand_in`] for each refused document, and puts the
//! result in its place until a valid version arrives. A stand-in admits no request of the document's place.

use serde_json::{Map, Value, json};
use tollgate_config::{ResourceKind, is_guard};

/// The status of the requests of a place that a stand-in serves.
const STATUS: u16 = 500;

/// Returns what serves in the place of a refused document; `None`: the last valid version, which is `in_force`, may stay,
/// or nothing has to serve.
pub(crate) fn stand_in(kind: &ResourceKind, refused: &Value, in_force: Option<&Value>) -> Option<Value> {
    match (kind.name, in_force) {
        ("routes", None) => Some(refusing_route(refused)),
        // The place of the refused version may be another one than before.
        ("routes", Some(in_force)) if is_refusing(in_force) => Some(refusing_route(refused)),
        (_, Some(in_force)) if !lacks_guard(in_force, refused) => None,
        ("routes", Some(in_force)) => Some(refusing_route(in_force)),
        ("upstreams", Some(_)) => Some(json!({ "endpoints": [] })),
        ("listeners", Some(in_force)) => {
            let mut listener = in_force.clone();
            // A route may have one of these policies itself, in place of the listener's.
            listener["policies"] = json!({
                "intercept": [{ "status": STATUS }],
                "ip": { "deny": ["0.0.0.0/0", "::/0"] },
            });
            Some(listener)
        }
        _ => None,
    }
}

/// Returns a route with the same requests, which it answers with an error.
fn refusing_route(route: &Value) -> Value {
    let place = ["match", "listeners", "created"].into_iter();
    let place = place.filter_map(|key| Some((key.to_owned(), route.get(key)?.clone())));
    let mut refusing: Map<String, Value> = place.collect();
    refusing.insert("respond".to_owned(), STATUS.into());
    refusing.into()
}

/// Returns whether a route answers all its requests as a stand-in does.
fn is_refusing(route: &Value) -> bool {
    route.get("respond") == Some(&STATUS.into()) && route.get("policies").is_none()
}

/// Returns whether one version of a document has no policy of a kind by which the other one decides about clients.
fn lacks_guard(version: &Value, other: &Value) -> bool {
    guards(other).any(|guard| guards(version).all(|own| own != guard))
}

fn guards(document: &Value) -> impl Iterator<Item = &str> {
    let policies = document.get("policies").and_then(Value::as_object).into_iter().flatten();
    let is_on = |value: &Value| *value != "off" && *value != false;
    policies.filter(move |(kind, value)| is_guard(kind) && is_on(value)).map(|(kind, _)| kind.as_str())
}
