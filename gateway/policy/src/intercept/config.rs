//! The settings of `intercept`.

use std::sync::Arc;

use regex::bytes::Regex;
use tollgate_config::section::{
    Field, Fields, KeySpec, Problem, Reader, ScalarError, Section, Shape, Value, Word, header, one_or_many,
    pattern, replacement,
};

use super::{InterceptRule, InterceptRules, Location};
use crate::policy_config::{Compilation, PolicyConfig, policy_key};
use crate::texts::method;
use crate::{Planned, Template};

/// Maximum bytes of a response body; every worker holds a copy.
const BODY_MAX: usize = 64 << 10;

/// The rules, in the order tried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InterceptSettings(Vec<InterceptRuleSettings>);

/// A rule that answers requests. All of its conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(
    name = "intercept_rule", noun = "a rule of `intercept`", at_most_one = ["location", "replace"], check = check,
)]
struct InterceptRuleSettings {
    /// A regular expression that occurs in the path or the query.
    #[key(
        expected = "a regular expression such as `^/old/(.*)$`", pattern = ".", parse = regex,
        also = ["block_rules", "request_uri", "url"],
    )]
    uri: Option<String>,
    /// A regular expression that occurs in the path.
    #[key(
        expected = "a regular expression such as `^/old/(.*)$`", pattern = ".", parse = regex,
        also = ["regex", "pattern"],
    )]
    path: Option<String>,
    /// Scheme of the client's request.
    scheme: Option<Scheme>,
    /// The request has one of these methods.
    #[key(
        expected = "a method such as `GET`", pattern = "^[!-~]+$", each = method, what = "a method",
        also = ["method"],
    )]
    methods: Vec<String>,
    /// Status of the response. Default: 302 with `location` or `replace`, otherwise 403.
    #[key(count = 200..=599, also = ["code", "ret_code", "rejected_code"])]
    status: Option<u16>,
    /// `Location` of the response.
    #[key(
        expected = "a URL or a path with placeholders such as `{host}` and `{path}`: `https://{host}{path}`",
        pattern = ".", parse = location, also = ["redirect", "to"],
    )]
    location: Option<Template>,
    /// Replacement for the first match of `path`; the resulting path is the response's `Location`.
    #[key(expected = "a text with capture groups such as `$1`", parse = replaced, also = ["replacement"])]
    replace: Option<String>,
    /// Whether the request's query is appended to `Location`.
    #[key(default = off, also = ["append_query_string", "query"])]
    keep_query: bool,
    /// Body of the response, up to 64 KiB.
    #[key(expected = "a text", loose, parse = body, also = ["rejected_msg", "message", "text"])]
    body: Option<String>,
    /// The body's `Content-Type`.
    #[key(
        expected = "a media type such as `application/json`", pattern = "/", parse = media,
        default = "text/plain; charset=utf-8",
    )]
    content_type: String,
}

/// `scheme`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
enum Scheme {
    Http,
    Https,
}

impl Value for InterceptSettings {
    const SHAPE: Shape = {
        const RULE: Shape = Shape::Section(InterceptRuleSettings::SPEC);
        Shape::AnyOf(&[Shape::Off, RULE, Shape::ListOf(&RULE)])
    };

    fn read(reader: &mut Reader, field: Field<'_>) -> Option<Self> {
        if one_or_many(field.node).is_empty() {
            reader.missing(field.at, "`intercept` is an empty list".to_owned(), &field.key.shape);
        }
        let rules = reader.bounded_items(field.node, "`intercept`");
        Some(Self(
            rules.iter().filter_map(|rule| InterceptRuleSettings::read_section(reader, rule)).collect(),
        ))
    }
}

impl InterceptRuleSettings {
    fn status(&self) -> u16 {
        let leads = self.location.is_some() || self.replace.is_some();
        self.status.unwrap_or(if leads { 302 } else { 403 })
    }
}

