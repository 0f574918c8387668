//! Finds the folder with the descriptions of systems and studies.

use std::path::{Path, PathBuf};

/// The folder into which a package installs them.
const INSTALLED: &str = "/usr/share/tollgate/bench";

/// Returns the folder that contains `systems` and `studies`: the given one, or the project's `bench` above
/// the current folder or above the program, or the one that a package installs.
///
/// # Errors
/// A sentence that says where it was searched.
pub fn folder(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return if holds(given) {
            Ok(given.to_owned())
        } else {
            Err(format!("{}: expected a folder with `systems` and `studies`", given.display()))
        };
    }
    let here = std::env::current_dir().ok();
    let program = std::env::current_exe().ok();
    [here, program]
        .iter()
        .flatten()
        .flat_map(|start| start.ancestors())
        .map(|folder| folder.join("bench"))
        .chain([PathBuf::from(INSTALLED)])
        .find(|folder| holds(folder))
        .ok_or_else(|| {
            format!(
                "the descriptions of systems and studies were not found: neither in a folder `bench` above the current \
                 folder or the program, nor in {INSTALLED}; say where they are with --data FOLDER"
            )
        })
}

fn holds(folder: &Path) -> bool {
    folder.join("systems").is_dir() && folder.join("studies").is_dir()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_given_folder_must_hold_both() {
        let folder = tempfile::tempdir().unwrap();
        assert!(super::folder(Some(folder.path())).unwrap_err().contains("expected a folder"));
        std::fs::create_dir(folder.path().join("systems")).unwrap();
        std::fs::create_dir(folder.path().join("studies")).unwrap();
        assert_eq!(super::folder(Some(folder.path())).unwrap(), folder.path());
    }
}
