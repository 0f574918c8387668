//! Reads `cors`.

use crate::model::Cors;
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader};
use crate::scalar::{ScalarError, field as header, pattern};
use crate::spec::{CORS_POLICY, Shape};

pub(super) fn cors(reader: &mut Reader, field: Field<'_>) -> Option<Cors> {
    let fields = reader.fields(field.node, &CORS_POLICY)?;
    let mut out = Cors {
        origins: list(reader, &fields, "origins", origin),
        regexes: list(reader, &fields, "regex", |text| pattern::regex(text, true).map(|_| text.to_owned())),
        methods: list(reader, &fields, "methods", method),
        headers: list(reader, &fields, "headers", name_or_any),
        expose: list(reader, &fields, "expose", name_or_any),
        ..Cors::default()
    };
    if fields.get("origins").is_none() && fields.get("regex").is_none() {
        let problem =
            Problem::error(field.at, "`cors` has neither `origins` nor `regex`: no page may read a response");
        reader.problems.push(problem.help("write `cors: {origins: https://app.example.com}`"));
    }
    if fields.get("methods").is_none() {
        out.methods = ["GET", "HEAD", "POST"].map(str::to_owned).to_vec();
    }
    reader.switch(fields.get("credentials"), &mut out.credentials);
    reader.duration_into(fields.get("max_age"), &mut out.max_age);
    out.any = out.origins.iter().any(|origin| origin == "*");
    if out.any
        && out.credentials
        && let Some(field) = fields.get("credentials")
    {
        let message = "`credentials` for every origin would let any web page act as its visitor";
        reader.problems.push(Problem::error(field.at, message).help("list the origins that may"));
    }
    Some(out)
}

fn list(
    reader: &mut Reader,
    fields: &Fields<'_>,
    name: &str,
    parse: impl Fn(&str) -> Result<String, ScalarError>,
) -> Vec<String> {
    let Some(field) = fields.get(name) else { return Vec::new() };
    let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
    let what = format!("an entry of `{name}`");
    let items = reader.bounded_items(field.node, &format!("`{name}`"));
    items.iter().filter_map(|item| reader.parsed(item, &what, one, &parse)).collect()
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
