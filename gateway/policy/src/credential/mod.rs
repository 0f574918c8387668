//! The places where a request may carry a credential, for policies that read it from several places.
//!
//! `api_key` and `jwt` find, remove and redact their credential through [`CredentialSources`]. Two
//! credentials in one request are an error, because the upstream might use another one than the gateway.

mod keys;

use std::borrow::Cow;

use tollgate_http::Name;

use crate::query_pairs::{self as query, QueryPairs};
use crate::request::may_be_changed;
use crate::{Request, Reserved};

pub(crate) use keys::{Admission, IdentityHeaders, PARAMETER, PLACES, check_places, parameter, places};

/// A place in a request where a credential may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// A header field.
    Header {
        /// The name of the field.
        name: String,
        /// The text before the credential; case is ignored. A prefix that ends in a letter or digit is an
        /// authentication scheme and is followed by a space (RFC 9110, 11.4).
        prefix: Option<String>,
    },
    /// A cookie of this name.
    Cookie(String),
    /// A query parameter; percent-encoding of its name is decoded first.
    Query(String),
}

/// The places where a policy looks for its credential.
#[derive(Debug)]
pub(crate) struct CredentialSources(Vec<ParsedSource>);

#[derive(Debug)]
enum ParsedSource {
    Header {
        name: String,
        id: Name,
        prefix: Option<String>,
        /// The field, and the names that endpoints may confuse with it.
        reserved: Reserved,
    },
    Cookie(String),
    Query(String),
}

/// The result of a search for a credential.
pub(crate) enum FoundCredential<'r> {
    /// No credential.
    Nothing,
    /// The only place is a field, and it holds another authentication scheme.
    Foreign,
    /// One credential.
    One(Cow<'r, [u8]>),
}

impl CredentialSources {
    pub fn new(places: &[CredentialSource]) -> Self {
        let place = |place: &CredentialSource| match place.clone() {
            CredentialSource::Header { name, prefix } => ParsedSource::Header {
                id: Name::of(name.as_bytes()),
                reserved: Reserved::new([name.clone()]),
                name,
                prefix,
            },
            CredentialSource::Cookie(name) => ParsedSource::Cookie(name),
            CredentialSource::Query(name) => ParsedSource::Query(name),
        };
        Self(places.iter().map(place).collect())
    }

    /// Finds the credential of a request.
    ///
    /// # Errors
    /// When there is more than one: the upstream might use another one than the gateway.
    pub fn find<'r>(&self, request: &'r Request<'_>) -> Result<FoundCredential<'r>, MoreThanOne> {
        let mut found: Option<Cow<'r, [u8]>> = None;
        let mut foreign = false;
        let mut take = |value: Cow<'r, [u8]>| match found.replace(value) {
            Some(_) => Err(MoreThanOne),
            None => Ok(()),
        };
        for place in &self.0 {
            match place {
                ParsedSource::Header { name, id, prefix, .. } => {
                    let Some(value) = only(request, *id, name)? else { continue };
                    match behind(value, prefix.as_deref()) {
                        // The field holds a scheme alone, or is empty.
                        Some([]) => {}
                        Some(value) => take(Cow::Borrowed(value))?,
                        None => foreign = true,
                    }
                }
                ParsedSource::Cookie(name) => {
                    for value in request.head.head.cookies(name.as_bytes()) {
                        take(Cow::Borrowed(value))?;
                    }
                }
                ParsedSource::Query(name) => {
                    let pairs = QueryPairs::of(request.query().unwrap_or_default());
                    for value in pairs.filter_map(|pair| pair.value_of(name.as_bytes())) {
                        take(Cow::Owned(value))?;
                    }
                }
            }
        }
        Ok(match found {
            Some(value) if !value.is_empty() => FoundCredential::One(value),
            _ if foreign && self.0.len() == 1 => FoundCredential::Foreign,
            _ => FoundCredential::Nothing,
        })
    }

    /// Whether a request carries one credential or more.
    pub fn is_present(&self, request: &Request<'_>) -> bool {
        !matches!(self.find(request), Ok(FoundCredential::Nothing | FoundCredential::Foreign))
    }

    /// Whether one of the places is this field.
    pub fn has_field(&self, field: &str) -> bool {
        self.0.iter().any(|place| match place {
            ParsedSource::Header { name, .. } => name.eq_ignore_ascii_case(field),
            ParsedSource::Cookie(_) => field.eq_ignore_ascii_case("cookie"),
            ParsedSource::Query(_) => false,
        })
    }

    /// Removes the credential, and fields that endpoints may confuse with it. Fields for which `kept` is true
    /// stay.
    pub fn remove(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool) {
        for place in &self.0 {
            match place {
                ParsedSource::Header { name, prefix, reserved, .. } if !kept(name) => {
                    let value = request.head.head.get_by_text(name.as_bytes());
                    let shown = value.is_some_and(|value| behind(value, prefix.as_deref()).is_some());
                    let goes = |field: &[u8]| {
                        reserved.has(field)
                            && may_be_changed(field)
                            && (shown || !field.eq_ignore_ascii_case(name.as_bytes()))
                    };
                    request.head.remove_where(goes);
                }
                ParsedSource::Cookie(name) if !kept("cookie") => remove_cookie(request, name),
                ParsedSource::Query(name) => query::remove(request.head, name.as_bytes()),
                ParsedSource::Header { .. } | ParsedSource::Cookie(_) => {}
            }
        }
    }

    /// Removes the credential from the query, because the query is logged.
    pub fn remove_from_query(&self, request: &mut Request<'_>) {
        for place in &self.0 {
            if let ParsedSource::Query(name) = place {
                query::remove(request.head, name.as_bytes());
            }
        }
    }

    /// Describes the places for `explain`.
    pub fn summary(&self) -> String {
        let words = |place: &ParsedSource| match place {
            ParsedSource::Header { name, .. } => format!("header {name}"),
            ParsedSource::Cookie(name) => format!("cookie {name}"),
            ParsedSource::Query(name) => format!("query {name}"),
        };
        self.0.iter().map(words).collect::<Vec<_>>().join(" or ")
    }
}

