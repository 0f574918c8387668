//! The compiled settings of one `files`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_http::ContentCoding;

/// One path that a request is looked up under: `before`, the request's path, `after`; or a fixed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryPath {
    /// Text before the request's path. For a fixed path: the whole path, without its first slash.
    pub before: String,
    /// Text after the request's path; `None`: the path is fixed.
    pub after: Option<String>,
}

impl TryPath {
    /// Returns the request's own path.
    #[must_use]
    pub fn own() -> Self {
        Self { before: String::new(), after: Some(String::new()) }
    }

    /// Returns whether this is the request's own path, unchanged.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.before.is_empty() && self.after.as_ref().is_some_and(String::is_empty)
    }

    /// Writes the path for a request whose decoded path is `path`. Both are relative to the root.
    pub fn fill(&self, path: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.before.as_bytes());
        if let Some(after) = &self.after {
            out.extend_from_slice(path);
            out.extend_from_slice(after.as_bytes());
        }
    }
}

/// A `Cache-Control` for the files whose path matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// A path from the root on, such as `/assets/*`; each `*` stands for any text.
    pub pattern: String,
    /// The value of the field.
    pub value: String,
}

/// The settings of a [`Site`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// The directory.
    pub root: PathBuf,
    /// Names of the files that stand for their directory, in the order in which they are tried.
    pub index: Vec<String>,
    /// The paths that a request is looked up under, in order.
    pub candidates: Vec<TryPath>,
    /// Whether a directory without such a file is answered with a list of its files.
    pub browse: bool,
    /// The first rule whose pattern matches gives the `Cache-Control`.
    pub cache_control: Vec<CacheRule>,
    /// The encodings in which files may have variants, preferred ones first.
    pub precompressed: Vec<ContentCoding>,
}

/// A directory whose files are served, with its settings.
#[derive(Clone, Debug)]
pub struct Site {
    /// Tells it from all other sites of the process, also from earlier ones with the same settings.
    id: u64,
    settings: SiteSettings,
}

impl Site {
    /// Creates a site. It reads nothing: the root need not exist yet.
    #[must_use]
    pub fn new(settings: SiteSettings) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), settings }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns its settings.
    #[must_use]
    pub fn settings(&self) -> &SiteSettings {
        &self.settings
    }

    /// Returns the paths that a request is looked up under, in order.
    #[must_use]
    pub fn candidates(&self) -> &[TryPath] {
        &self.settings.candidates
    }

    /// Returns the `Cache-Control` of a file, by its path relative to the root.
    pub(crate) fn cache_control(&self, path: &[u8]) -> Option<&str> {
        let rules = &self.settings.cache_control;
        let rule = rules.iter().find(|rule| matches(rule.pattern.as_bytes(), path))?;
        Some(&rule.value)
    }
}

/// Returns whether a pattern matches `/` and this path. Each `*` stands for any text, also an empty one.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let mut text = Vec::with_capacity(path.len() + 1);
    text.push(b'/');
    text.extend_from_slice(path);
    let mut pieces = pattern.split(|byte| *byte == b'*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            let Some(at) = find(rest, before) else { return false };
            rest = &rest[at + before.len()..];
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

/// Returns where `wanted` begins first.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, path, matched) in [
            ("/assets/*", "assets/a.css", true),
            ("/assets/*", "assets/", true),
            ("/assets/*", "assets", false),
            ("*.css", "a/b.css", true),
            ("*.css", "a/b.css.map", false),
            ("/index.html", "index.html", true),
            ("/index.html", "a/index.html", false),
            ("/a/*/b*.js", "a/x/y/bundle.js", true),
            ("/a/*/b*.js", "a/bundle.js", false),
            ("*", "x", true),
            ("*a*a", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), matched, "{pattern} {path}");
        }
    }

    #[test]
    fn a_candidate_is_filled_in() {
        let mut out = Vec::new();
        TryPath { before: "v/".to_owned(), after: Some(".html".to_owned()) }.fill(b"a/b", &mut out);
        assert_eq!(out, b"v/a/b.html");
        TryPath { before: "index.html".to_owned(), after: None }.fill(b"a/b", &mut out);
        assert_eq!(out, b"index.html");
        assert!(TryPath::own().is_own());
    }
}
