//! The traits of a policy, and the verdicts that it can return.
//!
//! A plan holds [`Planned`] values; the proxy calls the [`Policy`] that each of them becomes. A [`Verdict`]
//! may carry a continuation, so that no policy blocks a worker while it waits for a service, a body or an
//! upstream.

use std::cell::Cell;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use tollgate_http::Name;
use tollgate_observe::Reason;

use crate::{ActiveCache, Authenticator, CacheRules, PolicyStates, Request, Template};

/// A policy in a plan: configuration that is checked and compiled, without run-time state.
pub trait Planned: Debug + Send + Sync {
    /// Returns the kind: the key in the configuration, the label in metrics and the name in `explain`. A
    /// plugin's kind is always `plugins/NAME`, whatever this returns.
    fn kind(&self) -> &'static str {
        "plugins"
    }

    /// Returns a summary of a few words for `explain`.
    fn summary(&self) -> String;

    /// Returns the property of a real connection or client that the policy depends on, if any. `explain` has
    /// no connection and does not report a refusal that only the missing property causes.
    fn depends_on(&self) -> Option<Dependency> {
        None
    }

    /// Returns the request fields that it makes of other parts of the request, so that the endpoint's response may depend
    /// on these.
    fn derived_fields(&self) -> Vec<(&str, &Template)> {
        Vec::new()
    }

    /// Returns the rules of the cache, if it is one.
    fn cache_rules(&self) -> Option<&CacheRules> {
        None
    }

    /// Returns the policy with its state, when a plan that contains it is rolled out. `key` stays the same
    /// across plans for the policy of this kind at this place of the configuration; the policy finds the
    /// state of the previous plan under it. Called once per plan, never on a worker.
    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy>;
}

/// A property of the client on which a policy's verdict depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// The client's certificate.
    Certificate,
    /// The consumer that an earlier policy identifies, if that policy asks an external service or reads the
    /// body.
    Identity,
}

/// A policy with its run-time state. All workers share it.
pub trait Policy: Debug + Send + Sync {
    /// Evaluates a request before it is forwarded. Must neither block nor take long; a policy that needs an
    /// external service returns [`Verdict::Wait`].
    fn request(&self, request: &mut Request<'_>) -> Verdict;

    /// Called instead of [`request`](Self::request) when an earlier policy has refused or answered the
    /// request. It serves policies that change every response, or that hide a credential from the log. It
    /// must neither block nor take long. The request is not forwarded, so only later policies and the log see
    /// changes to it.
    fn skipped(&self, _: &mut Request<'_>) {}

    /// Returns the cache, if it is one.
    fn cache(&self) -> Option<&Arc<ActiveCache>> {
        None
    }

    /// Returns the policy's credentials, if the policy identifies clients.
    fn authenticator(&self) -> Option<&dyn Authenticator> {
        None
    }
}

/// The decision of a policy about a request.
pub enum Verdict {
    /// The request continues.
    Continue,
    /// The gateway refuses the request with its error response.
    Refuse(Refusal),
    /// The gateway sends this response.
    Respond(PolicyResponse),
    /// The request waits for an external service.
    Wait(PendingVerdict),
    /// The request is delayed for this time; then the closure decides.
    Sleep(Duration, Continuation),
    /// Sends all requests to upstreams at once. The closure receives their responses in the order of the
    /// requests.
    Call(Vec<UpstreamRequest>, OnResponses),
    /// Reads the whole body, at most this many bytes (else 413); then the closure decides. The body is still
    /// forwarded.
    Body(usize, OnBody),
    /// Like `Body`, but a longer body is not refused: the closure receives its first bytes, at most this
    /// many.
    BodyStart(usize, OnBodyStart),
}

/// The reason and the response of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, which determines the status.
    pub reason: Reason,
    /// A status that replaces the status of the reason.
    pub status: Option<u16>,
    /// Further detail for the log; never a secret.
    pub detail: Option<&'static str>,
    /// Additional header lines of the response, each with its CRLF, such as `WWW-Authenticate` or
    /// `Retry-After`.
    pub lines: Vec<u8>,
}

impl Refusal {
    /// Adds this field to the response. A field that only codecs may write, or that is invalid, is ignored.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: &[u8]) -> Self {
        add_line(&mut self.lines, name.as_bytes(), value);
        self
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason, status: None, detail: None, lines: Vec::new() }
    }
}

impl Verdict {
    /// Returns the refusal for an authorization that could not be decided; `detail` is the cause.
    pub(crate) fn unavailable(detail: &'static str) -> Self {
        Refusal { detail: Some(detail), ..Reason::AuthorizationUnavailable.into() }.into()
    }
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        Verdict::Refuse(refusal)
    }
}

