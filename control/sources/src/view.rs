//! The state in force, for readers. They never wait for a change in progress.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use tollgate_config::{Document, FileResource, KINDS, ResourceKind, SourceFile, file_resources};
use tollgate_documents::Refused;
use tollgate_fleet::ControllerStatus;
use tollgate_store::Store;

/// The connection to a controller. Its thread updates it.
pub type SharedControllerStatus = Arc<Mutex<ControllerStatus>>;

/// The state in force. The control thread updates it; the API and the admin listener read it.
#[derive(Debug, Default)]
pub struct View {
    state: RwLock<ViewState>,
    /// The file's resources, parsed on first use, with the texts from which they were parsed.
    file: Mutex<Option<ParsedFile>>,
}

/// The texts of a file, and its resources.
type ParsedFile = (Arc<Vec<SourceFile>>, Arc<FileResources>);

/// The resources of a file in order, with an index by name.
#[derive(Debug)]
pub struct FileResources {
    all: Vec<FileResource>,
    by_name: HashMap<(&'static str, String), usize>,
}

impl FileResources {
    fn new(all: Vec<FileResource>) -> Self {
        let mut by_name = HashMap::with_capacity(all.len());
        for (index, resource) in all.iter().enumerate() {
            // If a name occurs twice, the first one counts.
            by_name.entry((resource.kind.name, resource.name.clone())).or_insert(index);
        }
        Self { all, by_name }
    }

    fn get(&self, kind: &ResourceKind, name: &str) -> Option<&FileResource> {
        self.all.get(*self.by_name.get(&(kind.name, name.to_owned()))?)
    }
}

/// A resource in a listing, not copied yet.
#[derive(Clone, Debug)]
pub enum ListedResource {
    /// A resource of the file, by its index.
    File(Arc<FileResources>, usize),
    /// A document, the version that last changed it, and the name of its source.
    Document(Arc<Document>, u64, &'static str),
}

impl ListedResource {
    /// Returns the name of the resource.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::File(of, index) => &of.all[*index].name,
            Self::Document(document, ..) => &document.name,
        }
    }

    /// Returns its value, including secrets.
    #[must_use]
    pub fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::File(of, index) => Cow::Borrowed(&of.all[*index].value),
            Self::Document(document, ..) => Cow::Owned(document.value()),
        }
    }

    /// Returns `file`, `store`, `etcd`, `kubernetes` or `controller`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self {
            Self::File(..) => "file",
            Self::Document(_, _, source) => source,
        }
    }

    /// Returns a copy.
    #[must_use]
    pub fn to_item(&self) -> ResourceItem {
        match self {
            Self::File(of, index) => from_file(&of.all[*index]),
            Self::Document(document, version, source) => from_document(document, *version, source),
        }
    }
}

/// The state in force.
#[derive(Debug, Default)]
pub struct ViewState {
    /// The store's version; 0: nothing was ever changed.
    pub version: u64,
    /// The store; `None`: it is not a source.
    pub store: Option<Arc<Store>>,
    /// The texts of the file and of its includes.
    pub files: Arc<Vec<SourceFile>>,
    /// The directories in which clients of the API may name files (`admin.files`).
    pub document_files: Vec<PathBuf>,
    /// The state of etcd; `None`: etcd is not a source.
    pub etcd: Option<crate::EtcdView>,
    /// The connection to a controller; `None`: a controller is not a source.
    pub controller: Option<SharedControllerStatus>,
    /// The documents of Kubernetes or of a controller that are not in force, with the reasons.
    pub refused: Refused,
    /// Whether documents come from Kubernetes.
    pub has_cluster: bool,
    documents: Vec<BTreeMap<String, (Arc<Document>, u64)>>,
}

