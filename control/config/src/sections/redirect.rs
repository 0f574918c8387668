//! `redirect` of a route.

use crate::position::Spanned;
use crate::scalar::{host, replacement};
use crate::section::{Field, Fields, Problem, Reader, Scalar, ScalarError, Section, Shape, Text, Value};

use super::rewrite::{PathRewrite, PatternKeys, WithGroups, group_uses, new_path, new_prefix, path_rewrite};
use super::texts::{HOST, PLAIN_PATH};

/// Statuses that clients follow automatically (RFC 9110, section 15.4).
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

static LOCATION: Text = Text {
    expected: "a URL or a path such as `https://example.com/new`",
    pattern: Some(r"^\S+$"),
    loose: false,
};

/// A redirect. Parts that are not given are kept from the request. A string is a complete `Location`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308. Default 302.
    pub status: u16,
    /// A complete `Location`, which may refer to capture groups of the route's regular expression:
    /// [`location_replacement`](crate::location_replacement) splits it. The fields below are then unused.
    pub to: Option<Spanned<String>>,
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Path.
    pub path: Option<Spanned<PathRewrite>>,
}

/// A redirect: a complete `to`, or parts. Parts that are not given are kept from the request.
#[derive(Clone, Debug, Section)]
#[section(
    name = "redirect", noun = "a redirect", at_most_one = ["to", "path", "prefix", "regex"], own_forms,
    makes = WithGroups<Redirect>, by = redirect
)]
struct RedirectKeys {
    /// 301, 302, 303, 307 or 308.
    #[key(count = 301..=308, default = 302, also = ["code"])]
    status: u16,
    /// A complete `Location`; `$1` is a capture group of the route's own pattern.
    #[key(text = LOCATION, parse = location, also = ["location", "url"])]
    to: Option<Spanned<String>>,
    /// `http` or `https`.
    #[key(shape = Shape::Word(&["http", "https"]), read = scheme)]
    scheme: Option<String>,
    /// The host.
    #[key(text = HOST, parse = host::literal)]
    host: Option<String>,
    /// The port.
    #[key(count = 1..=65_535)]
    port: Option<u16>,
    /// The new path; `$1` is a capture group of the route's own pattern.
    #[key(text = PLAIN_PATH, parse = new_path)]
    path: Option<Spanned<PathRewrite>>,
    /// Replaces the prefix that matched.
    #[key(text = PLAIN_PATH, parse = new_prefix)]
    prefix: Option<Spanned<PathRewrite>>,
    /// A pattern and its replacement.
    #[key(flatten)]
    pattern: PatternKeys,
}

fn redirect(reader: &mut Reader, fields: &Fields<'_>, keys: RedirectKeys) -> Option<WithGroups<Redirect>> {
    let RedirectKeys { status, to, scheme, host, port, path, prefix, pattern } = keys;
    if let (false, Some(field)) = (STATUSES.contains(&status), fields.get("status"))
        && let Some(scalar) = field.node.scalar()
    {
        let message = format!("{} is not the status of a redirect", scalar.shown());
        reader.problems.push(Problem::error(field.node.at, message).expected("301, 302, 303, 307 or 308"));
    }
    if let Some(field) = fields.get("to") {
        for name in ["scheme", "host", "port", "replace"] {
            if let Some(part) = fields.get(name) {
                let problem = Problem::error(part.at, format!("`{name}` and `to` exclude each other"));
                reader.problems.push(problem.related(field.at, "`to` is a complete `Location`"));
            }
        }
        let value = Redirect { status, to, scheme: None, host: None, port: None, path: None };
        return Some(WithGroups { value, uses: group_uses(field) });
    }
    let changes = ["to", "scheme", "host", "port", "path", "prefix", "regex", "replace"];
    if !changes.iter().any(|name| fields.is_written(name)) {
        reader.problems.push(
            Problem::error(fields.at, "this redirect changes nothing: a client would loop")
                .expected("`to`, or some of `scheme`, `host`, `port`, `path`, `prefix` and `regex`"),
        );
    }
    let WithGroups { value: path, uses } = path_rewrite(reader, fields, path, prefix, pattern);
    Some(WithGroups { value: Redirect { status, to: None, scheme, host, port, path }, uses })
}

/// A complete `Location`, or a mapping.
impl Value for WithGroups<Redirect> {
    const SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&LOCATION), Shape::Section(Self::SPEC)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if field.is_mapping() {
            return Self::read_section(reader, field.node);
        }
        let to = Some(reader.spanned(field, location)?);
        let value = Redirect { status: 302, to, scheme: None, host: None, port: None, path: None };
        Some(Self { value, uses: group_uses(field) })
    }
}

fn scheme(reader: &mut Reader, field: Field<'_>) -> Option<String> {
    reader.word(Some(field)).map(str::to_owned)
}

fn location(text: &str) -> Result<String, ScalarError> {
    let bare = Scalar { text: text.to_owned(), quoted: false, written: None };
    if bare.number().is_some() {
        let fault = ScalarError::new("{} is a status, not a location");
        return Err(fault.suggest(format!("write `redirect: {{status: {text}, to: ...}}`")));
    }
    if let Some(odd) = text.chars().position(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        let fault = ScalarError::new("{} has a character that is not allowed in URLs").part(odd, 1);
        return Err(fault.help("encode each byte as `%` and two hexadecimal digits"));
    }
    let absolute = text.split_once("://").is_some_and(|(scheme, rest)| {
        let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        scheme_ok
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    });
    if !absolute && !text.starts_with('/') {
        let fault = ScalarError::new("{} is neither a URL nor a path");
        return Err(fault.suggest(format!("write `https://{text}` or `/{text}`")));
    }
    replacement::in_location(text)?;
    Ok(text.to_owned())
}
