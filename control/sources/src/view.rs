//! What is in force, for whoever only reads: it waits for no change that is under way.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use tollgate_config::{Document, FileResource, KINDS, Kind, SourceFile, file_resources};
use tollgate_store::Store;

/// What is in force. It is shared by the control thread, which changes it, and those who read.
#[derive(Debug, Default)]
pub struct View {
    state: RwLock<State>,
    /// The file's resources, read when first asked for: the texts that they are of, and they.
    file: Mutex<Option<OfFile>>,
}

/// The texts of a file, and its resources.
type OfFile = (Arc<Vec<SourceFile>>, Arc<FileResources>);

/// The resources of a file, in its order, and where each is among them.
#[derive(Debug)]
pub struct FileResources {
    all: Vec<FileResource>,
    by_name: HashMap<(&'static str, String), usize>,
}

impl FileResources {
    fn new(all: Vec<FileResource>) -> Self {
        let mut by_name = HashMap::with_capacity(all.len());
        for (index, resource) in all.iter().enumerate() {
            // Of two the first one counts.
            by_name.entry((resource.kind.name, resource.name.clone())).or_insert(index);
        }
        Self { all, by_name }
    }

    fn get(&self, kind: &Kind, name: &str) -> Option<&FileResource> {
        self.all.get(*self.by_name.get(&(kind.name, name.to_owned()))?)
    }
}

/// A resource that is looked at, and not copied yet.
#[derive(Clone, Debug)]
pub enum Listed {
    /// The file's: its place among them.
    File(Arc<FileResources>, usize),
    /// A document, the version that changed it last, and what its source is called.
    Document(Arc<Document>, u64, &'static str),
}

impl Listed {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::File(of, index) => &of.all[*index].name,
            Self::Document(document, ..) => &document.name,
        }
    }

    /// What it says, its secrets included.
    #[must_use]
    pub fn value(&self) -> &Value {
        match self {
            Self::File(of, index) => &of.all[*index].value,
            Self::Document(document, ..) => &document.value,
        }
    }

    /// `file`, `store` or `etcd`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self {
            Self::File(..) => "file",
            Self::Document(_, _, source) => source,
        }
    }

    /// A copy.
    #[must_use]
    pub fn item(&self) -> Item {
        match self {
            Self::File(of, index) => of_file(&of.all[*index]),
            Self::Document(document, version, source) => item(document, *version, source),
        }
    }
}

/// What is in force.
#[derive(Debug, Default)]
pub struct State {
    /// The store's version; 0: nothing was ever changed.
    pub version: u64,
    /// The store, if there is one.
    pub store: Option<Arc<Store>>,
    /// The texts of the file and of those that it includes.
    pub files: Arc<Vec<SourceFile>>,
    /// etcd, if it is there in place of a store.
    pub etcd: Option<crate::EtcdState>,
    documents: Vec<BTreeMap<String, (Arc<Document>, u64)>>,
}

/// A resource, wherever it comes from.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
    /// What it says, its secrets included.
    pub value: Value,
    /// The version that changed it last; none: it is the file's.
    pub version: Option<u64>,
    /// `store` or `etcd`, or where in the file it is.
    pub source: String,
}

impl View {
    /// Changes what is in force.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Looks at it.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The file's resources. The first who asks after a reload waits until its texts are read.
    pub fn file(&self) -> Arc<FileResources> {
        let files = self.read(|state| state.files.clone());
        let mut known = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, resources)) if Arc::ptr_eq(of, &files) => resources.clone(),
            _ => {
                let resources = Arc::new(FileResources::new(file_resources(&files)));
                *known = Some((files, resources.clone()));
                resources
            }
        }
    }

    /// A resource by its name.
    pub fn get(&self, kind: &'static Kind, name: &str) -> Option<Item> {
        let stored = self.read(|state| {
            let (document, version) = state.of(kind)?.get(name)?;
            Some(item(document, *version, state.beside()))
        });
        stored.or_else(|| self.file().get(kind, name).map(of_file))
    }

    /// All resources of a kind: the file's in its order, then the store's by name.
    pub fn all(&self, kind: &'static Kind) -> Vec<Item> {
        self.list(kind).iter().map(Listed::item).collect()
    }

    /// As [`all`](Self::all), without a copy of each: whoever changes what is in force does not wait for copies.
    pub fn list(&self, kind: &'static Kind) -> Vec<Listed> {
        let file = self.file();
        let of_kind = file.all.iter().enumerate().filter(|(_, resource)| resource.kind == kind);
        let mut all: Vec<Listed> = of_kind.map(|(index, _)| Listed::File(file.clone(), index)).collect();
        self.read(|state| {
            let stored = state.of(kind).into_iter().flatten();
            let listed = stored
                .map(|(_, (document, version))| Listed::Document(document.clone(), *version, state.beside()));
            all.extend(listed);
        });
        all
    }
}

fn item(document: &Document, version: u64, source: &str) -> Item {
    let source = source.to_owned();
    Item {
        kind: document.kind,
        name: document.name.clone(),
        value: Value::clone(&document.value),
        version: Some(version),
        source,
    }
}

fn of_file(resource: &FileResource) -> Item {
    let FileResource { kind, name, value, at } = resource.clone();
    Item { kind, name, value, version: None, source: at }
}

impl State {
    /// Whether anything can be changed.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.store.is_some() || self.etcd.is_some()
    }

    /// What the source beside the file is called.
    fn beside(&self) -> &'static str {
        if self.etcd.is_some() { "etcd" } else { "store" }
    }

    fn of(&self, kind: &Kind) -> Option<&BTreeMap<String, (Arc<Document>, u64)>> {
        let index = KINDS.iter().position(|other| other == kind)?;
        self.documents.get(index)
    }

    /// Takes note of a document, or that it is gone.
    pub(crate) fn set(&mut self, kind: &Kind, name: &str, document: Option<(Arc<Document>, u64)>) {
        self.documents.resize_with(KINDS.len(), BTreeMap::new);
        let index = KINDS.iter().position(|other| other == kind);
        let Some(documents) = index.and_then(|index| self.documents.get_mut(index)) else { return };
        match document {
            Some(document) => drop(documents.insert(name.to_owned(), document)),
            None => drop(documents.remove(name)),
        }
    }
}
