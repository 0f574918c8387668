//! The settings of `hmac`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_config::nearest;
use tollgate_config::section::{
    Field, KeySpec, Problem, Reader, ScalarError, Section, Shape, Text, header, one_or_many,
};

use super::HmacRules;
use crate::Planned;
use crate::credential::Admission;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Derived components, which are not fields.
const DERIVED: [&str; 7] =
    ["@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"];
static COMPONENT_TEXT: Text = Text {
    expected: "`@method`, `@target-uri`, `@authority`, `@scheme`, `@request-target`, `@path`, `@query` or the name of a field in lower case",
    pattern: Some(
        "^(@(method|target-uri|authority|scheme|request-target|path|query)|[a-z0-9!#$%&'*+.^_`|~-]+)$",
    ),
    loose: false,
};
const COMPONENT: &Shape = &Shape::Text(&COMPONENT_TEXT);

/// Admits requests that are signed with a secret of one of the `consumers` (RFC 9421, `hmac-sha256`).
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "hmac_policy", noun = "`hmac`", switch)]
pub(crate) struct HmacSettings {
    /// Components that a signature must cover.
    #[key(
        shape = Shape::OneOrMany(COMPONENT), read = components,
        default = "[\"@method\", \"@authority\", \"@path\", \"@query\"]",
        also = ["headers", "signed_headers", "covered", "enforce_headers"],
    )]
    components: Vec<String>,
    /// Maximum age of a signature, by its `created`.
    #[key(time = "1s"..="1d", default = "5m", also = ["validity", "clock_skew"])]
    max_age: Duration,
    /// Tolerated difference between the clocks.
    #[key(time = "0s"..="10m", default = "30s")]
    leeway: Duration,
    /// How many nonces are remembered to prevent replays; `off`: signatures need no nonce.
    #[key(count = 1..=10_000_000, off, default = off, also = ["nonce", "replay"])]
    nonces: Option<usize>,
    /// Maximum bytes of a body that is compared with `Content-Digest`, which the signature must cover (413); `off`:
    /// bodies are not checked.
    #[key(
        size = 1..="16MiB", off, default = off, also = ["digest", "content_digest", "validate_request_body"],
    )]
    body: Option<usize>,
    /// The label of the signature. Default: any of the first four signatures.
    #[key(expected = "a label such as `sig1`", pattern = "^[a-z*][a-z0-9_.*-]*$", parse = label)]
    label: Option<String>,
    /// The required `tag`. Default: any.
    #[key(expected = "a text such as `my-app`", pattern = "^[ -~]+$", parse = tag)]
    tag: Option<String>,
    /// Whether the signature is forwarded upstream.
    #[key(default = off, also = ["keep", "hide_credentials", "keep_headers"])]
    forward: bool,
    #[key(flatten)]
    admission: Admission,
}

impl PolicyConfig for HmacSettings {
    const KEY: KeySpec = policy_key::<Self>(
        "hmac",
        "Admits requests that are signed with a secret of one of the `consumers` (401).",
    )
    .aliases(&["hmac_auth", "hmac-auth", "signature", "http_signature"]);
    const IS_GUARD: bool = true;

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(HmacRules {
            components: self.components.clone(),
            label: self.label.clone(),
            tag: self.tag.clone(),
            max_age: self.max_age,
            leeway: self.leeway,
            nonces: self.nonces,
            body: self.body,
            forward: self.forward,
            optional: self.admission.optional,
            identity: self.admission.identity.compile(),
            consumers: compilation.consumers.clone(),
        })
    }
}

fn components(reader: &mut Reader, field: Field<'_>) -> Option<Vec<String>> {
    let items = one_or_many(field.node);
    let mut components = reader.each(items, field, "an entry of `components`", component);
    components.dedup();
    if items.is_empty() {
        let problem = Problem::error(field.at, "a signature must cover at least one component");
        reader.problems.push(problem.help("remove `components`, or name some"));
    }
    Some(components)
}

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
    Err(match nearest(text, DERIVED.into_iter()) {
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