/// A response that a policy produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyResponse {
    /// The status, 200 to 599.
    pub status: u16,
    /// The header lines, each with its CRLF. Fields about framing and the connection are excluded.
    pub lines: Vec<u8>,
    /// The body, without transfer coding.
    pub body: Vec<u8>,
}

impl PolicyResponse {
    /// Creates a response with these fields. Fields that only codecs may write, and invalid fields, are left
    /// out.
    pub fn with_fields<'f>(
        status: u16,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        body: Vec<u8>,
    ) -> Self {
        let mut lines = Vec::new();
        fields.for_each(|(name, value)| add_line(&mut lines, name, value));
        Self { status, lines, body }
    }
}

/// Appends a field as a line with its CRLF, if it is valid and not reserved for codecs.
fn add_line(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let id = Name::of(name);
    let codecs = id.is_hop_by_hop() || matches!(id, Name::ContentLength | Name::Date);
    let name = HeaderName::from_bytes(name);
    if let (false, Ok(name), Ok(value)) = (codecs, name, HeaderValue::from_bytes(value)) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(piece);
        }
    }
}

/// A wait for an external service, after which the evaluation continues. The future needs its own timeout.
/// Dropping it cancels the wait.
pub type PendingVerdict = Pin<Box<dyn Future<Output = Continuation>>>;

/// The continuation after a wait.
pub type Continuation = Box<dyn FnOnce(&mut Request<'_>) -> Verdict>;

/// The continuation that receives the whole request body, without transfer coding.
pub type OnBody = Box<dyn FnOnce(&[u8], &mut Request<'_>) -> Verdict>;

/// The continuation that receives the first bytes of a request body; the flag is true if they are the whole
/// body.
pub type OnBodyStart = Box<dyn FnOnce(&[u8], bool, &mut Request<'_>) -> Verdict>;

/// The continuation that receives the responses or errors of all upstreams.
pub type OnResponses = Box<dyn FnOnce(Vec<Result<UpstreamResponse, Reason>>, &mut Request<'_>) -> Verdict>;

/// A GET request to an upstream in addition to the client's. It carries the fields that the client's request
/// has at this point of the evaluation, except fields about the body, the connection or the desired
/// representation.
#[derive(Clone, Debug)]
pub struct UpstreamRequest {
    /// The upstream, by name. Its policies apply.
    pub upstream: Arc<str>,
    /// The path in normal form; any other path is refused.
    pub path: Vec<u8>,
    /// The query without the question mark; empty if there is none.
    pub query: Vec<u8>,
    /// The host to send; `None`: the host of the client's request.
    pub host: Option<Arc<str>>,
    /// The time limit up to the last byte of the response.
    pub timeout: Duration,
    /// The maximum size of the response body in bytes.
    pub max_bytes: usize,
    /// The bytes that remain for all responses that share this budget.
    pub budget: Rc<Cell<usize>>,
}

/// The response of an upstream to an [`UpstreamRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamResponse {
    /// The status code.
    pub status: u16,
    /// The value of `Content-Type`; empty if absent.
    pub content_type: Vec<u8>,
    /// The value of `Content-Encoding`; empty if absent.
    pub content_encoding: Vec<u8>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Continue => f.write_str("Continue"),
            Verdict::Refuse(refusal) => f.debug_tuple("Refuse").field(refusal).finish(),
            Verdict::Respond(answer) => f.debug_tuple("Respond").field(answer).finish(),
            Verdict::Wait(_) => f.write_str("Wait"),
            Verdict::Sleep(time, _) => f.debug_tuple("Sleep").field(time).finish(),
            Verdict::Body(most, _) => f.debug_tuple("Body").field(most).finish(),
            Verdict::BodyStart(most, _) => f.debug_tuple("BodyStart").field(most).finish(),
            Verdict::Call(questions, _) => f.debug_tuple("Call").field(questions).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_what_can_be_a_field_and_is_not_the_codecs() {
        let fields = [
            ("Location", "/login"),
            ("Content-Length", "7"),
            ("Connection", "close"),
            ("Date", "now"),
            ("X-A", "1\r\nX-B: 2"),
            ("X C", "3"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
        ];
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let answer = PolicyResponse::with_fields(302, fields, Vec::new());
        let lines = String::from_utf8_lossy(&answer.lines).to_ascii_lowercase();
        assert_eq!(lines, "location: /login\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n");
    }
}
