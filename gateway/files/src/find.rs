//! Looks a path up below the root of a site. Blocks on the file system.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use tollgate_http::ContentCoding;

use crate::coding::suffix;
use crate::listing::list;
use crate::open::{open_beneath, open_root};
use crate::path::is_hidden;
use crate::served_file::{OpenFile, ServedFile};
use crate::site::Site;

/// The content of a path.
#[derive(Clone, Debug)]
pub enum Found {
    /// A file, or the index of a directory, with its path relative to the root.
    File(Arc<ServedFile>, Vec<u8>),
    /// A directory that is served under its path with a slash at the end.
    Directory,
    /// The list of a directory, as HTML.
    List(String),
}

/// The reason for which nothing is served for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfound {
    /// There is nothing, or nothing that is served.
    Missing(&'static str),
    /// There is something that must not be served.
    Forbidden(&'static str),
    /// The file system reports an error.
    Failed,
}

impl Unfound {
    fn of(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
                Self::Missing("there is no such file")
            }
            Errno::XDEV | Errno::LOOP => Self::Forbidden("a symbolic link leads out of the root"),
            Errno::ACCESS | Errno::PERM | Errno::NXIO => Self::Forbidden("the gateway may not read the file"),
            _ => Self::Failed,
        }
    }
}

/// Looks up a path relative to the root. `is_own`: it is the request's own path, so that a directory needs the slash
/// at the end. `known` is returned if the file has not changed since it was loaded.
///
/// # Errors
/// If nothing is served for this path.
pub fn find(
    site: &Site,
    path: &[u8],
    is_own: bool,
    known: Option<&Arc<ServedFile>>,
) -> Result<Found, Unfound> {
    if is_hidden(path) {
        return Err(Unfound::Missing("the name of a hidden file"));
    }
    let root = open_root(&site.settings().root).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => Unfound::Missing("the root is not a directory"),
        error => Unfound::of(error),
    })?;
    let descriptor = open_beneath(&root, path).map_err(Unfound::of)?;
    match OpenFile::new(descriptor) {
        Ok(file) => load(site, &root, path, file, known),
        Err(Ok(FileType::Directory)) => directory(site, &root, path, is_own, known),
        Err(Ok(_)) => Err(Unfound::Forbidden("it is not a regular file")),
        Err(Err(error)) => Err(Unfound::of(error)),
    }
}

fn load(
    site: &Site,
    root: &OwnedFd,
    path: &[u8],
    file: OpenFile,
    known: Option<&Arc<ServedFile>>,
) -> Result<Found, Unfound> {
    let beside = |coding: &ContentCoding| {
        let name = [path, suffix(*coding).as_bytes()].concat();
        Some((*coding, OpenFile::new(open_beneath(root, &name).ok()?).ok()?))
    };
    let encoded: Vec<(ContentCoding, OpenFile)> =
        site.settings().precompressed.iter().filter_map(beside).collect();
    if let Some(known) = known.filter(|known| known.is_of(&file, &encoded)) {
        return Ok(Found::File(known.clone(), path.to_vec()));
    }
    let loaded = ServedFile::load(site, path, file, encoded).map_err(Unfound::of)?;
    Ok(Found::File(Arc::new(loaded), path.to_vec()))
}

