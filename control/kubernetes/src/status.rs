//! Compares the status that an object has with the status that it should have, and makes the patch between
//! them.
//!
//! Only what differs is written: every write comes back as an event, and thousands of objects would otherwise
//! be written at every change. The time of a condition's last transition is kept unless the condition changed.

use serde_json::{Map, Value};

use crate::object::Kind;

/// The controller that an entry of a list in a status belongs to.
const CONTROLLER: &str = "controllerName";
/// The conditions that this controller does not always write. An object that has one of them and should not have it
/// differs.
const OPTIONAL: [&str; 1] = ["InsecureFrontendValidationMode"];

/// Returns the fields of the status to apply, or `None` if the object has them. `desired` comes from the
/// translation, `current` is the object's status, and `now` is the time in RFC 3339.
///
/// The lists of a route's parents and of a policy's ancestors are one value for the API server, so the patch
/// has the entries of other controllers, too.
#[must_use]
pub fn patch(kind: Kind, controller: &str, desired: &Value, current: &Value, now: &str) -> Option<Value> {
    match shared_list(kind) {
        Some(list) => patch_shared(list, controller, desired, current, now),
        None => patch_own(desired, current, now),
    }
}

/// Returns the list in the status of a kind that several controllers share.
#[must_use]
pub fn shared_list(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => {
            Some("parents")
        }
        Kind::BackendTlsPolicy | Kind::TollgatePolicy => Some("ancestors"),
        _ => None,
    }
}

fn patch_shared(list: &str, controller: &str, desired: &Value, current: &Value, now: &str) -> Option<Value> {
    let entries = |status: &Value| status.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) =
        entries(current).into_iter().partition(|entry| entry[CONTROLLER] == controller);
    let mut wanted = entries(desired);
    let mut is_current = wanted.len() == own.len();
    for entry in &mut wanted {
        let before = own.iter().find(|before| identity(before) == identity(entry));
        is_current &= keep_times(entry, before, now);
    }
    let all = others.into_iter().chain(wanted).collect();
    (!is_current).then(|| Map::from_iter([(list.to_owned(), Value::Array(all))]).into())
}

/// Returns the part of an entry that names the parent or the ancestor.
fn identity(entry: &Value) -> (&Value, &Value) {
    (&entry["parentRef"], &entry["ancestorRef"])
}

fn patch_own(desired: &Value, current: &Value, now: &str) -> Option<Value> {
    let mut wanted = desired.clone();
    let mut is_current = keep_times(&mut wanted, Some(current), now);
    if let Some(listeners) = wanted.get_mut("listeners").and_then(Value::as_array_mut) {
        let before = current.get("listeners").and_then(Value::as_array).cloned().unwrap_or_default();
        is_current &= listeners.len() == before.len();
        for listener in listeners {
            let before = before.iter().find(|before| before["name"] == listener["name"]);
            is_current &= keep_times(listener, before, now);
        }
    }
    (!is_current).then_some(wanted)
}

