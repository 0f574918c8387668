//! Conditions on values of headers and query parameters.

use crate::model::{FieldMatch, ValueMatch};
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::scalar::{ScalarError, field as header, pattern};
use crate::spec::{CONDITION, Shape, header_name};
use crate::tree::{MappingEntry, NodeKind, shown};

/// Maximum number of conditions of one kind.
const CONDITIONS_MAX: usize = 256;

/// Reads the `headers` of a match.
pub(super) fn headers(reader: &mut Reader, field: Field<'_>) -> Vec<FieldMatch> {
    let mut out: Vec<FieldMatch> = Vec::new();
    for entry in entries(reader, field) {
        if let Err(fault) = header::name(&entry.key) {
            let at = entry.at;
            let message = fault.message.replacen("{}", &shown(&entry.key), 1);
            reader.problems.push(Problem::error(at, message).expected(header_name()));
            continue;
        }
        let name = entry.key.to_ascii_lowercase();
        if let Some(twin) = out.iter().find(|other| other.name == name) {
            let message = format!("the header {} is given twice", shown(&entry.key));
            reader.problems.push(
                Problem::error(entry.at, message)
                    .help("upper and lower case make no difference in header names")
                    .related(twin.at, "first written here"),
            );
            continue;
        }
        if let Some(value) = value(reader, entry, field) {
            out.push(FieldMatch { name, value, at: entry.at });
        }
    }
    out
}

/// Reads the `query` of a match.
pub(super) fn query(reader: &mut Reader, field: Field<'_>) -> Vec<FieldMatch> {
    let mut out = Vec::new();
    for entry in entries(reader, field) {
        if let Some(value) = value(reader, entry, field) {
            out.push(FieldMatch { name: entry.key.clone(), value, at: entry.at });
        }
    }
    out
}

fn entries<'t>(reader: &mut Reader, field: Field<'t>) -> &'t [MappingEntry] {
    match &field.node.kind {
        NodeKind::Map(entries) => {
            // More fields than any request carries; the conditions are compared with each other.
            if let Some(extra) = entries.get(CONDITIONS_MAX) {
                let message = format!("`{}` has more than {CONDITIONS_MAX} conditions", field.key.name);
                reader.problems.push(Problem::error(extra.at, message));
            }
            &entries[..entries.len().min(CONDITIONS_MAX)]
        }
        _ => {
            let what = format!("`{}`", field.key.name);
            reader.mismatch(field.node, &what, field.key.shape.expected());
            &[]
        }
    }
}

fn value(reader: &mut Reader, entry: &MappingEntry, field: Field<'_>) -> Option<ValueMatch> {
    let inner = if let Shape::MapOf(inner) = field.key.shape { inner } else { &field.key.shape };
    if matches!(entry.value.kind, NodeKind::Map(_)) {
        let fields = reader.fields(&entry.value, &CONDITION)?;
        if let Some(exact) = fields.get("exact") {
            return reader.field(exact, text).map(ValueMatch::Exact);
        }
        if let Some(regex) = fields.get("regex") {
            return reader
                .field(regex, |text| pattern::regex(text, true).map(|_| ValueMatch::Regex(text.to_owned())));
        }
        let mut present = true;
        reader.switch(Some(fields.get("present")?), &mut present);
        return Some(if present { ValueMatch::Present } else { ValueMatch::Absent });
    }
    let scalar = reader.scalar(&entry.value, &shown(&entry.key), inner)?;
    // Bare words mean presence, not a value; quotes make them text.
    match (scalar.quoted, scalar.text.to_ascii_lowercase().as_str()) {
        (false, "true" | "present") => Some(ValueMatch::Present),
        (false, "false" | "absent") => {
            let problem = Problem::error(
                entry.value.at,
                format!("{} could mean a text or the absence of one", scalar.shown()),
            );
            reader.problems.push(
                problem
                    .help("write `{present: false}` if there must be none")
                    .help(format!("write `\"{}\"` for the text", scalar.text)),
            );
            None
        }
        _ => reader.parsed(&entry.value, &shown(&entry.key), inner, text).map(ValueMatch::Exact),
    }
}

fn text(text: &str) -> Result<String, ScalarError> {
    match text.chars().position(|c| c.is_control() && c != '\t') {
        Some(odd) => {
            Err(ScalarError::new("{} has a control character, so no request can match").part(odd, 1))
        }
        None => Ok(text.to_owned()),
    }
}
