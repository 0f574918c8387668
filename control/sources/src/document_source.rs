//! A source that sends documents: a cluster or a controller. Valid documents come into force. Invalid documents are
//! refused and reported back, and the last valid version of each stays in force, unless that would admit clients that the
//! refused version keeps out: then a stand-in serves in its place.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_config::{
    CombinedResources, DocumentProblem, LogLevel, Problem, ResourceKind, Severity, Undo, kind,
};
use tollgate_documents::{Compact, DocumentKey, Refused};
use tollgate_fleet::FleetThread;
use tollgate_kubernetes::KubernetesThread;

use crate::batch::CompileParts;
use crate::sources::Sources;
use crate::stand_in::stand_in;

/// The thread that makes documents: it ends with the source.
#[derive(Debug)]
pub(crate) enum SourceThread {
    /// From objects of a cluster.
    Kubernetes { _thread: KubernetesThread },
    /// From the stream of a controller.
    Controller(FleetThread),
}

/// A source that sends documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentSourceKind {
    /// A cluster.
    Kubernetes,
    /// A controller.
    Controller,
}

/// A source that sends documents, and those of them that are not in force.
#[derive(Debug)]
pub(crate) struct DocumentSource {
    pub thread: SourceThread,
    refused: BTreeMap<DocumentKey, RefusedDocument>,
    /// The number of the last change of documents.
    version: u64,
}

impl DocumentSource {
    pub fn new(thread: SourceThread) -> Self {
        Self { thread, refused: BTreeMap::new(), version: 0 }
    }
}

/// A document that is not in force.
#[derive(Clone, Debug)]
struct RefusedDocument {
    value: Option<Compact>,
    why: String,
}

