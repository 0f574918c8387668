//! The key under which a decision of the service is remembered.
//!
//! The service sees the whole request, so only the operator knows on which parts its decision depends. The settings list
//! these [parts](KeyPart). [`DecisionKeyRules`] adds what the gateway knows to identify a client: the route, the consumer
//! that an earlier policy identified, and the credentials that HTTP itself has. All values of a field or cookie count,
//! because the service may read another one than the first.

use std::io::Write as _;

use tollgate_http::Name;
use zeroize::Zeroizing;

use crate::Request;
use crate::query_pairs::QueryPairs;

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// A header field, by its name in lower case.
    Header(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// A parameter of the query.
    Parameter(Box<str>),
    /// A claim of the client's token.
    Claim(Box<str>),
    /// The consumer that an earlier policy has identified.
    Consumer,
    /// The client's certificate.
    Certificate,
    /// The client's address behind trusted proxies.
    Address,
    /// The scheme that the client used.
    Scheme,
    /// The host, without its port.
    Host,
    /// The path in normal form.
    Path,
    /// The whole query.
    Query,
    /// The method.
    Method,
}

/// Fields that all clients send, so that they identify none.
pub(super) const COMMON_FIELDS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "content-type",
    "host",
    "origin",
    "referer",
    "user-agent",
    "x-forwarded-host",
];

impl KeyPart {
    /// Whether the part can tell clients apart.
    pub fn identifies(&self) -> bool {
        match self {
            Self::Header(name) => !COMMON_FIELDS.contains(&&**name),
            Self::Cookie(_) | Self::Parameter(_) | Self::Claim(_) => true,
            Self::Consumer | Self::Certificate | Self::Address => true,
            Self::Scheme | Self::Host | Self::Path | Self::Query | Self::Method => false,
        }
    }

    /// Appends the values of a request. Returns whether it has any that is not empty.
    fn write(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let head = &request.head.head;
        let consumer = request.context.consumer.as_deref();
        let mut has = false;
        let mut add = |value: &[u8]| {
            has |= !value.is_empty();
            write_value(out, value);
        };
        match self {
            Self::Header(name) => head.all_by_text(name.as_bytes()).for_each(add),
            Self::Cookie(name) => head.cookies(name.as_bytes()).for_each(add),
            Self::Parameter(name) => {
                let pairs = QueryPairs::of(request.query().unwrap_or_default());
                pairs.filter_map(|pair| pair.value_of(name.as_bytes())).for_each(|value| add(&value));
            }
            Self::Claim(name) => {
                let claims = consumer.into_iter().flat_map(|consumer| &consumer.claims);
                claims.filter(|(claim, _)| **claim == **name).for_each(|(_, value)| add(value.as_bytes()));
            }
            Self::Consumer => consumer.into_iter().for_each(|consumer| add(consumer.name.as_bytes())),
            Self::Certificate => request.origin.certificate.into_iter().for_each(add),
            Self::Address => add(request.origin.client.to_canonical().to_string().as_bytes()),
            Self::Scheme => add(if request.origin.secure { &b"https"[..] } else { b"http" }),
            Self::Host => add(request.host()),
            Self::Path => add(request.path()),
            Self::Query => request.query().into_iter().for_each(add),
            Self::Method => add(request.method()),
        }
        out.push(b';');
        has
    }
}

/// The parts of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecisionKeyRules {
    pub parts: Box<[KeyPart]>,
    /// Whether `Authorization` counts: the service receives it.
    pub authorization: bool,
    /// Whether all cookies count: the service receives them, and no part names one.
    pub cookies: bool,
}

impl DecisionKeyRules {
    /// Makes the rules for a service that receives these fields; `None`: all of them.
    pub fn new(parts: &[KeyPart], request_headers: Option<&[String]>) -> Self {
        let receives = |field: &str| {
            request_headers.is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(field)))
        };
        let names_cookies = parts.iter().any(|part| match part {
            KeyPart::Header(name) => **name == *"cookie",
            part => matches!(part, KeyPart::Cookie(_)),
        });
        Self {
            parts: parts.into(),
            authorization: receives("authorization"),
            cookies: receives("cookie") && !names_cookies,
        }
    }

    /// Returns the key of a request. `None`: it has none of the parts that identify a client, so the service may
    /// recognize the client by something else, and must be asked.
    pub fn of(&self, request: &Request<'_>) -> Option<Zeroizing<Vec<u8>>> {
        let mut key = Zeroizing::new(Vec::with_capacity(256));
        let mut is_identified = false;
        for part in &self.parts {
            is_identified |= part.write(request, &mut key) && part.identifies();
        }
        if !is_identified {
            return None;
        }
        write_value(&mut key, request.origin.route.as_bytes());
        if let Some(consumer) = request.context.consumer.as_deref() {
            write_value(&mut key, consumer.name.as_bytes());
            consumer.groups.iter().for_each(|group| write_value(&mut key, group.as_bytes()));
        }
        let head = &request.head.head;
        for (counts, name) in [(self.authorization, Name::Authorization), (self.cookies, Name::Cookie)] {
            key.push(b';');
            if counts {
                head.all(name).for_each(|value| write_value(&mut key, value));
            }
        }
        Some(key)
    }
}

