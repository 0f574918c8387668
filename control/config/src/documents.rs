//! Documents: resources from the API, the embedded store, etcd and any source but the file. Each has a kind
//! and a name and is read on its own.
//!
//! A document is read by the same readers as the corresponding part of the file. The result is kept, so a
//! change costs only the reading of the changed documents. [`CombinedResources`] combines the file and the documents.
//!
//! A document is JSON. The positions of its problems are JSON pointers (RFC 6901).

mod files;
mod kinds;
mod mask;
mod parts;
mod pointer;
mod problem;
mod read;
mod value;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::endpoint_list::load_endpoints;
use crate::file_access::{self, Scope};
use crate::load::{check_roots, read_pem};
use crate::model::{
    Action, Config, ConsumerSpec, Discover, Listener, NamedCertificate, PemFile, PolicySet, Route, Stream,
    Upstream,
};
use crate::position::{At, SourceFile};
use crate::problem::{Problem, Severity};
use crate::problems::Problems;
use crate::read::unknown;
use crate::reader::UpstreamReference;
use crate::tree::shown;

pub use kinds::{KINDS, ResourceKind, kind};
pub use mask::{masked, unmasked};
pub use parts::CombinedResources;
pub use problem::DocumentProblem;
pub use value::{FileResource, file_documents, file_resources, from_yaml, to_yaml};

/// File numbers from here on belong to documents, not to files.
const FIRST_DOCUMENT_ID: u32 = 1 << 24;

/// The documents of one source.
#[derive(Debug, Default)]
pub struct Documents {
    /// The source's name in messages.
    source: String,
    /// The folder that paths in documents are relative to.
    folder: PathBuf,
    /// Directories that files named by documents must lie in.
    scope: Scope,
    by_kind: Vec<BTreeMap<String, Arc<Document>>>,
    /// Documents by the file number under which each was read.
    slots: Vec<Option<Arc<Document>>>,
    free: BTreeSet<u32>,
}

/// A document and the result of reading it.
#[derive(Debug)]
pub struct Document {
    /// Kind of the resource.
    pub kind: &'static ResourceKind,
    /// Its name, unique within its kind over all sources.
    pub name: String,
    /// The content as JSON; a route is stored without its name. The text takes a tenth of the memory of a [`Value`].
    pub content: Arc<str>,
    file_id: u32,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) routes: Vec<Route>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) consumers: Vec<ConsumerSpec>,
    pub(crate) certificates: Vec<NamedCertificate>,
    pub(crate) policy_sets: Vec<PolicySet>,
    /// Files that it names, with their content when it was read.
    files: Vec<PemFile>,
    /// Whether it names any files or sockets.
    names_files: bool,
    /// Scope of its files when it was read.
    scope: Scope,
    references: Vec<UpstreamReference>,
    warnings: Vec<Problem>,
}

/// A change that was made, with the previous document, so that the change can be undone.
#[derive(Debug)]
#[must_use = "a rejected change must be undone"]
pub struct Undo {
    kind: &'static ResourceKind,
    name: String,
    before: Option<Arc<Document>>,
}

impl Documents {
    /// Makes an empty collection. `source` is its name in messages, `folder` is the folder that paths in
    /// documents are relative to, and `scope` bounds the files that documents may name.
    #[must_use]
    pub fn new(source: &str, folder: PathBuf, scope: Scope) -> Self {
        let by_kind = KINDS.iter().map(|_| BTreeMap::new()).collect();
        Self { source: source.to_owned(), folder, scope, by_kind, slots: Vec::new(), free: BTreeSet::new() }
    }

    /// Returns the document with this name.
    #[must_use]
    pub fn get(&self, kind: &ResourceKind, name: &str) -> Option<&Arc<Document>> {
        self.by_kind[kind.index].get(name)
    }

    /// Iterates over the documents of a kind, by name.
    pub fn of(&self, kind: &ResourceKind) -> impl Iterator<Item = &Arc<Document>> {
        self.by_kind[kind.index].values()
    }

    /// Iterates over the documents of a kind whose names sort after this one.
    pub fn after(&self, kind: &ResourceKind, name: &str) -> impl Iterator<Item = &Arc<Document>> {
        let after = (Bound::Excluded(name), Bound::Unbounded);
        self.by_kind[kind.index].range::<str, _>(after).map(|(_, document)| document)
    }

