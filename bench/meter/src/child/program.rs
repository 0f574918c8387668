//! Finds programs and reads their versions.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the absolute path of a program, found by name along `PATH` and in the system's directories, which
/// an ordinary user's `PATH` may lack. A name with a slash is a path.
pub fn find_program(name: impl AsRef<Path>) -> Option<PathBuf> {
    let name = name.as_ref();
    if name.components().count() != 1 || name.is_absolute() {
        return name.is_file().then(|| std::path::absolute(name).ok())?;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system =
        ["/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    let file = std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())?;
    std::path::absolute(file).ok()
}

/// Returns the first line with text that a program prints on either stream when asked for its version.
/// Returns `None` if it prints nothing or cannot be started.
pub fn version_line(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        assert!(find_program("sh").unwrap().is_absolute());
        assert_eq!(find_program("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(find_program("no-such-program-here"), None);
        assert_eq!(find_program("/bin/no-such-program-here"), None);
        assert_eq!(find_program(""), None);
    }

    #[test]
    fn a_version_is_read_from_either_stream() {
        let sh = Path::new("/bin/sh");
        assert_eq!(version_line(sh, &["-c", "echo; echo ' one 1.2 '; echo two"]).unwrap(), "one 1.2");
        assert_eq!(version_line(sh, &["-c", "echo three >&2"]).unwrap(), "three");
        assert_eq!(version_line(sh, &["-c", ":"]), None);
        assert_eq!(version_line(Path::new("/no/such"), &[]), None);
    }
}
