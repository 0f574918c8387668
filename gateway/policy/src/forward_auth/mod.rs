//! `forward_auth`: asks an authorization service over HTTP/1.1 whether a request may proceed, like nginx's
//! `auth_request` and Traefik's ForwardAuth.
//!
//! The policy sends a GET with the request's fields, plus fields for the method and the target. If the
//! service also receives the body, the policy sends a POST. A 2xx admits the request; the client receives any
//! other response of the service. A late or malformed response refuses the request.

mod config;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_config::section::Word;
use tollgate_http::{Field, Head, Method, Name, ResponseHead};
use tollgate_observe::Reason;

use crate::auth_body::{AuthBody, PARTIAL};
use crate::client::{Http1Service, ServiceRequest, ServiceResponse, http1_service};
use crate::service_authenticator::ServiceAuthenticator;
use crate::{
    Authenticator, Consumer, Identity, Planned, Policy, PolicyResponse, PolicyStates, Refusal, Request,
    Reserved, Trust, Verdict, loops, percent_encode,
};

pub(crate) use config::ForwardAuthSettings;

/// The maximum size in bytes of a response body that is passed on to the client.
const RESPONSE_MAX_BYTES: usize = 1 << 20;

/// Fields that describe the request. The client's fields of these names are not passed on.
const REQUEST_FIELDS: [&str; 9] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-original-uri",
    "x-original-method",
    "x-original-url",
    PARTIAL,
];

/// Asks an authorization service whether a request may proceed.
#[derive(Debug)]
pub struct ForwardAuthRules {
    /// The URL of the service.
    pub url: String,
    /// The TLS settings for the service.
    pub trust: Trust,
    /// The time limit of a call.
    pub timeout: Duration,
    /// The request fields that the service receives; `None`: all of them.
    pub request_headers: Option<Vec<String>>,
    /// The part of the request's body that the service receives; `None`: no body.
    pub body: Option<AuthBody>,
    /// Fields of the service's response that go upstream with the request; the client's are removed.
    pub response_headers: Vec<String>,
    /// The page to which a 401 of the service redirects; `None`: the client gets the service's response.
    pub sign_in: Option<SignIn>,
    /// The field of the service's response with the consumer's name.
    pub consumer: Option<String>,
    /// The field of the service's response with the consumer's groups, separated by commas.
    pub groups: Option<String>,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
}

/// A page where clients sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// The page's URL up to the value of the parameter that holds the URL of the request.
    start: String,
    /// The rest of the page's URL: its fragment.
    end: String,
    value: SignInValue,
}

/// The value of the page's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum SignInValue {
    /// Its whole URL.
    Url,
    /// Its path and query.
    Uri,
}

impl SignIn {
    /// Makes the page at a URL, which receives the URL of the request, or its path and query, in a parameter.
    #[must_use]
    pub fn new(url: &str, parameter: &str, value: SignInValue) -> Self {
        let (page, end) = url.split_at(url.find('#').unwrap_or(url.len()));
        let separator = if page.contains('?') { '&' } else { '?' };
        Self { start: format!("{page}{separator}{parameter}="), end: end.to_owned(), value }
    }

    /// Returns the redirect to the page. The service's cookies go with it, because some services keep the state
    /// of the sign-in there.
    fn redirect(&self, request: &Request<'_>, response: &ServiceResponse) -> Verdict {
        let mut location = self.start.clone().into_bytes();
        let value = match self.value {
            SignInValue::Url => request_url(request),
            SignInValue::Uri => target(request),
        };
        percent_encode(&value, &mut location);
        location.extend_from_slice(self.end.as_bytes());
        let head = &response.head.head;
        let cookies = values_of(head, "set-cookie").map(|value| (b"set-cookie".as_slice(), value));
        let fields = std::iter::once((b"location".as_slice(), location.as_slice())).chain(cookies);
        Verdict::Respond(PolicyResponse::with_fields(302, fields, Vec::new()))
    }
}

/// Returns the whole URL of a request.
fn request_url(request: &Request<'_>) -> Vec<u8> {
    let scheme: &[u8] = if request.origin.secure { b"https://" } else { b"http://" };
    [scheme, request.authority(), &target(request)].concat()
}

/// Returns the target of a request with its path in normal form, which was matched and goes upstream.
fn target(request: &Request<'_>) -> Vec<u8> {
    let mut target = request.path().to_vec();
    if let Some(query) = request.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

impl Planned for ForwardAuthRules {
    fn kind(&self) -> &'static str {
        "forward_auth"
    }

    fn summary(&self) -> String {
        format!("asks {}", self.url)
    }

    fn activate(self: Arc<Self>, _: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let service = http1_service(&self.url, &self.trust, shared);
        let names = self.response_headers.iter().chain(&self.consumer).chain(&self.groups);
        let authenticator = ServiceAuthenticator::new(names.cloned(), self.identity.clone());
        let shared = shared.clone();
        let inner = ForwardAuthClient {
            service,
            authenticator,
            request_fields: Reserved::new(REQUEST_FIELDS),
            rules: self,
            shared,
        };
        Arc::new(ForwardAuthState(Arc::new(inner)))
    }
}

