//! Texts into which parts of a request are inserted.

use tollgate_config::{self as config, ValuePiece};
use tollgate_policy::{Template, TemplatePart};

/// Returns the template that was written. The reader has checked it; text from elsewhere that is not a
/// template is used literally.
pub(super) fn template(text: &str) -> Template {
    let part = |piece| match piece {
        ValuePiece::Text(text) => TemplatePart::Text(text.as_bytes().into()),
        ValuePiece::Header(name) => TemplatePart::Header(name.into()),
        ValuePiece::Cookie(name) => TemplatePart::Cookie(name.into()),
        ValuePiece::Parameter(name) => TemplatePart::Parameter(name.into()),
        ValuePiece::Field("client") => TemplatePart::Client,
        ValuePiece::Field("host") => TemplatePart::Host,
        ValuePiece::Field("method") => TemplatePart::Method,
        ValuePiece::Field("path") => TemplatePart::Path,
        ValuePiece::Field("query") => TemplatePart::Query,
        ValuePiece::Field("scheme") => TemplatePart::Scheme,
        ValuePiece::Field("request_id") => TemplatePart::RequestId,
        ValuePiece::Field("route") => TemplatePart::Route,
        ValuePiece::Field(_) => TemplatePart::Consumer,
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
