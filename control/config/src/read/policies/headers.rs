//! Reads `headers`.

use crate::model::{HeaderChange, Headers};
use crate::problem::Problem;
use crate::reader::{Field, Fields, Reader, one_or_many};
use crate::scalar::{ScalarError, field as header, value_template};
use crate::spec::{HEADER_CHANGE, HEADERS_POLICY, Shape};

/// Fields in which the gateway describes the client: see `forwarded`.
const FORWARDED: [&str; 4] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];

pub(super) fn headers(reader: &mut Reader, field: Field<'_>) -> Option<Headers> {
    let fields = reader.fields(field.node, &HEADERS_POLICY)?;
    let request = change(reader, &fields, "request");
    let response = change(reader, &fields, "response");
    if fields.get("request").is_none() && fields.get("response").is_none() {
        let problem = Problem::error(field.at, "`headers` has neither `request` nor `response`");
        reader.problems.push(problem.help("write `headers: {response: {set: {X-Frame-Options: DENY}}}`"));
    }
    Some(Headers { request, response })
}

fn change(reader: &mut Reader, fields: &Fields<'_>, of: &str) -> HeaderChange {
    let mut out = HeaderChange::default();
    let Some(fields) = fields.get(of).and_then(|field| reader.fields(field.node, &HEADER_CHANGE)) else {
        return out;
    };
    let request = of == "request";
    if let Some(field) = fields.get("remove") {
        let one = if let Shape::OneOrMany(one) = field.key.shape { one } else { &field.key.shape };
        for item in one_or_many(field.node) {
            out.remove.extend(reader.parsed(item, "a field", one, |text| removal_pattern(text, request)));
        }
    }
    let mut lines =
        |of| reader.pairs(fields.get(of), |text| name(text, request), value_template::header_value);
    (out.set, out.add) = (lines("set"), lines("add"));
    out
}

/// Parses a field to remove, or a prefix of names. A prefix spares the fields that a policy may not change.
fn removal_pattern(text: &str, request: bool) -> Result<String, ScalarError> {
    if text.ends_with('*') { header::name_or_begin(text) } else { name(text, request) }
}

/// Checks the name of a field that a policy may change.
pub(super) fn name(text: &str, request: bool) -> Result<String, ScalarError> {
    let name = header::name(text)?;
    if header::is_framing(&name) {
        let fault = ScalarError::new("{} controls the message framing or belongs to one connection");
        return Err(fault.help("only the gateway sets it"));
    }
    if request && name.eq_ignore_ascii_case("host") {
        return Err(
            ScalarError::new("{} is not changed here").help("write `rewrite: {host: ...}` at the route")
        );
    }
    if request && name.eq_ignore_ascii_case("expect") {
        return Err(ScalarError::new("{} concerns only the client and the gateway"));
    }
    if request && FORWARDED.iter().any(|forwarded| forwarded.eq_ignore_ascii_case(&name)) {
        return Err(ScalarError::new("{} describes the client, and only the gateway sets it")
            .help("configure it under `forwarded`"));
    }
    if request && name.eq_ignore_ascii_case("cdn-loop") {
        return Err(ScalarError::new("{} detects loops and must not be changed (RFC 8586)"));
    }
    Ok(name)
}
