//! The key by which rate limits, quotas and concurrency limits count.
//!
//! Counters in this process use a keyed hash of it. A shared store uses its bytes.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::net::IpAddr;

use tollgate_route::query_parameter;

use crate::Request;

/// The property of a request by which limits count. All requests that lack it share one counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountKey {
    /// No property: all requests share one counter.
    #[default]
    All,
    /// The consumer that an authentication policy has identified.
    Consumer,
    /// The client's address behind trusted proxies. For IPv6 only the first 64 bits, because a client owns
    /// the rest.
    Address,
    /// The route's name.
    Route,
    /// A header, by its name in lower case.
    Header(Box<str>),
    /// A claim of the client's token.
    Claim(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
    /// A parameter of the query.
    Query(Box<str>),
    /// The host of the request, without its port.
    Host,
    /// The path in normal form.
    Path,
    /// The method.
    Method,
    /// Several properties: two requests share a counter if all parts are equal. No part is `All` or `Many`.
    Many(Box<[CountKey]>),
}

impl CountKey {
    /// Calls `with` with the value of the property; an empty value counts as absent. Several parts are
    /// encoded with a length before each part. A client therefore cannot choose a value that looks like the
    /// end of one part and the start of the next.
    pub(crate) fn with<T>(&self, request: &Request<'_>, with: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let consumer = request.context.consumer.as_deref();
        let value = match self {
            CountKey::All => None,
            CountKey::Consumer => consumer.map(|consumer| consumer.name.as_bytes()),
            CountKey::Address => {
                return match request.origin.client.to_canonical() {
                    IpAddr::V4(address) => with(Some(&address.octets())),
                    IpAddr::V6(address) => with(Some(&address.octets()[..8])),
                };
            }
            CountKey::Route => Some(request.origin.route.as_bytes()),
            CountKey::Header(name) => request.header(name),
            CountKey::Claim(name) => consumer
                .and_then(|consumer| consumer.claims.iter().find(|(claim, _)| **claim == **name))
                .map(|(_, value)| value.as_bytes()),
            CountKey::Cookie(name) => request.cookie(name),
            CountKey::Query(name) => {
                let mut with = Some(with);
                let mut call = |value: &[u8]| with.take().map(|with| with(some(value)));
                let found =
                    request.query().and_then(|query| query_parameter(query, name.as_bytes(), &mut call));
                // `call` runs only if there is such a parameter.
                return match (found.flatten(), with) {
                    (Some(done), _) => done,
                    (None, Some(with)) => with(None),
                    (None, None) => unreachable!("called, or not"),
                };
            }
            CountKey::Host => Some(request.host()),
            CountKey::Path => Some(request.path()),
            CountKey::Method => Some(request.method()),
            CountKey::Many(parts) => {
                let mut key = Vec::with_capacity(64);
                parts.iter().for_each(|part| part.append(request, &mut key));
                return with(Some(&key));
            }
        };
        with(value.and_then(some))
    }

    /// Appends the value as one of several parts.
    fn append(&self, request: &Request<'_>, key: &mut Vec<u8>) {
        self.with(request, |value| encode(key, value));
    }

    /// Returns a keyed hash of the value, which clients cannot predict. The probability that any two of a
    /// million keys collide is one in forty million.
    pub(crate) fn hash(&self, request: &Request<'_>, state: &RandomState) -> u64 {
        self.with(request, |value| state.hash_one(value))
    }
}

/// Appends one of several parts: `-` if the request lacks it, else its length, a colon and its bytes.
fn encode(key: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => key.push(b'-'),
        Some(value) => {
            // Writing to a vector cannot fail.
            let _ = write!(key, "{}:", value.len());
            key.extend_from_slice(value);
        }
    }
}

fn some(value: &[u8]) -> Option<&[u8]> {
    (!value.is_empty()).then_some(value)
}

