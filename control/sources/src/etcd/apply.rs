//! Takes in entries from etcd. Valid ones come into force; for the others the last valid version stays in
//! force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_config::{
    CombinedResources, DocumentProblem, KINDS, LogLevel, Problem, ResourceKind, Severity, Undo, from_yaml,
};
use tollgate_etcd::{EtcdEntry, EtcdEvent};

use super::{GUARD_KEY, RefusedEntry, RefusedUpdate, key_of, parse_key};
use crate::batch::CompileParts;
use crate::sources::Sources;
use crate::view::ViewState;

/// The result of taking in events.
#[derive(Debug)]
pub struct Applied<T> {
    /// The compiled configuration; `None`: nothing changed.
    pub compiled: Option<T>,
    /// Messages for the log.
    pub messages: Vec<(LogLevel, String)>,
    /// The resources that changed.
    pub(crate) changed: Vec<(&'static ResourceKind, String)>,
}

/// A change under trial.
#[derive(Debug)]
struct Candidate {
    entry: EtcdEntry,
    /// Entries of one transaction share a group, and are taken in together or not at all.
    group: u64,
    undo: Option<Undo>,
}

/// How many problems are reported with the nearest names: each one is compared with every existing name.
const SUGGESTIONS_MAX: usize = 20;

impl Sources {
    /// Takes in the valid entries of the events. An empty list only retries entries that were refused because
    /// of others.
    pub fn apply_events<T>(
        &mut self,
        events: Vec<EtcdEvent>,
        mut compile: impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> Applied<T> {
        let compile: CompileParts<'_, T> = &mut compile;
        let (all, entries, revision) = merge_events(events);
        let (mut candidates, unchanged) = self.candidates(all, entries);
        let mut refused: BTreeMap<String, (Vec<DocumentProblem>, bool)> = BTreeMap::new();
        self.put_candidates(&mut candidates, &mut refused);
        let mut compiled = None;
        while candidates.iter().any(|candidate| candidate.undo.is_some()) {
            let problems = match self.compile_all(compile) {
                Ok(result) => {
                    compiled = Some(result);
                    break;
                }
                Err(problems) => problems,
            };
            self.refuse_invalid(&mut candidates, &problems, &mut refused);
        }
        self.version = self.version.max(revision);
        self.record_results(compiled, candidates, refused, unchanged)
    }

    /// Returns the entries to try, without those already known, and the keys that need no change.
    fn candidates(&mut self, all: bool, entries: Vec<EtcdEntry>) -> (Vec<Candidate>, Vec<(String, u64)>) {
        let Some(etcd_source) = &mut self.etcd_source else { return (Vec::new(), Vec::new()) };
        let mut unchanged = Vec::new();
        let mut wanted: BTreeMap<String, EtcdEntry> = BTreeMap::new();
        if all {
            // A key that the listing does not hold was deleted.
            for (key, revision) in etcd_source.seen.drain() {
                if key != GUARD_KEY {
                    wanted.insert(key.clone(), EtcdEntry { key, value: None, revision });
                }
            }
            self.version = 0;
        }
        for entry in entries {
            if !all && etcd_source.seen.get(&entry.key).is_some_and(|seen| *seen >= entry.revision) {
                continue;
            }
            etcd_source.seen.insert(entry.key.clone(), entry.revision);
            if entry.key != GUARD_KEY {
                wanted.insert(entry.key.clone(), entry);
            }
        }
        for (key, update) in &etcd_source.refused {
            if update.retry && !wanted.contains_key(key) {
                let entry =
                    EtcdEntry { key: key.clone(), value: update.value.clone(), revision: update.revision };
                wanted.insert(key.clone(), entry);
            }
        }
        let mut candidates = Vec::new();
        for (number, (key, entry)) in wanted.into_iter().enumerate() {
            let current = parse_key(&key).and_then(|(kind, name)| self.documents.get(kind, name));
            let same = match (&entry.value, current) {
                (None, None) => true,
                (Some(value), Some(document)) => {
                    all && parse_value(value).is_ok_and(|value| value == document.value())
                }
                _ => false,
            };
            if same {
                unchanged.push((key, entry.revision));
                continue;
            }
            // A listing does not show which entries were written together.
            let group = if all { number as u64 } else { entry.revision };
            candidates.push(Candidate { entry, group, undo: None });
        }
        (candidates, unchanged)
    }

    /// Puts every entry into the documents that is valid alone.
    fn put_candidates(
        &mut self,
        candidates: &mut [Candidate],
        refused: &mut BTreeMap<String, (Vec<DocumentProblem>, bool)>,
    ) {
        let mut groups = HashSet::new();
        for candidate in candidates.iter_mut() {
            match self.put_entry(&candidate.entry) {
                Ok(undo) => candidate.undo = undo,
                Err((problems, retry)) => {
                    groups.insert(candidate.group);
                    refused.insert(candidate.entry.key.clone(), (problems, retry));
                }
            }
        }
        self.remove_groups(candidates, &groups, refused);
    }

    fn put_entry(&mut self, entry: &EtcdEntry) -> Result<Option<Undo>, (Vec<DocumentProblem>, bool)> {
        let plain = |message: &str| vec![DocumentProblem::plain(&entry.key, "", message)];
        let Some((kind, name)) = parse_key(&entry.key) else {
            let keys: Vec<_> = KINDS.iter().map(|kind| format!("`{}/NAME`", kind.name)).collect();
            let message = format!("no resource has such a key; there are {}", keys.join(", "));
            return if entry.value.is_some() { Err((plain(&message), false)) } else { Ok(None) };
        };
        let Some(value) = &entry.value else { return Ok(self.documents.remove(kind, name)) };
        if let Some(place) = self.file_config.as_ref().and_then(|base| base.position_of(kind, name)) {
            return Err((plain(&format!("the file has a {} of this name ({place})", kind.noun)), true));
        }
        let value = parse_value(value).map_err(|problems| (problems, false))?;
        self.documents.put(kind, name, value).map(Some).map_err(|problems| (problems, false))
    }

    /// Takes out whole transactions.
    fn remove_groups(
        &mut self,
        candidates: &mut [Candidate],
        groups: &HashSet<u64>,
        refused: &mut BTreeMap<String, (Vec<DocumentProblem>, bool)>,
    ) {
        for candidate in candidates.iter_mut().rev().filter(|candidate| groups.contains(&candidate.group)) {
            let Some(undo) = candidate.undo.take() else { continue };
            self.documents.undo(undo);
            refused.entry(candidate.entry.key.clone()).or_insert_with(|| {
                let message = "it was written together with another entry that is not good";
                (vec![DocumentProblem::plain(&candidate.entry.key, "", message)], true)
            });
        }
    }

    fn compile_all<T>(&self, compile: CompileParts<'_, T>) -> Result<T, Vec<Problem>> {
        let Some(base) = &self.file_config else { return Err(Vec::new()) };
        compile(&CombinedResources::of(&base.config).with(&self.documents))
    }

    /// Finds the changes that cause the problems of the compiled whole, and takes them out. It takes out at
    /// least one.
    fn refuse_invalid(
        &mut self,
        candidates: &mut [Candidate],
        problems: &[Problem],
        refused: &mut BTreeMap<String, (Vec<DocumentProblem>, bool)>,
    ) {
        let index: HashMap<String, u64> = candidates
            .iter()
            .filter(|candidate| candidate.undo.is_some())
            .map(|candidate| (candidate.entry.key.clone(), candidate.group))
            .collect();
        let positions = self.file_config.as_ref().map(|base| base.positions.empty_copy()).unwrap_or_default();
        let (mut groups, mut suggested) = (HashSet::new(), 0);
        for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
            let mut about = self
                .documents
                .documents_of(problem)
                .map(|document| (document, key_of(document.kind, &document.name)));
            let Some((document, key)) = about.find(|(_, key)| index.contains_key(key)) else { continue };
            groups.extend(index.get(&key));
            suggested += 1;
            let messages = match suggested {
                ..=SUGGESTIONS_MAX => self
                    .unknown_names_or(document, || self.documents.to_document_problem(problem, &positions)),
                _ => vec![self.documents.to_document_problem(problem, &positions)],
            };
            refused.entry(key).or_insert((Vec::new(), true)).0.extend(messages);
        }
        if groups.is_empty() {
            // The missing part was deleted, or the problem names no document: blame the deletions, else every
            // change.
            let messages: Vec<_> = problems
                .iter()
                .map(|problem| self.documents.to_document_problem(problem, &positions))
                .collect();
            let removal =
                |candidate: &&Candidate| candidate.undo.is_some() && candidate.entry.value.is_none();
            let removals = candidates.iter().any(|candidate| removal(&candidate));
            for candidate in candidates
                .iter()
                .filter(|candidate| if removals { removal(candidate) } else { candidate.undo.is_some() })
            {
                groups.insert(candidate.group);
                refused.insert(candidate.entry.key.clone(), (messages.clone(), true));
            }
        }
        self.remove_groups(candidates, &groups, refused);
    }

