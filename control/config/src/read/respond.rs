//! Reads `respond`.

use serde_json::Value;

use crate::model::Respond;
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header, quantity};
use crate::sections::texts::HEADER_NAME;
use crate::spec::{RESPOND, Shape};
use crate::tree::{Node, NodeKind, Scalar, shown};

/// Maximum bytes of a body in a configuration. A larger one belongs on a file server.
const BODY: usize = 1 << 20;

pub(super) fn respond(reader: &mut Reader, field: Field<'_>) -> Option<Respond> {
    over(reader, field, 200)
}

/// Works like [`respond`], and returns the status separately, if one is given: a page for an error otherwise
/// keeps the error's status.
pub(super) fn page(reader: &mut Reader, field: Field<'_>) -> Option<(Respond, Option<u16>)> {
    const NONE: u16 = 0;
    let mut out = over(reader, field, NONE)?;
    let status = Some(out.status).filter(|status| *status != NONE);
    out.status = status.unwrap_or(200);
    Some((out, status))
}

fn over(reader: &mut Reader, field: Field<'_>, status: u16) -> Option<Respond> {
    let mut out = Respond { status, headers: Vec::new(), body: Vec::new() };
    if matches!(field.node.kind, NodeKind::Map(_)) {
        mapping(reader, field, &mut out)?;
    } else if field.node.scalar().is_some_and(|scalar| scalar.number().is_some()) {
        let status = reader.field(field, |text| quantity::count(text, 200, 599))?;
        out.status = u16::try_from(status).unwrap_or(200);
    } else {
        out.body = reader.field(field, text)?;
    }
    let typed = out.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !out.body.is_empty() {
        out.headers.push(("Content-Type".to_owned(), "text/plain; charset=utf-8".to_owned()));
    }
    Some(out)
}

fn mapping(reader: &mut Reader, field: Field<'_>, out: &mut Respond) -> Option<()> {
    let fields = reader.fields(field.node, &RESPOND)?;
    reader.number_into(fields.get("status"), &mut out.status);
    if let Some(field) = fields.get("headers") {
        headers(reader, field, out);
    }
    if let Some(field) = fields.get("content_type") {
        let value = reader.field(field, |text| match header::value(text) {
            Ok(value) if value.contains('/') => Ok(value),
            Ok(_) => Err(ScalarError::new("{} is not a media type")),
            Err(fault) => Err(fault),
        });
        if out.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            let problem =
                Problem::error(field.at, "`content_type` and a `Content-Type` header exclude each other");
            reader.problems.push(problem);
        }
        out.headers.extend(value.map(|value| ("Content-Type".to_owned(), value)));
    }
    body(reader, &fields, out);
    Some(())
}

fn body(reader: &mut Reader, fields: &Fields<'_>, out: &mut Respond) {
    let field = if let Some(field) = fields.get("json") {
        out.body = json(field.node).to_string().into_bytes();
        if !out.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            out.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
        field
    } else if let Some(field) = fields.get("body") {
        out.body = reader.field(field, text).unwrap_or_default();
        field
    } else {
        return;
    };
    // RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5.
    if matches!(out.status, 204 | 205 | 304) && !out.body.is_empty() {
        let problem = Problem::error(field.at, format!("a response of status {} has no body", out.status));
        reader.problems.push(problem.help("remove the body, or use another status"));
    }
    if out.body.len() > BODY {
        reader.problems.push(Problem::error(field.at, "this body is larger than 1 MiB"));
    }
}

fn text(text: &str) -> Result<Vec<u8>, ScalarError> {
    if text.len() > BODY {
        Err(ScalarError::new("{} is larger than 1 MiB"))
    } else {
        Ok(text.as_bytes().to_vec())
    }
}

fn headers(reader: &mut Reader, field: Field<'_>, out: &mut Respond) {
    let NodeKind::Map(entries) = &field.node.kind else {
        reader.mismatch(field.node, "`headers`", field.key.shape.expected());
        return;
    };
    let one = if let Shape::MapOf(Shape::OneOrMany(one)) = &field.key.shape { one } else { &field.key.shape };
    for entry in entries {
        if header::is_framing(&entry.key) {
            let message = format!("{} cannot be set in a response", shown(&entry.key));
            reader.problems.push(
                Problem::error(entry.at, message)
                    .help("only the gateway controls the message framing: remove it"),
            );
            continue;
        }
        if let Err(fault) = header::name(&entry.key) {
            let message = fault.message.replacen("{}", &shown(&entry.key), 1);
            reader.problems.push(Problem::error(entry.at, message).expected(HEADER_NAME.expected));
            continue;
        }
        for item in one_or_many(&entry.value) {
            let value = reader.parsed(item, &shown(&entry.key), one, header::value);
            out.headers.extend(value.map(|value| (entry.key.clone(), value)));
        }
    }
}

/// Converts YAML's core types to JSON: unquoted text may be a number, `true`, `false` or null.
#[must_use]
pub fn json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Invalid => Value::Null,
        NodeKind::List(items) => items.iter().map(json).collect(),
        NodeKind::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect()
        }
        NodeKind::Scalar(scalar) => plain(scalar),
    }
}

fn plain(scalar: &Scalar) -> Value {
    let text = scalar.text.as_str();
    if scalar.is_null() {
        return Value::Null;
    }
    if scalar.quoted {
        return Value::from(text);
    }
    match text {
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    // JSON's own number grammar; `007` and `1_000` stay text.
    match serde_json::from_str::<Value>(text) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::from(text),
    }
}
