//! `ext_authz`: asks a service that implements Envoy's gRPC authorization protocol whether a request may
//! proceed.
//!
//! The protocol is one unary call with two messages, which `messages` defines. The shared HTTP/2 client sends
//! them in gRPC framing.

mod config;
mod messages;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request as HttpRequest;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, TE};
use prost::Message;
use tollgate_http::{Name, Version};
use tollgate_observe::Reason;

use self::messages::{
    Address, Allowed, AttributeContext, Attributes, CheckRequest, CheckResponse, Denied, HeaderOption, Peer,
    SocketAddress,
};
use crate::auth_body::{AuthBody, PARTIAL};
use crate::client::Http2Service;
use crate::service_authenticator::ServiceAuthenticator;
use crate::{
    Authenticator, Consumer, Identity, Planned, Policy, PolicyResponse, PolicyStates, Refusal, Request,
    Reserved, Response, Trust, Verdict, loops,
};

pub(crate) use config::ExtAuthzSettings;

/// The gRPC method.
const METHOD: &str = "envoy.service.auth.v3.Authorization/Check";
/// The maximum size of a response in bytes.
const RESPONSE_MAX_BYTES: usize = 1 << 20;

/// Asks an authorization service whether a request may proceed.
#[derive(Debug)]
pub struct ExtAuthzRules {
    /// The URL of the service, without the method.
    pub url: String,
    /// The TLS settings for the service.
    pub trust: Trust,
    /// The time limit of a call.
    pub timeout: Duration,
    /// Whether requests proceed if the service does not respond.
    pub fail_open: bool,
    /// The part of the request's body that the service receives; `None`: no body.
    pub body: Option<AuthBody>,
    /// Fields that only the service may write; the client's are removed.
    pub reserved: Vec<String>,
    /// Additional values for the service (`context_extensions`).
    pub context: Vec<(String, String)>,
    /// The field of the service's response with the consumer's name.
    pub consumer: Option<String>,
    /// The field of the service's response with the consumer's groups, separated by commas.
    pub groups: Option<String>,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
}

impl Planned for ExtAuthzRules {
    fn kind(&self) -> &'static str {
        "ext_authz"
    }

    fn summary(&self) -> String {
        format!("asks {}{}", self.url, if self.fail_open { ", goes on without an answer" } else { "" })
    }

    fn activate(self: Arc<Self>, _: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let service = Http2Service::of(&format!("gRPC client of {}", self.url), &self.trust, shared);
        let names = self.reserved.iter().chain(&self.consumer).chain(&self.groups);
        let authenticator = ServiceAuthenticator::new(names.cloned(), self.identity.clone());
        let url = format!("{}/{METHOD}", self.url.trim_end_matches('/'));
        Arc::new(ExtAuthzState(Arc::new(ExtAuthzClient {
            rules: self,
            service,
            authenticator,
            url,
            shared: shared.clone(),
        })))
    }
}

#[derive(Debug)]
struct ExtAuthzState(Arc<ExtAuthzClient>);

#[derive(Debug)]
struct ExtAuthzClient {
    rules: Arc<ExtAuthzRules>,
    service: Arc<Http2Service<Full<Bytes>>>,
    authenticator: ServiceAuthenticator,
    /// The URL of the method.
    url: String,
    shared: Arc<PolicyStates>,
}

impl Policy for ExtAuthzState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.0.rules.identity.rewrite(request);
        let Some(body) = self.0.rules.body else { return self.0.ask(request, None) };
        let inner = self.0.clone();
        body.read(request, move |body, request| inner.ask(request, Some(body)))
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(&self.0.authenticator)
    }
}