#[derive(Debug)]
struct ForwardAuthState(Arc<ForwardAuthClient>);

#[derive(Debug)]
struct ForwardAuthClient {
    rules: Arc<ForwardAuthRules>,
    service: Arc<Http1Service>,
    authenticator: ServiceAuthenticator,
    /// The fields that describe the request to the service.
    request_fields: Reserved,
    shared: Arc<PolicyStates>,
}

impl Policy for ForwardAuthState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.0.rules.identity.rewrite(request);
        let Some(body) = self.0.rules.body else { return self.0.clone().ask(request, None) };
        let inner = self.0.clone();
        body.read(request, move |body, request| inner.ask(request, Some(body)))
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(&self.0.authenticator)
    }
}

impl ForwardAuthClient {
    /// Asks the service. `body`: the request's body, and whether it is only the start of it.
    fn ask(self: Arc<Self>, request: &mut Request<'_>, body: Option<(&[u8], bool)>) -> Verdict {
        if loops::is_auth_loop(request.head) {
            return Refusal::from(Reason::LoopDetected).into();
        }
        let Some(question) = self.service_request(request, body) else {
            return Verdict::unavailable("the request cannot be told");
        };
        let (service, timeout) = (self.service.clone(), self.rules.timeout);
        let asked = self.shared.background().run(async move {
            let response = service.ask(&question, RESPONSE_MAX_BYTES, timeout).await;
            response.map_err(|fault| fault.of_authorisation())
        });
        Verdict::Wait(Box::pin(async move {
            let response = asked.await.unwrap_or(Err("the authorisation service could not be asked"));
            let after = move |request: &mut Request<'_>| match response {
                Ok(response) if (200..300).contains(&response.head.status) => {
                    self.rules.admit(request, &self.authenticator.reserved, &response.head)
                }
                Ok(response) if response.head.status == 401 => match &self.rules.sign_in {
                    Some(page) => page.redirect(request, &response),
                    None => answer(&response),
                },
                Ok(response) if (300..600).contains(&response.head.status) => answer(&response),
                Ok(_) => {
                    Verdict::unavailable("the authorisation service's answer has no status that there is")
                }
                Err(detail) => Verdict::unavailable(detail),
            };
            Box::new(after) as crate::Continuation
        }))
    }

    /// Returns the request to the service; `None` if a field is not valid for it.
    fn service_request(&self, request: &Request<'_>, body: Option<(&[u8], bool)>) -> Option<ServiceRequest> {
        let head = &request.head.head;
        let mut question = ServiceRequest::new(if body.is_some() { Method::Post } else { Method::Get });
        for field in head.fields() {
            let name = head.slice(field.name);
            let concerns_us = field.id.is_hop_by_hop()
                || field.nominated
                || matches!(
                    field.id,
                    Name::Host | Name::ContentLength | Name::Expect | Name::AmbiguousSpelling
                )
                || self.request_fields.has(name)
                || name.eq_ignore_ascii_case(b"cdn-loop")
                || !request.origin.forwarding.passes(request.origin.peer.ip(), field.id, name)
                || self.authenticator.reserves(field.id, name);
            let wanted = self
                .rules
                .request_headers
                .as_ref()
                .is_none_or(|wanted| wanted.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name)));
            if !concerns_us && wanted && !question.add(name, head.slice(field.value)) {
                return None;
            }
        }
        let (target, url) = (target(request), request_url(request));
        let host = request.authority().to_vec();
        let proto: &[u8] = if request.origin.secure { b"https" } else { b"http" };
        let client = request.origin.client.to_string();
        for (name, value) in [
            ("x-forwarded-for", client.as_bytes()),
            ("x-forwarded-proto", proto),
            ("x-forwarded-host", &host),
            ("x-forwarded-method", request.method()),
            ("x-forwarded-uri", &target),
            ("x-original-method", request.method()),
            ("x-original-uri", &target),
            ("x-original-url", &url),
            ("cdn-loop", &loops::forwarded_value(request.head)),
        ] {
            if !question.add(name.as_bytes(), value) {
                return None;
            }
        }
        if let Some((body, partial)) = body {
            let partial: &[u8] = if partial { b"true" } else { b"false" };
            question.add(PARTIAL.as_bytes(), partial).then_some(())?;
            question.body = Some(Bytes::copy_from_slice(body));
        }
        Some(question)
    }
}

