//! Converts routes of the gateway back to APISIX routes, for documents that were written before objects were stored.

use serde_json::{Map, Value, json};

use super::super::fields::ObjectFields;
use super::super::names::{PREFIX, resource_name};
use super::super::objects::Objects;
use super::super::upstream;
use super::{documents, route_upstream_name};

/// Returns the APISIX form of a route that was written before objects were stored. `None` if this form cannot
/// express all of it.
pub fn to_apisix(id: &str, route: &Value, upstream: Option<&Value>) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    out.insert("id".to_owned(), json!(id));
    let (mut uris, mut hosts, mut methods) = (Vec::new(), Vec::new(), Value::Null);
    for one in route["match"].as_array()? {
        let path = &one["path"];
        let uri = match (path["exact"].as_str(), path["prefix"].as_str()) {
            (Some(exact), _) => exact.to_owned(),
            (None, Some("/")) => "/*".to_owned(),
            (None, Some(prefix)) => format!("{prefix}/*"),
            (None, None) => return None,
        };
        for (list, value) in [(&mut uris, Some(json!(uri))), (&mut hosts, one.get("host").cloned())] {
            if let Some(value) = value.filter(|value| !list.contains(value)) {
                list.push(value);
            }
        }
        methods = one["method"].clone();
    }
    for (one, many, list) in [("uri", "uris", uris), ("host", "hosts", hosts)] {
        match list.len() {
            0 => {}
            1 => out.extend(list.into_iter().map(|only| (one.to_owned(), only))),
            _ => drop(out.insert(many.to_owned(), Value::Array(list))),
        }
    }
    if !methods.is_null() {
        out.insert("methods".to_owned(), methods);
    }
    if route["enabled"] == false {
        out.insert("status".to_owned(), json!(0));
    }
    let to = route["to"].as_str()?;
    if to == route_upstream_name(id) {
        out.insert("upstream".to_owned(), Value::Object(upstream::to_apisix(upstream?)?));
    } else {
        out.insert("upstream_id".to_owned(), json!(to.strip_prefix(PREFIX)?));
    }
    out.extend(
        upstream::timeout_to_apisix(&route["timeouts"]).map(|timeout| ("timeout".to_owned(), timeout)),
    );
    // Settings that this form cannot express would be lost when a client writes it back.
    let again = documents(&Objects::default(), id, ObjectFields::new(out.clone(), "")).ok()?;
    let of = |kind, name: String| again.get(&(kind, name));
    let own = of("upstreams", route_upstream_name(id));
    let same = of("routes", resource_name(id)) == Some(route) && own.is_none_or(|own| Some(own) == upstream);
    same.then_some(out)
}