impl ExtAuthzClient {
    /// Calls the service. `body`: the request's body, and whether it is only the start of it.
    fn ask(&self, request: &mut Request<'_>, body: Option<(&[u8], bool)>) -> Verdict {
        if loops::is_auth_loop(request.head) {
            return Refusal::from(Reason::LoopDetected).into();
        }
        let question = self.check_request(request, body);
        let passed = HeaderValue::from_bytes(&loops::forwarded_value(request.head)).ok();
        let (service, url, timeout) = (self.service.clone(), self.url.clone(), self.rules.timeout);
        let asked = self.shared.background().run(async move {
            let answer = ask(&service, &url, question, passed);
            tokio::time::timeout(timeout, answer)
                .await
                .unwrap_or(Err("the authorisation service was too slow"))
        });
        let (rules, reserved) = (self.rules.clone(), self.authenticator.reserved.clone());
        Verdict::Wait(Box::pin(async move {
            let response = asked.await.unwrap_or(Err("the authorisation service could not be asked"));
            let after = move |request: &mut Request<'_>| {
                request.reserve(&reserved);
                // The consumer of an earlier policy stays, unless the service names another one.
                rules.identity.rewrite(request);
                match response {
                    Ok(ServiceDecision::Allows(allowed)) => rules.admit(request, allowed),
                    Ok(ServiceDecision::Denies(denied)) => refuse(&denied),
                    Err(_) if rules.fail_open => Verdict::Continue,
                    Err(detail) => Verdict::unavailable(detail),
                }
            };
            Box::new(after) as crate::Continuation
        }))
    }
}

impl ExtAuthzClient {
    fn check_request(&self, request: &Request<'_>, body: Option<(&[u8], bool)>) -> CheckRequest {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let head = &request.head.head;
        let mut headers: HashMap<String, String> = HashMap::new();
        for field in head.fields() {
            let name = head.slice(field.name);
            // Skips fields that are set below, that end at the gateway, or that hold untrusted statements of
            // the client.
            let is_told = matches!(
                field.id,
                Name::AmbiguousSpelling | Name::XForwardedFor | Name::XForwardedProto | Name::XForwardedHost
            );
            if is_told
                || name.eq_ignore_ascii_case(PARTIAL.as_bytes())
                || field.nominated
                || !request.origin.forwarding.passes(request.origin.peer.ip(), field.id, name)
                || self.authenticator.reserves(field.id, name)
            {
                continue;
            }
            // Repeated fields are joined (RFC 9110, 5.2).
            let value = text(head.slice(field.value));
            let together = headers.entry(text(name).to_ascii_lowercase());
            together.and_modify(|all| *all = format!("{all},{value}")).or_insert(value);
        }
        // Sends the normalized path, which was matched and goes upstream.
        let mut path = text(request.path());
        if let Some(query) = request.query() {
            path = format!("{path}?{}", text(query));
        }
        let host = text(request.authority());
        let scheme = if request.origin.secure { "https" } else { "http" };
        let method = text(request.method());
        let client = request.origin.client.to_string();
        for (name, value) in [
            (":method", &*method),
            (":path", &path),
            (":authority", &host),
            (":scheme", scheme),
            ("x-forwarded-for", &client),
            ("x-forwarded-proto", scheme),
            ("x-forwarded-host", &host),
        ] {
            headers.insert(name.to_owned(), value.to_owned());
        }
        let (mut body_text, mut raw_body, mut size) = (String::new(), Vec::new(), -1);
        if let Some((body, partial)) = body {
            headers.insert(PARTIAL.to_owned(), partial.to_string());
            let as_bytes = self.rules.body.is_some_and(|rules| rules.as_bytes);
            // A body that is not UTF-8 is sent as bytes: the service must judge the bytes that the upstream
            // receives.
            match std::str::from_utf8(body) {
                Ok(text) if !as_bytes => text.clone_into(&mut body_text),
                _ => raw_body = body.to_vec(),
            }
            if !partial {
                size = i64::try_from(body.len()).unwrap_or(-1);
            }
        }
        let protocol = match request.head.version {
            Version::Http2 => "HTTP/2",
            version => version.as_str(),
        };
        let port_value = request.origin.client_port.map(u32::from);
        let address = SocketAddress { address: client, port_value };
        let principal =
            request.context.consumer.as_ref().map(|consumer| consumer.name.clone()).unwrap_or_default();
        let http = messages::HttpRequest {
            method,
            headers,
            path,
            host,
            scheme: scheme.to_owned(),
            size,
            protocol: protocol.to_owned(),
            body: body_text,
            raw_body,
        };
        CheckRequest {
            attributes: Some(AttributeContext {
                source: Some(Peer { address: Some(Address { socket_address: Some(address) }), principal }),
                request: Some(Attributes { http: Some(http) }),
                context_extensions: self.rules.context.iter().cloned().collect(),
            }),
        }
    }
}

