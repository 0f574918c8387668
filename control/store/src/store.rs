//! The open file of a store: its documents, and the versions of their changes.
//!
//! `sources` opens one [`Store`] and commits each batch of changes in one transaction. During a binary upgrade it
//! [closes](Store::close) the file for the new process. Invariant: a commit is on the disk when it returns.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{RwLock, RwLockReadGuard};

use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use crate::tables::{CURRENT_FORMAT, DOCUMENTS, FORMAT, HISTORY, META, VERSION};
use crate::{DocumentChange, Error, NewVersion, VersionRecord};

/// Page cache, in bytes. It would otherwise grow with the history, which is rarely read; the documents are in memory
/// anyway.
const CACHE_BYTES: usize = 256 << 10;
/// A file below this size, in bytes, is not worth compacting.
const COMPACT_MIN_BYTES: u64 = 16 << 20;

/// The store. It can be shared between threads: readers do not wait for writers.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Number of versions that the history keeps.
    history_max: u64,
    pub(crate) database: RwLock<Option<Database>>,
}

/// All documents, as of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Version of the last change; 0: there was none yet.
    pub version: u64,
    /// The documents, by kind and name.
    pub documents: Vec<StoredDocument>,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Kind of the document.
    pub kind: String,
    /// Name of the document.
    pub name: String,
    /// The version that last changed it.
    pub version: u64,
    /// The text, which the store does not interpret.
    pub text: String,
}

impl Store {
    /// Opens the store, or creates it. The history keeps `history_max` versions, at least one.
    ///
    /// # Errors
    /// Returns an error if another process has it open, the file is not a store, or the system refuses.
    pub fn open(path: &Path, history_max: u64) -> Result<Self, Error> {
        let store =
            Self { path: path.to_owned(), history_max: history_max.max(1), database: RwLock::new(None) };
        store.reopen()?;
        Ok(store)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file, so that another process can open it. Every operation then returns [`Error::Closed`].
    pub fn close(&self) {
        *self.database.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// Opens the store again, if it was closed.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn reopen(&self) -> Result<(), Error> {
        let mut database = self.database.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if database.is_none() {
            if !self.path.try_exists()? {
                create(&self.path)?;
            }
            let mut opened = open(&self.path)?;
            check_format(&opened)?;
            compact_if_sparse(&mut opened, &self.path)?;
            *database = Some(opened);
        }
        Ok(())
    }

    /// Returns all documents.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn contents(&self) -> Result<Contents, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let version = read.open_table(META)?.get(VERSION)?.map_or(0, |value| value.value());
            let mut documents = Vec::new();
            for row in read.open_table(DOCUMENTS)?.iter()? {
                let (key, value) = row?;
                let ((kind, name), (version, text)) = (key.value(), value.value());
                let (kind, name, text) = (kind.to_owned(), name.to_owned(), text.to_owned());
                documents.push(StoredDocument { kind, name, version, text });
            }
            Ok(Contents { version, documents })
        })
    }

    /// Writes one version for each entry, all of them or none, and returns the number of the first. When it
    /// returns, they are on the disk: one sync, however many versions.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written; then nothing has changed.
    pub fn commit(&self, entries: &[NewVersion]) -> Result<u64, Error> {
        self.with_database(|database| {
            let mut write = database.begin_write()?;
            // The default, set explicitly because confirmed changes depend on it.
            let immediate = write.set_durability(Durability::Immediate);
            immediate.map_err(|error| Error::Database(error.into()))?;
            let first = {
                let mut meta = write.open_table(META)?;
                let mut documents = write.open_table(DOCUMENTS)?;
                let mut history = write.open_table(HISTORY)?;
                let last = meta.get(VERSION)?.map_or(0, |value| value.value());
                let mut version = last;
                for entry in entries {
                    version += 1;
                    for DocumentChange { kind, name, after, .. } in &entry.changes {
                        let key = (kind.as_str(), name.as_str());
                        match after {
                            Some(text) => drop(documents.insert(key, (version, text.as_str()))?),
                            None => drop(documents.remove(key)?),
                        }
                    }
                    let text = serde_json::to_string(entry).map_err(std::io::Error::other)?;
                    history.insert(version, text.as_str())?;
                }
                meta.insert(VERSION, version)?;
                let oldest = (version + 1).saturating_sub(self.history_max);
                history.retain_in(..oldest, |_, _| false)?;
                last + 1
            };
            write.commit()?;
            Ok(first)
        })
    }

    /// Returns the results of `map` for at most `limit` versions before `before` (`None`: the last ones),
    /// the newest first. Only one version is in memory at a time, because each may be as large as all
    /// resources together.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn history<T>(
        &self,
        before: Option<u64>,
        limit: usize,
        map: impl Fn(VersionRecord) -> T,
    ) -> Result<Vec<T>, Error> {
        self.with_database(|database| {
            let history = database.begin_read()?.open_table(HISTORY)?;
            let rows = history.range(..before.unwrap_or(u64::MAX))?.rev().take(limit);
            rows.map(|row| {
                let (version, text) = row?;
                parse_version(version.value(), text.value()).map(&map)
            })
            .collect()
        })
    }

    /// Returns one version.
    ///
    /// # Errors
    /// Returns an error if the history does not have it.
    pub fn version(&self, version: u64) -> Result<VersionRecord, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let history = read.open_table(HISTORY)?;
            if let Some(text) = history.get(version)? {
                return parse_version(version, text.value());
            }
            let last = read.open_table(META)?.get(VERSION)?.map_or(0, |value| value.value());
            let oldest = history.first()?.map_or(last, |(version, _)| version.value());
            Err(if version > last || version == 0 {
                Error::UnknownVersion(version)
            } else {
                Error::VersionExpired(oldest)
            })
        })
    }

    /// Returns the versions after this one, the newest first: undone in this order, they lead to it. 0 is the
    /// empty store.
    ///
    /// # Errors
    /// Returns an error if there is no such version, or the history does not reach back to it.
    pub fn versions_since(&self, version: u64) -> Result<Vec<VersionRecord>, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let last = read.open_table(META)?.get(VERSION)?.map_or(0, |value| value.value());
            let history = read.open_table(HISTORY)?;
            if version > last {
                return Err(Error::UnknownVersion(version));
            }
            let oldest = history.first()?.map_or(last + 1, |(version, _)| version.value());
            if version + 1 < oldest {
                return Err(Error::VersionExpired(oldest - 1));
            }
            let rows = history.range(version + 1..)?.rev();
            rows.map(|row| {
                row.map_err(Error::from)
                    .and_then(|(version, text)| parse_version(version.value(), text.value()))
            })
            .collect()
        })
    }

    /// Runs `act` with the open database.
    pub(crate) fn with_database<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let guard: RwLockReadGuard<'_, _> =
            self.database.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        act(guard.as_ref().ok_or(Error::Closed)?)
    }
}

