//! `forward_auth`: a service of the operator decides whether a request may go on, as with nginx's `auth_request` and Traefik's
//! ForwardAuth.
//!
//! The policy sends a GET with the request's fields, and the method and the target in fields of their own. If the service gets
//! the body too, the policy sends a POST. A 2xx lets the request through; the client gets any other answer. A late or malformed
//! answer refuses the request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_http::{Field, Head, Method, Name, ResponseHead};
use tollgate_observe::Reason;

use crate::auth_body::{AuthBody, PARTIAL};
use crate::client::{Answer as Said, Http1Service, Question, http1_service};
use crate::{
    Answer, Authenticator, Consumer, Identity, Planned, Policy, Refusal, Request, Reserved, Shared, Trust,
    Verdict, loops,
};

/// The largest body of an answer that goes to the client, in bytes.
const LARGEST: usize = 1 << 20;

/// Fields that the service is told although it may write them itself: by them it knows who asks.
pub(crate) const CREDENTIALS: [&str; 2] = ["Authorization", "Cookie"];

/// Fields that tell of the request; what the client sends there is not passed on.
const TOLD: [&str; 9] = [
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

/// A service says whether a request may go on.
#[derive(Debug)]
pub struct ForwardAuthRules {
    /// Where it is asked.
    pub url: String,
    /// How it is spoken to.
    pub trust: Trust,
    /// How long it may take.
    pub timeout: Duration,
    /// Fields of the request that it gets; `None`: all of them.
    pub request_headers: Option<Vec<String>>,
    /// How much of the request's body it gets; `None`: nothing.
    pub body: Option<AuthBody>,
    /// Fields of its answer that go upstream with the request; what the client sends there is taken out.
    pub response_headers: Vec<String>,
    /// The field of its answer that is the consumer's name.
    pub consumer: Option<String>,
    /// The field of its answer that has the consumer's groups, with commas.
    pub groups: Option<String>,
    /// How the upstream is told who it is.
    pub identity: Identity,
}

impl Planned for ForwardAuthRules {
    fn kind(&self) -> &'static str {
        "forward_auth"
    }

    fn summary(&self) -> String {
        format!("asks {}", self.url)
    }

    fn live(self: Arc<Self>, _: &str, shared: &Arc<Shared>) -> Arc<dyn Policy> {
        let service = http1_service(&self.url, &self.trust, shared);
        let names = self.response_headers.iter().chain(&self.consumer).chain(&self.groups);
        let reserved = Reserved::new(names.cloned());
        let own = reserved.without(&CREDENTIALS);
        let shared = shared.clone();
        let inner = Inner { service, reserved, own, told: Reserved::new(TOLD), rules: self, shared };
        Arc::new(Live(Arc::new(inner)))
    }
}

#[derive(Debug)]
struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rules: Arc<ForwardAuthRules>,
    service: Arc<Http1Service>,
    /// The fields of its answer that go upstream, or say who it is: upstreams may take both for what it says.
    reserved: Reserved,
    /// Those of them that are no credentials.
    own: Reserved,
    /// What tells it of the request.
    told: Reserved,
    shared: Arc<Shared>,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.0.rules.identity.renew(request);
        let Some(body) = self.0.rules.body else { return self.0.clone().ask(request, None) };
        let inner = self.0.clone();
        body.read(request, move |body, request| inner.ask(request, Some(body)))
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(&*self.0)
    }
}

impl Authenticator for Inner {
    /// The service alone knows what it takes for a credential.
    fn is_shown(&self, _: &Request<'_>) -> bool {
        true
    }

    fn is_optional(&self) -> bool {
        false
    }

    fn claim(&self, request: &mut Request<'_>) {
        self.rules.identity.renew(request);
        // By credentials the service knows who asks, also where it puts others in their place.
        request.claim(&self.own);
    }

    fn forwards(&self, field: &str) -> bool {
        self.reserved.has(field.as_bytes())
    }

    fn conceal(&self, request: &mut Request<'_>, kept: &dyn Fn(&str) -> bool) {
        for field in CREDENTIALS {
            if self.reserved.has(field.as_bytes()) && !kept(field) {
                request.remove(field);
            }
        }
    }
}

