//! Turns a request into changes of documents, which can be undone.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use tollgate_config::{DocumentProblem, KINDS, Kind, Parts, Severity, Undo, kind, unmasked};
use tollgate_store::{Change as Stored, NewEntry};

use crate::request::{Change, Condition, Difference, Intent, Refusal, Request, To};
use crate::sources::Sources;

/// The changes of a request, made only in the documents so far.
#[derive(Debug)]
pub(crate) struct Staged {
    pub undo: Vec<Undo>,
    pub differences: Vec<Difference>,
    pub warnings: Vec<DocumentProblem>,
    pub what: String,
    /// Keys of etcd that must be written even if the document does not change, because etcd's present entry
    /// was refused.
    pub forced: HashSet<String>,
    /// The documents that the request changes, to detect duplicates.
    names: HashSet<(&'static str, String)>,
}

/// Bound of the changes in one request.
const MOST: usize = 100_000;

impl Sources {
    /// Makes the changes of a request in the documents. Problems of a single document are reported here.
    pub(crate) fn stage(&mut self, request: &Request) -> Result<Staged, Refusal> {
        let changes = match &request.intent {
            Intent::Changes(changes) => changes.clone(),
            Intent::Rollback(version) => self.back_to(*version)?,
        };
        if changes.len() > MOST {
            return Err(Refusal::Senseless(format!("more than {MOST} changes at once")));
        }
        let what = describe(&request.intent, &changes);
        let mut staged = Staged {
            undo: Vec::new(),
            differences: Vec::new(),
            warnings: Vec::new(),
            what,
            forced: HashSet::new(),
            names: HashSet::with_capacity(changes.len()),
        };
        let mut problems = Vec::new();
        for change in changes {
            match self.one(change, &mut staged) {
                Ok(()) => {}
                Err(Refusal::Invalid(more)) => problems.extend(more),
                Err(refusal) => {
                    self.take_back(staged);
                    return Err(refusal);
                }
            }
        }
        if let Some(base) = &self.base {
            let changed = staged.differences.iter();
            let documents: Vec<_> =
                changed.filter_map(|it| self.documents.get(it.kind, &it.name)).map(|it| &**it).collect();
            let parts = || Parts::of(&base.config).with(&self.documents);
            let has_upstream = |name: &str| base.has_upstream(name);
            problems.extend(self.documents.unknown(documents.iter().copied(), has_upstream, parts));
            for document in documents {
                staged.warnings.extend(self.documents.warnings(document));
                let lists = self.documents.check_lists(document).into_iter();
                let (errors, warnings): (Vec<_>, Vec<_>) =
                    lists.partition(|problem| problem.severity == Severity::Error);
                problems.extend(errors);
                staged.warnings.extend(warnings);
            }
        }
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            self.take_back(staged);
            return Err(Refusal::Invalid(bounded(problems)));
        }
        Ok(staged)
    }

    /// Undoes changes, the last one first.
    pub(crate) fn take_back(&mut self, staged: Staged) {
        for undo in staged.undo.into_iter().rev() {
            self.documents.undo(undo);
        }
    }

    fn one(&mut self, change: Change, staged: &mut Staged) -> Result<(), Refusal> {
        let Change { kind, name, to, condition } = change;
        let shown = || format!("{}/{name}", kind.name);
        if let Some(place) = self.base.as_ref().and_then(|base| base.place(kind, &name)) {
            return Err(Refusal::OfTheFile(shown(), place.clone()));
        }
        if !staged.names.insert((kind.name, name.clone())) {
            return Err(Refusal::Senseless(format!("{} is there twice", shown())));
        }
        let before = self.documents.get(kind, &name).map(|document| document.value.clone());
        let version = self.versions.get(&(kind.name, name.clone())).copied();
        let holds = match &condition {
            Condition::None => true,
            Condition::There => before.is_some(),
            Condition::NotThere => before.is_none(),
            Condition::Version(versions) => version.is_some_and(|version| versions.contains(&version)),
        };
        if !holds {
            return Err(Refusal::Condition(shown(), version));
        }
        let refused = self.is_refused(&shown());
        if refused {
            staged.forced.insert(shown());
        }
        let value = match to {
            To::Value(value) => Some(value),
            To::Patch(patch) => {
                let before = before.as_deref().ok_or_else(|| Refusal::NotFound(shown()))?;
                let mut value = before.clone();
                merge(&mut value, patch);
                Some(value)
            }
            To::Gone if before.is_none() && !refused => return Err(Refusal::NotFound(shown())),
            To::Gone => None,
        };
        let undo = match value {
            None => self.documents.remove(kind, &name),
            Some(mut value) => {
                unmasked(kind, &mut value, before.as_deref()).map_err(|pointer| {
                    let message = "the mask of a secret stands here, and no secret is known".to_owned();
                    Refusal::Invalid(vec![DocumentProblem::plain(&shown(), &pointer, &message)])
                })?;
                Some(self.documents.put(kind, &name, value).map_err(Refusal::Invalid)?)
            }
        };
        staged.undo.extend(undo);
        // The value as stored: a route loses its name, for example.
        let after = self.documents.get(kind, &name).map(|document| document.value.clone());
        staged.differences.push(Difference { kind, name, before, after });
        Ok(())
    }

