//! The sources of a gateway, and their combination.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tollgate_config::file_access::Scope;
use tollgate_config::{
    At, CombinedResources, Config, ConfigSource, Documents, FileResource, KINDS, PartialConfig, Problem,
    Problems, ResourceKind, SourceFile, StoreSettings, file_documents, kind,
};
use tollgate_documents::{Compact, DocumentKey};
use tollgate_store::Store;

use crate::document_source::DocumentSource;
use crate::etcd::EtcdSource;
use crate::view::View;

/// The kind of upstreams.
const UPSTREAMS: &str = "upstreams";

/// The sources of a gateway's configuration.
#[derive(Debug)]
pub struct Sources {
    pub(crate) file: ConfigSource,
    /// The file's part of the configuration in force; `None` without another source, because only changes
    /// need it.
    pub(crate) file_config: Option<Arc<FileConfig>>,
    pub(crate) documents: Documents,
    pub(crate) store: Option<Arc<Store>>,
    /// The connection to etcd; `None`: etcd is not a source.
    pub(crate) etcd_source: Option<EtcdSource>,
    /// The connection to a cluster or to a controller; `None`: neither is a source.
    pub(crate) source: Option<DocumentSource>,
    /// The file's resources for the gateways of a fleet.
    for_fleet: Vec<(DocumentKey, Compact)>,
    pub(crate) version: u64,
    /// The version that last changed each document.
    pub(crate) versions: HashMap<(&'static str, String), u64>,
    /// Whether the file was read successfully before: the store is opened only once.
    is_loaded: bool,
    /// The state in force, for readers.
    pub view: Arc<View>,
}

/// The file's configuration, and the source positions in it.
#[derive(Debug)]
pub(crate) struct FileConfig {
    pub config: Config,
    /// An empty list of problems, which can resolve source positions.
    pub positions: Problems,
    /// Position of each resource of the file, by kind and name.
    resource_positions: HashMap<(&'static str, String), String>,
}

/// The result of reading the file.
#[derive(Debug)]
pub struct ReloadResult<T> {
    /// The settings of the configuration, without its resources, and the compiled configuration; `None`:
    /// there is an error.
    pub compiled: Option<(Config, T)>,
    /// Errors and warnings.
    pub problems: Problems,
    /// How many of the file's routes were parsed for it; unchanged routes are reused.
    pub routes_read: usize,
    file_config: Option<Arc<FileConfig>>,
    /// The file's resources for the gateways of a fleet; `None`: there is no fleet.
    for_fleet: Option<Vec<FileResource>>,
    files: Arc<Vec<SourceFile>>,
    files_read: Vec<PathBuf>,
    document_files: Vec<PathBuf>,
}

impl<T> ReloadResult<T> {
    /// Returns the result of a file that cannot be read as a configuration.
    fn invalid(problems: Problems, routes_read: usize) -> Self {
        Self {
            compiled: None,
            problems,
            routes_read,
            file_config: None,
            for_fleet: None,
            files: Arc::default(),
            files_read: Vec::new(),
            document_files: Vec::new(),
        }
    }

    /// Returns the files that were read.
    #[must_use]
    pub fn sources(&self) -> Vec<PathBuf> {
        self.files_read.clone()
    }
}

/// The opened store, and its documents.
struct OpenedStore {
    documents: Documents,
    store: Arc<Store>,
    version: u64,
    versions: HashMap<(&'static str, String), u64>,
}

impl OpenedStore {
    /// Opens the store that the file names, and reads its documents. Returns a message if it cannot be used.
    fn new(settings: &StoreSettings, folder: PathBuf, scope: Scope) -> Result<Self, String> {
        let path = settings.path.display();
        let cannot = |error: tollgate_store::Error| format!("cannot open the store {path}: {error}");
        let store = Store::open(&settings.path, settings.history).map_err(cannot)?;
        let contents = store.contents().map_err(cannot)?;
        let mut documents = Documents::new("store", folder, scope);
        let mut versions = HashMap::new();
        for document in contents.documents {
            let name = document.name;
            let wrong = |what: String| format!("the store {path}: {}/{name}: {what}", document.kind);
            let Some(kind) = kind(&document.kind) else {
                return Err(wrong("this program does not know this kind".to_owned()));
            };
            let value: Value =
                serde_json::from_str(&document.text).map_err(|error| wrong(error.to_string()))?;
            if let Err(problems) = documents.put(kind, &name, value) {
                let messages: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
                return Err(wrong(format!("it is not good any more: {}", messages.join("; "))));
            }
            versions.insert((kind.name, name), document.version);
        }
        Ok(Self { documents, store: Arc::new(store), version: contents.version, versions })
    }

    fn publish(&self, view: &View) {
        view.update(|state| {
            state.version = self.version;
            state.store = Some(self.store.clone());
            for kind in &KINDS {
                for document in self.documents.of(kind) {
                    let key = (kind.name, document.name.clone());
                    let version = self.versions.get(&key).copied().unwrap_or_default();
                    state.set(kind, &document.name, Some((document.clone(), version)));
                }
            }
        });
    }
}

impl Sources {
    /// Creates the sources for a file. It reads nothing yet.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        Self {
            file: ConfigSource::new(file),
            file_config: None,
            documents: Documents::new("store", PathBuf::new(), Scope::below(&[])),
            store: None,
            etcd_source: None,
            source: None,
            for_fleet: Vec::new(),
            version: 0,
            versions: HashMap::new(),
            is_loaded: false,
            view: Arc::default(),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// Returns the store, if there is one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Returns whether the API can change anything.
    pub(crate) fn is_writable(&self) -> bool {
        self.store.is_some() || self.etcd_source.is_some()
    }

