//! `files` of a route: files of a directory.

use std::path::PathBuf;

use crate::position::{At, Spanned};
use crate::scalar::field as header;
use crate::scalar::file_path::file_path;
use crate::section::{Field, NodeKind, Problem, Reader, ScalarError, Section, Shape, Text, Value, shown};

use super::condition::VALUE;

static DIRECTORY: Text =
    Text { expected: "the path of a directory such as `/var/www/site`", pattern: Some("."), loose: false };
static FILE_NAME: Text =
    Text { expected: "the name of a file such as `index.html`", pattern: Some("^[^/]+$"), loose: false };
static CANDIDATE: Text = Text {
    expected: "`$path`, a path such as `/index.html`, or both as in `$path.html`",
    pattern: Some(r"^(\$path|/|=404$)"),
    loose: false,
};
static CODING: Text = Text { expected: "`zst`, `br` or `gz`", pattern: Some("^(zst|br|gz)$"), loose: false };
static CACHE_VALUE: Shape = Shape::Text(&VALUE);

/// The request's path in a candidate of `try`.
const PATH: &str = "$path";

/// Files of a directory. A text is the directory alone.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "files", noun = "`files`", own_forms)]
pub struct Files {
    /// The directory. The path below the route's prefix is looked up in it; with `rewrite`, the rewritten path.
    /// Relative to the file that names it.
    #[key(required, text = DIRECTORY, parse = directory, also = ["directory", "dir", "path", "folder", "alias"])]
    pub root: Spanned<PathBuf>,
    /// Names of the files that stand for their directory, in the order in which they are tried.
    #[key(text = FILE_NAME, each = file_name, what = "`index`", default = "index.html", also = ["indexes", "index_names", "default"])]
    pub index: Vec<String>,
    /// Paths that are tried in turn; the first one that names a file, or a directory with an index, is served.
    /// `$path` is the request's path. `[$path, /index.html]` serves single-page applications.
    #[key(
        name = "try", text = CANDIDATE, each = candidate, what = "`try`", nonempty, default = "$path",
        also = ["try_files", "fallback", "spa"]
    )]
    pub candidates: Vec<Candidate>,
    /// Whether a directory without an index is answered with a list of its files.
    #[key(default = off, also = ["autoindex", "listing", "directory_listing", "list"])]
    pub browse: bool,
    /// The `Cache-Control` of all files, or a mapping from patterns such as `/assets/*` to values, of which the first
    /// that matches applies. Default: none.
    #[key(also = ["cache", "expires", "cache-control", "max_age"])]
    pub cache_control: CacheControl,
    /// Encodings whose files may stand beside the plain ones, preferred ones first: `a.css.br` for `a.css`.
    #[key(text = CODING, each = coding, what = "`precompressed`", default = "[]", also = ["gzip_static", "brotli_static", "pre_compressed", "compressed"])]
    pub precompressed: Vec<String>,
}

/// A path that is tried: fixed, or with the request's path in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Text before the request's path, or the whole fixed path; without its first slash.
    pub before: String,
    /// Text after the request's path; `None`: the path is fixed.
    pub after: Option<String>,
}

/// Patterns of paths with the `Cache-Control` of the files that match, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheControl(pub Vec<(String, String)>);

/// A directory, or a mapping.
impl Value for Files {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&DIRECTORY), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return Self::read_section(reader, field.node);
        }
        Some(Self::of(reader.spanned(field, directory)?))
    }
}

impl Files {
    fn of(root: Spanned<PathBuf>) -> Self {
        Self {
            root,
            index: vec!["index.html".to_owned()],
            candidates: vec![Candidate { before: String::new(), after: Some(String::new()) }],
            browse: false,
            cache_control: CacheControl::default(),
            precompressed: Vec::new(),
        }
    }
}

/// A value for all files, or a mapping.
impl Value for CacheControl {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&VALUE), Shape::MapOf(&CACHE_VALUE)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        let NodeKind::Map(entries) = &field.node.kind else {
            let value = reader.field(field, header::value)?;
            return Some(Self(vec![("*".to_owned(), value)]));
        };
        let mut rules = Vec::with_capacity(entries.len());
        for entry in entries {
            if !entry.key.starts_with(['/', '*']) {
                let message = format!("{} matches no path", shown(&entry.key));
                reader.problems.push(
                    Problem::error(entry.at, message)
                        .expected("a pattern such as `/assets/*` or `*.css`; `*` stands for any text"),
                );
                continue;
            }
            let value = reader.parsed(&entry.value, &shown(&entry.key), &CACHE_VALUE, header::value);
            rules.extend(value.map(|value| (entry.key.clone(), value)));
        }
        Some(Self(rules))
    }
}

