//! Conditions on values of headers and query parameters, in a `match`.

use crate::model::At;
use crate::scalar::{field as header, pattern};
use crate::section::{
    Field, Fields, MappingEntry, NodeKind, Problem, Reader, ScalarError, Section, Shape, Text, shown,
};

use super::texts::HEADER_NAME;

/// Maximum number of conditions of one kind.
const CONDITIONS_MAX: usize = 256;

pub(crate) static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
pub(crate) static REGEX: Text =
    Text { expected: "a regular expression such as `/v[0-9]+/.*`", pattern: Some("."), loose: true };
/// A condition on a value: a text, or a mapping.
pub static VALUE_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&VALUE), Shape::Section(ValueMatch::SPEC)]);

/// A condition on a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// Name of the header or parameter; header names in lower case.
    pub name: String,
    /// Condition on its value.
    pub value: ValueMatch,
    /// Source position of the condition.
    pub at: At,
}

/// A condition on a value. The reader has checked that patterns compile as `^(?:...)$`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatch {
    /// Present with any value (written `true` or `present`, or `{present: true}`).
    Present,
    /// Absent (`{present: false}`).
    Absent,
    /// Exactly this (a string, or `{exact: ...}`).
    Exact(String),
    /// A regular expression that must match the whole value (`{regex: ...}`).
    Regex(String),
    /// Anything but this, or absent (`{not: ...}`).
    NotExact(String),
    /// No value that the regular expression matches as a whole, or absent (`{not_regex: ...}`).
    NotRegex(String),
}

/// Condition on a header or query value. The short form is the exact text, or `true` for any value.
#[derive(Clone, Debug, Section)]
#[section(
    name = "condition", noun = "a condition", exactly_one = ["exact", "regex", "present", "not", "not_regex"],
    makes = ValueMatch, by = condition
)]
struct ConditionKeys {
    /// Exactly this.
    #[key(text = VALUE, parse = text)]
    exact: Option<String>,
    /// A regular expression that the whole value must match.
    #[key(text = REGEX, parse = pattern::whole)]
    regex: Option<String>,
    /// Whether the header or parameter must be present or absent.
    present: Option<bool>,
    /// Anything but this. A request without the header or parameter matches, too.
    #[key(text = VALUE, parse = text, also = ["not_exact", "notexact", "not_equal", "invert_match", "ne"])]
    not: Option<String>,
    /// A regular expression that must not match the whole value. A request without the header or parameter matches,
    /// too.
    #[key(text = REGEX, parse = pattern::whole, also = ["notregex", "not_match"])]
    not_regex: Option<String>,
}

fn condition(_: &mut Reader, _: &Fields<'_>, keys: ConditionKeys) -> Option<ValueMatch> {
    let ConditionKeys { exact, regex, present, not, not_regex } = keys;
    let present = present.map(|present| if present { ValueMatch::Present } else { ValueMatch::Absent });
    let plain = exact.map(ValueMatch::Exact).or(regex.map(ValueMatch::Regex)).or(present);
    plain.or(not.map(ValueMatch::NotExact)).or(not_regex.map(ValueMatch::NotRegex))
}

/// Reads the `headers` of a match.
pub fn headers(reader: &mut Reader, field: Field<'_>) -> Option<Vec<FieldMatch>> {
    let mut out: Vec<FieldMatch> = Vec::new();
    for entry in entries(reader, field) {
        if let Err(fault) = header::name(&entry.key) {
            let at = entry.at;
            let message = fault.message.replacen("{}", &shown(&entry.key), 1);
            reader.problems.push(Problem::error(at, message).expected(HEADER_NAME.expected));
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
    Some(out)
}

/// Reads the `query` of a match.
pub fn query(reader: &mut Reader, field: Field<'_>) -> Option<Vec<FieldMatch>> {
    let mut out = Vec::new();
    for entry in entries(reader, field) {
        if let Some(value) = value(reader, entry, field) {
            out.push(FieldMatch { name: entry.key.clone(), value, at: entry.at });
        }
    }
    Some(out)
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
        return ValueMatch::read_section(reader, &entry.value);
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
