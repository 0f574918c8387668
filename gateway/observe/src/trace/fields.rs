//! Heads in traces: fields without the values of credentials, and targets with masked queries.

use serde::{Deserialize, Serialize};

use super::printable;

/// How many fields of a head a trace shows.
const FIELDS_MAX: usize = 64;
/// How many bytes of a value, and of a target, a trace shows.
const VALUE_MAX_BYTES: usize = 256;
const TARGET_MAX_BYTES: usize = 1024;

/// The fields whose values a trace shows: they say how a message is read, cached or forwarded. All others
/// may hold credentials, which have names of the user's own, too.
const SHOWN: [&str; 50] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
    "access-control-request-headers",
    "access-control-request-method",
    "age",
    "allow",
    "alt-svc",
    "cache-control",
    "cdn-loop",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "expect",
    "expires",
    "grpc-encoding",
    "grpc-status",
    "grpc-timeout",
    "host",
    "last-modified",
    "origin",
    "range",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "server",
    "strict-transport-security",
    "te",
    "tollgate-reason",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

/// A field of a head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceField {
    /// Its name, as sent.
    pub name: String,
    /// Its value; `None`: it is hidden, since it may be a credential.
    pub value: Option<String>,
}

impl TraceField {
    /// Returns whether a trace shows the values of fields with this name.
    #[must_use]
    pub fn is_shown(name: &str) -> bool {
        SHOWN.binary_search(&name.to_ascii_lowercase().as_str()).is_ok()
    }
}

/// The head of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHead {
    /// Method and target, with masked query; or the status.
    pub line: String,
    /// The fields, in their order.
    pub fields: Vec<TraceField>,
    /// How many further fields there are.
    pub more_fields: usize,
}

impl TraceHead {
    /// Builds the head of a request from its parts. `target` is path and query.
    pub fn request<'a>(
        method: &[u8],
        target: &[u8],
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let line = format!("{} {}", printable(method, VALUE_MAX_BYTES), mask_query(target));
        Self::new(line, fields)
    }

    /// Builds the head of a response from its parts.
    pub fn response<'a>(status: u16, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        Self::new(status.to_string(), fields)
    }

    fn new<'a>(line: String, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut head = Self { line, ..Self::default() };
        for (name, value) in fields {
            if head.fields.len() == FIELDS_MAX {
                head.more_fields += 1;
                continue;
            }
            let name = printable(name, VALUE_MAX_BYTES);
            let value = TraceField::is_shown(&name).then(|| printable(value, VALUE_MAX_BYTES));
            head.fields.push(TraceField { name, value });
        }
        head
    }

    /// Returns the names and values of a head's field lines, after its start line.
    pub fn lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }
}

/// Returns a target as text, with `*` in place of the values of its query parameters. A part of the query
/// without `=` is a value as well.
#[must_use]
pub fn mask_query(target: &[u8]) -> String {
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    };
    let mut text = printable(path, TARGET_MAX_BYTES);
    let Some(query) = query else { return text };
    text.push('?');
    for (index, part) in query.split(|byte| *byte == b'&').enumerate() {
        if text.len() > 2 * TARGET_MAX_BYTES {
            text.push_str("...");
            break;
        }
        if index > 0 {
            text.push('&');
        }
        match part.iter().position(|byte| *byte == b'=') {
            Some(equals) => {
                text.push_str(&printable(&part[..equals], VALUE_MAX_BYTES));
                text.push_str("=*");
            }
            None if part.is_empty() => {}
            None => text.push('*'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_queries_are_masked() {
        for (target, shown) in [
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?b=c&d=&e=f=g", "/a?b=*&d=*&e=*"),
            ("/a?secret", "/a?*"),
            ("/a?&b", "/a?&*"),
            ("*", "*"),
        ] {
            assert_eq!(mask_query(target.as_bytes()), shown, "{target}");
        }
        let long = [b"/?".as_slice(), "a=b&".repeat(5000).as_bytes()].concat();
        assert!(mask_query(&long).len() < 3 * TARGET_MAX_BYTES);
    }

    #[test]
    fn only_harmless_values_are_shown() {
        let head =
            b"GET /a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer abc\r\nX-Own-Key: k\r\nAccept: */*\r\n\r\n";
        let shown = TraceHead::request(b"GET", b"/a?key=k", TraceHead::lines(head));
        assert_eq!(shown.line, "GET /a?key=*");
        let value =
            |name: &str| shown.fields.iter().find(|field| field.name == name).expect(name).value.clone();
        assert_eq!(value("Host").as_deref(), Some("h"));
        assert_eq!(value("Accept").as_deref(), Some("*/*"));
        assert_eq!((value("Authorization"), value("X-Own-Key")), (None, None));
        assert!(SHOWN.is_sorted());
    }

    #[test]
    fn heads_are_bounded() {
        let field = (b"A".as_slice(), b"b".as_slice());
        let head = TraceHead::response(200, std::iter::repeat_n(field, 100));
        assert_eq!((head.fields.len(), head.more_fields), (FIELDS_MAX, 36));
    }
}
