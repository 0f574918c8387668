//! The difference of two values as a list of edits.
//!
//! The [log](crate::log) makes them and the [replica](crate::replica) applies them. If one endpoint in a thousand
//! changes, the upstream's document travels as a hundred bytes.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a path within a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// A member of a mapping.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// A change of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Replaces the value at a path.
    Set {
        /// The path.
        at: Vec<Step>,
        /// The new value.
        value: Value,
    },
    /// Replaces elements of the list at a path.
    Splice {
        /// The path.
        at: Vec<Step>,
        /// Index of the first replaced element.
        start: usize,
        /// Number of elements that are removed.
        removed: usize,
        /// The elements that take their place.
        inserted: Vec<Value>,
    },
}

/// Returns edits that turn `old` into `new`, in the order in which they apply. The order of a mapping's keys does not
/// count.
#[must_use]
pub fn edits(old: &Value, new: &Value) -> Vec<Edit> {
    let mut out = Vec::new();
    add_edits(&mut Vec::new(), old, new, &mut out);
    out
}

fn add_edits(at: &mut Vec<Step>, old: &Value, new: &Value, out: &mut Vec<Edit>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new))
            if old.len() == new.len() && new.keys().all(|key| old.contains_key(key)) =>
        {
            for (key, new) in new {
                at.push(Step::Key(key.clone()));
                add_edits(at, &old[key], new, out);
                at.pop();
            }
        }
        (Value::Array(old), Value::Array(new)) => add_splices(at, old, new, out),
        _ => out.push(Edit::Set { at: at.clone(), value: new.clone() }),
    }
}

/// Adds the edits of a list, from its end to its start: an edit then moves no element that a later one names.
fn add_splices(at: &[Step], old: &[Value], new: &[Value], out: &mut Vec<Edit>) {
    let (old_texts, new_texts) = (texts(old), texts(new));
    let in_old: HashSet<&String> = old_texts.iter().collect();
    let in_new: HashSet<&String> = new_texts.iter().collect();
    let mut splices = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old_texts[i] == new_texts[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (start, from) = (i, j);
        while i < old.len() && !in_new.contains(&old_texts[i]) {
            i += 1;
        }
        while j < new.len() && !in_old.contains(&new_texts[j]) {
            j += 1;
        }
        if (i, j) == (start, from) {
            // Elements changed places: replace the remainder.
            (i, j) = (old.len(), new.len());
        }
        let inserted = new[from..j].to_vec();
        splices.push(Edit::Splice { at: at.to_vec(), start, removed: i - start, inserted });
    }
    out.extend(splices.into_iter().rev());
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_string).collect()
}

/// Applies edits to a value.
///
/// # Errors
/// An edit names a place that the value does not have. The value may have changed then.
pub fn apply_edits(value: &mut Value, edits: Vec<Edit>) -> Result<(), String> {
    for edit in edits {
        match edit {
            Edit::Set { at, value: new } => *place(value, &at)? = new,
            Edit::Splice { at, start, removed, inserted } => {
                let list =
                    place(value, &at)?.as_array_mut().ok_or("an edit is for a list, and finds none")?;
                let end = start.checked_add(removed).filter(|end| *end <= list.len());
                let end = end.ok_or("an edit is past the end of a list")?;
                list.splice(start..end, inserted);
            }
        }
    }
    Ok(())
}

fn place<'v>(value: &'v mut Value, at: &[Step]) -> Result<&'v mut Value, String> {
    let mut place = value;
    for step in at {
        place = match step {
            Step::Key(key) => place.get_mut(key.as_str()),
            Step::Index(index) => place.get_mut(*index),
        }
        .ok_or("an edit names a place that does not exist")?;
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4u8).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec(("[a-c]", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn edits_turn_one_value_into_the_other(old in value(), new in value()) {
            let mut edited = old.clone();
            apply_edits(&mut edited, edits(&old, &new)).expect("they fit");
            prop_assert_eq!(edited, new);
        }

        #[test]
        fn edits_survive_the_wire(old in value(), new in value()) {
            let all = edits(&old, &new);
            let text = serde_json::to_string(&all).expect("a text");
            prop_assert_eq!(serde_json::from_str::<Vec<Edit>>(&text).expect("edits"), all);
        }

        #[test]
        fn edits_of_another_value_do_not_panic(old in value(), new in value(), other in value()) {
            let mut edited = other;
            let _ = apply_edits(&mut edited, edits(&old, &new));
        }
    }

    #[test]
    fn an_endpoint_among_a_thousand_is_a_small_edit() {
        let endpoints = |skipped: usize| -> Value {
            let all = (0..1000).filter(|number| *number != skipped);
            all.map(|number| Value::from(format!("10.0.{}.{}:80", number / 250, number % 250))).collect()
        };
        let (old, new) = (json!({ "endpoints": endpoints(900) }), json!({ "endpoints": endpoints(3) }));
        let all = edits(&old, &new);
        assert_eq!(all.len(), 2, "one endpoint is removed and one is added");
        assert!(serde_json::to_string(&all).expect("a text").len() < 250, "{all:?}");
        let mut edited = old;
        apply_edits(&mut edited, all).expect("they fit");
        assert_eq!(edited, new);
    }
}
