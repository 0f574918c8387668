//! File access that cannot block the caller for long.
//!
//! The gateway reads every file that a configuration names through this module: included files, certificates,
//! keys, lists of endpoints. Three rules apply to each of them:
//!
//! - Only regular files are read. A named pipe, a device or a socket is rejected before it is opened for data.
//! - File operations run on threads of this module, and a caller waits at most [`OPERATION_TIMEOUT`]. A file on a network
//!   mount that does not answer blocks one of these threads, not the caller.
//! - A [`Scope`] bounds the directories of a file. It is checked on the opened file, after symbolic links are
//!   resolved.

mod threads;

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

pub(crate) use threads::run_with_timeout_for_path;
pub use threads::{OPERATION_TIMEOUT, Stalled, run_with_timeout, start};

/// The directories that a file must lie in; the default admits any place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(Option<Arc<[PathBuf]>>);

/// A file, and the directories that it must lie in.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Directories that the file must lie in.
    pub scope: Scope,
}

impl std::fmt::Debug for NamedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.fmt(f)
    }
}

impl From<&Path> for NamedFile {
    /// Makes a file that may lie anywhere, for paths in the operator's configuration file.
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned(), scope: Scope::default() }
    }
}

/// The reason why a [`Scope`] rejects a path. It does not reveal whether the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideScope {
    is_closed: bool,
}

impl OutsideScope {
    /// Returns the reason, for a message that starts with the path.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self.is_closed {
            true => {
                "documents of the API, the store and etcd may not name files: `admin.files` names no directory"
            }
            false => "it is outside the directories of `admin.files`",
        }
    }
}

impl Scope {
    /// Admits only files below these directories; an empty list admits no file.
    #[must_use]
    pub fn below(directories: &[PathBuf]) -> Self {
        Self(Some(directories.into()))
    }

    /// Returns whether the scope admits only some files.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the real path of a file in this scope. For a file that does not exist, it is the directory's
    /// real path with the file's name. Blocks on the file system, so call it through [`run_with_timeout`].
    ///
    /// # Errors
    /// Fails if the file lies outside the scope.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, OutsideScope> {
        let Some(directories) = &self.0 else { return Ok(path.to_owned()) };
        let outside = OutsideScope { is_closed: directories.is_empty() };
        if directories.is_empty() {
            return Err(outside);
        }
        let real = real_path(path).ok_or(outside)?;
        let is_below = |directory: &PathBuf| {
            directory.canonicalize().is_ok_and(|directory| real.starts_with(&directory) && real != directory)
        };
        if directories.iter().any(is_below) { Ok(real) } else { Err(outside) }
    }
}

/// Resolves symbolic links. The last component need not exist.
fn real_path(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    // A dangling link could point elsewhere later.
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let Some(Component::Normal(name)) = path.components().next_back() else { return None };
    Some(path.parent()?.canonicalize().ok()?.join(name))
}

/// The reason why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It does not exist.
    Missing,
    /// Any other reason, as a phrase.
    Because(String),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such file"),
            Self::Because(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            ErrorKind::PermissionDenied => Self::Because("permission denied".to_owned()),
            ErrorKind::IsADirectory => Self::Because("it is a directory".to_owned()),
            _ => Self::Because(error.to_string()),
        }
    }
}

/// Reads a regular file of at most `max_bytes` bytes. Waits at most [`OPERATION_TIMEOUT`].
///
/// # Errors
/// Returns the reason why the file was not read.
pub fn read(file: &NamedFile, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
    let job = {
        let file = file.clone();
        move || read_blocking(&file, max_bytes)
    };
    run_with_timeout_for_path(&file.path, job)
        .unwrap_or_else(|stalled| Err(ReadError::Because(stalled.to_string())))
}

/// Works like [`read`], but on the calling thread and without a time limit.
///
/// # Errors
/// Returns the reason why the file was not read.
pub fn read_blocking(file: &NamedFile, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
    let mut opened = open(file)?;
    // The buffer must not grow: reallocation leaves a copy in memory, which may be a secret.
    let size = opened.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes =
        Vec::with_capacity(usize::try_from(size).unwrap_or(max_bytes).min(max_bytes).saturating_add(1));
    // A file may grow while it is read.
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    opened.by_ref().take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > max_bytes {
        return Err(ReadError::Because(format!("it is larger than {} MiB", max_bytes >> 20)));
    }
    Ok(bytes)
}

