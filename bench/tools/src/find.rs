//! Finds tools, and determines their versions. The laboratory's own folder precedes `PATH`, so that an
//! installed version wins over the system's.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folders in which tools are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPaths {
    /// The laboratory's own folder, searched first: `HOME/TOOL/bin/TOOL`, as the install scripts create it.
    pub home: PathBuf,
    /// The next folders, in order.
    pub path: Vec<PathBuf>,
}

impl ToolPaths {
    /// Returns the folders of the current user: `TOLLGATE_LAB_HOME` (or `tollgate/lab` in the user's data
    /// folder), then `PATH`.
    pub fn of_user() -> Self {
        let data = || {
            let set = env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
            let user = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".local/share");
            set.unwrap_or_else(user).join("tollgate/lab")
        };
        Self {
            home: env::var_os("TOLLGATE_LAB_HOME")
                .filter(|dir| !dir.is_empty())
                .map_or_else(data, PathBuf::from),
            path: env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
        }
    }
}

/// An installed tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file to run.
    pub path: PathBuf,
    /// The version as the tool reports it, or as its install script noted it; empty without either (hey).
    pub version: String,
}

/// Whether a tool is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is installed.
    Here(Program),
    /// It is missing.
    Missing {
        /// The command to run or the place to look at; for people.
        how_to_get: String,
    },
}

/// Returns the first executable file with this name.
pub(crate) fn find(paths: &ToolPaths, name: &str) -> Option<PathBuf> {
    let own = paths.home.join(name).join("bin").join(name);
    std::iter::once(own).chain(paths.path.iter().map(|dir| dir.join(name))).find(|file| is_runnable(file))
}

pub(crate) fn is_runnable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Returns the version from the file `version` next to the tool's `bin`, or the version that the program prints.
pub(crate) fn version(paths: &ToolPaths, program: &Path, name: &str, args: &[&str]) -> String {
    let noted = || {
        let own = paths.home.join(name);
        let text =
            program.starts_with(&own).then(|| fs::read_to_string(own.join("version")).ok()).flatten()?;
        Some(text.trim().trim_start_matches('v').to_owned()).filter(|version| !version.is_empty())
    };
    let reported = || {
        if args.is_empty() {
            return None;
        }
        // siege writes its settings into the home folder whatever its arguments.
        let output = Command::new(program)
            .args(args)
            .env("HOME", env::temp_dir())
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = |bytes: &[u8]| first_version(&String::from_utf8_lossy(bytes));
        text(&output.stdout).or_else(|| text(&output.stderr))
    };
    noted().or_else(reported).unwrap_or_default()
}

/// Returns the first run of digits and dots that has a dot between digits.
pub(crate) fn first_version(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map(|word| word.trim_matches('.'))
        .find(|word| word.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_say() {
        for (said, version) in [
            ("wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer", "4.1.0"),
            ("This is ApacheBench, Version 2.3 <$Revision$>", "2.3"),
            ("SIEGE 4.0.7\n", "4.0.7"),
            ("h2load nghttp2/1.52.0", "1.52.0"),
        ] {
            assert_eq!(first_version(said).as_deref(), Some(version));
        }
        assert_eq!(first_version("no number. Or 1 alone."), None);
    }

    #[test]
    fn the_own_folder_comes_first_and_files_that_do_not_run_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ToolPaths { home: dir.path().join("home"), path: vec![dir.path().join("path")] };
        assert_eq!(find(&paths, "tool"), None);
        let put = |file: PathBuf, mode| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let other = put(paths.path[0].join("tool"), 0o755);
        put(paths.home.join("tool/bin/tool"), 0o644);
        assert_eq!(find(&paths, "tool"), Some(other));
        let own = put(paths.home.join("tool/bin/tool"), 0o755);
        assert_eq!(find(&paths, "tool"), Some(own.clone()));
        fs::write(paths.home.join("tool/version"), "v1.2.3\n").unwrap();
        assert_eq!(version(&paths, &own, "tool", &[]), "1.2.3");
    }
}