/// The result of taking in changes.
#[derive(Debug)]
pub struct AppliedDocuments<T> {
    /// The compiled configuration; `None`: nothing changed.
    pub compiled: Option<T>,
    /// Messages for the log.
    pub messages: Vec<(LogLevel, String)>,
    /// All documents that are not in force, with the reasons.
    pub refused: Refused,
    /// The source that the documents came from.
    pub source: DocumentSourceKind,
    /// The resources that changed.
    changed: Vec<(&'static ResourceKind, String)>,
}

impl<T> AppliedDocuments<T> {
    /// Separates the compiled configuration from the rest.
    pub fn split(self) -> (Option<T>, AppliedDocuments<()>) {
        let Self { compiled, messages, refused, source, changed } = self;
        (compiled, AppliedDocuments { compiled: None, messages, refused, source, changed })
    }
}

/// A change under trial.
struct Candidate {
    key: DocumentKey,
    value: Option<Compact>,
    /// `None`: it is not tried, because it is refused or changes nothing.
    undo: Option<Undo>,
}

/// The result of putting stand-ins in the place of refused documents.
struct StandIns<T> {
    /// The compiled configuration; `None`: there is no new one.
    compiled: Option<T>,
    /// The documents that they stand in for.
    keys: BTreeSet<DocumentKey>,
}

impl Sources {
    /// Takes in the valid ones of these changes, and tries those again that were refused before.
    pub fn apply_documents<T>(
        &mut self,
        changes: Vec<(DocumentKey, Option<Compact>)>,
        mut compile: impl FnMut(&CombinedResources<'_>) -> Result<T, Vec<Problem>>,
    ) -> AppliedDocuments<T> {
        let compile: CompileParts<'_, T> = &mut compile;
        let before =
            self.source.as_mut().map(|source| std::mem::take(&mut source.refused)).unwrap_or_default();
        let again = before.iter().map(|(key, refused)| (key.clone(), refused.value.clone()));
        let mut wanted: BTreeMap<_, _> = again.collect();
        wanted.extend(changes);
        let mut refused = Refused::new();
        let mut candidates = Vec::with_capacity(wanted.len());
        for (key, value) in wanted {
            let undo = self.put_document(&key, value.as_ref()).unwrap_or_else(|why| {
                refused.insert(key.clone(), why);
                None
            });
            candidates.push(Candidate { key, value, undo });
        }
        let mut compiled = None;
        while candidates.iter().any(|candidate| candidate.undo.is_some()) {
            match self.compile_documents(compile) {
                Ok(result) => {
                    compiled = Some(result);
                    break;
                }
                Err(problems) => self.refuse_documents(&mut candidates, &problems, &mut refused),
            }
        }
        let stand_ins = self.put_stand_ins(&candidates, &refused, compile);
        let source = match self.source.as_ref().map(|source| &source.thread) {
            Some(SourceThread::Controller(_)) => DocumentSourceKind::Controller,
            _ => DocumentSourceKind::Kubernetes,
        };
        let mut applied = AppliedDocuments {
            compiled: stand_ins.compiled.or(compiled),
            messages: Vec::new(),
            refused,
            source,
            changed: Vec::new(),
        };
        let Some(source) = &mut self.source else { return applied };
        source.version += 1;
        for key in &stand_ins.keys {
            let kind = kind(key.kind).map(|kind| (kind, key.name.clone()));
            applied.changed.extend(kind);
        }
        for Candidate { key, value, undo } in candidates {
            if let Some(why) = applied.refused.get(&key) {
                if before.get(&key).is_none_or(|before| before.why != *why) {
                    let until = match stand_ins.keys.contains(&key) {
                        true => "; until it is valid, its requests get an error",
                        false => "",
                    };
                    let message = format!("{}/{} is refused: {why}{until}", key.kind, key.name);
                    applied.messages.push((LogLevel::Error, message));
                }
                source.refused.insert(key, RefusedDocument { value, why: why.clone() });
            } else if let (Some(_), Some(kind)) = (undo, kind(key.kind)) {
                applied.changed.push((kind, key.name));
            }
        }
        applied
    }

    /// Puts stand-ins in the place of refused documents that need one. A stand-in that is refused as well is left out.
    fn put_stand_ins<T>(
        &mut self,
        candidates: &[Candidate],
        refused: &Refused,
        compile: CompileParts<'_, T>,
    ) -> StandIns<T> {
        let mut tried = Vec::new();
        for Candidate { key, value, .. } in candidates.iter().filter(|one| refused.contains_key(&one.key)) {
            let Some((kind, value)) = kind(key.kind).zip(value.as_ref()) else { continue };
            let in_force = self.documents.get(kind, &key.name).map(|document| document.value());
            let Some(wanted) = stand_in(kind, &value.value(), in_force.as_ref()) else { continue };
            if in_force.as_ref() == Some(&wanted) {
                continue;
            }
            let value = Compact::from(&wanted);
            if let Ok(undo) = self.put_document(key, Some(&value)) {
                tried.push(Candidate { key: key.clone(), value: Some(value), undo });
            }
        }
        let mut compiled = None;
        while tried.iter().any(|candidate| candidate.undo.is_some()) {
            match self.compile_documents(compile) {
                Ok(result) => {
                    compiled = Some(result);
                    break;
                }
                Err(problems) => self.refuse_documents(&mut tried, &problems, &mut Refused::new()),
            }
        }
        let keys = tried.into_iter().filter(|candidate| candidate.undo.is_some());
        StandIns { compiled, keys: keys.map(|candidate| candidate.key).collect() }
    }

    /// Puts a document among the others, or removes it. Returns `None` if there is nothing to remove.
    fn put_document(&mut self, key: &DocumentKey, value: Option<&Compact>) -> Result<Option<Undo>, String> {
        let Some(kind) = kind(key.kind) else { return Err("no resource is of this kind".to_owned()) };
        let Some(value) = value else { return Ok(self.documents.remove(kind, &key.name)) };
        if let Some(place) = self.file_config.as_ref().and_then(|base| base.position_of(kind, &key.name)) {
            return Err(format!("the file has a {} of this name ({place})", kind.noun));
        }
        self.documents.put(kind, &key.name, value.value()).map(Some).map_err(|problems| describe(&problems))
    }

    fn compile_documents<T>(&self, compile: CompileParts<'_, T>) -> Result<T, Vec<Problem>> {
        let Some(base) = &self.file_config else { return Err(Vec::new()) };
        compile(&CombinedResources::of(&base.config).with(&self.documents))
    }

    /// Finds the changes that cause the problems of the compiled whole, and takes them out: at least one.
    fn refuse_documents(
        &mut self,
        candidates: &mut [Candidate],
        problems: &[Problem],
        refused: &mut Refused,
    ) {
        let tried: BTreeSet<&DocumentKey> = candidates
            .iter()
            .filter(|candidate| candidate.undo.is_some())
            .map(|candidate| &candidate.key)
            .collect();
        let positions = self.file_config.as_ref().map(|base| base.positions.empty_copy()).unwrap_or_default();
        let mut blamed: BTreeMap<DocumentKey, Vec<DocumentProblem>> = BTreeMap::new();
        for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
            let keys = self.documents.documents_of(problem);
            let mut keys =
                keys.map(|document| DocumentKey { kind: document.kind.name, name: document.name.clone() });
            if let Some(key) = keys.find(|key| tried.contains(key)) {
                blamed.entry(key).or_default().push(self.documents.to_document_problem(problem, &positions));
            }
        }
        if blamed.is_empty() {
            // Something that was removed is missing, or the problem names no document.
            let messages: Vec<_> = problems
                .iter()
                .map(|problem| self.documents.to_document_problem(problem, &positions))
                .collect();
            let is_removal = |candidate: &&Candidate| candidate.undo.is_some() && candidate.value.is_none();
            let removals = candidates.iter().any(|candidate| is_removal(&candidate));
            let all = candidates.iter().filter(|candidate| match removals {
                true => is_removal(candidate),
                false => candidate.undo.is_some(),
            });
            blamed = all.map(|candidate| (candidate.key.clone(), messages.clone())).collect();
        }
        for candidate in candidates.iter_mut().rev() {
            if let Some(problems) = blamed.get(&candidate.key)
                && let Some(undo) = candidate.undo.take()
            {
                self.documents.undo(undo);
                refused.insert(candidate.key.clone(), describe(problems));
            }
        }
    }