impl PolicyConfig for InterceptSettings {
    const KEY: KeySpec = policy_key::<Self>(
        "intercept",
        "Answers requests before they are forwarded, by path, query, method or scheme.",
    )
    .aliases(&["uri_blocker", "uri-blocker", "block", "deny_uris", "http_to_https"]);

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let rule = |rule: &InterceptRuleSettings| {
            // The reader has checked them.
            let regex = |text: &Option<String>| text.as_deref().and_then(|text| Regex::new(text).ok());
            let location = match (&rule.location, &rule.replace) {
                (Some(location), _) => Some(Location::To(location.clone())),
                // A replaced path must obey the gateway's rules for paths.
                (None, Some(replace)) => {
                    Some(Location::Replaced(replace.as_bytes().into(), *compilation.paths))
                }
                (None, None) => None,
            };
            InterceptRule {
                uri: regex(&rule.uri),
                path: regex(&rule.path),
                secure: rule.scheme.map(|scheme| scheme == Scheme::Https),
                methods: rule.methods.iter().map(|method| method.as_bytes().into()).collect(),
                status: rule.status(),
                location,
                keep_query: rule.keep_query,
                body: rule.body.as_deref().unwrap_or_default().as_bytes().into(),
                content_type: rule.content_type.as_str().into(),
            }
        };
        Arc::new(InterceptRules { rules: self.0.iter().map(rule).collect() })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, rule: &mut InterceptRuleSettings) {
    if let Some(field) = fields.get("replace") {
        check_groups(reader, field, rule);
        if fields.get("path").is_none() {
            let problem = Problem::error(field.at, "`replace` needs `path`: it replaces the match");
            reader.problems.push(problem);
        }
    }
    let has_body = rule.body.as_deref().is_some_and(|body| !body.is_empty());
    if let Some(field) = fields.get("body").filter(|_| has_body)
        && matches!(rule.status(), 204 | 205 | 304)
    {
        let message = format!("a response of status {} has no body", rule.status());
        reader.problems.push(Problem::error(field.at, message));
    }
}

/// Reports a replacement that refers to a group that the pattern does not have.
fn check_groups(reader: &mut Reader, field: Field<'_>, rule: &InterceptRuleSettings) {
    let (Some(replace), Some(path)) = (&rule.replace, &rule.path) else { return };
    let Ok(pattern) = pattern::regex(path, false) else { return };
    let missing =
        replacement::references(replace).into_iter().find(|one| !pattern::has_group(&pattern, &one.group));
    if let (Some(one), Some(scalar)) = (missing, field.node.scalar()) {
        let fault =
            ScalarError::new("{} names a group that `path` does not have").part(one.start, one.length);
        reader.fault(field.node, scalar, fault, field.key.shape.expected_scalar());
    }
}

fn regex(text: &str) -> Result<String, ScalarError> {
    pattern::regex(text, false).map(|_| text.to_owned())
}

fn in_url(text: &str) -> Result<(), ScalarError> {
    match text.chars().position(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        None => Ok(()),
        Some(odd) => {
            let fault = ScalarError::new("{} has a character that is not allowed in URLs").part(odd, 1);
            Err(fault.help("encode each byte as `%` and two hexadecimal digits"))
        }
    }
}

fn location(text: &str) -> Result<Template, ScalarError> {
    in_url(text)?;
    if !text.starts_with(['/', '{']) && !text.contains("://") {
        let fault = ScalarError::new("{} is neither a URL nor a path");
        return Err(fault.suggest(format!("write `https://{text}` or `/{text}`")));
    }
    Template::parse_header(text)
}

fn replaced(text: &str) -> Result<String, ScalarError> {
    in_url(text).map(|()| text.to_owned())
}

fn body(text: &str) -> Result<String, ScalarError> {
    match text.len() > BODY_MAX {
        true => Err(ScalarError::new("{} is larger than 64 KiB")),
        false => Ok(text.to_owned()),
    }
}

fn media(text: &str) -> Result<String, ScalarError> {
    match header::value(text)? {
        value if value.contains('/') => Ok(value),
        _ => Err(ScalarError::new("{} is not a media type")),
    }
}