    /// Returns all documents for the gateways of a fleet: the resources of the file and of the other source.
    pub fn fleet_documents(&self) -> impl Iterator<Item = (DocumentKey, Compact)> {
        let documents = KINDS.iter().flat_map(|kind| self.documents.of(kind)).map(|document| {
            let key = DocumentKey { kind: document.kind.name, name: document.name.clone() };
            (key, Compact::from(document.content.clone()))
        });
        self.for_fleet.iter().cloned().chain(documents)
    }

    /// Reads the changed parts of the file, and compiles them together with the documents. If the file is not
    /// valid, `check` finds further problems in its readable part.
    pub fn reload<T>(
        &mut self,
        compile: impl FnOnce(&CombinedResources<'_>) -> Result<(T, Vec<Problem>), Vec<Problem>>,
        check: impl FnOnce(&PartialConfig) -> Vec<Problem>,
    ) -> ReloadResult<T> {
        let folder = self.file().parent().unwrap_or(Path::new("")).to_owned();
        let mut reading = self.file.load();
        let routes_read = reading.routes_read;
        let Some(mut config) = reading.config else {
            let messages = reading.partial.as_ref().map(check).unwrap_or_default();
            let mut problems = reading.problems;
            problems.extend(messages);
            problems.sort();
            return ReloadResult::invalid(problems, routes_read);
        };
        let scope = Scope::below(&config.document_files);
        let mut store_problem = None;
        // Later files cannot change the source.
        if !std::mem::replace(&mut self.is_loaded, true) {
            if let Some(name) = remote_source(&config) {
                self.documents = Documents::new(name, folder.clone(), scope.clone());
            }
            let opened =
                config.store.as_ref().map(|settings| OpenedStore::new(settings, folder, scope.clone()));
            match opened {
                Some(Ok(opened)) => {
                    opened.publish(&self.view);
                    let OpenedStore { documents, store, version, versions } = opened;
                    (self.documents, self.store, self.versions) = (documents, Some(store), versions);
                    self.version = version;
                }
                Some(Err(why)) => store_problem = Some(Problem::error(At::default(), why)),
                None => {}
            }
        }
        let files = Arc::new(config.files.clone());
        let scope_before = self.documents.replace_scope(scope);
        let (undo_reread, unreadable) = self.documents.reread_changed();
        let mut messages = self.documents.duplicate_names(&config);
        messages.extend(unreadable);
        messages.extend(store_problem);
        let compiled = match messages.is_empty() {
            true => compile(&CombinedResources::of(&config).with(&self.documents)),
            false => Err(std::mem::take(&mut messages)),
        };
        let changes = self.store.is_some() || remote_source(&config).is_some();
        let for_fleet = config.fleet.is_some().then(|| file_documents(&config));
        let file_config = changes.then(|| Arc::new(FileConfig::new(config.clone(), &reading.problems)));
        let files_read = config.sources();
        let (compiled, messages) = match compiled {
            Ok((compiled, messages)) => (Some(compiled), messages),
            Err(messages) => (None, messages),
        };
        let document_files = config.document_files.clone();
        let settings = config.settings();
        reading.problems.extend(messages);
        let problems = self.documents.collect(reading.problems);
        if compiled.is_none() {
            self.documents.replace_scope(scope_before);
            undo_reread.into_iter().rev().for_each(|undo| self.documents.undo(undo));
        }
        ReloadResult {
            compiled: compiled.map(|compiled| (settings, compiled)),
            problems,
            routes_read,
            file_config,
            for_fleet,
            files,
            files_read,
            document_files,
        }
    }

    /// Records that the reload is in force: later changes are merged with it.
    pub fn adopt<T>(&mut self, reload: &mut ReloadResult<T>) {
        if let Some(file_config) = reload.file_config.take() {
            self.file_config = Some(file_config);
        }
        if let Some(for_fleet) = reload.for_fleet.take() {
            self.for_fleet = for_fleet
                .into_iter()
                .map(|resource| {
                    let key = DocumentKey { kind: resource.kind.name, name: resource.name };
                    (key, Compact::from(&resource.value))
                })
                .collect();
        }
        let files = std::mem::take(&mut reload.files);
        let document_files = std::mem::take(&mut reload.document_files);
        self.view.update(|state| (state.files, state.document_files) = (files, document_files));
    }
}

/// Returns the name of the source that a file names besides the store, if any.
fn remote_source(config: &Config) -> Option<&'static str> {
    let sources = [
        ("etcd", config.etcd.is_some()),
        ("kubernetes", config.kubernetes.is_some()),
        ("controller", config.controller.is_some()),
    ];
    sources.into_iter().find(|(_, is_source)| *is_source).map(|(name, _)| name)
}

impl FileConfig {
    fn new(config: Config, problems: &Problems) -> Self {
        let mut resource_positions = HashMap::new();
        let mut positions = problems.empty_copy();
        for kind in &KINDS {
            for (name, at) in config.names(kind) {
                let mut problem = Problem::warning(at, "");
                positions.update_positions(&mut problem);
                let file =
                    config.files.get(at.file as usize).map(|file| file.name.as_str()).unwrap_or_default();
                resource_positions.insert((kind.name, name), format!("{file}:{}", problem.at.line));
            }
        }
        positions = problems.empty_copy();
        Self { config, positions, resource_positions }
    }

    /// Returns whether the file defines an upstream of this name.
    pub fn has_upstream(&self, name: &str) -> bool {
        self.resource_positions.contains_key(&(UPSTREAMS, name.to_owned()))
    }

    /// Returns the position at which the file defines a resource.
    pub fn position_of(&self, kind: &ResourceKind, name: &str) -> Option<&String> {
        self.resource_positions.get(&(kind.name, name.to_owned()))
    }
}
