//! Turns a request into changes of documents, which can be undone.
//!
//! `batch` calls [`Sources::stage`] before it compiles, and [`Sources::undo_staged`] if the result is refused. Problems
//! of single documents are found here; problems of the combination are found by the compiler.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use tollgate_config::{
    CombinedResources, DocumentProblem, KINDS, ResourceKind, Severity, Undo, kind, unmasked,
};
use tollgate_store::{DocumentChange as StoredChange, NewVersion};

use crate::request::{
    ChangeAction, ChangeError, ChangeRequest, Intent, Precondition, ResourceChange, ResourceDiff,
};
use crate::sources::Sources;

/// The changes of a request, made only in the documents so far.
#[derive(Debug)]
pub(crate) struct StagedChanges {
    pub undo: Vec<Undo>,
    pub differences: Vec<ResourceDiff>,
    pub warnings: Vec<DocumentProblem>,
    pub summary: String,
    /// Keys of etcd that must be written even if the document does not change, because etcd's present entry
    /// was refused.
    pub forced: HashSet<String>,
    /// The documents that the request changes, to detect duplicates.
    touched: HashSet<(&'static str, String)>,
}

/// Bound of the changes in one request.
const CHANGES_MAX: usize = 100_000;

impl Sources {
    /// Makes the changes of a request in the documents. Problems of a single document are reported here.
    pub(crate) fn stage(&mut self, request: &ChangeRequest) -> Result<StagedChanges, ChangeError> {
        let changes = match &request.intent {
            Intent::Changes(changes) => changes.clone(),
            Intent::Rollback(version) => self.rollback_changes(*version)?,
        };
        if changes.len() > CHANGES_MAX {
            return Err(ChangeError::Malformed(format!("more than {CHANGES_MAX} changes at once")));
        }
        let summary = summarize(&request.intent, &changes);
        let mut staged = StagedChanges {
            undo: Vec::new(),
            differences: Vec::new(),
            warnings: Vec::new(),
            summary,
            forced: HashSet::new(),
            touched: HashSet::with_capacity(changes.len()),
        };
        let mut problems = Vec::new();
        for change in changes {
            match self.stage_one(change, &mut staged) {
                Ok(()) => {}
                Err(ChangeError::Invalid(more)) => problems.extend(more),
                Err(error) => {
                    self.undo_staged(staged);
                    return Err(error);
                }
            }
        }
        if let Some(base) = &self.file_config {
            let changed = staged.differences.iter();
            let documents: Vec<_> =
                changed.filter_map(|it| self.documents.get(it.kind, &it.name)).map(|it| &**it).collect();
            let parts = || CombinedResources::of(&base.config).with(&self.documents);
            let has_upstream = |name: &str| base.has_upstream(name);
            problems.extend(self.documents.unknown(documents.iter().copied(), has_upstream, parts));
            for document in documents {
                staged.warnings.extend(self.documents.warnings(document, &base.config));
                let lists = self.documents.check_lists(document).into_iter();
                let (errors, warnings): (Vec<_>, Vec<_>) =
                    lists.partition(|problem| problem.severity == Severity::Error);
                problems.extend(errors);
                staged.warnings.extend(warnings);
            }
        }
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            self.undo_staged(staged);
            return Err(ChangeError::Invalid(limit_problems(problems)));
        }
        Ok(staged)
    }

    /// Undoes changes, the last one first.
    pub(crate) fn undo_staged(&mut self, staged: StagedChanges) {
        for undo in staged.undo.into_iter().rev() {
            self.documents.undo(undo);
        }
    }

    fn stage_one(&mut self, change: ResourceChange, staged: &mut StagedChanges) -> Result<(), ChangeError> {
        let ResourceChange { kind, name, action, precondition } = change;
        let key = || format!("{}/{name}", kind.name);
        if let Some(position) = self.file_config.as_ref().and_then(|base| base.position_of(kind, &name)) {
            return Err(ChangeError::DefinedInFile(key(), position.clone()));
        }
        if !staged.touched.insert((kind.name, name.clone())) {
            return Err(ChangeError::Malformed(format!("{} is there twice", key())));
        }
        let before = self.documents.get(kind, &name).map(|document| Arc::new(document.value()));
        let version = self.versions.get(&(kind.name, name.clone())).copied();
        let holds = match &precondition {
            Precondition::None => true,
            Precondition::Exists => before.is_some(),
            Precondition::Absent => before.is_none(),
            Precondition::Version(versions) => version.is_some_and(|version| versions.contains(&version)),
        };
        if !holds {
            return Err(ChangeError::PreconditionFailed(key(), version));
        }
        let refused = self.is_refused(&key());
        if refused {
            staged.forced.insert(key());
        }
        let value = match action {
            ChangeAction::Put(value) => Some(value),
            ChangeAction::Patch(patch) => {
                let before = before.as_deref().ok_or_else(|| ChangeError::NotFound(key()))?;
                let mut value = before.clone();
                apply_merge_patch(&mut value, patch);
                Some(value)
            }
            ChangeAction::Delete if before.is_none() && !refused => return Err(ChangeError::NotFound(key())),
            ChangeAction::Delete => None,
        };
        let undo = match value {
            None => self.documents.remove(kind, &name),
            Some(mut value) => {
                unmasked(kind, &mut value, before.as_deref()).map_err(|pointer| {
                    let message = "the mask of a secret stands here, and no secret is known".to_owned();
                    ChangeError::Invalid(vec![DocumentProblem::plain(&key(), &pointer, &message)])
                })?;
                Some(self.documents.put(kind, &name, value).map_err(ChangeError::Invalid)?)
            }
        };
        staged.undo.extend(undo);
        // The value as stored: a route loses its name, for example.
        let after = self.documents.get(kind, &name).map(|document| Arc::new(document.value()));
        staged.differences.push(ResourceDiff { kind, name, before, after });
        Ok(())
    }