/// Appends a value after its length, so that no value looks like the end of one and the start of the next.
fn write_value(out: &mut Vec<u8>, value: &[u8]) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{}:", value.len());
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::Sent;
    use crate::{Consumer, Context};

    fn rules(parts: &[KeyPart]) -> DecisionKeyRules {
        DecisionKeyRules::new(parts, None)
    }

    fn key_with(rules: &DecisionKeyRules, line: &str, fields: &str, context: &mut Context) -> Option<String> {
        let mut sent = Sent::with(line, fields);
        rules.of(&sent.request(context)).map(|key| String::from_utf8_lossy(&key).into_owned())
    }

    fn key(rules: &DecisionKeyRules, line: &str, fields: &str) -> Option<String> {
        key_with(rules, line, fields, &mut Context::default())
    }

    #[test]
    fn other_credentials_are_other_keys() {
        let rules =
            rules(&[KeyPart::Cookie("session".into()), KeyPart::Header("x-key".into()), KeyPart::Path]);
        let all = [
            "Cookie: session=a\r\n",
            "Cookie: session=b\r\n",
            "Cookie: session=a; session=b\r\n",
            "Cookie: session=a\r\nX-Key: b\r\n",
            "Cookie: session=a\r\nX-Key: b\r\nX-Key: c\r\n",
            "Cookie: session=a\r\nAuthorization: Basic YTpi\r\n",
            "X-Key: a\r\n",
            "X-Key: 1:a;\r\n",
        ];
        let keys: Vec<_> = all.iter().map(|fields| key(&rules, "GET / HTTP/1.1", fields)).collect();
        for (index, one) in keys.iter().enumerate() {
            assert!(one.is_some() && !keys[..index].contains(one), "{}", all[index]);
        }
        // Another cookie does not count, since the key names one; the path does.
        let other = "Cookie: lang=de; session=a\r\n";
        assert_eq!(key(&rules, "GET / HTTP/1.1", other), keys[0]);
        assert_ne!(key(&rules, "GET /b HTTP/1.1", other), keys[0]);
        assert_eq!(key(&rules, "POST /?a HTTP/1.1", other), keys[0]);
    }

    #[test]
    fn cookies_count_unless_the_key_names_one_or_the_service_gets_none() {
        let parts = [KeyPart::Header("authorization".into())];
        let line = "GET / HTTP/1.1";
        let (one, other) = ("Authorization: a\r\nCookie: s=1\r\n", "Authorization: a\r\nCookie: s=2\r\n");
        assert_ne!(key(&rules(&parts), line, one), key(&rules(&parts), line, other));
        let confined = DecisionKeyRules::new(&parts, Some(&["Authorization".to_owned()]));
        assert_eq!(key(&confined, line, one), key(&confined, line, other));
    }

    #[test]
    fn a_request_that_nothing_identifies_has_no_key() {
        let rules = rules(&[KeyPart::Cookie("session".into()), KeyPart::Path, KeyPart::Host]);
        for fields in ["", "Cookie: other=a\r\n", "Cookie: session=\r\n", "Authorization: Basic YTpi\r\n"] {
            assert_eq!(key(&rules, "GET / HTTP/1.1", fields), None, "{fields}");
        }
    }

    #[test]
    fn every_part_counts() {
        let context = |name: &str, tenant: &str| {
            let consumer = Consumer {
                name: name.to_owned(),
                claims: vec![("tenant".to_owned(), tenant.to_owned())],
                ..Consumer::default()
            };
            let mut context = Context::default();
            context.consumer = Some(Arc::new(consumer));
            context
        };
        let line = "GET /a?k=1&l=2 HTTP/1.1";
        for (part, other) in [
            (KeyPart::Parameter("k".into()), "GET /a?k=2&l=2 HTTP/1.1"),
            (KeyPart::Query, "GET /a?k=1&l=3 HTTP/1.1"),
            (KeyPart::Path, "GET /b?k=1&l=2 HTTP/1.1"),
            (KeyPart::Method, "PUT /a?k=1&l=2 HTTP/1.1"),
        ] {
            let rules = rules(&[part.clone(), KeyPart::Consumer]);
            let key = |line: &str| key_with(&rules, line, "", &mut context("ann", "t1"));
            assert!(key(line).is_some() && key(line) != key(other), "{part:?}");
        }
        let by = rules(&[KeyPart::Claim("tenant".into())]);
        let key = |name: &str, tenant: &str| key_with(&by, line, "", &mut context(name, tenant));
        assert_ne!(key("ann", "t1"), key("ann", "t2"));
        // The consumer always counts.
        assert_ne!(key("ann", "t1"), key("bob", "t1"));
        let by = rules(&[KeyPart::Address, KeyPart::Scheme]);
        let from = |address: &str, secure: bool| {
            let (mut sent, mut context) = (Sent::new(""), Context::default());
            (sent.origin.client, sent.origin.secure) = (address.parse().expect("an address"), secure);
            by.of(&sent.request(&mut context)).map(|key| key.to_vec())
        };
        assert_ne!(from("2001:db8::1", true), from("2001:db8::2", true));
        assert_ne!(from("192.0.2.1", true), from("192.0.2.1", false));
        assert_eq!(from("192.0.2.1", true), from("::ffff:192.0.2.1", true));
    }
}
