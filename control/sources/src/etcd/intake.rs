//! Takes in entries from etcd. Valid ones come into force; for the others the last valid version stays in
//! force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_config::{DocumentProblem, KINDS, Kind, Parts, Problem, Severity, Undo, from_yaml};
use tollgate_etcd::{Entry, News};

use super::{GUARD, Held, RefusedEntry, key, resource};
use crate::sources::Sources;
use crate::view::State;

/// The result of taking in events.
#[derive(Debug)]
pub struct Brought<T> {
    /// The compiled configuration; `None`: nothing changed.
    pub good: Option<T>,
    /// Messages for people, each to be printed on its own.
    pub told: Vec<String>,
    /// The resources that changed.
    pub(crate) changed: Vec<(&'static Kind, String)>,
}

/// A change under trial.
#[derive(Debug)]
struct Tried {
    entry: Entry,
    /// Entries of one transaction share a group, and are taken in together or not at all.
    group: u64,
    undo: Option<Undo>,
}

/// How many problems are reported with the nearest names: each one is compared with every existing name.
const HELPED: usize = 20;

type Compile<'c, T> = &'c mut dyn FnMut(&Parts<'_>) -> Result<T, Vec<Problem>>;

impl Sources {
    /// Takes in the valid entries of the events. An empty list only retries entries that were refused because
    /// of others.
    pub fn bring<T>(
        &mut self,
        news: Vec<News>,
        mut compile: impl FnMut(&Parts<'_>) -> Result<T, Vec<Problem>>,
    ) -> Brought<T> {
        let compile: Compile<'_, T> = &mut compile;
        let (all, entries, revision) = together(news);
        let (mut tries, settled) = self.tries(all, entries);
        let mut refused: BTreeMap<String, (Vec<DocumentProblem>, bool)> = BTreeMap::new();
        self.put_all(&mut tries, &mut refused);
        let mut good = None;
        while tries.iter().any(|tried| tried.undo.is_some()) {
            let problems = match self.compile_all(compile) {
                Ok(compiled) => {
                    good = Some(compiled);
                    break;
                }
                Err(problems) => problems,
            };
            self.blame(&mut tries, &problems, &mut refused);
        }
        self.version = self.version.max(revision);
        self.settle(good, tries, refused, settled)
    }

    /// Returns the entries to try, without those already known, and the keys that need no change.
    fn tries(&mut self, all: bool, entries: Vec<Entry>) -> (Vec<Tried>, Vec<(String, u64)>) {
        let Some(shared) = &mut self.shared else { return (Vec::new(), Vec::new()) };
        let mut settled = Vec::new();
        let mut wanted: BTreeMap<String, Entry> = BTreeMap::new();
        if all {
            // A key that the listing does not hold was deleted.
            for (key, revision) in shared.seen.drain() {
                if key != GUARD {
                    wanted.insert(key.clone(), Entry { key, value: None, revision });
                }
            }
            self.version = 0;
        }
        for entry in entries {
            if !all && shared.seen.get(&entry.key).is_some_and(|seen| *seen >= entry.revision) {
                continue;
            }
            shared.seen.insert(entry.key.clone(), entry.revision);
            if entry.key != GUARD {
                wanted.insert(entry.key.clone(), entry);
            }
        }
        for (key, held) in &shared.refused {
            if held.again && !wanted.contains_key(key) {
                let entry = Entry { key: key.clone(), value: held.value.clone(), revision: held.revision };
                wanted.insert(key.clone(), entry);
            }
        }
        let mut tries = Vec::new();
        for (number, (key, entry)) in wanted.into_iter().enumerate() {
            let known = resource(&key).and_then(|(kind, name)| self.documents.get(kind, name));
            let same = match (&entry.value, known) {
                (None, None) => true,
                (Some(value), Some(document)) => {
                    all && parsed(value).is_ok_and(|value| value == *document.value)
                }
                _ => false,
            };
            if same {
                settled.push((key, entry.revision));
                continue;
            }
            // A listing does not show which entries were written together.
            let group = if all { number as u64 } else { entry.revision };
            tries.push(Tried { entry, group, undo: None });
        }
        (tries, settled)
    }

    /// Puts every entry into the documents that is valid alone.
    fn put_all(&mut self, tries: &mut [Tried], refused: &mut BTreeMap<String, (Vec<DocumentProblem>, bool)>) {
        let mut out = HashSet::new();
        for tried in tries.iter_mut() {
            match self.put_one(&tried.entry) {
                Ok(undo) => tried.undo = undo,
                Err((problems, again)) => {
                    out.insert(tried.group);
                    refused.insert(tried.entry.key.clone(), (problems, again));
                }
            }
        }
        self.take_out(tries, &out, refused);
    }

    fn put_one(&mut self, entry: &Entry) -> Result<Option<Undo>, (Vec<DocumentProblem>, bool)> {
        let plain = |message: &str| vec![DocumentProblem::plain(&entry.key, "", message)];
        let Some((kind, name)) = resource(&entry.key) else {
            let keys: Vec<_> = KINDS.iter().map(|kind| format!("`{}/NAME`", kind.name)).collect();
            let message = format!("no resource has such a key; there are {}", keys.join(", "));
            return if entry.value.is_some() { Err((plain(&message), false)) } else { Ok(None) };
        };
        let Some(value) = &entry.value else { return Ok(self.documents.remove(kind, name)) };
        if let Some(place) = self.base.as_ref().and_then(|base| base.place(kind, name)) {
            return Err((plain(&format!("the file has a {} of this name ({place})", kind.noun)), true));
        }
        let value = parsed(value).map_err(|problems| (problems, false))?;
        self.documents.put(kind, name, value).map(Some).map_err(|problems| (problems, false))
    }

    /// Takes out whole transactions.
    fn take_out(
        &mut self,
        tries: &mut [Tried],
        out: &HashSet<u64>,
        refused: &mut BTreeMap<String, (Vec<DocumentProblem>, bool)>,
    ) {
        for tried in tries.iter_mut().rev().filter(|tried| out.contains(&tried.group)) {
            let Some(undo) = tried.undo.take() else { continue };
            self.documents.undo(undo);
            refused.entry(tried.entry.key.clone()).or_insert_with(|| {
                let message = "it was written together with another entry that is not good";
                (vec![DocumentProblem::plain(&tried.entry.key, "", message)], true)
            });
        }
    }

    fn compile_all<T>(&self, compile: Compile<'_, T>) -> Result<T, Vec<Problem>> {
        let Some(base) = &self.base else { return Err(Vec::new()) };
        compile(&Parts::of(&base.config).with(&self.documents))
    }

    /// Finds the changes that cause the problems of the compiled whole, and takes them out. It takes out at
    /// least one.
    fn blame(
        &mut self,
        tries: &mut [Tried],
        problems: &[Problem],
        refused: &mut BTreeMap<String, (Vec<DocumentProblem>, bool)>,
    ) {
        let index: HashMap<String, u64> = tries
            .iter()
            .filter(|tried| tried.undo.is_some())
            .map(|tried| (tried.entry.key.clone(), tried.group))
            .collect();
        let places = self.base.as_ref().map(|base| base.places.without()).unwrap_or_default();
        let (mut out, mut helped) = (HashSet::new(), 0);
        for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
            let mut about =
                self.documents.about(problem).map(|document| (document, key(document.kind, &document.name)));
            let Some((document, key)) = about.find(|(_, key)| index.contains_key(key)) else { continue };
            out.extend(index.get(&key));
            helped += 1;
            let told = match helped {
                ..=HELPED => self.unknown_or(document, || self.documents.tell(problem, &places)),
                _ => vec![self.documents.tell(problem, &places)],
            };
            refused.entry(key).or_insert((Vec::new(), true)).0.extend(told);
        }
        if out.is_empty() {
            // The missing part was deleted, or the problem names no document: blame the deletions, else every
            // change.
            let told: Vec<_> = problems.iter().map(|problem| self.documents.tell(problem, &places)).collect();
            let removal = |tried: &&Tried| tried.undo.is_some() && tried.entry.value.is_none();
            let removals = tries.iter().any(|tried| removal(&tried));
            for tried in
                tries.iter().filter(|tried| if removals { removal(tried) } else { tried.undo.is_some() })
            {
                out.insert(tried.group);
                refused.insert(tried.entry.key.clone(), (told.clone(), true));
            }
        }
        self.take_out(tries, &out, refused);
    }

    /// Returns the problems of unknown names in a document, with suggestions; if there are none, `other`.
    fn unknown_or(
        &self,
        document: &tollgate_config::Document,
        other: impl FnOnce() -> DocumentProblem,
    ) -> Vec<DocumentProblem> {
        let Some(base) = &self.base else { return vec![other()] };
        let parts = || Parts::of(&base.config).with(&self.documents);
        let has = |name: &str| base.has_upstream(name);
        let unknown = self.documents.unknown([document], has, parts);
        if unknown.is_empty() { vec![other()] } else { unknown }
    }

    /// Records the results.
    fn settle<T>(
        &mut self,
        good: Option<T>,
        tries: Vec<Tried>,
        mut refused: BTreeMap<String, (Vec<DocumentProblem>, bool)>,
        settled: Vec<(String, u64)>,
    ) -> Brought<T> {
        let mut brought = Brought { good, told: Vec::new(), changed: Vec::new() };
        let Some(mut shared) = self.shared.take() else { return brought };
        let done = settled.into_iter().map(|(key, revision)| (key, revision, None));
        let tries = tries.into_iter().map(|tried| {
            let refused = refused.remove(&tried.entry.key);
            (tried.entry.key.clone(), tried.entry.revision, Some((tried.entry, refused)))
        });
        for (key, revision, tried) in done.chain(tries) {
            if let Some((entry, Some((problems, again)))) = tried {
                let known = resource(&key).and_then(|(kind, name)| self.version_of(kind, name));
                let held = Held { value: entry.value, revision, problems, again };
                let new = shared.refused.get(&key).is_none_or(|before| before.revision != revision);
                if new {
                    brought.told.push(told(&key, &held, known));
                }
                shared.refused.insert(key, held);
                continue;
            }
            if shared.refused.remove(&key).is_some() {
                brought.told.push(format!("etcd: {key}: revision {revision} is good"));
            }
            let Some((kind, name)) = resource(&key) else { continue };
            let of = (kind.name, name.to_owned());
            let there = self.documents.get(kind, name).is_some();
            let before = match there {
                true => self.versions.insert(of, revision),
                false => self.versions.remove(&of),
            };
            if before != there.then_some(revision) {
                brought.changed.push((kind, name.to_owned()));
            }
        }
        self.shared = Some(shared);
        self.remember();
        brought
    }

    fn version_of(&self, kind: &'static Kind, name: &str) -> Option<u64> {
        self.versions.get(&(kind.name, name.to_owned())).copied()
    }

    /// Passes the state in force to the thread that writes the cache file.
    pub(crate) fn remember(&self) {
        let Some(cache) = self.shared.as_ref().and_then(|shared| shared.cache.as_ref()) else { return };
        let documents = KINDS.iter().flat_map(|kind| self.documents.of(kind));
        let documents = documents.map(|document| {
            (document.clone(), self.version_of(document.kind, &document.name).unwrap_or_default())
        });
        cache.keep((self.version, documents.collect()));
    }

    /// Publishes the changed resources in the view, after they are in force.
    pub fn show_brought<T>(&self, brought: &Brought<T>) {
        self.view.update(|state| {
            for (kind, name) in &brought.changed {
                let document = self.documents.get(kind, name).cloned();
                let version = self.version_of(kind, name).unwrap_or_default();
                state.set(kind, name, document.map(|document| (document, version)));
            }
            self.show_etcd(state);
        });
    }

    /// Publishes the state of etcd in the view.
    pub(crate) fn show_etcd(&self, state: &mut State) {
        state.version = self.version;
        let (Some(shared), Some(etcd)) = (&self.shared, &mut state.etcd) else { return };
        let refused = shared.refused.iter().map(|(key, held)| RefusedEntry {
            key: key.clone(),
            revision: held.revision,
            removal: held.value.is_none(),
            in_force: resource(key).and_then(|(kind, name)| self.version_of(kind, name)),
            problems: held.problems.clone(),
        });
        etcd.revision = self.version;
        etcd.refused = Arc::new(refused.collect());
    }

    /// Returns whether etcd has a refused entry under this key.
    pub(crate) fn is_refused(&self, key: &str) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.refused.contains_key(key))
    }

