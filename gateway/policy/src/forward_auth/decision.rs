//! A decision of the service, apart from the response that carried it.
//!
//! [`Decision::of`] takes from a response what later requests with the same key need, and [`lifetime`] says how long it
//! may be remembered. The policy applies every decision in this form, whether it was remembered or not.

use std::time::Duration;

use tollgate_http::{Field, Head, Name};
use zeroize::Zeroizing;

use super::{ForwardAuthRules, SetCookies};
use crate::PolicyResponse;
use crate::client::ServiceResponse;

/// Times for which decisions are remembered, by the first and the last status that they hold for.
pub(super) type Lifetimes = [((u16, u16), Duration)];

/// The service's decision about a request.
#[derive(Debug)]
pub(super) enum Decision {
    /// The request may proceed.
    Admit {
        /// The values for the names of [`ForwardAuthRules::names`], in their order. They may be tokens.
        values: Vec<Option<Zeroizing<Vec<u8>>>>,
        /// The cookies for the client.
        cookies: Vec<Vec<u8>>,
    },
    /// The client signs in first, at the page of the rules. The cookies go with the redirect.
    SignIn { cookies: Vec<Vec<u8>> },
    /// The client gets this response.
    Answer(PolicyResponse),
}

impl Decision {
    /// Returns the decision that a response carries.
    ///
    /// # Errors
    /// The cause if it carries none.
    pub fn of(rules: &ForwardAuthRules, response: ServiceResponse) -> Result<Self, &'static str> {
        let head = &response.head.head;
        let cookies = || values_of(head, "set-cookie").map(<[u8]>::to_vec).collect();
        match response.head.status {
            200..300 => {
                let mut values = Vec::new();
                for name in rules.names() {
                    let mut found = values_of(head, name);
                    values.push(found.next().map(|value| Zeroizing::new(value.to_vec())));
                    if found.next().is_some() {
                        // With two values, the readers of the fields might choose different ones.
                        return Err(
                            "the authorisation service's answer has a field twice that goes upstream",
                        );
                    }
                }
                let cookies = if rules.set_cookies == SetCookies::Off { Vec::new() } else { cookies() };
                Ok(Self::Admit { values, cookies })
            }
            401 if rules.sign_in.is_some() => Ok(Self::SignIn { cookies: cookies() }),
            300..600 => Ok(Self::Answer(answer(response))),
            _ => Err("the authorisation service's answer has no status that there is"),
        }
    }

    /// Returns the bytes that it occupies, approximately.
    pub fn size(&self) -> usize {
        let bytes =
            |texts: &[Vec<u8>]| -> usize { texts.iter().map(|text| text.len() + size_of::<Vec<u8>>()).sum() };
        let own = match self {
            Self::Admit { values, cookies } => {
                let values = values.iter().map(|value| value.as_ref().map_or(0, |value| value.len()));
                values.map(|length| length + size_of::<Vec<u8>>()).sum::<usize>() + bytes(cookies)
            }
            Self::SignIn { cookies } => bytes(cookies),
            Self::Answer(answer) => answer.lines.len() + answer.body.len(),
        };
        size_of::<Self>() + own
    }
}

/// Returns how long the decision of a response may be remembered: the time for its status, or less if the response's
/// `Cache-Control` says so. `None`: not at all. A response that sets a cookie is meant for one client's request.
pub(super) fn lifetime(lifetimes: &Lifetimes, response: &ServiceResponse) -> Option<Duration> {
    let (head, status) = (&response.head.head, response.head.status);
    let holds = lifetimes.iter().filter(|((first, last), _)| (*first..=*last).contains(&status));
    // The entry for the fewest statuses decides.
    let mut lifetime = holds.min_by_key(|((first, last), _)| last - first)?.1;
    if head.has(Name::SetCookie) {
        return None;
    }
    for directive in head.list(Name::CacheControl) {
        let (name, value) = match directive.iter().position(|byte| *byte == b'=') {
            Some(at) => (directive[..at].trim_ascii(), directive[at + 1..].trim_ascii()),
            None => (directive.trim_ascii(), &b""[..]),
        };
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        if is("no-store") || is("no-cache") || is("private") {
            return None;
        }
        if is("max-age") || is("s-maxage") {
            // A value that is not a number means that the response is stale (RFC 9111, 4.2.1).
            let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            lifetime = lifetime.min(Duration::from_secs(seconds));
        }
    }
    (!lifetime.is_zero()).then_some(lifetime)
}