    /// Returns the problems of unknown names in a document, with suggestions; if there are none, `other`.
    fn unknown_names_or(
        &self,
        document: &tollgate_config::Document,
        other: impl FnOnce() -> DocumentProblem,
    ) -> Vec<DocumentProblem> {
        let Some(base) = &self.file_config else { return vec![other()] };
        let parts = || CombinedResources::of(&base.config).with(&self.documents);
        let has = |name: &str| base.has_upstream(name);
        let unknown = self.documents.unknown([document], has, parts);
        if unknown.is_empty() { vec![other()] } else { unknown }
    }

    /// Records the results.
    fn record_results<T>(
        &mut self,
        compiled: Option<T>,
        candidates: Vec<Candidate>,
        mut refused: BTreeMap<String, (Vec<DocumentProblem>, bool)>,
        unchanged: Vec<(String, u64)>,
    ) -> Applied<T> {
        let mut applied = Applied { compiled, messages: Vec::new(), changed: Vec::new() };
        let Some(mut etcd_source) = self.etcd_source.take() else { return applied };
        let done = unchanged.into_iter().map(|(key, revision)| (key, revision, None));
        let candidates = candidates.into_iter().map(|candidate| {
            let refused = refused.remove(&candidate.entry.key);
            (candidate.entry.key.clone(), candidate.entry.revision, Some((candidate.entry, refused)))
        });
        for (key, revision, candidate) in done.chain(candidates) {
            if let Some((entry, Some((problems, retry)))) = candidate {
                let current = parse_key(&key).and_then(|(kind, name)| self.version_of(kind, name));
                let update = RefusedUpdate { value: entry.value, revision, problems, retry };
                let new = etcd_source.refused.get(&key).is_none_or(|before| before.revision != revision);
                if new {
                    let message = refusal_message(&key, &update, current);
                    applied.messages.push((LogLevel::Error, message));
                }
                etcd_source.refused.insert(key, update);
                continue;
            }
            if etcd_source.refused.remove(&key).is_some() {
                let message = format!("etcd: {key}: revision {revision} is good");
                applied.messages.push((LogLevel::Info, message));
            }
            let Some((kind, name)) = parse_key(&key) else { continue };
            let document_key = (kind.name, name.to_owned());
            let exists = self.documents.get(kind, name).is_some();
            let before = match exists {
                true => self.versions.insert(document_key, revision),
                false => self.versions.remove(&document_key),
            };
            if before != exists.then_some(revision) {
                applied.changed.push((kind, name.to_owned()));
            }
        }
        self.etcd_source = Some(etcd_source);
        self.save_cache();
        applied
    }