    /// Returns the number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_kind.iter().map(BTreeMap::len).sum()
    }

    /// Returns whether there are no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a document and stores it, replacing any document with the same kind and name. Its compatibility
    /// with everything else is not checked here: the plan's compiler does that.
    ///
    /// # Errors
    /// Returns the problems of the document, including warnings. Nothing has changed then.
    pub fn put(
        &mut self,
        kind: &'static ResourceKind,
        name: &str,
        value: Value,
    ) -> Result<Undo, Vec<DocumentProblem>> {
        let slot = self.free.pop_last().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let file = FIRST_DOCUMENT_ID.saturating_add(slot);
        let read = read::document(kind, name, value, file, &self.folder, &self.scope);
        match read {
            Ok(document) => {
                let document = Arc::new(document);
                self.slots[slot as usize] = Some(document.clone());
                let before = self.by_kind[kind.index].insert(name.to_owned(), document);
                self.remove_from_index(before.as_ref());
                Ok(Undo { kind, name: name.to_owned(), before })
            }
            Err(read::InvalidDocument { text, problems }) => {
                self.free.insert(slot);
                let source = self.title(kind, name);
                let tell = |problem: &Problem| DocumentProblem::in_text(kind, name, &source, &text, problem);
                Err(problems.iter().map(tell).collect())
            }
        }
    }

    /// Replaces the scope of files that documents may name, and returns the previous one.
    pub fn replace_scope(&mut self, scope: Scope) -> Scope {
        std::mem::replace(&mut self.scope, scope)
    }

    /// Rereads documents whose files have changed, or that were read with another scope. A document that
    /// cannot be read stays as it is.
    ///
    /// Returns the changes, so that they can be undone, and the problems of the documents that could not be
    /// read.
    pub fn reread_changed(&mut self) -> (Vec<Undo>, Vec<Problem>) {
        let all = self.by_kind.iter().flat_map(BTreeMap::values);
        let is_stale = |document: &Arc<Document>| {
            document.names_files && document.scope != self.scope || document.files.iter().any(is_changed)
        };
        let changed: Vec<_> = all.filter(|document| is_stale(document)).cloned().collect();
        let (mut undo, mut problems) = (Vec::new(), Vec::new());
        for document in changed {
            match self.put(document.kind, &document.name, document.value()) {
                Ok(done) => undo.push(done),
                Err(wrong) => {
                    let errors = wrong.into_iter().filter(|problem| problem.severity == Severity::Error);
                    problems.extend(errors.map(|wrong| Problem::error(document.start(), wrong.message)));
                }
            }
        }
        (undo, problems)
    }

    /// Removes a document; `None`: there is none.
    pub fn remove(&mut self, kind: &'static ResourceKind, name: &str) -> Option<Undo> {
        let before = self.by_kind[kind.index].remove(name)?;
        self.remove_from_index(Some(&before));
        Some(Undo { kind, name: name.to_owned(), before: Some(before) })
    }

    /// Undoes a change. Later changes must have been undone first.
    pub fn undo(&mut self, undo: Undo) {
        let Undo { kind, name, before } = undo;
        let gone = match before {
            None => self.by_kind[kind.index].remove(&name),
            Some(document) => {
                // Another document may have taken its number in the meantime.
                let slot = (document.file_id - FIRST_DOCUMENT_ID) as usize;
                if self.slots[slot].is_none() {
                    self.free.remove(&(document.file_id - FIRST_DOCUMENT_ID));
                    self.slots[slot] = Some(document.clone());
                    self.by_kind[kind.index].insert(name, document)
                } else {
                    let value = document.value();
                    // It was valid before, so it is valid again.
                    let _ = self.put(kind, &name, value).map(|undo| drop(undo.before));
                    None
                }
            }
        };
        self.remove_from_index(gone.as_ref());
    }

    fn remove_from_index(&mut self, document: Option<&Arc<Document>>) {
        if let Some(document) = document {
            let slot = document.file_id - FIRST_DOCUMENT_ID;
            self.slots[slot as usize] = None;
            self.free.insert(slot);
        }
    }

    /// Finds references of these documents to upstreams that do not exist. Unlike the plan's compiler, it adds
    /// suggestions. `file_has` returns whether the file defines an upstream. The cost is
    /// proportional to the number of references; if one is dangling, all upstreams are visited once.
    pub fn unknown<'d, 'p>(
        &self,
        documents: impl IntoIterator<Item = &'d Document>,
        file_has: impl Fn(&str) -> bool,
        parts: impl FnOnce() -> CombinedResources<'p>,
    ) -> Vec<DocumentProblem> {
        let upstreams = &self.by_kind[kinds::UPSTREAMS];
        let leads_nowhere = |reference: &&UpstreamReference| {
            !upstreams.contains_key(&reference.name) && !file_has(&reference.name)
        };
        let references = documents.into_iter().flat_map(|document| &document.references);
        let missing: Vec<UpstreamReference> = references.filter(leads_nowhere).cloned().collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let names: HashMap<String, At> = parts()
            .upstreams
            .iter()
            .map(|upstream| (upstream.name.value.clone(), upstream.name.at))
            .collect();
        unknown(&missing, &names)
            .iter()
            .map(|problem| self.to_document_problem(problem, &Problems::default()))
            .collect()
    }

    /// Checks the lists of endpoints and the directories of static files that a document names. A missing file is only
    /// a warning, because a program may write it later.
    #[must_use]
    pub fn check_lists(&self, document: &Document) -> Vec<DocumentProblem> {
        let mut problems = Vec::new();
        for discover in document.upstreams.iter().filter_map(|upstream| upstream.discover.as_ref()) {
            let Discover::File(file) = &discover.value else { continue };
            let list = file.clone();
            let read =
                file_access::run_with_timeout_for_path(&file.path, move || load_endpoints(&list).map(drop));
            let problem = match read {
                Ok(Ok(())) => continue,
                Ok(Err(bad)) if bad.is_missing => Problem::warning(
                    discover.at,
                    "the file does not exist yet: it adds no endpoints to the upstream",
                ),
                Ok(Err(bad)) => Problem::error(discover.at, bad.reason),
                Err(stalled) => Problem::error(discover.at, format!("cannot read the file: {stalled}")),
            };
            problems.push(self.to_document_problem(&problem, &Problems::default()));
        }
        let root = |route: &Route| match &route.action {
            Action::Files(site) => Some(site.root.clone()),
            _ => None,
        };
        // Several matches under one route have the same root.
        let roots = check_roots(document.routes.iter().find_map(root).into_iter().collect());
        problems.extend(roots.iter().map(|problem| self.to_document_problem(problem, &Problems::default())));
        problems
    }

    /// Returns the warnings about a document, beside this file.
    #[must_use]
    pub fn warnings(&self, document: &Document, file: &Config) -> Vec<DocumentProblem> {
        let stored = self.by_kind[kinds::LISTENERS].values().flat_map(|document| &document.listeners);
        let has_tls = file.listen.iter().chain(stored).any(|listener| listener.tls.is_some());
        let unused = document.certificates.iter().filter(|_| !has_tls).map(NamedCertificate::unused);
        document
            .warnings
            .iter()
            .cloned()
            .chain(unused)
            .map(|problem| self.to_document_problem(&problem, &Problems::default()))
            .collect()
    }

    /// Converts a problem of a [`CombinedResources`], which may concern a file or one of these documents, to the API's
    /// form. `positions` knows the files.
    #[must_use]
    pub fn to_document_problem(&self, problem: &Problem, positions: &Problems) -> DocumentProblem {
        match self.at(problem.at) {
            Some(document) => {
                let source = self.title(document.kind, &document.name);
                let text = document.text();
                DocumentProblem::in_text(document.kind, &document.name, &source, &text, problem)
            }
            None => {
                let mut settled = problem.clone();
                positions.update_positions(&mut settled);
                DocumentProblem::in_file(&settled, positions)
            }
        }
    }

    /// Returns the documents that a problem concerns: first the one it was found in, then those it refers to.
    pub fn documents_of(&self, problem: &Problem) -> impl Iterator<Item = &Arc<Document>> {
        let related = problem.related.iter().map(|(at, _)| *at);
        std::iter::once(problem.at).chain(related).filter_map(|at| self.at(at))
    }

    fn at(&self, at: At) -> Option<&Arc<Document>> {
        self.slots.get(at.file.checked_sub(FIRST_DOCUMENT_ID)? as usize)?.as_ref()
    }

    fn title(&self, kind: &ResourceKind, name: &str) -> String {
        format!("{}: {}/{name}", self.source, kind.name)
    }

    /// Adds the texts of the documents that the problems refer to, and sorts the problems.
    #[must_use]
    pub fn collect(&self, mut problems: Problems) -> Problems {
        problems.add_files(|file| {
            let document = self.at(At { file, ..At::default() })?;
            Some(SourceFile { name: self.title(document.kind, &document.name), text: document.text() })
        });
        problems.sort();
        problems
    }

    /// Finds names that both these documents and the file define.
    #[must_use]
    pub fn duplicate_names(&self, config: &Config) -> Vec<Problem> {
        let mut problems = Vec::new();
        let duplicate = |noun: &str, name: &str, at: At, other: At| {
            let problem = Problem::error(at, format!("two {noun}s are named {}", shown(name)));
            problem.related(other, format!("the other one, in the {}", self.source))
        };
        for name in config.routes.iter().filter_map(|route| route.name.as_ref()) {
            if let Some(other) = self.by_kind[kinds::ROUTES].get(&name.value) {
                problems.push(duplicate("route", &name.value, name.at, other.start()));
            }
        }
        for name in config.streams.iter().filter_map(|stream| stream.name.as_ref()) {
            if let Some(other) = self.by_kind[kinds::STREAMS].get(&name.value) {
                problems.push(duplicate("stream", &name.value, name.at, other.start()));
            }
        }
        let by_display_name = [kinds::ROUTES, kinds::STREAMS];
        for kind in KINDS.iter().filter(|kind| !by_display_name.contains(&kind.index)) {
            for (name, at) in config.names(kind) {
                if let Some(other) = self.by_kind[kind.index].get(&name) {
                    problems.push(duplicate(kind.noun, &name, at, other.start()));
                }
            }
        }
        problems.dedup();
        problems
    }
}

