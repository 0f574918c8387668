//! A folder that only this run uses.

use crate::child::{Kept, Registration};
use crate::error::Error;
use crate::owner;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that is removed when dropped, and on Ctrl-C. It is in memory if the system has `/dev/shm`, so
/// that no disk affects the figures.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    _registration: Registration,
}

impl Scratch {
    /// Creates the folder, and removes the folders of killed runs. `purpose` helps people who look at it.
    ///
    /// # Errors
    /// If neither `/dev/shm` nor the folder for temporary files is writable.
    pub fn create(purpose: &str) -> Result<Self, Error> {
        let name = owner::name(purpose);
        let parents = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        parents.iter().for_each(|parent| remove_orphans(parent));
        Self::create_in(&parents[0].join(&name)).or_else(|_| Self::create_in(&parents[1].join(&name)))
    }

    fn create_in(root: &Path) -> Result<Self, Error> {
        let registration = Registration::of(Kept::Folder(root.to_owned()))?;
        fs::create_dir(root).map_err(|error| Error::file(root, error))?;
        Ok(Self { root: root.to_owned(), _registration: registration })
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(owner::is_orphan) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_space_goes_away() {
        let scratch = Scratch::create("test").unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("x"), "y").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_runs_that_are_gone_are_removed_and_no_others() {
        let scratch = Scratch::create("orphans").unwrap();
        let mine = owner::name("x");
        let orphan = mine.replace(&format!(".{}.", std::process::id()), ".99999999.");
        for name in [mine.as_str(), &orphan, "someone-else"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        remove_orphans(scratch.path());
        assert!(scratch.path().join(&mine).exists() && scratch.path().join("someone-else").exists());
        assert!(!scratch.path().join(&orphan).exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let error = Scratch::create_in(Path::new("/no/such/folder/x")).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/x"), "{error}");
    }
}
