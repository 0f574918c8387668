//! `match`: the requests of a route, as `host/path` or as a mapping.

use crate::position::{At, Spanned};
use crate::scalar::host::{self, HostPattern};
use crate::section::{Field, Fields, Node, Problem, Reader, ScalarError, Section, Shape, Text, Value};

use super::condition::{FieldMatch, VALUE_SHAPE, headers, query};
use super::grpc_match::{GRPC_SHAPE, grpc_match};
use super::methods::{METHODS, methods};
use super::path_match::{PATH_SHAPE, PathMatch, path_match, raw_prefix, short_path, suffix, trailing_slash};
use super::texts::HOST;

static MATCH_TEXT: Text = Text {
    expected: "a host, a path or both, such as `api.example.com/v1/*`",
    pattern: Some(r"^\S+$"),
    loose: false,
};
static RAW_PREFIX: Text = Text {
    expected: "the beginning of a path, such as `/api`",
    pattern: Some(r"^/[^*?#\s]*$"),
    loose: false,
};
static SUFFIX: Text =
    Text { expected: "the end of a path, such as `.php`", pattern: Some(r"^[^*?#\s]+$"), loose: false };
static METHOD: Text = Text {
    expected: "a method such as `GET`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};

/// Conditions for the requests that a route matches. An empty match takes every request.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// Source position of the match.
    pub at: At,
    /// Host, lower case: exact, or `*.example.com` for every host below; `None`: any. An IPv6 address is in
    /// brackets, as in `Host`, and in its shortest form (RFC 5952).
    pub host: Option<Spanned<String>>,
    /// Path; `None`: any. The root prefix (`/*`) also matches any path.
    pub path: Option<Spanned<PathMatch>>,
    /// Whether the path is an exact one in the short form, which in some other gateways is a prefix.
    pub is_short_exact: bool,
    /// Methods, upper case; empty: any.
    pub methods: Vec<String>,
    /// Whether the match was written as a gRPC call.
    pub grpc: bool,
    /// Header conditions, all of which must hold.
    pub headers: Vec<FieldMatch>,
    /// Query conditions, all of which must hold.
    pub query: Vec<FieldMatch>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Section)]
#[section(
    name = "match", noun = "a match", at_most_one = ["path", "path_prefix", "path_suffix", "grpc"], own_forms, makes = Match,
    by = conditions
)]
struct MatchKeys {
    /// The host; `*.example.com` matches every subdomain.
    #[key(text = HOST, parse = host_pattern, also = ["hosts", "hostname", "server_name"])]
    host: Option<Spanned<HostPattern>>,
    /// The path, as in the short form, or `exact`, `prefix` or `regex`.
    #[key(
        shape = PATH_SHAPE, read = path_match,
        also = ["paths", "uri", "location", "prefix", "exact", "regex"]
    )]
    path: Option<Spanned<PathMatch>>,
    /// A text that the path begins with, also within a segment: `/api` matches `/api`, `/api/x` and `/apis`. Replaces
    /// `path`.
    #[key(text = RAW_PREFIX, parse = raw_prefix, also = ["starts_with", "path_beg", "startsWith"])]
    path_prefix: Option<Spanned<PathMatch>>,
    /// A text that the path ends with: `.php`. Replaces `path`.
    #[key(text = SUFFIX, parse = suffix, also = ["ends_with", "path_end", "suffix", "extension", "endsWith"])]
    path_suffix: Option<Spanned<PathMatch>>,
    /// gRPC calls of a service or of one of its methods: a POST to `/SERVICE/METHOD`. Replaces `path` and
    /// `method`.
    #[key(shape = GRPC_SHAPE, read = grpc_match, also = ["grpc_service", "service", "rpc"])]
    grpc: Option<Spanned<PathMatch>>,
    /// One or a list of methods.
    #[key(text = METHOD, list, read = methods, also = ["methods"])]
    method: Vec<String>,
    /// Conditions on header fields.
    #[key(shape = Shape::MapOf(&VALUE_SHAPE), read = headers, also = ["header"])]
    headers: Vec<FieldMatch>,
    /// Conditions on query parameters.
    #[key(shape = Shape::MapOf(&VALUE_SHAPE), read = query, also = ["params", "args", "queries"])]
    query: Vec<FieldMatch>,
}