    fn version_of(&self, kind: &'static ResourceKind, name: &str) -> Option<u64> {
        self.versions.get(&(kind.name, name.to_owned())).copied()
    }

    /// Passes the state in force to the thread that writes the cache file.
    pub(crate) fn save_cache(&self) {
        let Some(cache) = self.etcd_source.as_ref().and_then(|etcd_source| etcd_source.cache.as_ref()) else {
            return;
        };
        let documents = KINDS.iter().flat_map(|kind| self.documents.of(kind));
        let documents = documents.map(|document| {
            (document.clone(), self.version_of(document.kind, &document.name).unwrap_or_default())
        });
        cache.queue((self.version, documents.collect()));
    }

    /// Publishes the changed resources in the view, after they are in force.
    pub fn publish_applied<T>(&self, applied: &Applied<T>) {
        self.view.update(|state| {
            for (kind, name) in &applied.changed {
                let document = self.documents.get(kind, name).cloned();
                let version = self.version_of(kind, name).unwrap_or_default();
                state.set(kind, name, document.map(|document| (document, version)));
            }
            self.publish_etcd_status(state);
        });
    }

    /// Publishes the state of etcd in the view.
    pub(crate) fn publish_etcd_status(&self, state: &mut ViewState) {
        state.version = self.version;
        let (Some(etcd_source), Some(etcd)) = (&self.etcd_source, &mut state.etcd) else { return };
        let refused = etcd_source.refused.iter().map(|(key, update)| RefusedEntry {
            key: key.clone(),
            revision: update.revision,
            removal: update.value.is_none(),
            in_force: parse_key(key).and_then(|(kind, name)| self.version_of(kind, name)),
            problems: update.problems.clone(),
        });
        etcd.revision = self.version;
        etcd.refused = Arc::new(refused.collect());
    }

