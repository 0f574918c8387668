//! Reads `intercept`.

use super::authorize::method;
use crate::model::{Intercept, InterceptRule};
use crate::problem::Problem;
use crate::reader::{Field, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header, pattern, replacement, value_template};
use crate::spec::{INTERCEPT, Shape};
use crate::tree::Node;

/// Maximum bytes of a response body; every worker holds a copy.
const BODY: usize = 64 << 10;

pub(super) fn intercept(reader: &mut Reader, field: Field<'_>) -> Option<Intercept> {
    let items = one_or_many(field.node);
    if items.is_empty() {
        reader.missing(field.at, "`intercept` is an empty list".to_owned(), &field.key.shape);
    }
    Some(Intercept {
        rules: reader
            .bounded_items(field.node, "`intercept`")
            .iter()
            .filter_map(|node| rule(reader, node))
            .collect(),
    })
}

fn rule(reader: &mut Reader, node: &Node) -> Option<InterceptRule> {
    let fields = reader.fields(node, &INTERCEPT)?;
    let regex = |text: &str| pattern::regex(text, false).map(|_| text.to_owned());
    let mut out = InterceptRule {
        uri: fields.get("uri").and_then(|field| reader.field(field, regex)),
        path: fields.get("path").and_then(|field| reader.field(field, regex)),
        secure: reader.word(fields.get("scheme")).map(|scheme| scheme == "https"),
        location: fields.get("location").and_then(|field| reader.field(field, location)),
        content_type: "text/plain; charset=utf-8".to_owned(),
        ..InterceptRule::default()
    };
    if let Some(field) = fields.get("methods") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        for item in one_or_many(field.node) {
            out.methods.extend(reader.parsed(item, "a method", one, method));
        }
    }
    if let Some(field) = fields.get("replace") {
        let groups = out.path.as_deref().and_then(|path| pattern::regex(path, false).ok());
        out.replace = reader.field(field, |text| replaced(text, groups.as_ref()));
        if fields.get("path").is_none() {
            let problem = Problem::error(field.at, "`replace` needs `path`: it replaces the match");
            reader.problems.push(problem);
        }
    }
    out.status = if fields.get("location").is_some() || fields.get("replace").is_some() { 302 } else { 403 };
    reader.number_into(fields.get("status"), &mut out.status);
    reader.switch(fields.get("keep_query"), &mut out.keep_query);
    if let Some(field) = fields.get("body") {
        out.body = reader.field(field, body).unwrap_or_default();
        if matches!(out.status, 204 | 205 | 304) && !out.body.is_empty() {
            let message = format!("a response of status {} has no body", out.status);
            reader.problems.push(Problem::error(field.at, message));
        }
    }
    if let Some(value) = fields.get("content_type").and_then(|field| reader.field(field, media)) {
        out.content_type = value;
    }
    Some(out)
}

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

/// Checks a replacement; the pattern must have the groups that it refers to.
fn replaced(text: &str, pattern: Option<&regex::Regex>) -> Result<String, ScalarError> {
    if let Some(odd) = text.chars().position(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        let fault = ScalarError::new("{} has a character that is not allowed in URLs").part(odd, 1);
        return Err(fault.help("encode each byte as `%` and two hexadecimal digits"));
    }
    let Some(pattern) = pattern else { return Ok(text.to_owned()) };
    match replacement::references(text).into_iter().find(|one| !pattern::has_group(pattern, &one.group)) {
        None => Ok(text.to_owned()),
        Some(one) => {
            let fault = ScalarError::new("{} names a group that `path` does not have");
            Err(fault.part(one.start, one.length))
        }
    }
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
