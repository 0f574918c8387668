//! Parsers of texts that several policies have.

use tollgate_config::nearest;
use tollgate_config::section::{Field, Reader, ScalarError, header};

/// Fields in which the gateway describes the client: see `forwarded`.
const FORWARDED: [&str; 4] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];

/// Parses the name of a field that a policy may change.
pub(crate) fn changeable_name(text: &str, request: bool) -> Result<String, ScalarError> {
    let name = header::name(text)?;
    if header::is_framing(&name) {
        let fault = ScalarError::new("{} controls the message framing or belongs to one connection");
        return Err(fault.help("only the gateway sets it"));
    }
    if request && name.eq_ignore_ascii_case("host") {
        return Err(
            ScalarError::new("{} cannot be changed here").help("write `rewrite: {host: ...}` at the route")
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

/// Parses the name of a field that the gateway adds to requests.
pub(crate) fn own_header(text: &str) -> Result<String, ScalarError> {
    changeable_name(text, true)
}

/// Parses the name of a cookie.
pub(crate) fn cookie(text: &str) -> Result<String, ScalarError> {
    match header::is_token(text) && !text.contains('*') {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not the name of a cookie")),
    }
}

/// Parses one of these encodings.
pub(crate) fn encoding(text: &str, names: &[&'static str]) -> Result<String, ScalarError> {
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    let fault = ScalarError::new("{} is not an encoding");
    Err(match nearest(text, names.iter().copied()) {
        _ if text == "brotli" => fault.suggest("did you mean `br`?"),
        Some(near) => fault.suggest(format!("did you mean `{near}`?")),
        None => fault,
    })
}

/// Reads a list of at least one entry.
pub(crate) fn nonempty_list(
    reader: &mut Reader,
    field: Field<'_>,
    parse: impl Fn(&str) -> Result<String, ScalarError>,
) -> Vec<String> {
    let name = field.key.name;
    let items = reader.bounded_items(field.node, &format!("`{name}`"));
    if items.is_empty() {
        reader.missing(field.at, format!("`{name}` is an empty list"), &field.key.shape);
    }
    reader.each(items, field, &format!("an entry of `{name}`"), parse)
}

/// Parses a word that is not empty.
pub(crate) fn word(text: &str) -> Result<String, ScalarError> {
    match text.is_empty() {
        true => Err(ScalarError::new("{} is empty")),
        false => Ok(text.to_owned()),
    }
}

/// Parses a method.
pub(crate) fn method(text: &str) -> Result<String, ScalarError> {
    match header::is_token(text) {
        true => Ok(text.to_owned()),
        false => Err(ScalarError::new("{} is not a method")),
    }
}

/// Parses any text.
pub(crate) fn any_text(text: &str) -> Result<String, ScalarError> {
    Ok(text.to_owned())
}
