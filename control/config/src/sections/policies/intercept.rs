//! `intercept`: answers requests before they are forwarded.

use crate::read::policies::method;
use crate::scalar::{field as header, pattern, replacement, value_template};
use crate::section::{Field, Fields, Problem, Reader, ScalarError, Section, Shape, Text, Value, one_or_many};

static REGEX: Text =
    Text { expected: "a regular expression such as `^/old/(.*)$`", pattern: Some("."), loose: false };
static RULE: Shape = Shape::Section(InterceptRule::SPEC);

/// Answers requests before they are forwarded. The first rule that matches applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intercept {
    /// The rules, in the order tried.
    pub rules: Vec<InterceptRule>,
}

impl Value for Intercept {
    const SHAPE: Shape =
        Shape::AnyOf(&[Shape::Off, Shape::Section(InterceptRule::SPEC), Shape::ListOf(&RULE)]);

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if one_or_many(field.node).is_empty() {
            reader.missing(field.at, "`intercept` is an empty list".to_owned(), &field.key.shape);
        }
        let items = reader.list_items(field, true, false);
        Some(Self { rules: items.iter().filter_map(|item| Section::read_section(reader, item)).collect() })
    }
}

/// A rule that answers requests. All of its conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(
    noun = "a rule of `intercept`", at_most_one = ["location", "replace"], name = "intercept_rule", check = check
)]
pub struct InterceptRule {
    /// A regular expression that occurs in the path or the query.
    #[key(text = REGEX, parse = regex, also = ["block_rules", "request_uri", "url"])]
    pub uri: Option<String>,
    /// A regular expression that occurs in the path.
    #[key(text = REGEX, parse = regex, also = ["regex", "pattern"])]
    pub path: Option<String>,
    /// Scheme of the client's request.
    #[key(name = "scheme", shape = Shape::Word(&["http", "https"]), read = is_secure)]
    pub secure: Option<bool>,
    /// The request has one of these methods.
    #[key(expected = "a method such as `GET`", pattern = "^[!-~]+$", each = method, what = "a method", also = ["method"])]
    pub methods: Vec<String>,
    /// Status of the response. Default: 302 with `location` or `replace`, otherwise 403.
    #[key(count = 200..=599, also = ["code", "ret_code", "rejected_code"])]
    pub status: u16,
    /// `Location` of the response.
    #[key(
        expected = "a URL or a path with placeholders such as `{host}` and `{path}`: `https://{host}{path}`",
        pattern = ".", parse = location, also = ["redirect", "to"]
    )]
    pub location: Option<String>,
    /// Replacement for the first match of `path`; the resulting path is the response's `Location`.
    #[key(expected = "a text with capture groups such as `$1`", parse = replacement_text, also = ["replacement"])]
    pub replace: Option<String>,
    /// Whether the request's query is appended to `Location`.
    #[key(default = off, also = ["append_query_string", "query"])]
    pub keep_query: bool,
    /// Body of the response, up to 64 KiB.
    #[key(expected = "a text", loose, parse = body, also = ["rejected_msg", "message", "text"])]
    pub body: Vec<u8>,
    /// The body's `Content-Type`.
    #[key(
        expected = "a media type such as `application/json`", pattern = "/",
        parse = media, default = "text/plain; charset=utf-8"
    )]
    pub content_type: String,
}

fn check(reader: &mut Reader, fields: &Fields<'_>, rule: &mut InterceptRule) {
    if let Some(field) = fields.get("replace") {
        let pattern = rule.path.as_deref().and_then(|path| pattern::regex(path, false).ok());
        if let (Some(text), Some(pattern)) = (&rule.replace, pattern) {
            let missing = |one: &replacement::GroupReference| !pattern::has_group(&pattern, &one.group);
            let missing = replacement::references(text).into_iter().find(missing);
            let fault = missing.map(|one| {
                let fault = ScalarError::new("{} names a group that `path` does not have");
                fault.part(one.start, one.length)
            });
            rule.replace = reader.field(field, |text| fault.map_or_else(|| Ok(text.to_owned()), Err));
        }
        if fields.get("path").is_none() {
            let problem = Problem::error(field.at, "`replace` needs `path`: it replaces the match");
            reader.problems.push(problem);
        }
    }
    if rule.status == 0 {
        let leads_away = fields.get("location").is_some() || fields.get("replace").is_some();
        rule.status = if leads_away { 302 } else { 403 };
    }
    if let Some(field) = fields.get("body").filter(|_| !rule.body.is_empty())
        && matches!(rule.status, 204 | 205 | 304)
    {
        let message = format!("a response of status {} has no body", rule.status);
        reader.problems.push(Problem::error(field.at, message));
    }
}

fn is_secure(reader: &mut Reader, field: Field<'_>) -> Option<bool> {
    reader.word(Some(field)).map(|scheme| scheme == "https")
}

fn regex(text: &str) -> Result<String, ScalarError> {
    pattern::regex(text, false).map(|_| text.to_owned())
}

fn replacement_text(text: &str) -> Result<String, ScalarError> {
    match text.chars().position(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        Some(odd) => Err(ScalarError::new("{} has a character that is not allowed in URLs")
            .part(odd, 1)
            .help("encode each byte as `%` and two hexadecimal digits")),
        None => Ok(text.to_owned()),
    }
}

/// Maximum bytes of a response body; every worker holds a copy.
const BODY: usize = 64 << 10;

fn location(text: &str) -> Result<String, ScalarError> {
    if let Some(odd) = text.chars().position(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        let fault = ScalarError::new("{} has a character that is not allowed in URLs").part(odd, 1);
        return Err(fault.help("encode each byte as `%` and two hexadecimal digits"));
    }
    if !text.starts_with(['/', '{']) && !text.contains("://") {
        let fault = ScalarError::new("{} is neither a URL nor a path");
        return Err(fault.suggest(format!("write `https://{text}` or `/{text}`")));
    }
    value_template::header_value(text)
}

fn body(text: &str) -> Result<Vec<u8>, ScalarError> {
    if text.len() > BODY {
        Err(ScalarError::new("{} is larger than 64 KiB"))
    } else {
        Ok(text.as_bytes().to_vec())
    }
}

fn media(text: &str) -> Result<String, ScalarError> {
    match header::value(text)? {
        value if value.contains('/') => Ok(value),
        _ => Err(ScalarError::new("{} is not a media type")),
    }
}