    /// Returns whether etcd has a refused entry under this key.
    pub(crate) fn is_refused(&self, key: &str) -> bool {
        self.etcd_source.as_ref().is_some_and(|etcd_source| etcd_source.refused.contains_key(key))
    }

    /// Publishes the state of this gateway under its key in etcd.
    pub fn publish_presence(&self, generation: u64) {
        let Some(etcd_source) = &self.etcd_source else { return };
        let refused: Vec<&String> = etcd_source.refused.keys().take(100).collect();
        let presence = json!({
            "program": etcd_source.program,
            "started": etcd_source.started,
            "revision": self.version,
            "generation": generation,
            "refused": refused,
        });
        etcd_source.thread.set_presence(presence.to_string());
    }
}

impl<T> Applied<T> {
    /// Separates the compiled configuration from the rest.
    pub fn split(self) -> (Option<T>, Applied<()>) {
        let Self { compiled, messages, changed } = self;
        (compiled, Applied { compiled: None, messages, changed })
    }
}

/// Formats the message about a refused entry, like `check` does.
fn refusal_message(key: &str, update: &RefusedUpdate, in_force: Option<u64>) -> String {
    let what = if update.value.is_none() { "the removal at revision" } else { "revision" };
    let stays = match in_force {
        Some(revision) => format!("revision {revision} stays in force"),
        None => "nothing of it is in force".to_owned(),
    };
    let mut text = format!("etcd: {key}: {what} {} is refused, {stays}", update.revision);
    for problem in &update.problems {
        text.push('\n');
        text.push_str(problem.text.trim_end());
    }
    text
}

/// Merges events. Returns whether they start with a listing, the entries, and the last revision.
fn merge_events(events: Vec<EtcdEvent>) -> (bool, Vec<EtcdEntry>, u64) {
    let (mut all, mut entries, mut last) = (false, Vec::new(), 0);
    for event in events {
        match event {
            EtcdEvent::Snapshot { revision, entries: listed } => {
                (all, entries, last) = (true, listed, revision);
            }
            EtcdEvent::Changes { revision, entries: mut more } => {
                entries.append(&mut more);
                last = revision.max(last);
            }
            EtcdEvent::Connected { .. } | EtcdEvent::Disconnected { .. } => {}
        }
    }
    (all, entries, last)
}

/// Parses a value: JSON, or else YAML.
pub(super) fn parse_value(value: &[u8]) -> Result<Value, Vec<DocumentProblem>> {
    let plain = |message: &str| vec![DocumentProblem::plain("the value", "", message)];
    let text = std::str::from_utf8(value).map_err(|_| plain("the value is not UTF-8"))?;
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if text.trim_start().starts_with(['{', '[']) && !text.contains('\n') => {
            // YAML in flow style looks like JSON on one line; a text that is neither is reported as JSON.
            from_yaml(text).map_err(|_| plain(&format!("the value is no JSON: {error}")))
        }
        Err(_) => from_yaml(text),
    }
}