impl Inner {
    /// Asks the service. `body`: the request's, and whether that is only its beginning.
    fn ask(self: Arc<Self>, request: &mut Request<'_>, body: Option<(&[u8], bool)>) -> Verdict {
        if loops::is_asked_again(request.head) {
            return Refusal::from(Reason::LoopDetected).into();
        }
        let Some(question) = self.question(request, body) else {
            return Verdict::unavailable("the request cannot be told");
        };
        let (service, timeout) = (self.service.clone(), self.rules.timeout);
        let asked = self.shared.side().ask(async move {
            let said = service.ask(&question, LARGEST, timeout).await;
            said.map_err(|fault| fault.of_authorisation())
        });
        Verdict::Wait(Box::pin(async move {
            let said = asked.await.unwrap_or(Err("the authorisation service could not be asked"));
            let after = move |request: &mut Request<'_>| match said {
                Ok(said) if (200..300).contains(&said.head.status) => {
                    self.rules.admit(request, &self.reserved, &said.head)
                }
                Ok(said) if (300..600).contains(&said.head.status) => answer(&said),
                Ok(_) => {
                    Verdict::unavailable("the authorisation service's answer has no status that there is")
                }
                Err(detail) => Verdict::unavailable(detail),
            };
            Box::new(after) as crate::After
        }))
    }

    /// The request to the service.
    fn question(&self, request: &Request<'_>, body: Option<(&[u8], bool)>) -> Option<Question> {
        let head = &request.head.head;
        let mut question = Question::new(if body.is_some() { Method::Post } else { Method::Get });
        for field in head.fields() {
            let name = head.slice(field.name);
            let concerns_us = field.id.is_hop_by_hop()
                || field.nominated
                || matches!(field.id, Name::Host | Name::ContentLength | Name::Expect | Name::Alias)
                || self.told.has(name)
                || name.eq_ignore_ascii_case(b"cdn-loop")
                || !request.origin.word.passes(request.origin.peer.ip(), field.id, name)
                || is_its_own(&self.reserved, field.id, name);
            let wanted = self
                .rules
                .request_headers
                .as_ref()
                .is_none_or(|wanted| wanted.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name)));
            if !concerns_us && wanted && !question.add(name, head.slice(field.value)) {
                return None;
            }
        }
        // The path that is told is the one that was matched and goes upstream.
        let mut target = request.path().to_vec();
        if let Some(query) = request.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
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
            ("cdn-loop", &loops::passed_on(request.head)),
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
        if names.any(|name| named(head, name).count() > 1) {
            // Which of two names holds would be up to who reads them.
            return Verdict::unavailable(
                "the authorisation service's answer has a field twice that goes upstream",
            );
        }
        let value = |name: &str| named(head, name).next();
        request.claim(reserved);
        // Whom a policy before has found stays known, unless the service names another.
        self.identity.renew(request);
        for name in &self.response_headers {
            if let Some(value) = value(name) {
                request.set(name, value);
            }
        }
        let text = |name: &Option<String>| {
            let value = value(name.as_ref()?)?;
            std::str::from_utf8(value).ok().map(str::to_owned)
        };
        if let Some(consumer) = Consumer::told(text(&self.consumer), text(&self.groups)) {
            self.identity.strip(request);
            self.identity.tell(request, &consumer);
        }
        Verdict::Continue
    }
}

/// The values of a field, but for those that concern the connection alone.
fn named<'h>(head: &'h Head, name: &str) -> impl Iterator<Item = &'h [u8]> {
    let is = move |field: &&Field| head.slice(field.name).eq_ignore_ascii_case(name.as_bytes());
    head.fields().iter().filter(is).filter(|field| !field.nominated).map(|field| head.slice(field.value))
}

/// Whether a field is one that the service alone writes, so that it is not told what the client says there: it might take it
/// for its own. By credentials it knows who asks, also where it puts others in their place.
pub(crate) fn is_its_own(reserved: &Reserved, id: Name, name: &[u8]) -> bool {
    !matches!(id, Name::Authorization | Name::Cookie) && reserved.has(name)
}

/// What the service says, for the client. What `Connection` names goes no further (RFC 9110, 7.6.1).
fn answer(said: &Said) -> Verdict {
    let head = &said.head.head;
    // What it is made with is nobody's business.
    let passes = |field: &&Field| !field.nominated && field.id != Name::Server;
    let fields = head.fields().iter().filter(passes);
    let fields = fields.map(|field| (head.slice(field.name), head.slice(field.value)));
    Verdict::Answer(Answer::with_fields(said.head.status, fields, said.body.clone()))
}

#[cfg(test)]
mod tests {
    use tollgate_http::HeadLimits;
    use tollgate_http::h1::ResponseParser;

    use super::*;

    #[test]
    fn what_the_answers_connection_names_does_not_reach_the_client() {
        let text =
            b"HTTP/1.1 403 Forbidden\r\nConnection: X-Gone, close\r\nConnection: Location\r\nX-Gone: 1\r\n\
            X-Stays: 2\r\nServer: s\r\nLocation: /login\r\n\r\n";
        let (mut said, limits) = (Said::default(), HeadLimits { line: 100, head: 1000, fields: 10 });
        let parsed = ResponseParser::default().advance(text, Method::Get, &mut said.head, &limits);
        parsed.expect("a head");
        let Verdict::Answer(answer) = answer(&said) else { panic!("it is an answer") };
        assert_eq!(String::from_utf8_lossy(&answer.lines), "x-stays: 2\r\nlocation: /login\r\n");
    }
}