fn parse_version(version: u64, text: &str) -> Result<VersionRecord, Error> {
    let content = serde_json::from_str(text);
    let content =
        content.map_err(|error| Error::NotAStore(format!("version {version} cannot be read: {error}")))?;
    Ok(VersionRecord { version, content })
}

/// Creates an empty store in a temporary file, then renames it: a process that dies in between leaves no
/// partial store.
fn create(path: &Path) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // A leftover of a process that died before the rename.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let database = open(&new)?;
    create_tables(&database)?;
    drop(database);
    std::fs::rename(&new, path)?;
    sync_parent_directory(path)?;
    Ok(())
}

/// Creates the tables of an empty store.
pub(crate) fn create_tables(database: &Database) -> Result<(), Error> {
    let write = database.begin_write()?;
    {
        let mut meta = write.open_table(META)?;
        meta.insert(FORMAT, CURRENT_FORMAT)?;
        meta.insert(VERSION, 0)?;
        write.open_table(DOCUMENTS)?;
        write.open_table(HISTORY)?;
    }
    write.commit()?;
    Ok(())
}

/// Opens the file with access for its owner only, because it can hold secrets.
pub(crate) fn open(path: &Path) -> Result<Database, Error> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    database_of(file)
}

/// Creates a file that does not exist yet, readable only by its owner.
pub(crate) fn create_new(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens the database in this file; in an empty file, a new one.
pub(crate) fn database_of(file: File) -> Result<Database, Error> {
    Ok(Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(FileBackend::new(file)?)?)
}

/// Syncs the directory of `path`, so that a rename is durable.
pub(crate) fn sync_parent_directory(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder)?.sync_all()?)
}

fn check_format(database: &Database) -> Result<(), Error> {
    let read = database.begin_read()?;
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => {
            return Err(Error::NotAStore("it has other tables".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    match meta.get(FORMAT)?.map(|format| format.value()) {
        Some(CURRENT_FORMAT) => Ok(()),
        Some(other) => Err(Error::NotAStore(format!("its format is {other}, not {CURRENT_FORMAT}"))),
        None => Err(Error::NotAStore("it says no format".to_owned())),
    }
}

/// Compacts the file if a history that was once longer left it mostly empty.
fn compact_if_sparse(database: &mut Database, path: &Path) -> Result<(), Error> {
    let length = std::fs::metadata(path)?.len();
    if length < COMPACT_MIN_BYTES {
        return Ok(());
    }
    let used = {
        let read = database.begin_read()?;
        read.open_table(DOCUMENTS)?.stats()?.stored_bytes()
            + read.open_table(HISTORY)?.stats()?.stored_bytes()
    };
    if length > used.saturating_mul(4) {
        database.compact()?;
    }
    Ok(())
}