    /// Publishes the state of this gateway under its key in etcd.
    pub fn say(&self, generation: u64) {
        let Some(shared) = &self.shared else { return };
        let refused: Vec<&String> = shared.refused.keys().take(100).collect();
        let says = json!({
            "program": shared.program,
            "started": shared.started,
            "revision": self.version,
            "generation": generation,
            "refused": refused,
        });
        shared.etcd.say(says.to_string());
    }
}

impl<T> Brought<T> {
    /// Separates the compiled configuration from the rest.
    pub fn split(self) -> (Option<T>, Brought<()>) {
        let Self { good, told, changed } = self;
        (good, Brought { good: None, told, changed })
    }
}

/// Formats the message about a refused entry, like `check` does.
fn told(key: &str, held: &Held, in_force: Option<u64>) -> String {
    let what = if held.value.is_none() { "the removal at revision" } else { "revision" };
    let stays = match in_force {
        Some(revision) => format!("revision {revision} stays in force"),
        None => "nothing of it is in force".to_owned(),
    };
    let mut text = format!("error: etcd: {key}: {what} {} is refused, {stays}", held.revision);
    for problem in &held.problems {
        text.push('\n');
        text.push_str(problem.text.trim_end());
    }
    text
}

/// Merges events. Returns whether they start with a listing, the entries, and the last revision.
fn together(news: Vec<News>) -> (bool, Vec<Entry>, u64) {
    let (mut all, mut entries, mut last) = (false, Vec::new(), 0);
    for one in news {
        match one {
            News::All { revision, entries: there } => (all, entries, last) = (true, there, revision),
            News::Changes { revision, entries: mut more } => {
                entries.append(&mut more);
                last = revision.max(last);
            }
            News::Connected { .. } | News::Lost { .. } => {}
        }
    }
    (all, entries, last)
}

/// Parses a value: JSON, or else YAML.
pub(super) fn parsed(value: &[u8]) -> Result<Value, Vec<DocumentProblem>> {
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
