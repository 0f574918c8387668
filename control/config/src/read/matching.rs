//! Reads `match`: the short form `host/path` and the mapping.

use super::{grpc, template};
use crate::model::{Match, PathMatch, Spanned};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::host::{self, HostPattern};
use crate::scalar::{ScalarError, path, pattern};
use crate::sections::condition;
use crate::sections::methods::{METHODS, methods};
use crate::spec::{MATCH, PATH, Shape};
use crate::tree::{Node, NodeKind};

/// Reads all matches of a route. An unreadable entry becomes an empty match.
pub(super) fn matches(reader: &mut Reader, field: Field<'_>) -> Vec<Match> {
    let items = reader.bounded_items(field.node, "`match`");
    if items.is_empty() {
        reader.missing(field.node.at, "`match` is an empty list".to_owned(), &field.key.shape);
    }
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    items.iter().map(|item| one_match(reader, item, one)).collect()
}

fn one_match(reader: &mut Reader, node: &Node, shape: &Shape) -> Match {
    let mut out = Match { at: node.at, ..Match::default() };
    if !matches!(node.kind, NodeKind::Map(_)) {
        short(reader, node, shape, &mut out);
        return out;
    }
    let Some(fields) = reader.fields(node, &MATCH) else { return out };
    if let Some(field) = fields.get("host") {
        let read = reader.field(field, |text| {
            no_port(text)?;
            host::pattern(text)
        });
        out.host = name(read, field.node);
    }
    if let Some(field) = fields.get("path") {
        out.path = path_of(reader, field);
    }
    if let Some(field) = fields.get("method") {
        out.methods = methods(reader, field).unwrap_or_default();
    }
    if let Some(field) = fields.get("grpc") {
        out.path = grpc::call(reader, field);
        if let Some(method) = fields.get("method") {
            let problem = Problem::error(method.at, "`grpc` and `method` exclude each other");
            let problem = problem.help("a gRPC call is a POST; write the service's method in `grpc`");
            reader.problems.push(problem.related(field.at, "`grpc` is here"));
        }
        out.methods = vec!["POST".to_owned()];
        out.grpc = true;
    }
    if let Some(field) = fields.get("headers") {
        out.headers = condition::headers(reader, field);
    }
    if let Some(field) = fields.get("query") {
        out.query = condition::query(reader, field);
    }
    out
}

fn name(pattern: Option<HostPattern>, node: &Node) -> Option<Spanned<String>> {
    match pattern? {
        HostPattern::Any => None,
        HostPattern::Name(value) => Some(Spanned { value, at: node.at }),
    }
}

/// Reads the short form: `api.example.com/v1/*`, `api.example.com`, `/v1/*`, `*`.
fn short(reader: &mut Reader, node: &Node, shape: &Shape, out: &mut Match) {
    let Some((host_text, path_text)) = reader.parsed(node, "`match`", shape, split) else { return };
    if !host_text.is_empty() {
        let read = reader.parsed(node, "`match`", shape, |_| host::pattern(&host_text));
        out.host = name(read, node);
        if let Some(host) = &mut out.host {
            host.at = node.part(0, host_text.chars().count());
        }
    }
    if path_text.is_empty() {
        return;
    }
    let at = host_text.chars().count();
    let read =
        reader.parsed(node, "`match`", shape, |_| short_path(&path_text).map_err(|fault| fault.shifted(at)));
    let Some(value) = read else { return };
    trailing_slash(reader, node, at, &path_text, &value);
    out.path = Some(Spanned { value, at: node.part(at, path_text.chars().count()) });
}

/// Splits the short form into host and path. Anything the short form cannot express is rejected with a
/// suggestion.
fn split(text: &str) -> Result<(String, String), ScalarError> {
    if text.is_empty() {
        return Err(ScalarError::new("{} matches nothing")
            .help("remove `match`, or write `\"*\"`, to match everything"));
    }
    if let Some((method, rest)) = text.split_once(' ')
        && METHODS.contains(&method)
    {
        let fault = ScalarError::new("{} begins with a method").part(0, method.len());
        return Err(fault.suggest(format!("write `match: {{method: {method}, path: {}}}`", rest.trim())));
    }
    if text.starts_with(['~', '^']) {
        let regex = text.trim_start_matches(['~', '*', ' ']);
        let fault =
            ScalarError::new("{} looks like a regular expression, which the short form does not support");
        return Err(fault.suggest(format!("write `match: {{path: {{regex: '{regex}'}}}}`")));
    }
    if let Some(blank) = text.chars().position(char::is_whitespace) {
        let fault = ScalarError::new("{} has a blank").part(blank, 1);
        return Err(fault.help("several matches are a list: `[a.example.com, b.example.com/x/*]`"));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let fault = ScalarError::new("{} has a scheme").part(0, scheme.chars().count() + 3);
        return Err(fault.suggest(format!("write `{rest}`: a match takes requests of every scheme")));
    }
    let (host, path) = match text.find('/') {
        Some(slash) => text.split_at(slash),
        None => (text, ""),
    };
    no_port(host).map_err(|fault| match fault.suggestion {
        Some(_) => {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            ScalarError { suggestion: Some(format!("write `{name}{path}`")), ..fault }
        }
        None => fault,
    })?;
    Ok((host.to_owned(), path.to_owned()))
}

