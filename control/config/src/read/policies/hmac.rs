//! Reads `hmac`.

use super::shared::{identity, optional};
use crate::model::Hmac;
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header};
use crate::sections::consumers::texts;
use crate::spec::HMAC_POLICY;
use crate::suggest;

/// Derived components, which are not fields.
const DERIVED: [&str; 7] =
    ["@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"];

pub(super) fn hmac(reader: &mut Reader, field: Field<'_>) -> Option<Hmac> {
    let mut out = Hmac::default();
    let Some(fields) = optional(reader, field, &HMAC_POLICY)? else { return Some(out) };
    if let Some(field) = fields.get("components") {
        out.components = texts(reader, Some(field), component);
        out.components.dedup();
        if one_or_many(field.node).is_empty() {
            let problem = Problem::error(field.at, "a signature must cover at least one component");
            reader.problems.push(problem.help("remove `components`, or name some"));
        }
    }
    reader.time_into(fields.get("max_age"), &mut out.max_age);
    reader.time_into(fields.get("leeway"), &mut out.leeway);
    reader.optional_into(fields.get("nonces"), &mut out.nonces);
    reader.optional_into(fields.get("body"), &mut out.body);
    out.label = fields.get("label").and_then(|field| reader.field(field, label));
    out.tag = fields.get("tag").and_then(|field| reader.field(field, tag));
    reader.switch(fields.get("forward"), &mut out.forward);
    reader.switch(fields.get("optional"), &mut out.optional);
    out.identity = identity(reader, &fields);
    Some(out)
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