/// Adds to each condition of `wanted` the time of its last transition. Returns whether `before` has the same
/// conditions and the same other fields.
fn keep_times(wanted: &mut Value, before: Option<&Value>, now: &str) -> bool {
    let mut is_same = before.is_some();
    let Some(fields) = wanted.as_object_mut() else { return false };
    for (key, value) in fields {
        let known = before.and_then(|before| before.get(key.as_str()));
        match key.as_str() {
            "conditions" => {
                let has = |conditions: Option<&Value>, kind: &str| {
                    let mut all = conditions.and_then(Value::as_array).into_iter().flatten();
                    all.any(|condition| condition["type"] == kind)
                };
                is_same &= OPTIONAL.iter().all(|kind| !has(known, kind) || has(Some(value), kind));
                for condition in value.as_array_mut().into_iter().flatten() {
                    let known = known.and_then(Value::as_array).into_iter().flatten();
                    let known = known.into_iter().find(|known| known["type"] == condition["type"]);
                    is_same &= known.is_some_and(|known| {
                        ["status", "reason", "message", "observedGeneration"]
                            .iter()
                            .all(|field| known[field] == condition[field])
                    });
                    let kept = known.filter(|known| known["status"] == condition["status"]);
                    let time = kept.map(|known| &known["lastTransitionTime"]).filter(|time| time.is_string());
                    condition["lastTransitionTime"] = time.cloned().unwrap_or_else(|| now.into());
                }
            }
            "listeners" => {}
            _ => is_same &= known == Some(value),
        }
    }
    is_same
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OURS: &str = "tollgate.dev/gateway";
    const OLD: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-11-27T00:00:00Z";

    fn condition(status: &str, generation: i64) -> Value {
        json!({
            "type": "Accepted", "status": status, "reason": "Accepted", "message": "",
            "observedGeneration": generation,
        })
    }

    fn with_time(mut condition: Value, time: &str) -> Value {
        condition["lastTransitionTime"] = time.into();
        condition
    }

    fn parent(controller: &str, conditions: &[Value]) -> Value {
        json!({"parentRef": {"name": "g"}, "controllerName": controller, "conditions": conditions})
    }

    #[test]
    fn a_status_that_is_current_is_not_written() {
        let desired = json!({"parents": [parent(OURS, &[condition("True", 3)])]});
        let current = json!({"parents": [
            parent("other", &[with_time(condition("False", 1), OLD)]),
            parent(OURS, &[with_time(condition("True", 3), OLD)]),
        ]});
        assert_eq!(patch(Kind::HttpRoute, OURS, &desired, &current, NOW), None);
    }

    #[test]
    fn entries_of_other_controllers_and_the_times_of_unchanged_conditions_are_kept() {
        let other = parent("other", &[with_time(condition("False", 1), OLD)]);
        let current =
            json!({"parents": [parent(OURS, &[with_time(condition("True", 2), OLD)]), other.clone()]});
        let desired = json!({"parents": [parent(OURS, &[condition("True", 3)])]});
        let written = patch(Kind::HttpRoute, OURS, &desired, &current, NOW);
        let own = parent(OURS, &[with_time(condition("True", 3), OLD)]);
        assert_eq!(written, Some(json!({"parents": [other.clone(), own]})));
        let desired = json!({"parents": [parent(OURS, &[condition("False", 3)])]});
        let written = patch(Kind::HttpRoute, OURS, &desired, &current, NOW);
        let own = parent(OURS, &[with_time(condition("False", 3), NOW)]);
        assert_eq!(written, Some(json!({"parents": [other.clone(), own]})));
        let written = patch(Kind::HttpRoute, OURS, &json!({"parents": []}), &current, NOW);
        assert_eq!(written, Some(json!({"parents": [other]})));
    }

    #[test]
    fn the_listeners_of_a_gateway_are_compared_by_name() {
        let listener = |name: &str, attached: u32, conditions: Value| json!({"name": name, "attachedRoutes": attached, "conditions": [conditions]});
        let desired = |attached| json!({"conditions": [condition("True", 1)], "listeners": [listener("a", attached, condition("True", 1))]});
        // A condition of another controller does not count.
        let current = json!({
            "conditions": [{"type": "Other"}, with_time(condition("True", 1), OLD)],
            "listeners": [listener("a", 1, with_time(condition("True", 1), OLD))],
        });
        assert_eq!(patch(Kind::Gateway, OURS, &desired(1), &current, NOW), None);
        let written = patch(Kind::Gateway, OURS, &desired(2), &current, NOW).expect("a change");
        assert_eq!(written["listeners"][0], listener("a", 2, with_time(condition("True", 1), OLD)));
        assert!(patch(Kind::Gateway, OURS, &desired(1), &Value::Null, NOW).is_some());
    }

    #[test]
    fn an_optional_condition_that_no_longer_holds_is_removed() {
        let mut optional = with_time(condition("True", 1), OLD);
        optional["type"] = OPTIONAL[0].into();
        let desired = json!({"conditions": [condition("True", 1)]});
        let current = json!({"conditions": [with_time(condition("True", 1), OLD), optional]});
        let written = patch(Kind::Gateway, OURS, &desired, &current, NOW);
        assert_eq!(written, Some(json!({"conditions": [with_time(condition("True", 1), OLD)]})));
    }
}