/// The request carries more than one credential.
pub(crate) struct MoreThanOne;

/// Returns the value of a field; `None` if it is absent.
///
/// # Errors
/// When the field is repeated.
fn only<'r>(request: &'r Request<'_>, id: Name, name: &str) -> Result<Option<&'r [u8]>, MoreThanOne> {
    let head = &request.head.head;
    if !id.is_group() {
        return if head.is_repeated(id) { Err(MoreThanOne) } else { Ok(head.get(id)) };
    }
    let named = |field: &&tollgate_http::Field| head.slice(field.name).eq_ignore_ascii_case(name.as_bytes());
    let mut fields = head.fields().iter().filter(named);
    match (fields.next(), fields.next()) {
        (_, Some(_)) => Err(MoreThanOne),
        (field, None) => Ok(field.map(|field| head.slice(field.value))),
    }
}

/// Returns the text after a prefix; `None` if the value does not start with it.
fn behind<'v>(value: &'v [u8], prefix: Option<&str>) -> Option<&'v [u8]> {
    let Some(prefix) = prefix else { return Some(value) };
    let (begin, rest) = value.split_at_checked(prefix.len())?;
    if !begin.eq_ignore_ascii_case(prefix.as_bytes()) {
        return None;
    }
    let is_scheme = prefix.as_bytes().last().is_some_and(u8::is_ascii_alphanumeric);
    match rest.first() {
        Some(b' ' | b'\t') | None => Some(rest.trim_ascii()),
        Some(_) if is_scheme => None,
        Some(_) => Some(rest),
    }
}

fn remove_cookie(request: &mut Request<'_>, name: &str) {
    if request.head.head.cookie(name.as_bytes()).is_none() {
        return;
    }
    let kept: Vec<Vec<u8>> = request
        .head
        .head
        .all(Name::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
        .filter(|pair| !pair.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    request.remove("cookie");
    if !kept.is_empty() {
        request.append("Cookie", &kept.join(&b"; "[..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    fn header(name: &str, prefix: Option<&str>) -> CredentialSource {
        CredentialSource::Header { name: name.to_owned(), prefix: prefix.map(str::to_owned) }
    }

    fn all() -> CredentialSources {
        CredentialSources::new(&[
            header("Authorization", Some("Bearer")),
            header("X-Token", None),
            CredentialSource::Cookie("session".to_owned()),
            CredentialSource::Query("access_token".to_owned()),
        ])
    }

    /// Returns the credential of a request with this target and these fields; `Err`: more than one.
    fn found(places: &CredentialSources, target: &str, fields: &str) -> Result<String, ()> {
        let mut sent = Sent::with(&format!("GET {target} HTTP/1.1"), fields);
        let mut context = Context::default();
        match places.find(&sent.request(&mut context)) {
            Ok(FoundCredential::One(value)) => Ok(String::from_utf8_lossy(&value).into_owned()),
            Ok(FoundCredential::Nothing) => Ok("nothing".to_owned()),
            Ok(FoundCredential::Foreign) => Ok("foreign".to_owned()),
            Err(MoreThanOne) => Err(()),
        }
    }

    #[test]
    fn two_credentials_are_ambiguous() {
        for (target, fields, expected) in [
            ("/", "", Ok("nothing")),
            ("/", "authorization: bearer  a \r\n", Ok("a")),
            ("/", "Authorization: Bearer\r\n", Ok("nothing")),
            ("/", "Authorization: Bearera\r\n", Ok("nothing")),
            ("/", "Authorization: Basic YTpi\r\n", Ok("nothing")),
            ("/", "Authorization: Basic YTpi\r\nX-Token: t\r\n", Ok("t")),
            ("/", "Cookie: a=b; session=c\r\n", Ok("c")),
            ("/?a=b&access%5Ftoken=q", "", Ok("q")),
            ("/?access_token=q", "X-Token: t\r\n", Err(())),
            ("/?access_token=q&access_token=q", "", Err(())),
            ("/", "X-Token: t\r\nx-token: t\r\n", Err(())),
            ("/", "Cookie: session=c\r\nCookie: session=d\r\n", Err(())),
            ("/", "Authorization: Bearer a\r\nCookie: session=a\r\n", Err(())),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(found(&all(), target, fields), expected, "{target} {fields}");
        }
        let only = CredentialSources::new(&[header("Authorization", Some("Bearer"))]);
        assert_eq!(found(&only, "/", "Authorization: Basic YTpi\r\n"), Ok("foreign".to_owned()));
        let scheme_less = CredentialSources::new(&[header("X-Token", Some("key="))]);
        assert_eq!(found(&scheme_less, "/", "X-Token: KEY=a\r\n"), Ok("a".to_owned()));
    }

    #[test]
    fn a_credential_is_taken_out_with_what_looks_like_it() {
        let fields = "Authorization: Basic YTpi\r\nX-Token: t\r\nX_Token: u\r\nCookie: a=b; session=c\r\n";
        let mut sent = Sent::with("GET /?access_token=q&x=y HTTP/1.1", fields);
        let mut context = Context::default();
        all().remove(&mut sent.request(&mut context), &|_| false);
        let head = String::from_utf8_lossy(sent.head.head.bytes()).into_owned();
        assert_eq!(
            head,
            "GET /?x=y HTTP/1.1\r\nHost: a.example\r\nAuthorization: Basic YTpi\r\nCookie: a=b\r\n\r\n"
        );
    }
}
