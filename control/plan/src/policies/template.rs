//! Texts into which parts of a request are inserted.

use tollgate_config::{self as config, ValuePiece};
use tollgate_policy::{Part, Template};

/// Returns the template that was written. The reader has checked it; text from elsewhere that is not a
/// template is used literally.
pub(super) fn template(text: &str) -> Template {
    let part = |piece| match piece {
        ValuePiece::Text(text) => Part::Text(text.as_bytes().into()),
        ValuePiece::Header(name) => Part::Header(name.into()),
        ValuePiece::Cookie(name) => Part::Cookie(name.into()),
        ValuePiece::Parameter(name) => Part::Parameter(name.into()),
        ValuePiece::Field("client") => Part::Client,
        ValuePiece::Field("host") => Part::Host,
        ValuePiece::Field("method") => Part::Method,
        ValuePiece::Field("path") => Part::Path,
        ValuePiece::Field("query") => Part::Query,
        ValuePiece::Field("scheme") => Part::Scheme,
        ValuePiece::Field("request_id") => Part::RequestId,
        ValuePiece::Field("route") => Part::Route,
        ValuePiece::Field(_) => Part::Consumer,
    };
    match config::value_template(text) {
        Ok(pieces) => pieces.into_iter().map(part).collect::<Vec<_>>().into(),
        Err(_) => text.as_bytes().into(),
    }
}

/// Returns header or parameter names with their templates.
pub(super) fn templates(values: &[(String, String)]) -> Vec<(String, Template)> {
    values.iter().map(|(name, value)| (name.clone(), template(value))).collect()
}
