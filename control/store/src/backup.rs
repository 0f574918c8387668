//! Backs up a store while it is in use, and compacts its file.

use std::path::{Path, PathBuf};

use redb::{ReadableDatabase, ReadableTable};

use crate::store::{open, sync_parent_directory};
use crate::tables::{DOCUMENTS, HISTORY, META};
use crate::{Error, Store};

impl Store {
    /// Copies the store, as of one version, to another file, which is a store and as small as possible. The
    /// file appears whole under its name, or not at all.
    ///
    /// # Errors
    /// Returns an error if a file of that name exists, or the copy cannot be written.
    pub fn backup(&self, to: &Path) -> Result<(), Error> {
        if to.try_exists()? {
            let message = format!("{} is there already", to.display());
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, message).into());
        }
        let mut part = to.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        if part.try_exists()? {
            std::fs::remove_file(&part)?;
        }
        let result = self.with_database(|database| {
            let from = database.begin_read()?;
            let copy = open(&part)?;
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
        });
        if result.is_err() {
            // The partial copy is useless; a failure to remove it adds nothing to the first error.
            let _ = std::fs::remove_file(&part);
            return result;
        }
        std::fs::rename(&part, to)?;
        sync_parent_directory(to)
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

#[cfg(test)]
mod tests;