impl fmt::Display for CountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CountKey::All => f.write_str("all"),
            CountKey::Consumer => f.write_str("consumer"),
            CountKey::Address => f.write_str("address"),
            CountKey::Route => f.write_str("route"),
            CountKey::Header(name) => write!(f, "header {name}"),
            CountKey::Claim(name) => write!(f, "claim {name}"),
            CountKey::Cookie(name) => write!(f, "cookie {name}"),
            CountKey::Query(name) => write!(f, "query {name}"),
            CountKey::Host => f.write_str("host"),
            CountKey::Path => f.write_str("path"),
            CountKey::Method => f.write_str("method"),
            CountKey::Many(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" and ")?;
                    }
                    part.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::Sent;
    use crate::{Consumer, Context};

    fn value(by: &CountKey, line: &str, fields: &str, context: &mut Context) -> Option<String> {
        let mut sent = Sent::with(line, fields);
        by.with(&sent.request(context), |value| {
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        })
    }

    #[test]
    fn present_keys_are_found() {
        let plain = "GET / HTTP/1.1";
        for (by, line, fields, found) in [
            (CountKey::All, plain, "", None),
            (CountKey::Route, plain, "", Some("r")),
            (CountKey::Header("x-a".into()), plain, "X-A: 1\r\nX-A: 2\r\n", Some("1")),
            (CountKey::Header("x-a".into()), plain, "X-A:\r\n", None),
            (CountKey::Cookie("id".into()), plain, "Cookie: a=b; id=7\r\n", Some("7")),
            (CountKey::Query("k".into()), "GET /?a=1&k=%41b HTTP/1.1", "", Some("Ab")),
            (CountKey::Query("k".into()), "GET /?k= HTTP/1.1", "", None),
            (CountKey::Query("k".into()), plain, "", None),
            (CountKey::Consumer, plain, "", None),
        ] {
            assert_eq!(value(&by, line, fields, &mut Context::default()).as_deref(), found, "{by}");
        }
    }

    #[test]
    fn several_parts_are_one_key_that_no_value_can_forge() {
        let header = |name: &str| CountKey::Header(name.into());
        let by = CountKey::Many([header("x-a"), header("x-b")].into());
        assert_eq!(by.to_string(), "header x-a and header x-b");
        let key = |fields: &str| {
            value(&by, "GET / HTTP/1.1", fields, &mut Context::default()).expect("always a key")
        };
        assert_eq!(key("X-A: a\r\nX-B: bc\r\n"), "1:a2:bc");
        assert_eq!(key("X-B: bc\r\n"), "-2:bc");
        let all = ["X-A: a\r\nX-B: b\r\n", "X-A: a1:b\r\n", "X-A: a\r\n", "X-B: a\r\n", "", "X-A: -\r\n"];
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert_ne!(key(one), key(other), "{one:?} {other:?}");
            }
        }
        let of = |by: CountKey, line: &str| value(&by, line, "", &mut Context::default());
        assert_eq!(of(CountKey::Path, "GET /a?b HTTP/1.1").as_deref(), Some("/a"));
        assert_eq!(of(CountKey::Method, "PUT / HTTP/1.1").as_deref(), Some("PUT"));
    }

    #[test]
    fn consumers_and_claims() {
        let consumer = Consumer {
            name: "ann".to_owned(),
            claims: vec![("tenant".to_owned(), "t1".to_owned())],
            ..Consumer::default()
        };
        let mut context = Context::default();
        context.consumer = Some(Arc::new(consumer));
        let mut value = |by| value(&by, "GET / HTTP/1.1", "", &mut context);
        assert_eq!(value(CountKey::Consumer).as_deref(), Some("ann"));
        assert_eq!(value(CountKey::Claim("tenant".into())).as_deref(), Some("t1"));
        assert_eq!(value(CountKey::Claim("plan".into())), None);
    }

    #[test]
    fn a_client_has_one_key_for_all_its_addresses_of_ipv6() {
        let state = RandomState::new();
        let hash = |address: &str| {
            let (mut sent, mut context) = (Sent::new(""), Context::default());
            sent.origin.client = address.parse().expect("an address");
            CountKey::Address.hash(&sent.request(&mut context), &state)
        };
        assert_eq!(hash("2001:db8::1"), hash("2001:db8::ffff:1"));
        assert_ne!(hash("2001:db8::1"), hash("2001:db8:0:1::1"));
        assert_ne!(hash("192.0.2.1"), hash("192.0.2.2"));
        assert_eq!(hash("192.0.2.1"), hash("::ffff:192.0.2.1"));
    }
}
