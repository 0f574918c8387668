//! The settings of `cors`.

use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use tollgate_config::section::{
    Fields, HEADER_NAME, KeySpec, Problem, Reader, ScalarError, Section, header, pattern,
};

use super::{CorsRules, OriginPattern};
use crate::Planned;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Controls which web origins may read the responses.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "cors_policy", noun = "`cors`", check = check)]
pub(crate) struct CorsSettings {
    /// Allowed origins; `*`: all.
    #[key(
        expected = "an origin such as `https://app.example.com` or `https://*.example.com`, `null`, or `*`",
        pattern = r"^(\*|null|[A-Za-z][A-Za-z0-9+.-]*://\S+)$", loose, each = origin, bounded,
        also = ["origin", "allow_origins", "allowed_origins", "accessControlAllowOriginList"],
    )]
    origins: Vec<String>,
    /// Regular expressions for allowed origins; each must match the whole origin.
    #[key(
        expected = "a regular expression such as `https://pr-[0-9]+\\.example\\.com`", pattern = ".", loose,
        each = regex, bounded, also = ["origin_regex", "accessControlAllowOriginListRegex"],
    )]
    regex: Vec<String>,
    /// Methods that pages may use; `*`: any.
    #[key(
        expected = "a method such as `PUT`", pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        each = method, bounded, default = "[GET, HEAD, POST]", also = ["allow_methods", "allowed_methods"],
    )]
    methods: Vec<String>,
    /// Fields of a request that a page may set; `*`: any.
    #[key(text = HEADER_NAME, each = name_or_any, bounded, also = ["allow_headers", "allowed_headers"])]
    headers: Vec<String>,
    /// Response fields that a page may read.
    #[key(text = HEADER_NAME, each = name_or_any, bounded, also = ["expose_headers", "exposed_headers"])]
    expose: Vec<String>,
    /// Whether requests may carry credentials such as cookies.
    #[key(default = off, also = ["allow_credentials"])]
    credentials: bool,
    /// How long a browser may cache the response to a preflight.
    #[key(time = "0s"..="1d", off, default = off)]
    max_age: Option<Duration>,
}

impl CorsSettings {
    fn allows_any(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }
}

impl PolicyConfig for CorsSettings {
    const KEY: KeySpec = policy_key::<Self>("cors", "Controls which web origins may read responses.")
        .aliases(&["cross_origin"]);

    fn compile(&self, _: &mut Compilation<'_>) -> Arc<dyn Planned> {
        let exact = self.origins.iter().map(|origin| match origin.split_once("://*.") {
            Some((scheme, host)) => {
                OriginPattern::Below(format!("{scheme}://").into(), format!(".{host}").into())
            }
            None => OriginPattern::Exactly(origin.as_str().into()),
        });
        // The reader has checked the patterns. A pattern that is too large for the library is dropped, and so admits
        // no origin.
        let regexes = self.regex.iter().filter_map(|regex| Regex::new(&format!("^(?:{regex})$")).ok());
        Arc::new(CorsRules {
            any: self.allows_any(),
            origins: exact.chain(regexes.map(OriginPattern::Matching)).collect(),
            any_method: self.methods.iter().any(|method| method == "*"),
            methods: self.methods.join(", "),
            any_header: self.headers.iter().any(|name| name == "*"),
            headers: self.headers.join(", "),
            expose: self.expose.join(", "),
            credentials: self.credentials,
            max_age: self.max_age.map(|age| age.as_secs()),
        })
    }
}

fn check(reader: &mut Reader, fields: &Fields<'_>, cors: &mut CorsSettings) {
    if fields.get("origins").is_none() && fields.get("regex").is_none() {
        let message = "`cors` has neither `origins` nor `regex`: no page may read a response";
        let problem = Problem::error(fields.at, message);
        reader.problems.push(problem.help("write `cors: {origins: https://app.example.com}`"));
    }
    if cors.allows_any()
        && cors.credentials
        && let Some(field) = fields.get("credentials")
    {
        let message = "`credentials` for every origin would let any web page act as its visitor";
        reader.problems.push(Problem::error(field.at, message).help("list the origins that may"));
    }
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

fn regex(text: &str) -> Result<String, ScalarError> {
    pattern::regex(text, true).map(|_| text.to_owned())
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