/// A copy of a resource from any source.
#[derive(Clone, Debug)]
pub struct ResourceItem {
    /// Kind of the resource.
    pub kind: &'static ResourceKind,
    /// Name of the resource.
    pub name: String,
    /// Its value, including secrets.
    pub value: Value,
    /// The version that last changed it; `None`: it is defined in the file.
    pub version: Option<u64>,
    /// `store`, `etcd`, `kubernetes` or `controller`, or the position in the file.
    pub source: String,
}

impl View {
    /// Updates the state.
    pub fn update(&self, change: impl FnOnce(&mut ViewState)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Calls `look` with the state, under a read lock.
    pub fn read<T>(&self, look: impl FnOnce(&ViewState) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the file's resources. The first call after a reload parses its texts.
    pub fn file(&self) -> Arc<FileResources> {
        let files = self.read(|state| state.files.clone());
        let mut parsed = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &*parsed {
            Some((of, resources)) if Arc::ptr_eq(of, &files) => resources.clone(),
            _ => {
                let resources = Arc::new(FileResources::new(file_resources(&files)));
                *parsed = Some((files, resources.clone()));
                resources
            }
        }
    }

    /// Returns the resource of this name. A document takes precedence over the file's resource.
    pub fn get(&self, kind: &'static ResourceKind, name: &str) -> Option<ResourceItem> {
        let stored = self.read(|state| {
            let (document, version) = state.documents_of(kind)?.get(name)?;
            Some(from_document(document, *version, state.document_source()))
        });
        stored.or_else(|| self.file().get(kind, name).map(from_file))
    }

    /// Returns all resources of a kind: first the file's, in its order, then the documents, by name.
    pub fn all(&self, kind: &'static ResourceKind) -> Vec<ResourceItem> {
        self.list(kind).iter().map(ListedResource::to_item).collect()
    }

    /// Like [`all`](Self::all), but without copies: a writer of the state does not wait for copies.
    pub fn list(&self, kind: &'static ResourceKind) -> Vec<ListedResource> {
        let file = self.file();
        let of_kind = file.all.iter().enumerate().filter(|(_, resource)| resource.kind == kind);
        let mut all: Vec<ListedResource> =
            of_kind.map(|(index, _)| ListedResource::File(file.clone(), index)).collect();
        self.read(|state| {
            let stored = state.documents_of(kind).into_iter().flatten();
            let listed = stored.map(|(_, (document, version))| {
                ListedResource::Document(document.clone(), *version, state.document_source())
            });
            all.extend(listed);
        });
        all
    }
}

fn from_document(document: &Document, version: u64, source: &str) -> ResourceItem {
    let source = source.to_owned();
    ResourceItem {
        kind: document.kind,
        name: document.name.clone(),
        value: document.value(),
        version: Some(version),
        source,
    }
}

fn from_file(resource: &FileResource) -> ResourceItem {
    let FileResource { kind, name, value, at } = resource.clone();
    ResourceItem { kind, name, value, version: None, source: at }
}

impl ViewState {
    /// Returns whether anything can be changed.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.store.is_some() || self.etcd.is_some()
    }

    /// Returns the name of the source of documents.
    fn document_source(&self) -> &'static str {
        match self {
            Self { has_cluster: true, .. } => "kubernetes",
            Self { controller: Some(_), .. } => "controller",
            Self { etcd: Some(_), .. } => "etcd",
            _ => "store",
        }
    }

    fn documents_of(&self, kind: &ResourceKind) -> Option<&BTreeMap<String, (Arc<Document>, u64)>> {
        let index = KINDS.iter().position(|other| other == kind)?;
        self.documents.get(index)
    }

    /// Sets a document, or removes it.
    pub(crate) fn set(&mut self, kind: &ResourceKind, name: &str, document: Option<(Arc<Document>, u64)>) {
        self.documents.resize_with(KINDS.len(), BTreeMap::new);
        let index = KINDS.iter().position(|other| other == kind);
        let Some(documents) = index.and_then(|index| self.documents.get_mut(index)) else { return };
        match document {
            Some(document) => drop(documents.insert(name.to_owned(), document)),
            None => drop(documents.remove(name)),
        }
    }
}