fn no_port(host: &str) -> Result<(), ScalarError> {
    let Some((name, port)) = host.rsplit_once(':') else { return Ok(()) };
    let number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if name.contains(':') && !name.ends_with(']') || !number {
        return Ok(());
    }
    let fault = ScalarError::new("{} has a port").part(name.chars().count(), port.len() + 1);
    Err(fault.help("the port in a request is ignored").suggest(format!("write `{name}`")))
}

/// Parses `/v1` as an exact path, and `/v1/*` as a prefix.
fn short_path(text: &str) -> Result<PathMatch, ScalarError> {
    let (base, prefix) = match text.strip_suffix("/*") {
        Some(base) => (base, true),
        None => (text, false),
    };
    if let Some(star) = base.chars().position(|c| c == '*') {
        let fault = ScalarError::new("{} has a `*` where none is allowed").part(star, 1);
        return Err(fault.help("a path ends in `/*` or has no `*`; `{path: {regex: ...}}` can do more"));
    }
    if base.split('/').any(|segment| segment.starts_with('{') && segment.ends_with('}')) {
        return template::template(text);
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
fn trailing_slash(reader: &mut Reader, node: &Node, at: usize, text: &str, value: &PathMatch) {
    if !matches!(value, PathMatch::Exact(path) if path.ends_with('/')) {
        return;
    }
    let shown = node.scalar().map(crate::tree::Scalar::shown).unwrap_or_default();
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

fn path_of(reader: &mut Reader, field: Field<'_>) -> Option<Spanned<PathMatch>> {
    if !matches!(field.node.kind, NodeKind::Map(_)) {
        let value = reader.field(field, |text| match text {
            "*" => Ok(PathMatch::Prefix(String::new())),
            text => short_path(text),
        })?;
        let text = field.node.scalar().map(|scalar| scalar.text.clone()).unwrap_or_default();
        trailing_slash(reader, field.node, 0, &text, &value);
        return Some(Spanned { value, at: field.node.at });
    }
    let fields = reader.fields(field.node, &PATH)?;
    if let Some(field) = fields.get("exact") {
        return reader.spanned(field, |text| path::path(text).map(PathMatch::Exact));
    }
    if let Some(field) = fields.get("prefix") {
        return reader.spanned(field, |text| {
            if let Some(base) = text.strip_suffix('*') {
                let fault = ScalarError::new("{} ends in `*`, which a prefix does not need");
                let base = trimmed(base);
                return Err(fault.suggest(format!("write `{}`", if base.is_empty() { "/" } else { &base })));
            }
            path::path(text).map(|path| PathMatch::Prefix(trimmed(&path)))
        });
    }
    if let Some(field) = fields.get("template") {
        return reader.spanned(field, template::template);
    }
    let field = fields.get("regex")?;
    reader.spanned(field, |text| pattern::regex(text, true).map(|_| PathMatch::Regex(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<PathMatch>)> {
        let (host, path) = split(text).ok()?;
        let path = if path.is_empty() { None } else { Some(short_path(&path).ok()?) };
        Some((host, path))
    }

    #[test]
    fn the_short_form() {
        let prefix = |text: &str| Some(PathMatch::Prefix(text.into()));
        let exact = |text: &str| Some(PathMatch::Exact(text.into()));
        assert_eq!(read("api.example.com/v1/*"), Some(("api.example.com".into(), prefix("/v1"))));
        assert_eq!(read("/v1/*"), Some((String::new(), prefix("/v1"))));
        assert_eq!(read("/*"), Some((String::new(), prefix(""))));
        assert_eq!(read("/"), Some((String::new(), exact("/"))));
        assert_eq!(read("/v1"), Some((String::new(), exact("/v1"))));
        assert_eq!(read("*.example.com"), Some(("*.example.com".into(), None)));
        assert_eq!(read("[::1]/x"), Some(("[::1]".into(), exact("/x"))));
        for text in [
            "",
            "a:80",
            "a:80/x",
            "[::1]:80",
            "GET /x",
            "~ ^/x",
            "^/x",
            "http://a/x",
            "/a*",
            "/a/*/b",
            "/a|b",
            "/a b",
            "/a?b",
            "/users/:id",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_to_write_instead_is_said() {
        assert_eq!(split("a.b:80/x").unwrap_err().suggestion.as_deref(), Some("write `a.b/x`"));
        assert_eq!(
            split("GET /x").unwrap_err().suggestion.as_deref(),
            Some("write `match: {method: GET, path: /x}`")
        );
    }
}
