//! `forward_auth`: a service of the operator's says whether a request may go on, as with nginx's `auth_request` and Traefik's
//! ForwardAuth.
//!
//! It is asked by a GET with the request's fields, and told method and target in fields of their own; the body stays here. An
//! answer of 2xx lets the request through, any other goes to the client as it is. No answer in time lets nobody through.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::{CONNECTION, HeaderName, HeaderValue, SERVER};
use hyper::{HeaderMap, Method, Request as HttpRequest, Uri};
use tollgate_http::Name;

use crate::client::Service;
use crate::{Answer, Consumer, Identity, Planned, Policy, Request, Reserved, Shared, Trust, Verdict};

/// The largest body of an answer that goes to the client, in bytes.
const LARGEST: usize = 1 << 20;

/// Fields that tell of the request; what the client sends there is not passed on.
const TOLD: [&str; 8] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-original-uri",
    "x-original-method",
    "x-original-url",
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
        let service = Service::of(&format!("client of {}", self.url), &self.trust, false, shared);
        let names = self.response_headers.iter().chain(&self.consumer).chain(&self.groups);
        let reserved = Reserved::new(names.cloned());
        Arc::new(Live { service, reserved, told: Reserved::new(TOLD), rules: self, shared: shared.clone() })
    }
}

#[derive(Debug)]
struct Live {
    rules: Arc<ForwardAuthRules>,
    service: Arc<Service<Empty<Bytes>>>,
    /// The fields of its answer that go upstream, or say who it is: upstreams may take both for what it says.
    reserved: Reserved,
    /// What tells it of the request.
    told: Reserved,
    shared: Arc<Shared>,
}

/// What the service says.
struct Said {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Policy for Live {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.rules.identity.renew(request);
        let Some(question) = self.question(request) else {
            return Verdict::unavailable("the request cannot be told");
        };
        let (service, timeout) = (self.service.clone(), self.rules.timeout);
        let asked = self.shared.side().ask(async move {
            let answer = ask(&service, question);
            tokio::time::timeout(timeout, answer)
                .await
                .unwrap_or(Err("the authorisation service was too slow"))
        });
        let (rules, reserved) = (self.rules.clone(), self.reserved.clone());
        Verdict::Wait(Box::pin(async move {
            let said = asked.await.unwrap_or(Err("the authorisation service could not be asked"));
            let after = move |request: &mut Request<'_>| match said {
                Ok(said) if (200..300).contains(&said.status) => {
                    rules.admit(request, &reserved, &said.headers)
                }
                Ok(said) if (300..600).contains(&said.status) => answer(&said),
                Ok(_) => {
                    Verdict::unavailable("the authorisation service's answer has no status that there is")
                }
                Err(detail) => Verdict::unavailable(detail),
            };
            Box::new(after) as crate::After
        }))
    }
}

impl Live {
    /// The request to the service.
    fn question(&self, request: &Request<'_>) -> Option<HttpRequest<Empty<Bytes>>> {
        let head = &request.head.head;
        let mut question = HttpRequest::new(Empty::new());
        *question.method_mut() = Method::GET;
        *question.uri_mut() = self.rules.url.parse::<Uri>().ok()?;
        let headers = question.headers_mut();
        for field in head.fields() {
            let name = head.slice(field.name);
            let concerns_us = field.id.is_hop_by_hop()
                || field.nominated
                || matches!(field.id, Name::Host | Name::ContentLength | Name::Expect | Name::Alias)
                || self.told.has(name)
                || !request.origin.word.passes(request.origin.peer.ip(), field.id, name)
                || is_its_own(&self.reserved, field.id, name);
            let wanted = self
                .rules
                .request_headers
                .as_ref()
                .is_none_or(|wanted| wanted.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name)));
            if !concerns_us && wanted {
                headers.append(
                    HeaderName::from_bytes(name).ok()?,
                    HeaderValue::from_bytes(head.slice(field.value)).ok()?,
                );
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
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
        }
        Some(question)
    }
}

async fn ask(
    service: &Service<Empty<Bytes>>,
    question: HttpRequest<Empty<Bytes>>,
) -> Result<Said, &'static str> {
    let (parts, body) = service.ask(question).await?.into_parts();
    let body = Limited::new(body, LARGEST).collect().await;
    let body = body.map_err(|_| "the authorisation service's answer broke off, or is too large")?.to_bytes();
    Ok(Said { status: parts.status.as_u16(), headers: parts.headers, body })
}

impl ForwardAuthRules {
    fn admit(&self, request: &mut Request<'_>, reserved: &Reserved, headers: &HeaderMap) -> Verdict {
        request.claim(reserved);
        // Whom a policy before has found stays known, unless the service names another.
        self.identity.renew(request);
        for name in &self.response_headers {
            if headers.contains_key(name.as_str()) {
                request.remove(name);
            }
            for value in headers.get_all(name.as_str()) {
                request.append(name, value.as_bytes());
            }
        }
        let text = |name: &Option<String>| {
            let value = headers.get(name.as_ref()?.as_str())?;
            value.to_str().ok().map(str::to_owned)
        };
        if let Some(consumer) = Consumer::told(text(&self.consumer), text(&self.groups)) {
            self.identity.strip(request);
            self.identity.tell(request, &consumer);
        }
        Verdict::Continue
    }
}

/// Whether a field is one that the service alone writes, so that it is not told what the client says there: it might take it
/// for its own. By credentials it knows who asks, also where it puts others in their place.
pub(crate) fn is_its_own(reserved: &Reserved, id: Name, name: &[u8]) -> bool {
    !matches!(id, Name::Authorization | Name::Cookie) && reserved.has(name)
}

/// Whether the answer's `Connection` names a field, so that it must not go further (RFC 9110, 7.6.1). As in what endpoints
/// answer, only fields that the gateway does not know can be named.
fn is_nominated(headers: &HeaderMap, name: &HeaderName) -> bool {
    let lines = headers.get_all(CONNECTION).iter();
    let mut members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    Name::of(name.as_str().as_bytes()) == Name::Other
        && members.any(|member| member.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}

/// What the service says, for the client.
fn answer(said: &Said) -> Verdict {
    // What it is made with is nobody's business.
    let fields =
        said.headers.iter().filter(|(name, _)| *name != SERVER && !is_nominated(&said.headers, name));
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    Verdict::Answer(Answer::with_fields(said.status, fields, said.body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_answers_connection_names_does_not_reach_the_client() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "X-Gone, close"),
            ("connection", "Location"),
            ("x-gone", "1"),
            ("x-stays", "2"),
            ("location", "/login"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let Verdict::Answer(answer) = answer(&Said { status: 403, headers, body: Bytes::new() }) else {
            panic!("it is an answer")
        };
        assert_eq!(String::from_utf8_lossy(&answer.lines), "x-stays: 2\r\nlocation: /login\r\n");
    }
}