/// Opens a regular file if it lies in its scope.
fn open(file: &NamedFile) -> Result<File, ReadError> {
    let outside = |outside: OutsideScope| ReadError::Because(outside.message().to_owned());
    let real = file.scope.resolve(&file.path).map_err(outside)?;
    // The path is checked first, because opening a device or a pipe can have side effects.
    regular(real.metadata()?.file_type())?;
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if file.scope.is_confined() {
        flags |= OFlags::NOFOLLOW;
    }
    #[expect(clippy::cast_possible_wrap, reason = "open(2) takes the bits as an int")]
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&real)?;
    regular(opened.metadata()?.file_type())?;
    if file.scope.is_confined() {
        // A directory of the path may have been replaced by a link in the meantime.
        let now = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let same = match now {
            Ok(now) => now == real,
            // Without /proc, the path is resolved again.
            Err(_) => file.scope.resolve(&file.path).map_err(outside)? == real,
        };
        if !same {
            return Err(outside(OutsideScope { is_closed: false }));
        }
    }
    Ok(opened)
}

fn regular(kind: FileType) -> Result<(), ReadError> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        return Err(ReadError::Because("it is a directory".to_owned()));
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(ReadError::Because(format!("it is {what}; only regular files are read")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A temporary directory for one test, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tollgate-files-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a directory");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = Folder::new("regular");
        let at = |name: &str| folder.0.join(name);
        fs::write(at("list"), "text").expect("written");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from(0o600),
            0,
        )
        .expect("a pipe");
        symlink(at("pipe"), at("link")).expect("a link");
        let read = |path: &Path| read(&NamedFile::from(path), 8).map_err(|error| error.to_string());
        assert_eq!(read(&at("list")), Ok(b"text".to_vec()));
        for (path, part) in [
            (at("pipe"), "it is a pipe"),
            (at("link"), "it is a pipe"),
            (folder.0.clone(), "it is a directory"),
            (PathBuf::from("/dev/null"), "it is a device"),
            (at("none"), "there is no such file"),
        ] {
            let error = read(&path).expect_err("no regular file");
            assert!(error.contains(part), "{}: {error}", path.display());
        }
        fs::write(at("list"), "123456789").expect("written");
        assert!(read(&at("list")).expect_err("too large").contains("larger"));
    }

    #[test]
    fn a_scope_sees_through_links_and_dots() {
        let folder = Folder::new("scope");
        let (inside, outside) = (folder.0.join("inside"), folder.0.join("outside"));
        fs::create_dir_all(inside.join("deep")).expect("a directory");
        fs::create_dir_all(&outside).expect("a directory");
        fs::create_dir_all(folder.0.join("inside-not")).expect("a directory");
        for file in
            [inside.join("a"), inside.join("deep/b"), outside.join("c"), folder.0.join("inside-not/d")]
        {
            fs::write(file, "x").expect("written");
        }
        symlink(outside.join("c"), inside.join("escape")).expect("a link");
        symlink(&outside, inside.join("way")).expect("a link");
        symlink("deep/b", inside.join("within")).expect("a link");
        symlink("nowhere", inside.join("dangling")).expect("a link");
        let scope = Scope::below(std::slice::from_ref(&inside));
        let read = |path: PathBuf| {
            read(&NamedFile { path, scope: scope.clone() }, 8).map_err(|error| error.to_string())
        };
        for good in ["a", "deep/b", "within", "deep/../a"] {
            assert_eq!(read(inside.join(good)), Ok(b"x".to_vec()), "{good}");
        }
        assert_eq!(read(inside.join("none")), Err(ReadError::Missing.to_string()));
        let refused = OutsideScope { is_closed: false }.message();
        for bad in ["escape", "way/c", "way/none", "../outside/c", "../inside-not/d", "dangling", "..", "."] {
            assert_eq!(read(inside.join(bad)), Err(refused.to_owned()), "{bad}");
        }
        assert_eq!(read(PathBuf::from("/etc/passwd")), Err(refused.to_owned()));
        assert_eq!(read(PathBuf::from("/etc/no-such-file")), Err(refused.to_owned()));
        let none = NamedFile { path: inside.join("a"), scope: Scope::below(&[]) };
        assert!(super::read(&none, 8).expect_err("none").to_string().contains("names no directory"));
    }
}
