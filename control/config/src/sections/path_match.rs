//! `path` of a match.

use crate::position::Spanned;
use crate::scalar::{path, pattern};
use crate::section::{Field, Node, Problem, Reader, Scalar, ScalarError, Section, Shape, Text};

use super::condition::REGEX;
use super::texts::PLAIN_PATH;

mod template;

use template::template;

static PATH_TEXT: Text = Text {
    expected: "a path such as `/v1`, or `/v1/*` to include everything below it",
    pattern: Some("^/"),
    loose: false,
};
static TEMPLATE: Text = Text {
    expected: "a path such as `/users/{id}`, or `/users/{id}/*` to include everything below it",
    pattern: Some("^/"),
    loose: false,
};
/// The short form, or a mapping.
pub(crate) const PATH_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&PATH_TEXT), Shape::Section(PathKeys::SPEC)]);

/// How a path is matched. Texts are in normal form (RFC 3986, section 6.2.2): unreserved characters are
/// decoded, and characters that need encoding are encoded with upper-case digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// Exactly this path.
    Exact(String),
    /// This path and everything below it, by whole segments. Stored without a trailing slash; the root is the
    /// empty string.
    Prefix(String),
    /// A regular expression that must match the whole path.
    Regex(String),
    /// Every path that begins with this text, also within a segment.
    RawPrefix(String),
    /// Every path that ends with this text, also within a segment.
    Suffix(String),
}

impl PathMatch {
    /// Returns whether it is exactly one path.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

/// How a path is matched.
#[derive(Clone, Debug, Section)]
#[section(name = "path", noun = "a path", exactly_one = ["exact", "prefix", "template", "regex"])]
struct PathKeys {
    /// Exactly this path.
    #[key(text = PLAIN_PATH, parse = exact)]
    exact: Option<Spanned<PathMatch>>,
    /// This path and everything below it, by whole segments.
    #[key(text = PLAIN_PATH, parse = prefix)]
    prefix: Option<Spanned<PathMatch>>,
    /// A path in which `{name}` matches one segment; `/*` at the end also matches everything below.
    #[key(text = TEMPLATE, parse = template)]
    template: Option<Spanned<PathMatch>>,
    /// A regular expression that the whole path must match.
    #[key(text = REGEX, parse = regex)]
    regex: Option<Spanned<PathMatch>>,
}

/// Reads the path of a match, in the short form or as a mapping.
pub(crate) fn path_match(reader: &mut Reader, field: Field<'_>) -> Option<Spanned<PathMatch>> {
    if field.is_mapping() {
        let PathKeys { exact, prefix, template, regex } = reader.section(field)?;
        return exact.or(prefix).or(template).or(regex);
    }
    let value = reader.field(field, |text| match text {
        "*" => Ok(PathMatch::Prefix(String::new())),
        text => short_path(text),
    })?;
    let text = field.node.scalar().map(|scalar| scalar.text.clone()).unwrap_or_default();
    trailing_slash(reader, field.node, 0, &text, &value);
    Some(Spanned { value, at: field.node.at })
}

fn exact(text: &str) -> Result<PathMatch, ScalarError> {
    path::path(text).map(PathMatch::Exact)
}

fn prefix(text: &str) -> Result<PathMatch, ScalarError> {
    if let Some(base) = text.strip_suffix('*') {
        let fault = ScalarError::new("{} ends in `*`, which a prefix does not need");
        let base = trimmed(base);
        return Err(fault.suggest(format!("write `{}`", if base.is_empty() { "/" } else { &base })));
    }
    path::path(text).map(|path| PathMatch::Prefix(trimmed(&path)))
}

/// Parses a text that paths begin with.
pub(crate) fn raw_prefix(text: &str) -> Result<PathMatch, ScalarError> {
    no_star(text)?;
    path::path(text).map(PathMatch::RawPrefix)
}

/// Parses a text that paths end with.
pub(crate) fn suffix(text: &str) -> Result<PathMatch, ScalarError> {
    no_star(text)?;
    if text.is_empty() {
        return Err(ScalarError::new("{} is the end of every path").help("leave it out"));
    }
    // A path that ends with it, so that the same rules apply.
    let whole = path::path(&format!("/x{text}")).map_err(|fault| ScalarError { part: None, ..fault })?;
    Ok(PathMatch::Suffix(whole.strip_prefix("/x").unwrap_or(&whole).to_owned()))
}

fn no_star(text: &str) -> Result<(), ScalarError> {
    match text.chars().position(|c| c == '*') {
        Some(star) => {
            let fault = ScalarError::new("{} has a `*`, which would be matched literally").part(star, 1);
            Err(fault.help("write the text alone: `path_suffix: .php`, `path_prefix: /api`"))
        }
        None => Ok(()),
    }
}

fn regex(text: &str) -> Result<PathMatch, ScalarError> {
    pattern::whole(text).map(PathMatch::Regex)
}

/// Parses the short form: `/v1` as an exact path, and `/v1/*` as a prefix.
pub(crate) fn short_path(text: &str) -> Result<PathMatch, ScalarError> {
    let (base, prefix) = match text.strip_suffix("/*") {
        Some(base) => (base, true),
        None => (text, false),
    };
    if let Some(star) = base.chars().position(|c| c == '*') {
        let fault = ScalarError::new("{} has a `*` where none is allowed").part(star, 1);
        return Err(fault.help("a path ends in `/*` or has no `*`; `{path: {regex: ...}}` can do more"));
    }
    if base.split('/').any(|segment| segment.starts_with('{') && segment.ends_with('}')) {
        return template(text);
    }
    if let Some(odd) = base.chars().position(|c| matches!(c, '^' | '{' | '}' | '[' | ']' | '|' | '\\')) {
        let fault = ScalarError::new("{} has a pattern character, which the short form does not support")
            .part(odd, 1);
        return Err(fault.help("a pattern is written `match: {path: {regex: '...'}}`"));
    }
    if base.ends_with("/:") || base.contains("/:") {
        let fault = ScalarError::new("{} has a `:name` segment, which would be matched literally");
        return Err(fault.help("write `{name}` for a segment with any text: `/users/{id}`"));
    }
    if prefix && base.is_empty() {
        return Ok(PathMatch::Prefix(String::new()));
    }
    let base = path::path(base)?;
    Ok(if prefix { PathMatch::Prefix(trimmed(&base)) } else { PathMatch::Exact(base) })
}

fn trimmed(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

/// Warns of a path that ends in `/`: it is exact, but people mostly mean everything below it.
pub(crate) fn trailing_slash(reader: &mut Reader, node: &Node, at: usize, text: &str, value: &PathMatch) {
    if !matches!(value, PathMatch::Exact(path) if path.ends_with('/')) {
        return;
    }
    let shown = node.scalar().map(Scalar::shown).unwrap_or_default();
    let length = text.chars().count();
    let message = if text == "/" {
        format!("{shown} matches only the path `/` itself")
    } else {
        format!("{shown} matches only this path with its trailing slash, and nothing below it")
    };
    let problem = Problem::warning(node.part(at, length), message);
    let problem = if node.scalar().is_some_and(|scalar| scalar.written.is_none()) {
        problem.help(format!(
            "write `{text}*` for everything below it, or `{{exact: {text}}}` for only this path"
        ))
    } else {
        problem.help("end it with `/*` for everything below it")
    };
    reader.problems.push(problem);
}
