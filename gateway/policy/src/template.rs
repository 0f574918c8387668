//! Texts with placeholders for parts of a request.
//!
//! The plan builds a [`Template`] from parsed configuration; `headers`, `query`, `intercept` and `aggregate`
//! fill it in. Values of the client are inserted unchanged: the caller encodes or checks them for its target.

use crate::Request;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
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
pub struct Template(Box<[Part]>);

impl From<Vec<Part>> for Template {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts.into())
    }
}

impl From<&[u8]> for Template {
    fn from(text: &[u8]) -> Self {
        Self([Part::Text(text.into())].into())
    }
}

impl Template {
    /// Returns the text if it has no placeholders.
    #[must_use]
    pub fn fixed(&self) -> Option<&[u8]> {
        match &*self.0 {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the text starts with literal text that has this prefix.
    pub(crate) fn begins_with(&self, begin: &[u8]) -> bool {
        matches!(self.0.first(), Some(Part::Text(text)) if text.starts_with(begin))
    }

    /// Returns the text for a request.
    #[must_use]
    pub fn fill(&self, request: &Request<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        self.each(request, |_, value| out.extend_from_slice(value));
        out
    }

    /// Calls `take` for each piece of the text for a request.
    pub fn each(&self, request: &Request<'_>, mut take: impl FnMut(&Part, &[u8])) {
        for part in &self.0 {
            let value: &[u8] = match part {
                Part::Text(text) => text,
                Part::Client => {
                    take(part, request.origin.client.to_string().as_bytes());
                    continue;
                }
                Part::Host => request.host(),
                Part::Method => request.method(),
                Part::Path => request.path(),
                Part::Query => request.query().unwrap_or_default(),
                Part::Scheme if request.origin.secure => b"https",
                Part::Scheme => b"http",
                Part::RequestId => request.request_id,
                Part::Route => request.origin.route.as_bytes(),
                Part::Consumer => request
                    .context
                    .consumer
                    .as_ref()
                    .map(|consumer| consumer.name.as_bytes())
                    .unwrap_or_default(),
                Part::Header(name) => request.header(name).unwrap_or_default(),
                Part::Cookie(name) => request.cookie(name).unwrap_or_default(),
                Part::Parameter(name) => parameter(request, name.as_bytes()),
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
            (Part::Text(b"text".as_slice().into()), "text"),
            (Part::Client, "192.0.2.1"),
            (Part::Host, "a.example"),
            (Part::Method, "GET"),
            (Part::Path, "/a"),
            (Part::Query, "b=c"),
            (Part::Scheme, "http"),
            (Part::Route, "r"),
            (Part::Consumer, "ann"),
            (Part::Header("x-a".into()), "1"),
            (Part::Header("x-b".into()), ""),
            (Part::Cookie("b".into()), "2"),
            (Part::Parameter("b".into()), "c"),
            (Part::Parameter("d".into()), ""),
        ] {
            let template = Template::from(vec![part.clone(), Part::Text(b"!".as_slice().into())]);
            assert_eq!(String::from_utf8_lossy(&template.fill(&request)), format!("{filled}!"), "{part:?}");
        }
    }
}