fn directory(
    site: &Site,
    root: &OwnedFd,
    path: &[u8],
    is_own: bool,
    known: Option<&Arc<ServedFile>>,
) -> Result<Found, Unfound> {
    let needs_slash = is_own && !path.is_empty() && !path.ends_with(b"/");
    let slash = if path.is_empty() || path.ends_with(b"/") { "" } else { "/" };
    for index in &site.settings().index {
        let name = [path, slash.as_bytes(), index.as_bytes()].concat();
        match open_beneath(root, &name).map(OpenFile::new) {
            Ok(Ok(_)) if needs_slash => return Ok(Found::Directory),
            Ok(Ok(file)) => return load(site, root, &name, file, known),
            Ok(Err(_)) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(Unfound::of(error)),
        }
    }
    if !site.settings().browse {
        return Err(Unfound::Missing("a directory without an index"));
    }
    if needs_slash {
        return Ok(Found::Directory);
    }
    let directory = open_beneath(root, path).map_err(Unfound::of)?;
    list(&directory, path).map(Found::List).map_err(Unfound::of)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::site::{CacheRule, SiteSettings, TryPath};

    fn site(root: &Path) -> SiteSettings {
        SiteSettings {
            root: root.to_owned(),
            index: vec!["index.html".to_owned()],
            candidates: vec![TryPath::own()],
            browse: false,
            cache_control: vec![CacheRule { pattern: "*.css".to_owned(), value: "max-age=60".to_owned() }],
            precompressed: vec![ContentCoding::Brotli, ContentCoding::Gzip],
        }
    }

    fn file(site: &Site, path: &str) -> Arc<ServedFile> {
        match find(site, path.as_bytes(), true, None) {
            Ok(Found::File(file, _)) => file,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn files_directories_and_what_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        fs::create_dir_all(root.join("docs")).expect("a directory");
        fs::create_dir_all(root.join("empty")).expect("a directory");
        fs::create_dir_all(root.join(".git")).expect("a directory");
        for (name, content) in [
            ("index.html", "root"),
            ("docs/index.html", "docs"),
            ("a.css", "a {}"),
            ("a.css.gz", "gz"),
            (".git/config", "x"),
        ] {
            fs::write(root.join(name), content).expect("a file");
        }
        let plain = Site::new(site(root));
        assert_eq!(file(&plain, "").content(), Some(&b"root"[..]));
        assert_eq!(file(&plain, "docs/").content(), Some(&b"docs"[..]));
        let css = file(&plain, "a.css");
        let lines = String::from_utf8_lossy(css.lines()).into_owned();
        assert!(lines.starts_with("Content-Type: text/css; charset=utf-8\r\n"), "{lines}");
        assert!(lines.ends_with("Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n"), "{lines}");
        let gz = css.preferred(b"gzip").expect("an encoded file");
        assert_eq!(gz.content(), Some(&b"gz"[..]));
        assert_ne!(gz.etag(), css.etag());
        assert!(css.preferred(b"br").is_none());
        assert!(matches!(find(&plain, b"docs", true, None), Ok(Found::Directory)));
        assert!(matches!(find(&plain, b"docs", false, None), Ok(Found::File(..))));
        for path in ["nothing", "a.css/", "empty", "empty/", ".git/config", "a.css/x"] {
            assert!(matches!(find(&plain, path.as_bytes(), true, None), Err(Unfound::Missing(_))), "{path}");
        }
        let browsed = Site::new(SiteSettings { browse: true, index: Vec::new(), ..site(root) });
        assert!(matches!(find(&browsed, b"docs", true, None), Ok(Found::Directory)));
        let Ok(Found::List(page)) = find(&browsed, b"", true, None) else { panic!("a list") };
        assert!(page.contains("docs/") && !page.contains(".git"), "{page}");
    }

    #[test]
    fn a_file_that_has_not_changed_is_not_read_again() {
        let root = tempfile::tempdir().expect("a directory");
        fs::write(root.path().join("a"), "1").expect("a file");
        let site = Site::new(site(root.path()));
        let first = file(&site, "a");
        let Ok(Found::File(again, _)) = find(&site, b"a", true, Some(&first)) else { panic!("a file") };
        assert!(Arc::ptr_eq(&first, &again));
        fs::write(root.path().join("a.gz"), "z").expect("a file");
        let Ok(Found::File(other, _)) = find(&site, b"a", true, Some(&first)) else { panic!("a file") };
        assert!(other.has_encoded());
    }

    #[test]
    fn a_long_file_stays_on_disk() {
        let root = tempfile::tempdir().expect("a directory");
        fs::write(root.path().join("long"), vec![b'x'; 100_000]).expect("a file");
        let file = file(&Site::new(site(root.path())), "long");
        assert_eq!((file.content(), file.kept_bytes(), file.length()), (None, None, 100_000));
        let mut buffer = [0; 8];
        assert_eq!(file.read(&mut buffer, 99_996).expect("a read"), 4);
        assert_eq!(file.read(&mut buffer, 100_000).expect("a read"), 0);
    }
}
