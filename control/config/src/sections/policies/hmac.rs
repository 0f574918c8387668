//! `hmac`: admits signed requests.

use std::time::Duration;

use super::IdentityHeaders;
use crate::scalar::field as header;
use crate::section::{Field, Problem, Reader, ScalarError, Section, Text};
use crate::suggest;

static COMPONENT: Text = Text {
    expected: "`@method`, `@target-uri`, `@authority`, `@scheme`, `@request-target`, `@path`, `@query` or the name of a field in lower case",
    pattern: Some(
        "^(@(method|target-uri|authority|scheme|request-target|path|query)|[a-z0-9!#$%&'*+.^_`|~-]+)$",
    ),
    loose: false,
};

/// Admits requests that are signed with a secret of one of the `consumers` (RFC 9421, `hmac-sha256`).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "hmac_policy", noun = "`hmac`", switch)]
pub struct Hmac {
    /// Components that a signature must cover.
    #[key(
        text = COMPONENT, list, read = components,
        default = "[\"@method\", \"@authority\", \"@path\", \"@query\"]",
        also = ["headers", "signed_headers", "covered", "enforce_headers"]
    )]
    pub components: Vec<String>,
    /// Maximum age of a signature, by its `created`.
    #[key(time = "1s"..="1d", default = "5m", also = ["validity", "clock_skew"])]
    pub max_age: Duration,
    /// Tolerated difference between the clocks.
    #[key(time = "0s"..="10m", default = "30s")]
    pub leeway: Duration,
    /// How many nonces are remembered to prevent replays; `off`: signatures need no nonce.
    #[key(count = 1..=10_000_000, off, default = off, also = ["nonce", "replay"])]
    pub nonces: Option<usize>,
    /// Maximum bytes of a body that is compared with `Content-Digest`, which the signature must cover (413);
    /// `off`: bodies are not checked.
    #[key(
        size = 1..=16 << 20, off, default = off,
        also = ["digest", "content_digest", "validate_request_body"]
    )]
    pub body: Option<usize>,
    /// The label of the signature. Default: any of the first four signatures.
    #[key(expected = "a label such as `sig1`", pattern = "^[a-z*][a-z0-9_.*-]*$", parse = label)]
    pub label: Option<String>,
    /// The required `tag`. Default: any.
    #[key(expected = "a text such as `my-app`", pattern = "^[ -~]+$", parse = tag)]
    pub tag: Option<String>,
    /// Whether the signature is forwarded upstream.
    #[key(default = off, also = ["keep", "hide_credentials", "keep_headers"])]
    pub forward: bool,
    /// Whether a request without such a credential passes, without a consumer. An invalid credential is still
    /// rejected (401).
    #[key(default = off)]
    pub optional: bool,
    /// Fields that tell the upstream which consumer it is.
    #[key(flatten)]
    pub identity: IdentityHeaders,
}

fn components(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let items = reader.list_items(field, false, false);
    if items.is_empty() {
        let problem = Problem::error(field.at, "a signature must cover at least one component");
        reader.problems.push(problem.help("remove `components`, or name some"));
    }
    let mut out = reader.each(items, field, "an entry of `components`", component);
    out.dedup();
    Some(out)
}

/// Derived components, which are not fields.
const DERIVED: [&str; 7] =
    ["@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"];

fn component(text: &str) -> Result<String, ScalarError> {
    let lower = text.to_ascii_lowercase();
    if !text.starts_with('@') {
        header::name(text)?;
        return match text == lower {
            true => Ok(lower),
            false => Err(ScalarError::new("{} is not in lower case").suggest(format!("write `{lower}`"))),
        };
    }
    if DERIVED.contains(&text) {
        return Ok(lower);
    }
    let fault = ScalarError::new("{} is not a known component");
    Err(match suggest::nearest(text, DERIVED.into_iter()) {
        Some(near) => fault.suggest(format!("did you mean `{near}`?")),
        None => fault,
    })
}

fn label(text: &str) -> Result<String, ScalarError> {
    let first = |c: char| c.is_ascii_lowercase() || c == '*';
    let inner = |c: char| first(c) || c.is_ascii_digit() || "_.-".contains(c);
    match text.starts_with(first) && text.chars().all(inner) {
        true => Ok(text.to_owned()),
        false => {
            Err(ScalarError::new("{} is not a label").help("lower-case letters, digits, `_`, `-`, `.`, `*`"))
        }
    }
}

fn tag(text: &str) -> Result<String, ScalarError> {
    match !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} cannot be a tag")),
    }
}
