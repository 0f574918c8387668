//! Templates for values of headers and query parameters, with placeholders for parts of the request.

use super::{ScalarError, braces, field};
use crate::suggest;

/// The placeholders, in addition to `header.NAME`, `cookie.NAME` and `query.NAME`.
pub const REQUEST_FIELDS: [&str; 9] =
    ["client", "host", "method", "path", "query", "scheme", "request_id", "route", "consumer"];

/// One piece of such a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePiece {
    /// Literal text.
    Text(String),
    /// One of [`REQUEST_FIELDS`].
    Field(&'static str),
    /// The first header of this name.
    Header(String),
    /// The first cookie of this name.
    Cookie(String),
    /// The first parameter of this name.
    Parameter(String),
}

const BRACES: &str = "`{client}` is a placeholder; write `{{` or `}}` for a literal brace";

/// Splits a template. `{{` and `}}` are literal braces.
///
/// # Errors
/// Returns a message about the first unknown placeholder or unpaired brace.
pub fn value_template(text: &str) -> Result<Vec<ValuePiece>, String> {
    pieces(text).map_err(|fault| fault.message.replacen("{}", "the template", 1))
}

/// Returns the text unchanged if it is a valid template and header value.
pub fn header_value(text: &str) -> Result<String, ScalarError> {
    let value = field::value(text)?;
    pieces(&value).map(|_| value)
}

/// Parses a template.
pub fn pieces(text: &str) -> Result<Vec<ValuePiece>, ScalarError> {
    braces::split(text, BRACES, ValuePiece::Text, |_| Ok(()), piece)
}

fn piece(name: &str) -> Result<ValuePiece, ScalarError> {
    if let Some(header) = name.strip_prefix("header.").filter(|name| field::is_token(name)) {
        return Ok(ValuePiece::Header(header.to_ascii_lowercase()));
    }
    if let Some(cookie) = name.strip_prefix("cookie.").filter(|name| field::is_token(name)) {
        return Ok(ValuePiece::Cookie(cookie.to_owned()));
    }
    if let Some(name) = name.strip_prefix("query.").filter(|name| field::is_token(name)) {
        return Ok(ValuePiece::Parameter(name.to_owned()));
    }
    if let Some(field) = REQUEST_FIELDS.iter().find(|field| **field == name) {
        return Ok(ValuePiece::Field(field));
    }
    let fault = ScalarError::new("{} contains an unknown placeholder");
    Err(match suggest::nearest(name, REQUEST_FIELDS.into_iter()) {
        Some(near) => fault.suggest(format!("did you mean `{{{near}}}`?")),
        None => fault.help(BRACES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split() {
        let got = value_template("{client} {{x}} {header.X-A}/{cookie.b}").unwrap();
        let text = |t: &str| ValuePiece::Text(t.into());
        let (header, cookie) = (ValuePiece::Header("x-a".into()), ValuePiece::Cookie("b".into()));
        assert_eq!(got, [ValuePiece::Field("client"), text(" {x} "), header, text("/"), cookie]);
        assert_eq!(value_template("plain"), Ok(vec![text("plain")]));
        assert_eq!(value_template("{query.a}"), Ok(vec![ValuePiece::Parameter("a".into())]));
        for bad in ["{", "}", "{nope}", "{}", "{client", "{header.}", "{header.a b}", "a } b"] {
            assert!(value_template(bad).is_err(), "{bad}");
        }
        let fault = pieces("a {cleint}").unwrap_err();
        assert_eq!(
            (fault.part, fault.suggestion.as_deref()),
            (Some((2, 8)), Some("did you mean `{client}`?"))
        );
    }
}
