//! `forward_auth`: asks an authorization service over HTTP/1.1 whether a request may proceed, like nginx's
//! `auth_request` and Traefik's ForwardAuth.
//!
//! The policy sends a GET with the request's fields, plus fields for the method and the target. If the
//! service also receives the body, the policy sends a POST. A 2xx admits the request; the client receives any
//! other response of the service. A late or malformed response refuses the request.
//!
//! A response becomes a [`Decision`], which the policy applies to the request. With a [cache](DecisionCache) it is
//! remembered for requests with the same [key](decision_key), which then ask nothing and stay on their worker.

mod cache_config;
mod config;
mod decision;
mod decision_cache;
mod decision_key;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_config::section::Word;
use tollgate_http::{Method, Name};
use tollgate_observe::Reason;

use self::decision::Decision;
use self::decision_cache::{Asked, DecisionCache, DecisionKey};
use self::decision_key::DecisionKeyRules;
use crate::auth_body::{AuthBody, PARTIAL};
use crate::client::{Http1Service, ServiceRequest, ServiceResponse, http1_service};
use crate::recent_map::RecentBounds;
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

/// The statuses of responses that get the cookies of [`SetCookies::Successful`], as nginx's `add_header` does.
const SUCCESSFUL_STATUSES: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Asks an authorization service whether a request may proceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardAuthRules {
    /// The URL of the service.
    pub url: String,
    /// The TLS settings for the service.
    pub trust: Trust,
    /// The time limit of a call.
    pub timeout: Duration,
    /// The method of the question; `None`: POST if there is a body, otherwise GET.
    pub method: Option<Method>,
    /// The request fields that the service receives; `None`: all of them.
    pub request_headers: Option<Vec<String>>,
    /// The part of the request's body that the service receives; `None`: no body.
    pub body: Option<AuthBody>,
    /// Fields of the service's response that go upstream with the request; the client's are removed.
    pub response_headers: Vec<String>,
    /// The responses to which the service's cookies are added when it admits the request.
    pub set_cookies: SetCookies,
    /// The page to which a 401 of the service redirects; `None`: the client gets the service's response.
    pub sign_in: Option<SignIn>,
    /// The field of the service's response with the consumer's name.
    pub consumer: Option<String>,
    /// The field of the service's response with the consumer's groups, separated by commas.
    pub groups: Option<String>,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
    /// How decisions are remembered; `None`: the service is asked about each request.
    pub cache: Option<DecisionCacheRules>,
}

/// How decisions are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionCacheRules {
    /// The parts of a request that its decision depends on.
    key: DecisionKeyRules,
    /// How long decisions are remembered, by the first and the last status.
    lifetimes: Box<[((u16, u16), Duration)]>,
    bounds: RecentBounds,
}

/// The responses to which cookies of the service are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Word)]
pub enum SetCookies {
    /// None.
    Off,
    /// Those with a status of success or of a redirect.
    Successful,
    /// All.
    Always,
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
    fn redirect(&self, request: &Request<'_>, cookies: &[Vec<u8>]) -> Verdict {
        let mut location = self.start.clone().into_bytes();
        let value = match self.value {
            SignInValue::Url => request_url(request),
            SignInValue::Uri => target(request),
        };
        percent_encode(&value, &mut location);
        location.extend_from_slice(self.end.as_bytes());
        let cookies = cookies.iter().map(|value| (b"set-cookie".as_slice(), value.as_slice()));
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
        let cached = if self.cache.is_some() { ", remembers decisions" } else { "" };
        format!("asks {}{cached}", self.url)
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let service = http1_service(&self.url, &self.trust, shared);
        let authenticator = ServiceAuthenticator::new(self.names().cloned(), self.identity.clone());
        let cache = self.cache.as_ref().and_then(|cache| {
            let place = key.strip_suffix("/forward_auth").unwrap_or(key);
            let count = |event| shared.events().counter("forward_auth", place, event);
            // Other rules may lead to other decisions.
            let known = shared.state(
                key,
                |known: &KnownDecisions| *known.rules == *self,
                || KnownDecisions {
                    rules: self.clone(),
                    decisions: DecisionCache::new(cache.bounds, count("hits"), count("misses")).map(Arc::new),
                },
            );
            known.decisions.is_some().then_some(known)
        });
        let shared = shared.clone();
        let inner = ForwardAuthClient {
            service,
            authenticator,
            cache,
            request_fields: Reserved::new(REQUEST_FIELDS),
            rules: self,
            shared,
        };
        Arc::new(ForwardAuthState(Arc::new(inner)))
    }
}