impl At {
    /// Returns whether the position is in a document, not in a file.
    #[must_use]
    pub fn is_in_document(self) -> bool {
        self.file >= FIRST_DOCUMENT_ID
    }
}

impl Config {
    /// Returns the names of a kind's resources, as used in metrics, with their source positions.
    pub fn names(&self, kind: &ResourceKind) -> Vec<(String, At)> {
        match kind.index {
            kinds::ROUTES => self.routes.iter().map(|route| (route.display_name(), route.at)).collect(),
            kinds::STREAMS => self.streams.iter().map(|stream| (stream.display_name(), stream.at)).collect(),
            kinds::UPSTREAMS => {
                let names = self.upstreams.iter().map(|upstream| &upstream.name);
                names.map(|name| (name.value.clone(), name.at)).collect()
            }
            kinds::CONSUMERS => {
                let names = self.consumers.iter().map(|consumer| &consumer.name);
                names.map(|name| (name.value.clone(), name.at)).collect()
            }
            kinds::CERTIFICATES => {
                let names = self.certificates.iter().map(|named| &named.name);
                names.map(|name| (name.value.clone(), name.at)).collect()
            }
            kinds::POLICIES => {
                let names = self.policy_sets.iter().map(|set| &set.name);
                names.map(|name| (name.value.clone(), name.at)).collect()
            }
            kinds::LISTENERS => {
                let names = self.listen.iter().filter_map(|listener| listener.name.as_ref());
                names.map(|name| (name.value.clone(), name.at)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Document {
    /// Returns the content.
    #[must_use]
    pub fn value(&self) -> Value {
        // It was made of a value, which is nested less deeply than the parser allows.
        serde_json::from_str(&self.content).unwrap_or_default()
    }

    /// Returns the text that positions of problems refer to, with secrets masked.
    fn text(&self) -> String {
        read::masked_yaml(self.kind, &self.value())
    }

    fn start(&self) -> At {
        At { file: self.file_id, line: 1, column: 1, length: 1 }
    }
}

/// Returns whether the content of a file has changed.
fn is_changed(known: &PemFile) -> bool {
    read_pem(known).is_some_and(|now| now.is_none_or(|now| now != known.bytes))
}

#[cfg(test)]
mod tests;
