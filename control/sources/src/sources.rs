//! The sources of a gateway, and their combination.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tollgate_config::file_access::Scope;
use tollgate_config::{
    At, Config, Documents, KINDS, Kind, Parts, Problem, Problems, Readable, Source, SourceFile,
    StoreSettings, kind,
};
use tollgate_store::Store;

use crate::etcd::Shared;
use crate::view::View;

/// The kind of upstreams.
const UPSTREAMS: &str = "upstreams";

/// The sources of a gateway's configuration.
#[derive(Debug)]
pub struct Sources {
    pub(crate) file: Source,
    /// The file's part of the configuration in force; `None` without a store or etcd, because only changes
    /// need it.
    pub(crate) base: Option<Arc<Base>>,
    pub(crate) documents: Documents,
    pub(crate) store: Option<Arc<Store>>,
    /// The connection to etcd; `None`: etcd is not a source.
    pub(crate) shared: Option<Shared>,
    pub(crate) version: u64,
    /// The version that last changed each document.
    pub(crate) versions: HashMap<(&'static str, String), u64>,
    /// Whether the file was read successfully before: the store is opened only once.
    begun: bool,
    /// The state in force, for readers.
    pub view: Arc<View>,
}

/// The file's configuration, and the source positions in it.
#[derive(Debug)]
pub(crate) struct Base {
    pub config: Config,
    /// An empty list of problems, which can resolve source positions.
    pub places: Problems,
    /// Position of each resource of the file, by kind and name.
    names: HashMap<(&'static str, String), String>,
}

/// The result of reading the file.
#[derive(Debug)]
pub struct Reload<T> {
    /// The settings of the configuration, without its resources, and the compiled configuration; `None`:
    /// there is an error.
    pub good: Option<(Config, T)>,
    /// Errors and warnings.
    pub problems: Problems,
    /// How many of the file's routes were parsed for it; unchanged routes are reused.
    pub anew: usize,
    base: Option<Arc<Base>>,
    files: Arc<Vec<SourceFile>>,
    read: Vec<PathBuf>,
}

impl<T> Reload<T> {
    /// Returns the files that were read.
    #[must_use]
    pub fn sources(&self) -> Vec<PathBuf> {
        self.read.clone()
    }
}

/// The opened store, and its documents.
struct Opened {
    documents: Documents,
    store: Arc<Store>,
    version: u64,
    versions: HashMap<(&'static str, String), u64>,
}

impl Opened {
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
                let told: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
                return Err(wrong(format!("it is not good any more: {}", told.join("; "))));
            }
            versions.insert((kind.name, name), document.version);
        }
        Ok(Self { documents, store: Arc::new(store), version: contents.version, versions })
    }

    fn show(&self, view: &View) {
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
            file: Source::new(file),
            base: None,
            documents: Documents::new("store", PathBuf::new(), Scope::below(&[])),
            store: None,
            shared: None,
            version: 0,
            versions: HashMap::new(),
            begun: false,
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
        self.store.is_some() || self.shared.is_some()
    }

    /// Reads the changed parts of the file, and compiles them together with the documents. If the file is not
    /// valid, `check` finds further problems in its readable part.
    pub fn reload<T>(
        &mut self,
        compile: impl FnOnce(&Parts<'_>) -> Result<(T, Vec<Problem>), Vec<Problem>>,
        check: impl FnOnce(&Readable) -> Vec<Problem>,
    ) -> Reload<T> {
        let folder = self.file().parent().unwrap_or(Path::new("")).to_owned();
        let mut reading = self.file.load();
        let anew = reading.anew;
        let Some(mut config) = reading.config else {
            let told = reading.readable.as_ref().map(check).unwrap_or_default();
            let mut problems = reading.problems;
            problems.extend(told);
            problems.sort();
            return Reload {
                good: None,
                problems,
                anew,
                base: None,
                files: Arc::default(),
                read: Vec::new(),
            };
        };
        let mut closed = None;
        let scope = Scope::below(&config.document_files);
        if let (false, Some(_)) = (self.begun, &config.etcd) {
            self.documents = Documents::new("etcd", folder.clone(), scope.clone());
        }
        if let (false, Some(settings)) = (self.begun, &config.store) {
            match Opened::new(settings, folder, scope.clone()) {
                Ok(opened) => {
                    opened.show(&self.view);
                    let Opened { documents, store, version, versions } = opened;
                    (self.documents, self.store, self.versions) = (documents, Some(store), versions);
                    self.version = version;
                }
                Err(why) => closed = Some(Problem::error(At::default(), why)),
            }
        }
        self.begun = true;
        let files = Arc::new(config.files.clone());
        let scope_before = self.documents.confine(scope);
        let (renewed, unread) = self.documents.renew();
        let mut told = self.documents.twice(&config);
        told.extend(unread);
        told.extend(closed);
        let compiled = match told.is_empty() {
            true => compile(&Parts::of(&config).with(&self.documents)),
            false => Err(std::mem::take(&mut told)),
        };
        let changes = self.store.is_some() || config.etcd.is_some();
        let base = changes.then(|| Arc::new(Base::new(config.clone(), &reading.problems)));
        let read = config.sources();
        let (good, told) = match compiled {
            Ok((good, told)) => (Some(good), told),
            Err(told) => (None, told),
        };
        let settings = config.settings();
        reading.problems.extend(told);
        let problems = self.documents.collect(reading.problems);
        if good.is_none() {
            self.documents.confine(scope_before);
            renewed.into_iter().rev().for_each(|undo| self.documents.undo(undo));
        }
        Reload { good: good.map(|good| (settings, good)), problems, anew, base, files, read }
    }

    /// Records that the reload is in force: later changes are merged with it.
    pub fn adopt<T>(&mut self, reload: &mut Reload<T>) {
        if let Some(base) = reload.base.take() {
            self.base = Some(base);
        }
        let files = std::mem::take(&mut reload.files);
        self.view.update(|state| state.files = files);
    }
}

impl Base {
    fn new(config: Config, problems: &Problems) -> Self {
        let mut names = HashMap::new();
        let mut places = problems.without();
        for kind in &KINDS {
            for (name, at) in config.names(kind) {
                let mut problem = Problem::warning(at, "");
                places.settle(&mut problem);
                let file =
                    config.files.get(at.file as usize).map(|file| file.name.as_str()).unwrap_or_default();
                names.insert((kind.name, name), format!("{file}:{}", problem.at.line));
            }
        }
        places = problems.without();
        Self { config, places, names }
    }

    /// Returns whether the file defines an upstream of this name.
    pub fn has_upstream(&self, name: &str) -> bool {
        self.names.contains_key(&(UPSTREAMS, name.to_owned()))
    }

    /// Returns the position at which the file defines a resource.
    pub fn place(&self, kind: &Kind, name: &str) -> Option<&String> {
        self.names.get(&(kind.name, name.to_owned()))
    }
}