impl ForwardAuthRules {
    fn admit(&self, request: &mut Request<'_>, reserved: &Reserved, answer: &ResponseHead) -> Verdict {
        let head = &answer.head;
        let mut names = self.response_headers.iter().chain(&self.consumer).chain(&self.groups);
        if names.any(|name| values_of(head, name).count() > 1) {
            // With two values, the readers of the fields might choose different ones.
            return Verdict::unavailable(
                "the authorisation service's answer has a field twice that goes upstream",
            );
        }
        let value = |name: &str| values_of(head, name).next();
        request.context.is_personal = true;
        request.reserve(reserved);
        // The consumer of an earlier policy stays, unless the service names another one.
        self.identity.rewrite(request);
        for name in &self.response_headers {
            if let Some(value) = value(name) {
                request.set(name, value);
            }
        }
        let text = |name: &Option<String>| {
            let value = value(name.as_ref()?)?;
            std::str::from_utf8(value).ok().map(str::to_owned)
        };
        if let Some(consumer) = Consumer::from_service(text(&self.consumer), text(&self.groups)) {
            self.identity.remove(request);
            self.identity.set_consumer(request, &consumer);
        }
        Verdict::Continue
    }
}

/// Returns the values of a field, except fields that `Connection` nominates.
fn values_of<'h>(head: &'h Head, name: &str) -> impl Iterator<Item = &'h [u8]> {
    let is = move |field: &&Field| head.slice(field.name).eq_ignore_ascii_case(name.as_bytes());
    head.fields().iter().filter(is).filter(|field| !field.nominated).map(|field| head.slice(field.value))
}

/// Converts the service's response for the client. Fields that `Connection` nominates end here (RFC 9110,
/// 7.6.1).
fn answer(response: &ServiceResponse) -> Verdict {
    let head = &response.head.head;
    // The software of the service is not disclosed.
    let passes = |field: &&Field| !field.nominated && field.id != Name::Server;
    let fields = head.fields().iter().filter(passes);
    let fields = fields.map(|field| (head.slice(field.name), head.slice(field.value)));
    Verdict::Respond(PolicyResponse::with_fields(response.head.status, fields, response.body.clone()))
}

#[cfg(test)]
mod tests {
    use tollgate_http::HeadLimits;
    use tollgate_http::h1::ResponseParser;

    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    #[test]
    fn a_page_where_clients_sign_in_gets_the_url_of_the_request() {
        let mut sent = Sent::at("a.example:81", "GET /x/%26?b=c&d HTTP/1.1", "");
        let mut context = Context::default();
        let request = sent.request(&mut context);
        let mut response = ServiceResponse::default();
        let limits = HeadLimits { line: 100, head: 1000, fields: 10 };
        let text = b"HTTP/1.1 401 Unauthorized\r\nSet-Cookie: state=1\r\nX-Other: 1\r\n\r\n";
        let parsed = ResponseParser::default().advance(text, Method::Get, &mut response.head, &limits);
        parsed.expect("a head");
        let (url, uri) = ("http%3A%2F%2Fa.example%3A81%2Fx%2F%2526%3Fb%3Dc%26d", "%2Fx%2F%2526%3Fb%3Dc%26d");
        for (page, value, start, rd, end) in [
            ("https://login.example/start", SignInValue::Url, "https://login.example/start?rd=", url, ""),
            (
                "https://login.example/?a=b#top",
                SignInValue::Uri,
                "https://login.example/?a=b&rd=",
                uri,
                "#top",
            ),
        ] {
            let Verdict::Respond(answer) = SignIn::new(page, "rd", value).redirect(&request, &response)
            else {
                panic!("it is an answer")
            };
            assert_eq!(answer.status, 302);
            let lines = format!("location: {start}{rd}{end}\r\nset-cookie: state=1\r\n");
            assert_eq!(String::from_utf8_lossy(&answer.lines), lines);
        }
    }

    #[test]
    fn fields_nominated_by_connection_are_dropped() {
        let text =
            b"HTTP/1.1 403 Forbidden\r\nConnection: X-Gone, close\r\nConnection: Location\r\nX-Gone: 1\r\n\
            X-Stays: 2\r\nServer: s\r\nLocation: /login\r\n\r\n";
        let (mut response, limits) =
            (ServiceResponse::default(), HeadLimits { line: 100, head: 1000, fields: 10 });
        let parsed = ResponseParser::default().advance(text, Method::Get, &mut response.head, &limits);
        parsed.expect("a head");
        let Verdict::Respond(answer) = answer(&response) else { panic!("it is an answer") };
        assert_eq!(String::from_utf8_lossy(&answer.lines), "x-stays: 2\r\nlocation: /login\r\n");
    }
}