fn directory(text: &str) -> Result<PathBuf, ScalarError> {
    file_path(text)
}

fn file_name(text: &str) -> Result<String, ScalarError> {
    match text {
        "" | "." | ".." => Err(ScalarError::new("{} is not the name of a file")),
        text if text.contains('/') => {
            Err(ScalarError::new("{} is not the name of a file").help("a path is written under `try`"))
        }
        text if text.starts_with('.') => {
            Err(ScalarError::new("{} is hidden: names that begin with a dot are never served"))
        }
        text if text.chars().any(char::is_control) => Err(ScalarError::new("{} is not the name of a file")),
        text => Ok(text.to_owned()),
    }
}

fn candidate(text: &str) -> Result<Candidate, ScalarError> {
    for foreign in ["$uri", "{path}", "{http.request.uri.path}", "$request_uri", "${path}"] {
        if text.contains(foreign) {
            let fault = ScalarError::new("{} holds a name of another server");
            let ours = text.replace(foreign, PATH);
            let ours = if ours == "$path/" { PATH } else { ours.as_str() };
            return Err(fault.suggest(format!("write `{ours}`")));
        }
    }
    // The end of the list is a 404 anyway, as a file that does not exist.
    if text == "=404" {
        return Ok(Candidate { before: ".404".to_owned(), after: None });
    }
    if text.starts_with('=') {
        return Err(ScalarError::new("{} is not a path")
            .help("the list ends with a 404; `fallback` of the route replaces it by another response"));
    }
    if text.starts_with('@') {
        return Err(ScalarError::new("{} is not a path")
            .help("`fallback` of the route names the upstream that answers instead of a 404"));
    }
    let split = text.split_once(PATH);
    let (before, after) = split.map_or((text, None), |(before, after)| (before, Some(after)));
    if after.is_none_or(|_| !before.is_empty()) && !before.starts_with('/') {
        return Err(ScalarError::new("{} does not begin with `/`").suggest(format!("write `/{text}`")));
    }
    let is_bad = |part: &str| {
        part.contains(PATH)
            || part.chars().any(char::is_control)
            || part.split('/').any(|it| it == ".." || it == ".")
    };
    if is_bad(before) || after.is_some_and(is_bad) {
        return Err(ScalarError::new("{} is not a path below the root"));
    }
    if let Some(rest) = after
        && rest == "/"
    {
        return Err(
            ScalarError::new("{} is part of `$path`").suggest("write `$path`: it serves directories too")
        );
    }
    Ok(Candidate { before: before.trim_start_matches('/').to_owned(), after: after.map(str::to_owned) })
}

fn coding(text: &str) -> Result<String, ScalarError> {
    let known = match text {
        "zst" | "br" | "gz" => return Ok(text.to_owned()),
        "zstd" => "zst",
        "gzip" => "gz",
        "brotli" => "br",
        _ => return Err(ScalarError::new("{} is not an encoding of files")),
    };
    Err(ScalarError::new("{} is not the end of a file's name").suggest(format!("write `{known}`")))
}

/// Returns a warning for a root that is not a directory, or `None`. Blocks on the file system.
pub(crate) fn root_warning(root: &Spanned<PathBuf>) -> Option<Problem> {
    let shown = shown(&root.value.display().to_string());
    let problem = |at: At, why: &str| Problem::warning(at, format!("{shown} {why}"));
    match std::fs::metadata(&root.value) {
        Ok(data) if data.is_dir() => None,
        Ok(_) => Some(problem(root.at, "is not a directory").help("name the directory that the file is in")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(
            problem(root.at, "does not exist")
                .help("every request of this route is answered with 404 until it does"),
        ),
        Err(error) => Some(problem(root.at, &format!("cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates() {
        let fixed = |before: &str| Ok(Candidate { before: before.to_owned(), after: None });
        let around = |before: &str, after: &str| {
            Ok(Candidate { before: before.to_owned(), after: Some(after.to_owned()) })
        };
        for (text, expected) in [
            ("$path", around("", "")),
            ("$path.html", around("", ".html")),
            ("$path/index.htm", around("", "/index.htm")),
            ("/v2$path", around("v2", "")),
            ("/index.html", fixed("index.html")),
        ] {
            assert_eq!(candidate(text).map_err(|fault| fault.message), expected, "{text}");
        }
        for text in
            ["index.html", "$uri", "$uri/", "{path}", "$path/", "/a/../b", "$path$path", "=500", "@app"]
        {
            assert!(candidate(text).is_err(), "{text}");
        }
    }
}