/// Calls the method.
async fn ask(
    service: &Http2Service<Full<Bytes>>,
    url: &str,
    question: CheckRequest,
    passed: Option<HeaderValue>,
) -> Result<ServiceDecision, &'static str> {
    let message = question.encode_to_vec();
    // A gRPC message: the flag for no compression, the length and the message.
    let length = u32::try_from(message.len()).map_err(|_| "the request cannot be told")?;
    let framed = Bytes::from([&[0][..], &length.to_be_bytes(), &message].concat());
    let request = HttpRequest::post(url).body(Full::new(framed));
    let mut request = request.map_err(|_| "the URL is none")?;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.extend(passed.map(|passed| (HeaderName::from_static("cdn-loop"), passed)));
    let (parts, body) = service.ask(request).await?.into_parts();
    let status = |headers: Option<&hyper::HeaderMap>| {
        headers.and_then(|headers| headers.get("grpc-status")).map(|status| status.as_bytes() == b"0")
    };
    if parts.status != hyper::StatusCode::OK || status(Some(&parts.headers)) == Some(false) {
        return Err("the authorisation service answered with an error");
    }
    let body = Limited::new(body, RESPONSE_MAX_BYTES).collect().await;
    let body = body.map_err(|_| "the authorisation service's answer broke off, or is too large")?;
    if status(body.trailers()).or(status(Some(&parts.headers))) != Some(true) {
        return Err("the authorisation service answered with an error");
    }
    let bytes = body.to_bytes();
    let (frame, message) = bytes.split_at_checked(5).ok_or("the authorisation service's answer is none")?;
    let length = u32::from_be_bytes([frame[1], frame[2], frame[3], frame[4]]);
    if frame[0] != 0 || usize::try_from(length) != Ok(message.len()) {
        return Err("the authorisation service's answer is not one message");
    }
    let answer = CheckResponse::decode(message);
    decision_of(answer.map_err(|_| "the authorisation service's answer is no CheckResponse")?)
}

/// The decision of the service.
#[derive(Debug, PartialEq)]
enum ServiceDecision {
    Allows(Allowed),
    Denies(Denied),
}

/// Interprets a response. An empty response is an error, and a response with `denied` denies whatever its
/// status is.
fn decision_of(answer: CheckResponse) -> Result<ServiceDecision, &'static str> {
    match answer {
        CheckResponse { denied: Some(denied), .. } => Ok(ServiceDecision::Denies(denied)),
        CheckResponse { status: None, ok: None, .. } => {
            Err("the authorisation service's answer says neither yes nor no")
        }
        // google.rpc.Code: 0 is OK.
        CheckResponse { status, ok, .. } if status.as_ref().is_none_or(|status| status.code == 0) => {
            Ok(ServiceDecision::Allows(ok.unwrap_or_default()))
        }
        _ => Ok(ServiceDecision::Denies(Denied::default())),
    }
}

impl ExtAuthzRules {
    fn admit(&self, request: &mut Request<'_>, allowed: Allowed) -> Verdict {
        let Allowed { headers, headers_to_remove, response_headers_to_add, .. } = &allowed;
        if !allowed.query_parameters_to_set.is_empty() || !allowed.query_parameters_to_remove.is_empty() {
            // A parameter that the service wants removed must not silently stay.
            return Verdict::unavailable(
                "the authorisation service wants the query changed, which is not done here",
            );
        }
        let named = |name: &str| {
            let all = headers.iter().filter_map(|option| option.header.as_ref());
            all.filter(|header| header.key.eq_ignore_ascii_case(name)).count()
        };
        if self.consumer.iter().chain(&self.groups).any(|name| named(name) > 1) {
            // With two names, the readers of the fields might choose different ones.
            return Verdict::unavailable("the authorisation service's answer says twice who it is");
        }
        request.context.is_personal = true;
        request.reserve(&Reserved::new(headers_to_remove.iter().cloned()));
        for option in headers {
            change_field(request, option);
        }
        let set_value = |name: &Option<String>| {
            let name = name.as_ref()?;
            let mut set_headers = headers.iter().filter_map(|option| option.header.as_ref());
            let header = set_headers.find(|header| header.key.eq_ignore_ascii_case(name))?;
            String::from_utf8(header.bytes().to_vec()).ok()
        };
        if let Some(consumer) = Consumer::from_service(set_value(&self.consumer), set_value(&self.groups)) {
            self.identity.remove(request);
            self.identity.set_consumer(request, &consumer);
        }
        if !response_headers_to_add.is_empty() {
            let headers = response_headers_to_add.clone();
            request.context.on_head(move |response: &mut Response<'_>| {
                for header in headers.iter().filter_map(|option| option.header.as_ref()) {
                    response.append(&header.key, header.bytes());
                }
            });
        }
        Verdict::Continue
    }
}