    /// Returns the changes that lead back to a version.
    fn back_to(&self, version: u64) -> Result<Vec<Change>, Refusal> {
        if self.shared.is_some() {
            return self.back_in_etcd(version);
        }
        let store = self.store.as_ref().ok_or(Refusal::NoStore)?;
        let entries = store.since(version).map_err(|error| match error {
            tollgate_store::Error::Forgotten(_) | tollgate_store::Error::NoVersion(_) => {
                Refusal::NoVersion(error.to_string())
            }
            error => Refusal::Broken(error.to_string()),
        })?;
        // The newest version comes first, so the last value inserted for a document is the one to restore.
        let mut then: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
        for Stored { kind, name, before, .. } in entries.into_iter().flat_map(|entry| entry.entry.changes) {
            then.insert((kind, name), before);
        }
        let mut changes = Vec::new();
        for ((kind_name, name), text) in then {
            let broken = || Refusal::Broken(format!("{kind_name}/{name} cannot be read"));
            let kind = kind(&kind_name).ok_or_else(broken)?;
            let value: Option<Value> =
                text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| broken())?;
            let now = self.documents.get(kind, &name).map(|document| &*document.value);
            if now == value.as_ref() {
                continue;
            }
            let to = value.map_or(To::Gone, To::Value);
            changes.push(Change { kind, name, to, condition: Condition::None });
        }
        Ok(changes)
    }
}

impl Staged {
    /// Returns whether the request changes nothing.
    pub fn is_empty(&self) -> bool {
        self.differences.iter().all(|difference| !self.is_changed(difference))
    }

    fn is_changed(&self, difference: &Difference) -> bool {
        difference.before != difference.after
            || !self.forced.is_empty()
                && self.forced.contains(&format!("{}/{}", difference.kind.name, difference.name))
    }

    /// Returns the entry for the store.
    pub fn entry(&self, at: u64, who: &str) -> NewEntry {
        let text = |value: &Option<Arc<Value>>| value.as_deref().map(Value::to_string);
        let changed = self.differences.iter().filter(|difference| self.is_changed(difference));
        let changes = changed.map(|difference| Stored {
            kind: difference.kind.name.to_owned(),
            name: difference.name.clone(),
            before: text(&difference.before),
            after: text(&difference.after),
        });
        NewEntry { at, who: who.to_owned(), what: self.what.clone(), changes: changes.collect() }
    }

    /// Returns the changed documents, in order of kind and name.
    pub fn sorted(&self) -> Vec<Difference> {
        let rank = |kind: &Kind| KINDS.iter().position(|other| other == kind);
        let mut changed: Vec<_> = self
            .differences
            .iter()
            .filter(|difference| difference.before != difference.after)
            .cloned()
            .collect();
        changed.sort_by(|a, b| (rank(a.kind), &a.name).cmp(&(rank(b.kind), &b.name)));
        changed
    }
}

/// Bound of the problems in one answer. More would not help, and each one has its own text.
pub(crate) const MOST_TOLD: usize = 1_000;

/// Returns the first problems, with a note about the number of the others.
pub(crate) fn bounded(mut problems: Vec<DocumentProblem>) -> Vec<DocumentProblem> {
    let more = problems.len().saturating_sub(MOST_TOLD);
    if more > 0 {
        problems.truncate(MOST_TOLD);
        problems.push(DocumentProblem::plain("", "", &format!("and {more} more problems")));
    }
    problems
}

/// Summarizes a request in a few words.
fn describe(intent: &Intent, changes: &[Change]) -> String {
    if let Intent::Rollback(version) = intent {
        return format!("rollback to version {version}");
    }
    match changes {
        [Change { kind, name, to, .. }] => {
            let verb = match to {
                To::Value(_) => "put",
                To::Patch(_) => "patch",
                To::Gone => "delete",
            };
            format!("{verb} {}/{name}", kind.name)
        }
        changes => format!("{} changes", changes.len()),
    }
}

/// Applies a JSON merge patch (RFC 7396, section 2).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7396, appendix A.
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, result, "{target} with {patch}");
        }
    }
}
