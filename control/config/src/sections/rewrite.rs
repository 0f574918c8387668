//! `rewrite` of a route, and the changes of a path that a redirect has too.

use regex::Regex;

use crate::position::{At, Spanned};
use crate::scalar::{host, path, pattern, replacement};
use crate::section::{Field, Fields, Node, NodeKind, Problem, Reader, ScalarError, Section, Text, shown};

use super::condition::REGEX;
use super::matching::Match;
use super::path_match::PathMatch;
use super::texts::PLAIN_PATH;

static REPLACE: Text =
    Text { expected: "a text with capture groups such as `$1`", pattern: None, loose: true };
static HOST_REWRITE: Text =
    Text { expected: "`endpoint`, or a host such as `api.internal`", pattern: Some(r"^\S+$"), loose: false };
const DOLLAR: &str = "capture groups are written `$1`, `$2` or `$name`; `$$` is a dollar sign";

/// Changes to the request before it is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The new path; `None`: unchanged.
    pub path: Option<Spanned<PathRewrite>>,
    /// Names and values of query parameters, which replace the request's parameters of the same names.
    /// [`text_replacement`](crate::text_replacement) splits the values.
    pub query: Vec<(String, String)>,
    /// The `Host` sent upstream; `None`: the client's is kept.
    pub host: Option<HostRewrite>,
}

/// A new path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRewrite {
    /// This path replaces the whole path (`rewrite: {path: /x}`).
    Full(String),
    /// A path with capture groups of the route's regular expression, which
    /// [`path_replacement`](crate::path_replacement) splits (`rewrite: {path: '/x/$1'}`). Only if the route
    /// matches by a regular expression.
    Groups(String),
    /// Replaces the matched prefix (`rewrite: {prefix: /x}`). Only with a prefix match.
    Prefix(String),
    /// Replaces every match of a pattern (`rewrite: {regex: ..., replace: ...}`). `$1`, `${1}` and `${name}`
    /// are capture groups; [`path_replacement`](crate::path_replacement) splits the text. In a file `${name}`
    /// is written `$${name}`, because `${NAME}` is an environment variable there.
    Regex {
        /// The pattern.
        pattern: String,
        /// The replacement.
        replace: String,
    },
}

/// The `Host` sent upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRewrite {
    /// This text (`rewrite: {host: name}`).
    To(String),
    /// The endpoint's own `host:port` (`rewrite: {host: endpoint}`).
    Endpoint,
}

/// A value with its references to capture groups of the route's own pattern.
#[derive(Clone, Debug, Default)]
pub(crate) struct WithGroups<T> {
    pub value: T,
    pub uses: Vec<GroupUse>,
}

/// A reference to a capture group of the route's own pattern.
#[derive(Clone, Debug)]
pub(crate) struct GroupUse {
    group: String,
    at: At,
    /// Whether messages may show the name. A variable may hold a secret.
    open: bool,
}

/// Changes to the request before it is forwarded. Query parameters that it does not name are kept.
#[derive(Clone, Debug, Section)]
#[section(
    name = "rewrite", noun = "a rewrite", at_most_one = ["path", "prefix", "regex"],
    makes = WithGroups<Rewrite>, by = rewrite
)]
struct RewriteKeys {
    /// The new path; `$1` is a capture group of the route's own pattern.
    #[key(text = PLAIN_PATH, parse = new_path)]
    path: Option<Spanned<PathRewrite>>,
    /// Replaces the prefix that matched; `/` removes it.
    #[key(text = PLAIN_PATH, parse = new_prefix, also = ["strip_prefix", "strip"])]
    prefix: Option<Spanned<PathRewrite>>,
    /// A pattern and its replacement.
    #[key(flatten)]
    pattern: PatternKeys,
    /// Query parameters that replace the request's parameters of the same names; `$1` is a capture group of the
    /// route's own pattern.
    #[key(text = REPLACE, pairs = (parameter_name, any_text), also = ["args", "parameters"])]
    query: Vec<(String, String)>,
    /// The `Host` sent upstream; `endpoint` means the endpoint's own address.
    #[key(text = HOST_REWRITE, parse = new_host)]
    host: Option<HostRewrite>,
}

fn rewrite(reader: &mut Reader, fields: &Fields<'_>, keys: RewriteKeys) -> Option<WithGroups<Rewrite>> {
    let RewriteKeys { path, prefix, pattern, query, host } = keys;
    let WithGroups { value: path, mut uses } = path_rewrite(reader, fields, path, prefix, pattern);
    if let Some(NodeKind::Map(entries)) = fields.get("query").map(|field| &field.node.kind) {
        uses.extend(entries.iter().flat_map(|entry| uses_in(&entry.value)));
    }
    Some(WithGroups { value: Rewrite { path, query, host }, uses })
}

/// Returns the change of the path, by the first of `path`, `prefix` and `regex` that is given.
pub(crate) fn path_rewrite(
    reader: &mut Reader,
    fields: &Fields<'_>,
    path: Option<Spanned<PathRewrite>>,
    prefix: Option<Spanned<PathRewrite>>,
    pattern: PatternKeys,
) -> WithGroups<Option<Spanned<PathRewrite>>> {
    let pattern = pattern.rewrite(reader, fields);
    match fields.get("path") {
        Some(field) => WithGroups { value: path, uses: group_uses(field) },
        None if fields.get("prefix").is_some() => WithGroups { value: prefix, uses: Vec::new() },
        None => WithGroups { value: pattern, uses: Vec::new() },
    }
}

