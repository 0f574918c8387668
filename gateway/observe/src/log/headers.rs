//! Log fields that a configuration names: headers and cookies. The [`Details`] of a record look them up only
//! if a log uses them; they also give the attempts before the last one.

use std::fmt::Debug;
use std::time::Duration;

use super::escape;
use crate::Reason;

/// Headers whose values are credentials: a log shows only their presence.
const SECRET_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];

/// The text that replaces a credential's value.
const MASKED: &[u8] = b"***";

/// Source of details that few logs use. A record borrows it, so a request without such a log pays nothing.
pub trait Details: Debug {
    /// Calls `each` with the value of every field of this name in the request head. `name` is in lower case.
    fn header(&self, name: &str, each: &mut dyn FnMut(&[u8]));

    /// Calls `each` with the value of every field of this name in the head of the response sent to the
    /// client.
    fn response_header(&self, name: &str, each: &mut dyn FnMut(&[u8]));

    /// Returns the value of the first cookie of this name in the request.
    fn cookie(&self, name: &str) -> Option<&[u8]>;

    /// Returns an attempt before the last one; 0 is the first.
    fn earlier(&self, index: usize) -> Option<EndpointAttempt<'_>>;
}

/// Details without any data.
impl Details for () {
    fn header(&self, _: &str, _: &mut dyn FnMut(&[u8])) {}

    fn response_header(&self, _: &str, _: &mut dyn FnMut(&[u8])) {}

    fn cookie(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn earlier(&self, _: usize) -> Option<EndpointAttempt<'_>> {
        None
    }
}

/// An attempt to have a request answered by an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointAttempt<'a> {
    /// The endpoint's address.
    pub endpoint: &'a str,
    /// The status of its answer; 0: no answer.
    pub status: u16,
    /// Why it failed; [`Reason::None`]: it was answered, or another attempt was faster.
    pub reason: Reason,
    /// Duration of the attempt.
    pub took: Duration,
}

/// A field of a line that names a header or a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedField {
    Header(Box<str>),
    ResponseHeader(Box<str>),
    Cookie(Box<str>),
}

impl NamedField {
    /// Parses `header.NAME`, `response_header.NAME` or `cookie.NAME`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('.')?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(fits) {
            return None;
        }
        match kind {
            "header" => Some(Self::Header(name.to_ascii_lowercase().into())),
            "response_header" => Some(Self::ResponseHeader(name.to_ascii_lowercase().into())),
            "cookie" => Some(Self::Cookie(name.into())),
            _ => None,
        }
    }

    /// Returns whether the field reads the response head.
    pub(super) fn reads_response_head(&self) -> bool {
        matches!(self, Self::ResponseHeader(_))
    }

    /// Appends the values, escaped and separated by commas. Returns whether there was any.
    fn write(&self, line: &mut Vec<u8>, details: &dyn Details, escape: fn(&mut Vec<u8>, &[u8])) -> bool {
        let mut found = false;
        let mut each = |value: &[u8]| {
            if std::mem::replace(&mut found, true) {
                line.extend_from_slice(b", ");
            }
            escape(line, value);
        };
        match self {
            Self::Header(name) if SECRET_HEADERS.contains(&&**name) => {
                details.header(name, &mut |_| each(MASKED));
            }
            Self::Header(name) => details.header(name, &mut each),
            Self::ResponseHeader(name) if SECRET_HEADERS.contains(&&**name) => {
                details.response_header(name, &mut |_| each(MASKED));
            }
            Self::ResponseHeader(name) => details.response_header(name, &mut each),
            Self::Cookie(name) => {
                if let Some(value) = details.cookie(name) {
                    each(value);
                }
            }
        }
        found
    }

    /// Appends the field in nginx's notation.
    pub(super) fn write_text(&self, line: &mut Vec<u8>, details: &dyn Details) {
        if !self.write(line, details, escape::text) {
            line.push(b'-');
        }
    }

    /// Appends the field as JSON.
    pub(super) fn write_json(&self, line: &mut Vec<u8>, details: &dyn Details) {
        let start = line.len();
        line.push(b'"');
        if self.write(line, details, escape::json) {
            line.push(b'"');
        } else {
            line.truncate(start);
            line.extend_from_slice(b"null");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A request with one header, one cookie and credentials.
    #[derive(Debug)]
    pub(in crate::log) struct Known;

    impl Details for Known {
        fn header(&self, name: &str, each: &mut dyn FnMut(&[u8])) {
            match name {
                "x-a" => ["1", "\"2"].iter().for_each(|value| each(value.as_bytes())),
                "authorization" => each(b"Bearer secret"),
                _ => {}
            }
        }

        fn response_header(&self, name: &str, each: &mut dyn FnMut(&[u8])) {
            match name {
                "x-cache" => each(b"HIT"),
                "set-cookie" => ["a=secret", "b=secret"].iter().for_each(|value| each(value.as_bytes())),
                _ => {}
            }
        }

        fn cookie(&self, name: &str) -> Option<&[u8]> {
            (name == "id").then_some(b"7")
        }

        fn earlier(&self, index: usize) -> Option<EndpointAttempt<'_>> {
            let attempt = EndpointAttempt {
                endpoint: "10.0.0.2:80",
                status: 0,
                reason: Reason::ConnectionRefused,
                took: Duration::from_micros(1_500),
            };
            (index == 0).then_some(attempt)
        }
    }

    #[test]
    fn values_are_found_joined_and_masked() {
        for (field, text, json) in [
            ("header.X-A", "1, \\x222", "\"1, \\\"2\""),
            ("header.x-b", "-", "null"),
            ("header.Authorization", "***", "\"***\""),
            ("response_header.x-cache", "HIT", "\"HIT\""),
            ("response_header.set-cookie", "***, ***", "\"***, ***\""),
            ("cookie.id", "7", "\"7\""),
            ("cookie.ID", "-", "null"),
        ] {
            let named = NamedField::parse(field).expect("a field");
            let (mut as_text, mut as_json) = (Vec::new(), Vec::new());
            named.write_text(&mut as_text, &Known);
            named.write_json(&mut as_json, &Known);
            assert_eq!(String::from_utf8(as_text).unwrap(), text, "{field}");
            assert_eq!(String::from_utf8(as_json).unwrap(), json, "{field}");
        }
        for text in ["header", "header.", "header.a b", "headers.a", "x.a", "cookie.a=b"] {
            assert_eq!(NamedField::parse(text), None, "{text}");
        }
    }
}
