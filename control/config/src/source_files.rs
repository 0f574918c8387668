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

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use crate::load;

    #[test]
    fn files_of_policies_and_of_the_admin_listener_are_watched_too() {
        let folder = env::temp_dir().join(format!("tollgate-watched-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        // Reading does not check the content of these files.
        for name in ["authority.pem", "admin.pem", "admin.key"] {
            fs::write(folder.join(name), "-----BEGIN\n").unwrap();
        }
        let file = folder.join("tollgate.yaml");
        let text = "listen: 127.0.0.1:8080\nadmin: {bind: 127.0.0.1:9901, tls: {certificate: admin.pem, key: admin.key}}\n\
            routes:\n- match: /*\n  to: 127.0.0.1:1\n  \
            policies: {forward_auth: {url: \"https://auth.internal/verify\", ca: authority.pem}}\n";
        fs::write(&file, text).unwrap();
        let loaded = load(&file);
        let config = loaded.config.unwrap_or_else(|| panic!("{:?}", loaded.problems));
        let sources = config.sources();
        for name in ["tollgate.yaml", "authority.pem", "admin.pem", "admin.key"] {
            assert!(sources.contains(&folder.join(name)), "{name}: {sources:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