/// Returns the values of a field, except fields that `Connection` nominates.
fn values_of<'h>(head: &'h Head, name: &str) -> impl Iterator<Item = &'h [u8]> {
    let is = move |field: &&Field| head.slice(field.name).eq_ignore_ascii_case(name.as_bytes());
    head.fields().iter().filter(is).filter(|field| !field.nominated).map(|field| head.slice(field.value))
}

/// Converts the service's response for the client. Fields that `Connection` nominates end here (RFC 9110,
/// 7.6.1).
fn answer(response: ServiceResponse) -> PolicyResponse {
    let head = &response.head.head;
    // The software of the service is not disclosed.
    let passes = |field: &&Field| !field.nominated && field.id != Name::Server;
    let fields = head.fields().iter().filter(passes);
    let fields = fields.map(|field| (head.slice(field.name), head.slice(field.value)));
    PolicyResponse::with_fields(response.head.status, fields, response.body)
}

#[cfg(test)]
pub(super) mod tests {
    use tollgate_http::h1::ResponseParser;
    use tollgate_http::{HeadLimits, Method};

    use super::*;

    /// Parses a response without a body.
    pub fn response(text: &str) -> ServiceResponse {
        let mut response = ServiceResponse::default();
        let limits = HeadLimits { line: 100, head: 1000, fields: 10 };
        let parsed =
            ResponseParser::default().advance(text.as_bytes(), Method::Get, &mut response.head, &limits);
        parsed.expect("a head");
        response
    }

    #[test]
    fn fields_nominated_by_connection_are_dropped() {
        let response = response(
            "HTTP/1.1 403 Forbidden\r\nConnection: X-Gone, close\r\nConnection: Location\r\nX-Gone: 1\r\n\
            X-Stays: 2\r\nServer: s\r\nLocation: /login\r\n\r\n",
        );
        assert_eq!(String::from_utf8_lossy(&answer(response).lines), "x-stays: 2\r\nlocation: /login\r\n");
    }

    #[test]
    fn a_decision_is_remembered_for_the_time_of_its_status_or_less() {
        let second = Duration::from_secs(1);
        let lifetimes = [((200, 299), 60 * second), ((204, 204), 10 * second), ((400, 499), 5 * second)];
        for (status, fields, seconds) in [
            (200, "", Some(60)),
            (204, "", Some(10)),
            (401, "", Some(5)),
            (302, "", None),
            (500, "", None),
            (200, "Set-Cookie: a=b\r\n", None),
            (200, "Cache-Control: no-store\r\n", None),
            (200, "Cache-Control: must-revalidate, Private\r\n", None),
            (200, "Cache-Control: no-cache=\"X-A\"\r\n", None),
            (200, "Cache-Control: max-age=20\r\n", Some(20)),
            (200, "Cache-Control: max-age = 20, s-maxage=7\r\n", Some(7)),
            (200, "Cache-Control: max-age=0\r\n", None),
            (200, "Cache-Control: max-age=x\r\n", None),
            (200, "Cache-Control: max-age=99999\r\n", Some(60)),
            (200, "Cache-Control: public\r\nX-Other: 1\r\n", Some(60)),
        ] {
            let response = response(&format!("HTTP/1.1 {status} X\r\n{fields}\r\n"));
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(lifetime(&lifetimes, &response), expected, "{status} {fields}");
        }
    }
}
