//! Opens files below a root, without following a link out of it.
//!
//! The kernel does this in one call since Linux 5.6 (`openat2`, `RESOLVE_BENEATH`). If that call is missing, or
//! a container forbids it, each component is opened on its own and no symbolic link is followed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// How often a look-up is repeated that another process has disturbed by moving directories.
const ATTEMPTS_MAX: usize = 8;

/// Opens the root. Its own path may hold symbolic links, so that a new release can be put in its place.
pub(crate) fn open_root(root: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a file or directory for reading. `path` is relative to the root; the empty path is the root itself. A slash
/// at its end demands a directory. Does not wait for the other end of a pipe.
///
/// # Errors
/// `EXDEV` or `ELOOP` if a symbolic link leads out of the root; otherwise the reason of the system.
pub(crate) fn open_beneath(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match open_with(root, path, flags) {
        // A directory that may be searched but not read can still have an index.
        Err(Errno::ACCESS) => open_with(root, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
            .map_err(|_| Errno::ACCESS),
        opened => opened,
    }
}

fn open_with(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (path, flags) = match path.strip_suffix(b"/") {
        Some(directory) => (directory, flags | OFlags::DIRECTORY),
        None if path.is_empty() => (&b"."[..], flags | OFlags::DIRECTORY),
        None => (path, flags),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS_MAX {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {
                return open_stepwise(root.as_fd(), path, flags);
            }
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens each component on its own, and follows no symbolic link.
fn open_stepwise(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut components = path.split(|byte| *byte == b'/').peekable();
    let mut directory: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        if component == b".." {
            return Err(Errno::XDEV);
        }
        let from = directory.as_ref().map_or(root, AsFd::as_fd);
        let is_last = components.peek().is_none();
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let flags = if is_last { flags } else { step };
        let opened = openat(from, component, flags | OFlags::NOFOLLOW, Mode::empty());
        match opened {
            Ok(opened) if is_last => return Ok(opened),
            Ok(opened) => directory = Some(opened),
            // `O_DIRECTORY` reports a link as something that is no directory.
            Err(Errno::NOTDIR) if is_link(from, component) => return Err(Errno::LOOP),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::NOENT)
}

fn is_link(from: BorrowedFd<'_>, component: &[u8]) -> bool {
    rustix::fs::readlinkat(from, component, Vec::new()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("a/b")).expect("directories");
        fs::write(directory.path().join("secret"), "x").expect("a file");
        fs::write(root.join("a/file"), "x").expect("a file");
        for (link, to) in [
            ("out", "../secret"),
            ("absolute", "/etc/passwd"),
            ("up", ".."),
            ("a/inside", "../a/file"),
            ("loop", "loop"),
        ] {
            symlink(to, root.join(link)).expect("a link");
        }
        let root = open_root(&root).expect("the root");
        for path in ["out", "absolute", "up", "up/secret", "up/", "loop", "../secret", "a/../../secret"] {
            let error = open_beneath(&root, path.as_bytes()).expect_err(path);
            assert!(matches!(error, Errno::XDEV | Errno::LOOP), "{path}: {error}");
            let path = path.trim_end_matches('/').as_bytes();
            assert!(open_stepwise(root.as_fd(), path, OFlags::RDONLY).is_err());
        }
        for path in ["", "a", "a/", "a/b/", "a/file", "a/inside"] {
            open_beneath(&root, path.as_bytes()).expect(path);
        }
        open_stepwise(root.as_fd(), b"a/file", OFlags::RDONLY).expect("a file");
        for (path, expected) in [("b", Errno::NOENT), ("a/file/", Errno::NOTDIR), ("a/file/x", Errno::NOTDIR)]
        {
            assert_eq!(open_beneath(&root, path.as_bytes()).expect_err(path), expected, "{path}");
        }
    }
}
