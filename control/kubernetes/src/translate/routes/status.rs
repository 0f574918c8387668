//! The statuses of routes: one entry for each parent of this controller.

use serde_json::{Value, json};

use super::attachment::AttachedRoute;
use super::route::Route;
use crate::object::GATEWAY_GROUP;
use crate::resources::ParentReference;
use crate::translate::conditions::{Condition, to_json};
use crate::translate::{Translation, TranslationSettings, reference};

/// Returns the status of a route without a parent of this controller: `None`, unless it had one.
pub fn detached_status(route: &Route<'_>, settings: &TranslationSettings) -> Option<Value> {
    has_own_status(&route.status.value(), &settings.controller).then(|| json!({ "parents": [] }))
}

/// Writes the status of a route.
pub(super) fn write_status(
    route: &Route<'_>,
    settings: &TranslationSettings,
    attached: AttachedRoute<'_>,
    unresolved: Option<Condition>,
    unsupported: Option<String>,
    out: &mut Translation,
) {
    let generation = route.meta.generation;
    let resolved = unresolved.unwrap_or_else(|| Condition::yes("ResolvedRefs", "ResolvedRefs"));
    let parents: Vec<Value> = attached
        .parents
        .into_iter()
        .map(|(parent, refusal)| {
            let accepted = match (refusal, &unsupported) {
                (Some(refusal), _) => refusal,
                (None, Some(why)) => Condition::no("Accepted", "UnsupportedValue", why.as_str()),
                (None, None) => Condition::yes("Accepted", "Accepted"),
            };
            json!({
                "parentRef": parent_reference(parent),
                "controllerName": settings.controller,
                "conditions": to_json(&[accepted, resolved.clone()], generation),
            })
        })
        .collect();
    out.statuses.insert(reference(route.kind, &route.meta.object_name()), json!({ "parents": parents }));
}

/// Returns whether a route's status has entries of this controller.
fn has_own_status(status: &Value, controller: &str) -> bool {
    let parents = status.get("parents").and_then(Value::as_array);
    parents.into_iter().flatten().any(|parent| parent["controllerName"] == controller)
}

fn parent_reference(parent: &ParentReference) -> Value {
    let ParentReference { group, kind, namespace, name, section_name, port } = parent;
    let mut value = json!({
        "group": group.as_deref().unwrap_or(GATEWAY_GROUP),
        "kind": kind.as_deref().unwrap_or("Gateway"),
        "name": name,
    });
    if let Some(namespace) = namespace {
        value["namespace"] = namespace.as_str().into();
    }
    if let Some(section) = section_name {
        value["sectionName"] = section.as_str().into();
    }
    if let Some(port) = port {
        value["port"] = (*port).into();
    }
    value
}
