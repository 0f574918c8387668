//! Texts with placeholders for parts of a request.
//!
//! The plan builds a [`Template`] from parsed configuration; `headers`, `query`, `intercept` and `aggregate`
//! fill it in. Values of the client are inserted unchanged: the caller encodes or checks them for its target.

use tollgate_config::ValuePiece;
use tollgate_config::section::{ScalarError, header, value_template};

use crate::Request;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Literal text.
    Text(Box<[u8]>),
    /// The client's address.
    Client,
    /// The host, without its port.
    Host,
    /// The method.
    Method,
    /// The path in normal form.
    Path,
    /// The query.
    Query,
    /// The scheme, `http` or `https`.
    Scheme,
    /// The request's id.
    RequestId,
    /// The route's name.
    Route,
    /// The name of the identified consumer.
    Consumer,
    /// The first header of this name.
    Header(Box<str>),
    /// The first cookie of this name.
    Cookie(Box<str>),
    /// The value of the first query parameter of this name, without decoding.
    Parameter(Box<str>),
}

/// A text with placeholders for parts of a request. A missing part is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Box<[TemplatePart]>);

impl From<Vec<TemplatePart>> for Template {
    fn from(parts: Vec<TemplatePart>) -> Self {
        Self(parts.into())
    }
}

impl From<&[u8]> for Template {
    fn from(text: &[u8]) -> Self {
        Self([TemplatePart::Text(text.into())].into())
    }
}

impl From<ValuePiece> for TemplatePart {
    fn from(piece: ValuePiece) -> Self {
        match piece {
            ValuePiece::Text(text) => Self::Text(text.as_bytes().into()),
            ValuePiece::Header(name) => Self::Header(name.into()),
            ValuePiece::Cookie(name) => Self::Cookie(name.into()),
            ValuePiece::Parameter(name) => Self::Parameter(name.into()),
            ValuePiece::Field("client") => Self::Client,
            ValuePiece::Field("host") => Self::Host,
            ValuePiece::Field("method") => Self::Method,
            ValuePiece::Field("path") => Self::Path,
            ValuePiece::Field("query") => Self::Query,
            ValuePiece::Field("scheme") => Self::Scheme,
            ValuePiece::Field("request_id") => Self::RequestId,
            ValuePiece::Field("route") => Self::Route,
            ValuePiece::Field(_) => Self::Consumer,
        }
    }
}

impl Template {
    /// Parses a text with placeholders, as it is written in a configuration.
    ///
    /// # Errors
    /// The mistake in the text.
    pub fn parse(text: &str) -> Result<Self, ScalarError> {
        let pieces = value_template::pieces(text)?;
        Ok(pieces.into_iter().map(TemplatePart::from).collect::<Vec<_>>().into())
    }

    /// Parses the value of a header field with placeholders.
    ///
    /// # Errors
    /// The mistake in the text.
    pub(crate) fn parse_header(text: &str) -> Result<Self, ScalarError> {
        Self::parse(&header::value(text)?)
    }

    /// Returns its pieces.
    #[must_use]
    pub fn parts(&self) -> &[TemplatePart] {
        &self.0
    }

    /// Returns the text if it has no placeholders.
    #[must_use]
    pub fn fixed(&self) -> Option<&[u8]> {
        match &*self.0 {
            [] => Some(b""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the text starts with literal text that has this prefix.
    pub(crate) fn begins_with(&self, begin: &[u8]) -> bool {
        matches!(self.0.first(), Some(TemplatePart::Text(text)) if text.starts_with(begin))
    }

    /// Returns the text for a request.
    #[must_use]
    pub fn fill(&self, request: &Request<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        self.each(request, |_, value| out.extend_from_slice(value));
        out
    }

    /// Calls `take` for each piece of the text for a request.
    pub fn each(&self, request: &Request<'_>, mut take: impl FnMut(&TemplatePart, &[u8])) {
        for part in &self.0 {
            let value: &[u8] = match part {
                TemplatePart::Text(text) => text,
                TemplatePart::Client => {
                    take(part, request.origin.client.to_string().as_bytes());
                    continue;
                }
                TemplatePart::Host => request.host(),
                TemplatePart::Method => request.method(),
                TemplatePart::Path => request.path(),
                TemplatePart::Query => request.query().unwrap_or_default(),
                TemplatePart::Scheme if request.origin.secure => b"https",
                TemplatePart::Scheme => b"http",
                TemplatePart::RequestId => request.request_id,
                TemplatePart::Route => request.origin.route.as_bytes(),
                TemplatePart::Consumer => request
                    .context
                    .consumer
                    .as_ref()
                    .map(|consumer| consumer.name.as_bytes())
                    .unwrap_or_default(),
                TemplatePart::Header(name) => request.header(name).unwrap_or_default(),
                TemplatePart::Cookie(name) => request.cookie(name).unwrap_or_default(),
                TemplatePart::Parameter(name) => parameter(request, name.as_bytes()),
            };
            take(part, value);
        }
    }
}

/// Returns the value of the first parameter of this name without decoding, so that it cannot start another
/// field.
fn parameter<'r>(request: &'r Request<'_>, name: &[u8]) -> &'r [u8] {
    let pair = |part: &'r [u8]| {
        let at = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
        (part[..at] == *name).then(|| part.get(at + 1..).unwrap_or_default())
    };
    request.query().and_then(|query| query.split(|byte| *byte == b'&').find_map(pair)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::Sent;
    use crate::{Consumer, Context};

    #[test]
    fn parts_of_a_request_are_filled_in() {
        let consumer = Consumer { name: "ann".to_owned(), ..Consumer::default() };
        let mut context = Context::default();
        context.consumer = Some(Arc::new(consumer));
        let mut sent = Sent::new("X-A: 1\r\nCookie: b=2\r\n");
        let request = sent.request(&mut context);
        for (part, filled) in [
            (TemplatePart::Text(b"text".as_slice().into()), "text"),
            (TemplatePart::Client, "192.0.2.1"),
            (TemplatePart::Host, "a.example"),
            (TemplatePart::Method, "GET"),
            (TemplatePart::Path, "/a"),
            (TemplatePart::Query, "b=c"),
            (TemplatePart::Scheme, "http"),
            (TemplatePart::Route, "r"),
            (TemplatePart::Consumer, "ann"),
            (TemplatePart::Header("x-a".into()), "1"),
            (TemplatePart::Header("x-b".into()), ""),
            (TemplatePart::Cookie("b".into()), "2"),
            (TemplatePart::Parameter("b".into()), "c"),
            (TemplatePart::Parameter("d".into()), ""),
        ] {
            let template = Template::from(vec![part.clone(), TemplatePart::Text(b"!".as_slice().into())]);
            assert_eq!(String::from_utf8_lossy(&template.fill(&request)), format!("{filled}!"), "{part:?}");
        }
    }
}