/// The decisions of a service, and the rules under which it made them.
#[derive(Debug)]
struct KnownDecisions {
    rules: Arc<ForwardAuthRules>,
    /// `None`: the system has no random numbers.
    decisions: Option<Arc<DecisionCache>>,
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
    cache: Option<Arc<KnownDecisions>>,
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
        let cached = self.cached(request);
        if let Some((cache, key)) = &cached
            // The current time: a slow head must not extend the time for which a decision is remembered.
            && let Some(decision) = cache.get(key, tollgate_net::now())
        {
            return self.rules.apply(request, &self.authenticator.reserved, &decision);
        }
        let Some(question) = self.service_request(request, body) else {
            return Verdict::unavailable("the request cannot be told");
        };
        let client = self.clone();
        let asked = self.shared.background().run(async move {
            match cached {
                Some((cache, key)) => {
                    cache.ask(key, client.rules.timeout, || client.answer_to(&question)).await
                }
                None => client.answer_to(&question).await.map(|asked| asked.decision),
            }
        });
        Verdict::Wait(Box::pin(async move {
            let asked = asked.await.unwrap_or(Err("the authorisation service could not be asked"));
            let after = move |request: &mut Request<'_>| match asked {
                Ok(decision) => self.rules.apply(request, &self.authenticator.reserved, &decision),
                Err(detail) => Verdict::unavailable(detail),
            };
            Box::new(after) as crate::Continuation
        }))
    }

    /// Returns the cache and the key of a request's decision; `None`: the service must be asked about this request.
    fn cached(&self, request: &Request<'_>) -> Option<(Arc<DecisionCache>, DecisionKey)> {
        let cache = self.cache.as_ref()?.decisions.clone()?;
        let parts = self.rules.cache.as_ref()?.key.of(request)?;
        let key = cache.key(&parts);
        Some((cache, key))
    }

    /// Asks the service.
    async fn answer_to(&self, question: &ServiceRequest) -> Result<Asked, &'static str> {
        let response = self.service.ask(question, RESPONSE_MAX_BYTES, self.rules.timeout).await;
        let response: ServiceResponse = response.map_err(|fault| fault.of_authorisation())?;
        let cache = self.rules.cache.as_ref();
        let lifetime = cache.and_then(|cache| decision::lifetime(&cache.lifetimes, &response));
        Ok(Asked { decision: Arc::new(Decision::of(&self.rules, response)?), lifetime })
    }

    /// Returns the request to the service; `None` if a field is not valid for it.
    fn service_request(&self, request: &Request<'_>, body: Option<(&[u8], bool)>) -> Option<ServiceRequest> {
        let head = &request.head.head;
        let usual = if body.is_some() { Method::Post } else { Method::Get };
        let mut question = ServiceRequest::new(self.rules.method.unwrap_or(usual));
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
    /// Returns the names of the fields of a response that matter here.
    fn names(&self) -> impl Iterator<Item = &String> {
        self.response_headers.iter().chain(&self.consumer).chain(&self.groups)
    }

    /// Applies a decision to a request.
    fn apply(&self, request: &mut Request<'_>, reserved: &Reserved, decision: &Decision) -> Verdict {
        match decision {
            Decision::Admit { values, cookies } => {
                let value = |name: &String| {
                    let found = self.names().zip(values).find(|(own, _)| *own == name);
                    found.and_then(|(_, value)| value.as_ref()).map(|value| value.as_slice())
                };
                self.admit(request, reserved, value);
                self.add_cookies(request, cookies);
                Verdict::Continue
            }
            Decision::SignIn { cookies } => match &self.sign_in {
                Some(page) => page.redirect(request, cookies),
                None => Verdict::unavailable("there is no page to sign in"),
            },
            Decision::Answer(answer) => Verdict::Respond(answer.clone()),
        }
    }

    /// `value` returns the value of a field in the service's response.
    fn admit<'v>(
        &self,
        request: &mut Request<'_>,
        reserved: &Reserved,
        value: impl Fn(&String) -> Option<&'v [u8]>,
    ) {
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
    }

    /// Adds the service's cookies to the response.
    fn add_cookies(&self, request: &mut Request<'_>, cookies: &[Vec<u8>]) {
        let to = self.set_cookies;
        if to == SetCookies::Off || cookies.is_empty() {
            return;
        }
        let cookies = cookies.to_vec();
        request.context.on_head(move |response| {
            if to == SetCookies::Always || SUCCESSFUL_STATUSES.contains(&response.status()) {
                cookies.iter().for_each(|cookie| response.append("Set-Cookie", cookie));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    #[test]
    fn cookies_of_the_service_are_added_to_the_responses_that_are_named() {
        for (set_cookies, status, expected) in [
            (SetCookies::Off, 200, ""),
            (SetCookies::Successful, 200, "Set-Cookie: a=1\r\n"),
            (SetCookies::Successful, 404, ""),
            (SetCookies::Always, 404, "Set-Cookie: a=1\r\n"),
        ] {
            let rules = ForwardAuthRules { set_cookies, ..plain_rules() };
            let (mut sent, mut context) = (Sent::new(""), Context::default());
            let response = decision::tests::response("HTTP/1.1 204 X\r\nSet-Cookie: a=1\r\n\r\n");
            let decision = Decision::of(&rules, response).expect("a decision");
            let verdict = rules.apply(&mut sent.request(&mut context), &Reserved::default(), &decision);
            assert!(matches!(verdict, Verdict::Continue));
            let fields = crate::testing::fields_without_body(context, "GET / HTTP/1.1", status, "");
            assert_eq!(fields, expected, "{set_cookies:?} {status}");
        }
    }

    fn plain_rules() -> ForwardAuthRules {
        ForwardAuthRules {
            url: "http://auth.example/".to_owned(),
            trust: Trust::default(),
            timeout: Duration::from_secs(1),
            method: None,
            request_headers: None,
            body: None,
            response_headers: Vec::new(),
            set_cookies: SetCookies::Off,
            sign_in: None,
            consumer: None,
            groups: None,
            identity: Identity::default(),
            cache: None,
        }
    }

    #[test]
    fn a_page_where_clients_sign_in_gets_the_url_of_the_request() {
        let mut sent = Sent::at("a.example:81", "GET /x/%26?b=c&d HTTP/1.1", "");
        let mut context = Context::default();
        let request = sent.request(&mut context);
        let cookies = [b"state=1".to_vec()];
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
            let Verdict::Respond(answer) = SignIn::new(page, "rd", value).redirect(&request, &cookies) else {
                panic!("it is an answer")
            };
            assert_eq!(answer.status, 302);
            let lines = format!("location: {start}{rd}{end}\r\nset-cookie: state=1\r\n");
            assert_eq!(String::from_utf8_lossy(&answer.lines), lines);
        }
    }
}