/// A pattern and its replacement, in a rewrite or a redirect.
#[derive(Clone, Debug, Section)]
pub(crate) struct PatternKeys {
    /// Every match in the path is replaced by `replace`.
    #[key(text = REGEX, parse = any_part)]
    regex: Option<Regex>,
    /// The replacement; `$1` is a capture group.
    #[key(text = REPLACE, parse = replacement_text, also = ["replacement"])]
    replace: Option<Spanned<String>>,
}

impl PatternKeys {
    /// Returns the change of the path. Reports a key without the other, and references to groups that the pattern
    /// does not have.
    fn rewrite(self, reader: &mut Reader, fields: &Fields<'_>) -> Option<Spanned<PathRewrite>> {
        match (fields.get("regex"), fields.get("replace")) {
            (Some(field), None) if reader.complete => {
                let problem = Problem::error(field.at, "`regex` needs `replace`");
                reader.problems.push(problem.expected("a text with capture groups such as `$1`"));
            }
            (None, Some(field)) => {
                let problem = Problem::error(field.at, "`replace` has no effect without `regex`");
                reader.problems.push(problem.help("add `regex`, or use `path` or `prefix` alone"));
            }
            _ => {}
        }
        let (regex, replace) = (self.regex?, self.replace?);
        let uses = fields.get("replace").map(group_uses).unwrap_or_default();
        let missing = uses.iter().find(|used| !pattern::has_group(&regex, &used.group));
        reader.problems.extend(missing.map(no_group));
        let value = PathRewrite::Regex { pattern: regex.as_str().to_owned(), replace: replace.value };
        Some(Spanned { value, at: replace.at })
    }
}

/// Returns the references to capture groups in a text.
pub(crate) fn group_uses(field: Field<'_>) -> Vec<GroupUse> {
    uses_in(field.node)
}

fn uses_in(node: &Node) -> Vec<GroupUse> {
    let Some(scalar) = node.scalar() else { return Vec::new() };
    let open = scalar.written.is_none();
    let references = replacement::references(&scalar.text).into_iter();
    references
        .map(|reference| GroupUse {
            group: reference.group,
            at: node.part(reference.start, reference.length),
            open,
        })
        .collect()
}

/// Reports references to capture groups that are missing in the pattern of any of the route's matches.
pub(crate) fn check_uses(reader: &mut Reader, uses: &[GroupUse], matches: &[Match]) {
    if uses.is_empty() {
        return;
    }
    for one in matches {
        let Some(Spanned { value: PathMatch::Regex(text), at }) = &one.path else {
            let problem = Problem::error(uses[0].at, "this route matches no pattern with capture groups");
            let help = "match one, as in `{path: {regex: '/old/(.*)'}}` or `{path: {template: '/users/{id}'}}`; \
                        `$$` is a dollar sign";
            reader.problems.push(problem.help(help).related(one.at, "the match is here"));
            return;
        };
        let Ok(pattern) = pattern::regex(text, false) else { return };
        let missing = uses.iter().filter(|used| !pattern::has_group(&pattern, &used.group));
        let problems: Vec<_> =
            missing.map(|used| no_group(used).related(*at, "the pattern is here")).collect();
        if !problems.is_empty() {
            reader.problems.extend(problems);
            return;
        }
    }
}

fn no_group(used: &GroupUse) -> Problem {
    let group = &used.group;
    let name = if used.open { format!(" {}", shown(group)) } else { String::new() };
    let problem = Problem::error(used.at, format!("the pattern has no group{name}"));
    let digits = group.bytes().take_while(u8::is_ascii_digit).count();
    if used.open && digits > 0 && digits < group.len() {
        let (number, rest) = group.split_at(digits);
        return problem
            .help(format!("write `${{{number}}}{rest}` to end the group's number before `{rest}`"));
    }
    problem.help(DOLLAR)
}

/// Parses a new path, which may refer to capture groups.
pub(crate) fn new_path(text: &str) -> Result<PathRewrite, ScalarError> {
    match replacement::plain(text) {
        Some(text) => path::path(&text).map(PathRewrite::Full),
        None if !text.starts_with('/') => path::path(text).map(PathRewrite::Full),
        None => replacement::in_path(text).map(|_| PathRewrite::Groups(text.to_owned())),
    }
}

/// Parses the text that replaces the prefix.
pub(crate) fn new_prefix(text: &str) -> Result<PathRewrite, ScalarError> {
    if text.ends_with("/*") {
        let fault = ScalarError::new("{} ends in `*`, which a prefix does not need");
        return Err(fault.suggest(format!("write `{}`", text.trim_end_matches('*'))));
    }
    if let Some(reference) = replacement::references(text).first() {
        let fault = ScalarError::new("{} has a capture group, but a prefix match has none");
        return Err(fault.part(reference.start, reference.length).help(DOLLAR));
    }
    path::path(&replacement::plain(text).unwrap_or_default()).map(PathRewrite::Prefix)
}

fn new_host(text: &str) -> Result<HostRewrite, ScalarError> {
    match text {
        "endpoint" => Ok(HostRewrite::Endpoint),
        text => host::authority(text).map(HostRewrite::To),
    }
}

fn parameter_name(text: &str) -> Result<String, ScalarError> {
    if text.is_empty() {
        return Err(ScalarError::new("{} is not the name of a parameter"));
    }
    Ok(text.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "a parser of texts")]
fn any_text(text: &str) -> Result<String, ScalarError> {
    Ok(text.to_owned())
}

fn any_part(text: &str) -> Result<Regex, ScalarError> {
    pattern::regex(text, false)
}

fn replacement_text(text: &str) -> Result<String, ScalarError> {
    replacement::in_path(text).map(|_| text.to_owned())
}
