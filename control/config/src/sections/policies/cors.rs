//! `cors`: controls which web origins may read responses.

use std::time::Duration;

use crate::scalar::{field as header, pattern};
use crate::section::{Fields, Problem, Reader, ScalarError, Section};
use crate::sections::texts::HEADER_NAME;

/// Controls which web origins may read the responses.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cors_policy", noun = "`cors`", check = check)]
pub struct Cors {
    /// Whether every origin may.
    #[key(skip)]
    pub any: bool,
    /// Allowed origins; `*`: all.
    #[key(
        expected = "an origin such as `https://app.example.com` or `https://*.example.com`, `null`, or `*`",
        pattern = r"^(\*|null|[A-Za-z][A-Za-z0-9+.-]*://\S+)$", loose, each = origin, bounded,
        also = ["origin", "allow_origins", "allowed_origins", "accessControlAllowOriginList"]
    )]
    pub origins: Vec<String>,
    /// Regular expressions for allowed origins; each must match the whole origin.
    #[key(
        name = "regex", expected = "a regular expression such as `https://pr-[0-9]+\\.example\\.com`",
        pattern = ".", loose, each = regex, bounded, also = ["origin_regex", "accessControlAllowOriginListRegex"]
    )]
    pub regexes: Vec<String>,
    /// Methods that pages may use.
    #[key(
        expected = "a method such as `PUT`", pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", each = method, bounded,
        default = "[GET, HEAD, POST]", also = ["allow_methods", "allowed_methods"]
    )]
    pub methods: Vec<String>,
    /// Fields of a request that a page may set; `*`: any.
    #[key(text = HEADER_NAME, each = name_or_any, bounded, also = ["allow_headers", "allowed_headers"])]
    pub headers: Vec<String>,
    /// Response fields that a page may read.
    #[key(text = HEADER_NAME, each = name_or_any, bounded, also = ["expose_headers", "exposed_headers"])]
    pub expose: Vec<String>,
    /// Whether requests may carry credentials such as cookies.
    #[key(default = off, also = ["allow_credentials"])]
    pub credentials: bool,
    /// How long a browser may cache the response to a preflight.
    #[key(time = "0s"..="1d", off, default = off)]
    pub max_age: Option<Duration>,
}

fn check(reader: &mut Reader, fields: &Fields<'_>, cors: &mut Cors) {
    if fields.get("origins").is_none() && fields.get("regex").is_none() {
        let message = "`cors` has neither `origins` nor `regex`: no page may read a response";
        let problem = Problem::error(fields.at, message);
        reader.problems.push(problem.help("write `cors: {origins: https://app.example.com}`"));
    }
    cors.any = cors.origins.iter().any(|origin| origin == "*");
    if let Some(field) = fields.get("credentials").filter(|_| cors.any && cors.credentials) {
        let message = "`credentials` for every origin would let any web page act as its visitor";
        reader.problems.push(Problem::error(field.at, message).help("list the origins that may"));
    }
}

fn regex(text: &str) -> Result<String, ScalarError> {
    pattern::regex(text, true).map(|_| text.to_owned())
}

/// Parses an origin as browsers write it (RFC 6454, 6.2), with an optional `*.` before its host.
fn origin(text: &str) -> Result<String, ScalarError> {
    if matches!(text, "*" | "null") {
        return Ok(text.to_owned());
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(ScalarError::new("{} is not an origin: it has no scheme")
            .suggest(format!("write `https://{text}`")));
    };
    let host = rest.strip_prefix("*.").unwrap_or(rest);
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']' | '_');
    if scheme.is_empty() || host.is_empty() || !host.chars().all(known) {
        let fault = ScalarError::new("{} is not an origin");
        return Err(fault.help("an origin is a scheme, a host and an optional port, with nothing after them"));
    }
    Ok(text.to_ascii_lowercase())
}

/// Parses the name of a field, or `*` for any. The protocol has no other patterns.
fn name_or_any(text: &str) -> Result<String, ScalarError> {
    if text == "*" {
        Ok(text.to_owned())
    } else {
        header::name(text).map_err(|fault| ScalarError { help: None, ..fault })
    }
}

fn method(text: &str) -> Result<String, ScalarError> {
    if header::is_token(text) { Ok(text.to_owned()) } else { Err(ScalarError::new("{} is not a method")) }
}
