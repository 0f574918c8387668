//! Finds the programs of systems on this machine.

use crate::description::ProgramNames;
use crate::template;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The locations in which programs are looked up.
#[derive(Debug, Clone)]
pub struct ProgramPaths {
    /// The folder of what the laboratory installs.
    pub home: PathBuf,
    /// Folders in which program names are looked up, in order.
    pub search: Vec<PathBuf>,
    /// Paths that the user gave, by program key. They take precedence.
    pub given: BTreeMap<String, PathBuf>,
}

impl ProgramPaths {
    /// Returns the locations of this machine. The search covers the folder of the running program, then
    /// `PATH`, then the folders of system programs that a user's `PATH` may lack. `home` is
    /// `TOLLGATE_LAB_HOME`, or `tollgate/lab` under `XDG_DATA_HOME` or `~/.local/share`.
    pub fn of_this_machine() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = variable("TOLLGATE_LAB_HOME").map(PathBuf::from).unwrap_or_else(|| {
            variable("XDG_DATA_HOME")
                .map(PathBuf::from)
                .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/share")))
                .unwrap_or_else(|| PathBuf::from("/var/tmp"))
                .join("tollgate/lab")
        });
        let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        let path = variable("PATH").unwrap_or_default();
        let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        Self {
            home,
            search: beside.into_iter().chain(std::env::split_paths(&path)).chain(system).collect(),
            given: BTreeMap::new(),
        }
    }

    /// Returns the executable with this name from the first folder that has it.
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        self.search.iter().map(|folder| folder.join(name)).find(|path| {
            path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
    }

    /// Finds one program: by the user's path, then by its paths, then by its names.
    pub(crate) fn find(&self, key: &str, rule: &ProgramNames, folder: &Path) -> Option<PathBuf> {
        if let Some(given) = self.given.get(key) {
            return given.is_file().then(|| given.clone());
        }
        let variables = template::Installed { home: &self.home, system: folder, programs: &BTreeMap::new() };
        rule.paths
            .iter()
            .filter_map(|path| template::short(&path.value, &variables).ok())
            .map(PathBuf::from)
            .find(|path| path.is_file())
            .or_else(|| rule.names.iter().find_map(|name| self.on_path(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(folder: &Path) -> ProgramPaths {
        ProgramPaths { home: folder.join("home"), search: vec![folder.join("bin")], given: BTreeMap::new() }
    }

    fn rule(text: &str) -> ProgramNames {
        serde_saphyr::from_str(text).expect("a rule")
    }

    #[test]
    fn what_is_given_wins_then_paths_then_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for name in ["bin/gate", "home/gate", "mine"] {
            let file = root.join(name);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            std::fs::write(&file, "").expect("written");
        }
        let rule = rule(r#"{names: [gate], paths: ["{{ home }}/gate"]}"#);
        let mut paths = paths(root);
        assert_eq!(paths.find("gate", &rule, root), Some(root.join("home/gate")));
        std::fs::remove_file(root.join("home/gate")).expect("removed");
        assert_eq!(paths.find("gate", &rule, root), None, "bin/gate is not executable");
        let mut rights = root.join("bin/gate").metadata().expect("there").permissions();
        rights.set_mode(0o755);
        std::fs::set_permissions(root.join("bin/gate"), rights).expect("set");
        assert_eq!(paths.find("gate", &rule, root), Some(root.join("bin/gate")));
        paths.given.insert("gate".to_owned(), root.join("mine"));
        assert_eq!(paths.find("gate", &rule, root), Some(root.join("mine")));
        paths.given.insert("gate".to_owned(), root.join("nowhere"));
        assert_eq!(paths.find("gate", &rule, root), None, "a wrong path is not replaced by a guess");
    }
}
