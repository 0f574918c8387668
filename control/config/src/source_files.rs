//! The files that a configuration was made from, for the file watcher.

use std::path::{Path, PathBuf};

use crate::model::Config;

impl Config {
    /// Returns every file that the configuration was read from and every certificate or key file that it
    /// names, without duplicates. The result includes the folders of included files, because further files
    /// may appear there.
    #[must_use]
    pub fn sources(&self) -> Vec<PathBuf> {
        let read = self.files.iter().map(|file| PathBuf::from(&file.name));
        let folders = self.files.iter().skip(1).filter_map(|file| Path::new(&file.name).parent());
        let folders = folders.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
        let mut all: Vec<PathBuf> = read.chain(folders).chain(self.pem_files.iter().cloned()).collect();
        all.sort();
        all.dedup();
        all
    }
}
