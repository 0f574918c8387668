//! Backs up a store while it is in use, and compacts its file.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use redb::{ReadableDatabase, ReadableTable};

use crate::store::{create_new, database_of, sync_parent_directory};
use crate::tables::{DOCUMENTS, HISTORY, META};
use crate::{Error, Store};

impl Store {
    /// Copies the store, as of one version, to another file, which is a store and as small as possible. The
    /// file appears whole under its name, or not at all. The copy grows in a file with `.part` behind the
    /// name. No existing file is changed.
    ///
    /// # Errors
    /// Returns an error if one of the two files exists, or the copy cannot be written.
    pub fn backup(&self, to: &Path) -> Result<(), Error> {
        if to.try_exists()? {
            return Err(exists(to));
        }
        let mut part = to.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = create_new(&part).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&part),
            _ => error.into(),
        })?;
        let result = self.copy_into(file).and_then(|()| publish(&part, to));
        if result.is_err() {
            // The partial copy is useless; a failure to remove it adds nothing to the first error.
            let _ = std::fs::remove_file(&part);
        }
        result?;
        sync_parent_directory(to)
    }

    /// Copies the tables, as of one version, into an empty file.
    fn copy_into(&self, file: File) -> Result<(), Error> {
        self.with_database(|database| {
            let from = database.begin_read()?;
            let copy = database_of(file)?;
            let write = copy.begin_write()?;
            {
                let mut meta = write.open_table(META)?;
                for row in from.open_table(META)?.iter()? {
                    let (key, value) = row?;
                    meta.insert(key.value(), value.value())?;
                }
                let mut documents = write.open_table(DOCUMENTS)?;
                for row in from.open_table(DOCUMENTS)?.iter()? {
                    let (key, value) = row?;
                    documents.insert(key.value(), value.value())?;
                }
                let mut history = write.open_table(HISTORY)?;
                for row in from.open_table(HISTORY)?.iter()? {
                    let (key, value) = row?;
                    history.insert(key.value(), value.value())?;
                }
            }
            write.commit()?;
            Ok(())
        })
    }

    /// Makes the file as small as possible. Readers and writers wait for it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn compact(&self) -> Result<(), Error> {
        let mut database = self.database.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        database.as_mut().ok_or(Error::Closed)?.compact()?;
        Ok(())
    }
}

/// Gives the finished copy its name, unless another file has taken it.
fn publish(part: &Path, to: &Path) -> Result<(), Error> {
    match std::fs::hard_link(part, to) {
        Ok(()) => Ok(std::fs::remove_file(part)?),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(to)),
        // A file system without hard links.
        Err(_) => Ok(std::fs::rename(part, to)?),
    }
}

fn exists(path: &Path) -> Error {
    std::io::Error::new(ErrorKind::AlreadyExists, format!("{} is there already", path.display())).into()
}

#[cfg(test)]
mod tests;