    /// Returns the changes that lead back to a version.
    fn rollback_changes(&self, version: u64) -> Result<Vec<ResourceChange>, ChangeError> {
        if self.etcd_source.is_some() {
            return self.rollback_changes_in_etcd(version);
        }
        let store = self.store.as_ref().ok_or(ChangeError::NoStore)?;
        let entries = store.versions_since(version).map_err(|error| match error {
            tollgate_store::Error::VersionExpired(_) | tollgate_store::Error::UnknownVersion(_) => {
                ChangeError::UnknownVersion(error.to_string())
            }
            error => ChangeError::StoreFailed(error.to_string()),
        })?;
        // The newest version comes first, so the last value inserted for a document is the one to restore.
        let mut past: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
        for StoredChange { kind, name, before, .. } in
            entries.into_iter().flat_map(|entry| entry.content.changes)
        {
            past.insert((kind, name), before);
        }
        let mut changes = Vec::new();
        for ((kind_name, name), text) in past {
            let broken = || ChangeError::StoreFailed(format!("{kind_name}/{name} cannot be read"));
            let kind = kind(&kind_name).ok_or_else(broken)?;
            let value: Option<Value> =
                text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| broken())?;
            let now = self.documents.get(kind, &name).map(|document| document.value());
            if now == value {
                continue;
            }
            let action = value.map_or(ChangeAction::Delete, ChangeAction::Put);
            changes.push(ResourceChange { kind, name, action, precondition: Precondition::None });
        }
        Ok(changes)
    }
}

impl StagedChanges {
    /// Returns whether the request changes nothing.
    pub fn is_empty(&self) -> bool {
        self.differences.iter().all(|difference| !self.is_changed(difference))
    }

    fn is_changed(&self, difference: &ResourceDiff) -> bool {
        difference.before != difference.after
            || !self.forced.is_empty()
                && self.forced.contains(&format!("{}/{}", difference.kind.name, difference.name))
    }

    /// Returns the entry for the store.
    pub fn entry(&self, at: u64, who: &str) -> NewVersion {
        let text = |value: &Option<Arc<Value>>| value.as_deref().map(Value::to_string);
        let changed = self.differences.iter().filter(|difference| self.is_changed(difference));
        let changes = changed.map(|difference| StoredChange {
            kind: difference.kind.name.to_owned(),
            name: difference.name.clone(),
            before: text(&difference.before),
            after: text(&difference.after),
        });
        NewVersion { at, who: who.to_owned(), what: self.summary.clone(), changes: changes.collect() }
    }

    /// Returns the changed documents, in order of kind and name.
    pub fn sorted(&self) -> Vec<ResourceDiff> {
        let rank = |kind: &ResourceKind| KINDS.iter().position(|other| other == kind);
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
pub(crate) const PROBLEMS_MAX: usize = 1_000;

/// Returns the first problems, with a note about the number of the others.
pub(crate) fn limit_problems(mut problems: Vec<DocumentProblem>) -> Vec<DocumentProblem> {
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    if more > 0 {
        problems.truncate(PROBLEMS_MAX);
        problems.push(DocumentProblem::plain("", "", &format!("and {more} more problems")));
    }
    problems
}

/// Summarizes a request in a few words.
fn summarize(intent: &Intent, changes: &[ResourceChange]) -> String {
    if let Intent::Rollback(version) = intent {
        return format!("rollback to version {version}");
    }
    match changes {
        [ResourceChange { kind, name, action, .. }] => {
            let verb = match action {
                ChangeAction::Put(_) => "put",
                ChangeAction::Patch(_) => "patch",
                ChangeAction::Delete => "delete",
            };
            format!("{verb} {}/{name}", kind.name)
        }
        changes => format!("{} changes", changes.len()),
    }
}

/// Applies a JSON merge patch (RFC 7396, section 2).
pub fn apply_merge_patch(target: &mut Value, patch: Value) {
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
            apply_merge_patch(target.entry(key).or_insert(Value::Null), value);
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
            apply_merge_patch(&mut merged, patch.clone());
            assert_eq!(merged, result, "{target} with {patch}");
        }
    }
}
