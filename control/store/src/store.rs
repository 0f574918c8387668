//! The file, opened.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{RwLock, RwLockReadGuard};

use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use crate::tables::{CURRENT_FORMAT, DOCUMENTS, FORMAT, HISTORY, META, VERSION};
use crate::{Change, Entry, Error, NewEntry};

/// Memory for pages of the file. The documents are in memory anyway; the history is seldom asked for.
const CACHE: usize = 8 << 20;
/// A file of this size is not worth to be made smaller, in bytes.
const SMALL: u64 = 16 << 20;

/// The store. It can be shared: who reads does not wait for who writes.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// How many versions the history keeps.
    keep: u64,
    pub(crate) database: RwLock<Option<Database>>,
}

/// All documents, as of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The version of the last change; 0: there was none yet.
    pub version: u64,
    /// By kind and name.
    pub documents: Vec<Document>,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The version that changed it last.
    pub version: u64,
    /// What it says.
    pub text: String,
}

impl Store {
    /// Opens the store, or makes it. The history keeps so many versions, at least one.
    ///
    /// # Errors
    /// When another process has it open, it is no store, or the system refuses.
    pub fn open(path: &Path, keep: u64) -> Result<Self, Error> {
        let store = Self { path: path.to_owned(), keep: keep.max(1), database: RwLock::new(None) };
        store.reopen()?;
        Ok(store)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go of the file, for another process to open it. Everything answers [`Error::Closed`] then.
    pub fn close(&self) {
        *self.database.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// Opens it again, if it was closed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn reopen(&self) -> Result<(), Error> {
        let mut database = self.database.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if database.is_none() {
            if !self.path.try_exists()? {
                make(&self.path)?;
            }
            let mut opened = open(&self.path)?;
            check_format(&opened)?;
            shrink(&mut opened, &self.path)?;
            *database = Some(opened);
        }
        Ok(())
    }

    /// All documents.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn contents(&self) -> Result<Contents, Error> {
        self.with(|database| {
            let read = database.begin_read()?;
            let version = read.open_table(META)?.get(VERSION)?.map_or(0, |value| value.value());
            let mut documents = Vec::new();
            for row in read.open_table(DOCUMENTS)?.iter()? {
                let (key, value) = row?;
                let ((kind, name), (version, text)) = (key.value(), value.value());
                let (kind, name, text) = (kind.to_owned(), name.to_owned(), text.to_owned());
                documents.push(Document { kind, name, version, text });
            }
            Ok(Contents { version, documents })
        })
    }

    /// Writes versions, one for each entry, all of them or none; gives the number of the first. When it returns they are
    /// on the disk: one wait for it, however many they are.
    ///
    /// # Errors
    /// When the file cannot be written; nothing has changed then.
    pub fn commit(&self, entries: &[NewEntry]) -> Result<u64, Error> {
        self.with(|database| {
            let mut write = database.begin_write()?;
            // The default, said here because it is what an answer of success stands on.
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
                    for Change { kind, name, after, .. } in &entry.changes {
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
                let oldest = (version + 1).saturating_sub(self.keep);
                history.retain_in(..oldest, |_, _| false)?;
                last + 1
            };
            write.commit()?;
            Ok(first)
        })
    }

    /// What `tell` makes of each of at most `limit` versions that came before `before` (none: the last ones), the newest first.
    /// One is in memory at a time: each may be as large as all resources together.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn history<T>(
        &self,
        before: Option<u64>,
        limit: usize,
        tell: impl Fn(Entry) -> T,
    ) -> Result<Vec<T>, Error> {
        self.with(|database| {
            let history = database.begin_read()?.open_table(HISTORY)?;
            let rows = history.range(..before.unwrap_or(u64::MAX))?.rev().take(limit);
            rows.map(|row| {
                let (version, text) = row?;
                entry(version.value(), text.value()).map(&tell)
            })
            .collect()
        })
    }

    /// One version.
    ///
    /// # Errors
    /// When the history does not have it.
    pub fn version(&self, version: u64) -> Result<Entry, Error> {
        self.with(|database| {
            let read = database.begin_read()?;
            let history = read.open_table(HISTORY)?;
            if let Some(text) = history.get(version)? {
                return entry(version, text.value());
            }
            let last = read.open_table(META)?.get(VERSION)?.map_or(0, |value| value.value());
            let oldest = history.first()?.map_or(last, |(version, _)| version.value());
            Err(if version > last || version == 0 {
                Error::NoVersion(version)
            } else {
                Error::Forgotten(oldest)
            })
        })
    }

    /// The versions after this one, the newest first: taken back in this order, they lead to it. 0 is the empty store.
    ///
    /// # Errors
    /// When there is no such version, or the history does not reach back to it.
    pub fn since(&self, version: u64) -> Result<Vec<Entry>, Error> {
        self.with(|database| {
            let read = database.begin_read()?;
            let last = read.open_table(META)?.get(VERSION)?.map_or(0, |value| value.value());
            let history = read.open_table(HISTORY)?;
            if version > last {
                return Err(Error::NoVersion(version));
            }
            let oldest = history.first()?.map_or(last + 1, |(version, _)| version.value());
            if version + 1 < oldest {
                return Err(Error::Forgotten(oldest - 1));
            }
            let rows = history.range(version + 1..)?.rev();
            rows.map(|row| {
                row.map_err(Error::from).and_then(|(version, text)| entry(version.value(), text.value()))
            })
            .collect()
        })
    }

    /// Does something with the open file.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, Error> {
        let guard: RwLockReadGuard<'_, _> =
            self.database.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        act(guard.as_ref().ok_or(Error::Closed)?)
    }
}

fn entry(version: u64, text: &str) -> Result<Entry, Error> {
    let entry = serde_json::from_str(text);
    let entry =
        entry.map_err(|error| Error::Foreign(format!("version {version} cannot be read: {error}")))?;
    Ok(Entry { version, entry })
}

/// Makes an empty store beside its place, then moves it there: a process that ends meanwhile leaves none, not half of one.
fn make(path: &Path) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // Of a process that ended meanwhile.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let database = open(&new)?;
    prepare(&database)?;
    drop(database);
    std::fs::rename(&new, path)?;
    sync_folder(path)?;
    Ok(())
}

/// The tables of an empty store.
pub(crate) fn prepare(database: &Database) -> Result<(), Error> {
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

/// Opens the file, which can hold secrets: nobody else may read it.
pub(crate) fn open(path: &Path) -> Result<Database, Error> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Ok(Database::builder().set_cache_size(CACHE).create_with_backend(FileBackend::new(file)?)?)
}

/// So that what was moved stays moved.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder)?.sync_all()?)
}

fn check_format(database: &Database) -> Result<(), Error> {
    let read = database.begin_read()?;
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => {
            return Err(Error::Foreign("it has other tables".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    match meta.get(FORMAT)?.map(|format| format.value()) {
        Some(CURRENT_FORMAT) => Ok(()),
        Some(other) => Err(Error::Foreign(format!("its format is {other}, not {CURRENT_FORMAT}"))),
        None => Err(Error::Foreign("it says no format".to_owned())),
    }
}

/// Gives back what a history that was long once has left empty.
fn shrink(database: &mut Database, path: &Path) -> Result<(), Error> {
    let length = std::fs::metadata(path)?.len();
    if length < SMALL {
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