    /// Publishes the changed resources in the view, after they are in force.
    pub fn publish_documents<T>(&self, applied: &AppliedDocuments<T>) {
        let version = self.source.as_ref().map(|source| source.version).unwrap_or_default();
        self.view.update(|state| {
            for (kind, name) in &applied.changed {
                let document = self.documents.get(kind, name).cloned();
                state.set(kind, name, document.map(|document| (document, version)));
            }
            state.version = version;
            state.refused.clone_from(&applied.refused);
        });
    }
}

/// Describes problems in one line, for a condition.
fn describe(problems: &[DocumentProblem]) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let one = |problem: &DocumentProblem| match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("{pointer}: {}", problem.message),
    };
    errors.map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;

    /// Sources with a file that has nothing but the cluster.
    struct World {
        _directory: tempfile::TempDir,
        sources: Sources,
    }

    impl World {
        fn new() -> Self {
            tollgate_plan::register_policies();
            let directory = tempfile::tempdir().expect("a directory");
            let file: PathBuf = directory.path().join("gateway.yaml");
            std::fs::write(&file, "listen: 127.0.0.1:0\nkubernetes: {addresses: 192.0.2.1}\n")
                .expect("a file");
            let mut sources = Sources::new(&file);
            let compile =
                |parts: &CombinedResources<'_>| tollgate_plan::compile_parts(parts).map(|_| ((), Vec::new()));
            let mut reload = sources.reload(compile, |_| Vec::new());
            assert!(reload.compiled.is_some(), "{:?}", reload.problems);
            sources.adopt(&mut reload);
            Self { _directory: directory, sources }
        }

        /// Takes in documents. Returns the names of those that are refused, and whether a configuration was compiled.
        fn apply(&mut self, documents: &[(&'static str, &str, Value)]) -> (Vec<String>, bool) {
            let changes = documents.iter().map(|(kind, name, value)| {
                let key = DocumentKey { kind, name: (*name).to_owned() };
                (key, (!value.is_null()).then(|| Compact::from(value)))
            });
            let applied = self
                .sources
                .apply_documents(changes.collect(), |parts| tollgate_plan::compile_parts(parts).map(drop));
            (applied.refused.into_keys().map(|key| key.name).collect(), applied.compiled.is_some())
        }

        fn in_force(&self, kind_name: &str, name: &str) -> Value {
            let kind = kind(kind_name).expect("a kind");
            self.sources.documents.get(kind, name).map(|document| document.value()).unwrap_or_default()
        }
    }

    fn route(policies: Value) -> Value {
        let mut route =
            json!({ "match": [{ "path": { "prefix": "/admin" } }], "to": [{ "upstream": "shop" }] });
        if !policies.is_null() {
            route["policies"] = policies;
        }
        route
    }

    fn refusing() -> Value {
        json!({ "match": [{ "path": { "prefix": "/admin" } }], "respond": 500 })
    }

    fn shop() -> (&'static str, &'static str, Value) {
        ("upstreams", "shop", json!({ "endpoints": [{ "address": "10.0.0.1:80" }] }))
    }

    fn no_address() -> Value {
        json!({ "ip": { "allow": ["10.0.0.0/99"] } })
    }

    /// Its requests must not take the route of `/`, which lets everyone in.
    #[test]
    fn a_new_route_that_is_refused_answers_with_an_error() {
        let mut world = World::new();
        let (refused, is_compiled) = world.apply(&[shop(), ("routes", "admin", route(no_address()))]);
        assert_eq!((refused, is_compiled), (vec!["admin".to_owned()], true));
        assert_eq!(world.in_force("routes", "admin"), refusing());
        // The next try changes nothing.
        assert_eq!(world.apply(&[("routes", "admin", route(no_address()))]).0, ["admin"]);
        assert_eq!(world.in_force("routes", "admin"), refusing());
        // Its place may move while it is refused.
        let mut moved = route(no_address());
        moved["match"] = json!([{ "path": { "prefix": "/staff" } }]);
        assert_eq!(world.apply(&[("routes", "admin", moved)]).0, ["admin"]);
        assert_eq!(world.in_force("routes", "admin")["match"], json!([{ "path": { "prefix": "/staff" } }]));
        let good = route(json!({ "ip": { "allow": ["10.0.0.0/8"] } }));
        assert_eq!(world.apply(&[("routes", "admin", good.clone())]), (Vec::new(), true));
        assert_eq!(world.in_force("routes", "admin"), good);
        assert_eq!(world.apply(&[("routes", "admin", Value::Null)]), (Vec::new(), true));
        assert_eq!(world.in_force("routes", "admin"), Value::Null);
    }

    #[test]
    fn the_last_valid_version_stays_if_it_keeps_the_same_clients_out() {
        let mut world = World::new();
        let good = route(json!({ "ip": { "allow": ["10.0.0.0/8"] } }));
        assert_eq!(world.apply(&[shop(), ("routes", "admin", good.clone())]).0, [""; 0]);
        assert_eq!(world.apply(&[("routes", "admin", route(no_address()))]).0, ["admin"]);
        assert_eq!(world.in_force("routes", "admin"), good);
        // Neither does a policy that keeps no client out.
        let other = route(json!({ "ip": { "allow": ["10.0.0.0/8"] }, "cors": { "regex": ["("] } }));
        assert_eq!(world.apply(&[("routes", "admin", other)]).0, ["admin"]);
        assert_eq!(world.in_force("routes", "admin"), good);
    }

    #[test]
    fn the_last_valid_version_does_not_stay_open() {
        let mut world = World::new();
        let listener = json!({ "bind": "127.0.0.1:8080" });
        let open = [shop(), ("routes", "admin", route(Value::Null)), ("listeners", "web", listener)];
        assert_eq!(world.apply(&open).0, [""; 0]);
        let mut guarded = open.clone();
        for (_, _, document) in &mut guarded {
            document["policies"] = no_address();
        }
        assert_eq!(world.apply(&guarded).0, ["web", "admin", "shop"]);
        assert_eq!(world.in_force("routes", "admin"), refusing());
        assert_eq!(world.in_force("upstreams", "shop"), json!({ "endpoints": [] }));
        let listener = world.in_force("listeners", "web");
        assert_eq!(listener["bind"], json!("127.0.0.1:8080"));
        assert_eq!(listener["policies"]["intercept"], json!([{ "status": 500 }]));
        // All come back with their next valid version.
        assert_eq!(world.apply(&open).0, [""; 0]);
        for (kind, name, document) in &open {
            assert_eq!(world.in_force(kind, name), *document);
        }
    }

    /// A place that no route can have needs none.
    #[test]
    fn a_stand_in_that_is_refused_itself_is_left_out() {
        let mut world = World::new();
        let odd = json!({ "match": [{ "path": { "regex": "(" } }], "to": [{ "upstream": "shop" }] });
        assert_eq!(world.apply(&[shop(), ("routes", "odd", odd)]), (vec!["odd".to_owned()], true));
        assert_eq!(world.in_force("routes", "odd"), Value::Null);
    }
}
