//! `headers`: changes header fields of requests and responses.

use crate::reader::misnamed;
use crate::scalar::{field as header, value_template};
use crate::section::{Field, Fields, NodeKind, Problem, Reader, ScalarError, Section, Text, one_or_many};
use crate::sections::texts::HEADER_NAME;

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
/// Fields in which the gateway describes the client: see `forwarded`.
const FORWARDED: [&str; 4] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];

/// Changes fields of requests on their way upstream and of responses on their way back.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "headers_policy", noun = "`headers`", check = check)]
pub struct Headers {
    /// Changes of requests.
    #[key(read = request)]
    pub request: HeaderChange,
    /// Changes of responses, including the gateway's own.
    pub response: HeaderChange,
}

/// Changes of a message's fields, in this order: `remove`, `set`, `add`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(noun = "a change of headers")]
pub struct HeaderChange {
    /// Fields to remove; `X-Debug-*` is every field whose name begins with `X-Debug-`.
    #[key(text = HEADER_NAME, each = removal_pattern, what = "a field", also = ["delete", "unset", "hide"])]
    pub remove: Vec<String>,
    /// Fields that replace existing fields of the same name.
    #[key(text = VALUE, pairs = (name, value_template::header_value), also = ["replace", "overwrite"])]
    pub set: Vec<(String, String)>,
    /// Fields that are added to existing fields of the same name.
    #[key(text = VALUE, pairs = (name, value_template::header_value), also = ["append"])]
    pub add: Vec<(String, String)>,
}

fn check(reader: &mut Reader, fields: &Fields<'_>, _: &mut Headers) {
    if fields.get("request").is_none() && fields.get("response").is_none() {
        let problem = Problem::error(fields.at, "`headers` has neither `request` nor `response`");
        reader.problems.push(problem.help("write `headers: {response: {set: {X-Frame-Options: DENY}}}`"));
    }
}

/// Reads changes of requests, which may not change some more fields.
fn request(reader: &mut Reader, field: Field<'_>) -> Option<HeaderChange> {
    let fields = reader.fields_of(field, HeaderChange::SPEC)?;
    if let Some(field) = fields.get("remove") {
        for item in one_or_many(field.node) {
            // An invalid name is reported below.
            if item.scalar().is_some_and(|scalar| !scalar.text.ends_with('*') && name(&scalar.text).is_ok()) {
                reader.parsed(item, "a field", field.key.shape.one(), own_header);
            }
        }
    }
    for field in ["set", "add"].into_iter().filter_map(|name| fields.get(name)) {
        let NodeKind::Map(entries) = &field.node.kind else { continue };
        for entry in entries.iter().filter(|entry| name(&entry.key).is_ok()) {
            if let Err(fault) = own_header(&entry.key) {
                reader.problems.push(misnamed(entry.at, &entry.key, fault));
            }
        }
    }
    HeaderChange::read_keys(reader, &fields)
}

/// Parses a field to remove, or a prefix of names. A prefix spares the fields that a policy may not change.
fn removal_pattern(text: &str) -> Result<String, ScalarError> {
    if text.ends_with('*') { header::name_or_begin(text) } else { name(text) }
}

/// Checks the name of a field that a policy may change.
fn name(text: &str) -> Result<String, ScalarError> {
    let name = header::name(text)?;
    match header::is_framing(&name) {
        true => Err(ScalarError::new("{} controls the message framing or belongs to one connection")
            .help("only the gateway sets it")),
        false => Ok(name),
    }
}

/// Checks the name of a request field that a policy may read and write.
pub(crate) fn own_header(text: &str) -> Result<String, ScalarError> {
    let name = name(text)?;
    if name.eq_ignore_ascii_case("host") {
        return Err(
            ScalarError::new("{} is not changed here").help("write `rewrite: {host: ...}` at the route")
        );
    }
    if name.eq_ignore_ascii_case("expect") {
        return Err(ScalarError::new("{} concerns only the client and the gateway"));
    }
    if FORWARDED.iter().any(|forwarded| forwarded.eq_ignore_ascii_case(&name)) {
        return Err(ScalarError::new("{} describes the client, and only the gateway sets it")
            .help("configure it under `forwarded`"));
    }
    if name.eq_ignore_ascii_case("cdn-loop") {
        return Err(ScalarError::new("{} detects loops and must not be changed (RFC 8586)"));
    }
    Ok(name)
}