/// Changes a field as the service requests: replaces the existing fields of this name, or appends to them.
fn change_field(request: &mut Request<'_>, option: &HeaderOption) {
    let Some(header) = &option.header else { return };
    let (name, value) = (header.key.as_str(), header.bytes());
    let is_present = request.header(name).is_some();
    if option.append.as_ref().is_some_and(|append| append.value) {
        return request.append(name, value);
    }
    match option.append_action {
        // ADD_IF_ABSENT
        1 if is_present => {}
        // OVERWRITE_IF_EXISTS
        3 if !is_present => {}
        _ => {
            // Also removes fields that endpoints may confuse with it.
            request.reserve(&Reserved::new([name]));
            request.append(name, value);
        }
    }
}

/// Converts the service's denial to a response for the client.
fn refuse(denied: &Denied) -> Verdict {
    let code = denied.status.as_ref().map_or(0, |status| status.code);
    let status = u16::try_from(code).ok().filter(|code| (200..600).contains(code)).unwrap_or(403);
    let fields = denied.headers.iter().filter_map(|option| option.header.as_ref());
    let fields = fields.map(|header| (header.key.as_bytes(), header.bytes()));
    Verdict::Respond(PolicyResponse::with_fields(status, fields, denied.body.clone().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::messages::{HeaderValue as Field, RpcStatus};
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    #[test]
    fn an_empty_response_denies() {
        let status = |code| Some(RpcStatus { code });
        let (ok, denied) = (Some(Allowed::default()), Some(Denied::default()));
        let allows =
            |status, ok: &Option<Allowed>, denied: &Option<Denied>| match decision_of(CheckResponse {
                status,
                ok: ok.clone(),
                denied: denied.clone(),
            }) {
                Ok(ServiceDecision::Allows(_)) => Some(true),
                Ok(ServiceDecision::Denies(_)) => Some(false),
                Err(_) => None,
            };
        assert_eq!(allows(None, &None, &None), None);
        for (code, ok, denied, expected) in [
            (None, &ok, &None, true),
            (Some(0), &None, &None, true),
            (Some(0), &ok, &None, true),
            (None, &None, &denied, false),
            (Some(0), &None, &denied, false),
            (Some(7), &None, &denied, false),
            (Some(7), &None, &None, false),
            (Some(7), &ok, &None, false),
        ] {
            assert_eq!(
                allows(code.and_then(status), ok, denied),
                Some(expected),
                "{code:?} {ok:?} {denied:?}"
            );
        }
    }

    #[test]
    fn clients_cannot_send_the_fields_of_the_service() {
        let rules = ExtAuthzRules {
            url: String::new(),
            trust: Trust::default(),
            timeout: Duration::from_secs(1),
            fail_open: false,
            body: None,
            reserved: Vec::new(),
            context: Vec::new(),
            consumer: Some("X-User".to_owned()),
            groups: None,
            identity: Identity::default(),
        };
        let field = |key: &str, value: &str| HeaderOption {
            header: Some(Field { key: key.to_owned(), value: value.to_owned(), raw_value: Vec::new() }),
            ..HeaderOption::default()
        };
        let allowed = Allowed {
            headers: vec![field("X-User", ""), field("X-Role", "guest"), field("Transfer-Encoding", "gzip")],
            headers_to_remove: vec!["X-Debug".to_owned(), "Host".to_owned()],
            ..Allowed::default()
        };
        let fields = "X_Role: admin\r\nX_Debug: 1\r\nTransfer-Encoding: chunked\r\n";
        let (mut sent, mut context) = (Sent::with("POST / HTTP/1.1", fields), Context::default());
        assert!(matches!(rules.admit(&mut sent.request(&mut context), allowed), Verdict::Continue));
        let names: Vec<_> = sent.head.head.fields().iter().map(|field| sent.head.slice(field.name)).collect();
        assert_eq!(
            names,
            [&b"Host"[..], b"Transfer-Encoding", b"X-User", b"X-Role"],
            "and no framing is touched"
        );
        assert!(context.is_reserved(b"x_role") && context.is_reserved(b"X-Debug"), "behind the body");
        assert!(context.consumer.is_none(), "an empty name is nobody's");
    }
}