fn conditions(reader: &mut Reader, fields: &Fields<'_>, keys: MatchKeys) -> Option<Match> {
    let MatchKeys { host, path, path_prefix, path_suffix, grpc, method, headers, query } = keys;
    let host = host.and_then(named);
    let is_short = fields.get("path").is_some_and(|field| !field.is_mapping());
    let is_short_exact = is_short && path.as_ref().is_some_and(|path| path.value.is_exact());
    let path = path.or(path_prefix).or(path_suffix);
    let mut out =
        Match { at: fields.at, host, path, is_short_exact, methods: method, grpc: false, headers, query };
    if let Some(field) = fields.get("grpc") {
        if let Some(method) = fields.get("method") {
            let problem = Problem::error(method.at, "`grpc` and `method` exclude each other");
            let problem = problem.help("a gRPC call is a POST; write the service's method in `grpc`");
            reader.problems.push(problem.related(field.at, "`grpc` is here"));
        }
        out.path = grpc;
        out.methods = vec!["POST".to_owned()];
        out.grpc = true;
    }
    Some(out)
}

/// The short form, or a mapping.
impl Value for Match {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&MATCH_TEXT), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        match field.is_mapping() {
            true => Self::read_section(reader, field.node),
            false => Some(short(reader, field.node, field.key.shape.one())),
        }
    }
}

/// Reads all matches of a route. An unreadable entry becomes an empty match.
pub(crate) fn matches(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Match>> {
    let items = reader.bounded_items(field.node, "`match`");
    if items.is_empty() {
        reader.missing(field.node.at, "`match` is an empty list".to_owned(), &field.key.shape);
    }
    let mut one = |node| {
        let read = Match::read(reader, Field { node, ..field });
        read.unwrap_or_else(|| Match { at: node.at, ..Match::default() })
    };
    Some(items.iter().map(&mut one).collect())
}

fn host_pattern(text: &str) -> Result<HostPattern, ScalarError> {
    no_port(text)?;
    host::pattern(text)
}

fn named(host: Spanned<HostPattern>) -> Option<Spanned<String>> {
    match host.value {
        HostPattern::Any => None,
        HostPattern::Name(value) => Some(Spanned { value, at: host.at }),
    }
}

/// Reads the short form: `api.example.com/v1/*`, `api.example.com`, `/v1/*`, `*`. A part that is invalid is left
/// out.
fn short(reader: &mut Reader, node: &Node, shape: &Shape) -> Match {
    let mut out = Match { at: node.at, ..Match::default() };
    let Some((host_text, path_text)) = reader.parsed(node, "`match`", shape, split) else { return out };
    let at = host_text.chars().count();
    if !host_text.is_empty() {
        let read = reader.parsed(node, "`match`", shape, |_| host::pattern(&host_text));
        out.host = read.and_then(|value| named(Spanned { value, at: node.part(0, at) }));
    }
    if path_text.is_empty() {
        return out;
    }
    let read =
        reader.parsed(node, "`match`", shape, |_| short_path(&path_text).map_err(|fault| fault.shifted(at)));
    if let Some(value) = read {
        trailing_slash(reader, node, at, &path_text, &value);
        out.is_short_exact = value.is_exact();
        out.path = Some(Spanned { value, at: node.part(at, path_text.chars().count()) });
    }
    out
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
    fn errors_suggest_what_to_write() {
        assert_eq!(split("a.b:80/x").unwrap_err().suggestion.as_deref(), Some("write `a.b/x`"));
        assert_eq!(
            split("GET /x").unwrap_err().suggestion.as_deref(),
            Some("write `match: {method: GET, path: /x}`")
        );
    }
}
