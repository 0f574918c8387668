//! What a policy is, and what it can say.

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

use crate::{Authenticator, Request, Shared};

/// A policy as it stands in a plan: its configuration, checked and compiled, without state.
pub trait Planned: Debug + Send + Sync {
    /// Its kind: its key in the configuration, its label in metrics, its name in `explain`. Of a plugin it is `plugins/NAME`,
    /// whatever this says.
    fn kind(&self) -> &'static str {
        "plugins"
    }

    /// What it does, in a few words, for `explain`.
    fn summary(&self) -> String;

    /// What it judges by that only a request on a connection can show; `explain`, which has none, does not ask it without.
    fn judges_by(&self) -> Option<Shown> {
        None
    }

    /// The policy with its state, when a plan that has it is rolled out. `key` is the same from plan to plan for the
    /// policy of this kind at this place of the configuration: under it the state of the plan before can be found. Called
    /// once a plan, beside the workers.
    fn live(self: Arc<Self>, key: &str, shared: &Arc<Shared>) -> Arc<dyn Policy>;
}

/// What a request shows of who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The client's certificate.
    Certificate,
    /// Who it is, by a policy before that asks somebody or reads the body.
    Identity,
}

/// A policy that requests meet. All workers share it.
pub trait Policy: Debug + Send + Sync {
    /// Sees a request before it goes anywhere. Must neither block nor take long: whoever has to ask somebody gives a
    /// [`Verdict::Wait`].
    fn request(&self, request: &mut Request<'_>) -> Verdict;

    /// Sees a request instead that a policy before this one has refused or answered: for those who have something to say in
    /// every response. Like [`request`](Self::request) it must neither block nor take long; nobody else sees what it changes
    /// in the request.
    fn passed_over(&self, _: &mut Request<'_>) {}

    /// The credentials of this policy, if it identifies clients.
    fn authenticator(&self) -> Option<&dyn Authenticator> {
        None
    }
}

/// What becomes of a request.
pub enum Verdict {
    /// It goes on.
    Continue,
    /// It is refused with the gateway's error answer.
    Refuse(Refusal),
    /// It is answered, and this is the answer.
    Answer(Answer),
    /// Somebody has to be asked first.
    Wait(Waiting),
    /// It stands still for so long, and then this is done.
    Sleep(Duration, After),
    /// Upstreams are asked, all at once, and then this is done with what they say, in the order of the questions.
    Call(Vec<Question>, Heard),
    /// All of its body is read, up to so many bytes (413), and then this is done. The body goes on with the request.
    Body(usize, Read),
    /// The same with the first bytes of its body, up to so many, where it is longer.
    Begin(usize, ReadBegin),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, which has its status.
    pub reason: Reason,
    /// A status in the place of that.
    pub status: Option<u16>,
    /// More on it, for the log; never a secret.
    pub detail: Option<&'static str>,
    /// Further lines of the answer, each with its CRLF: `WWW-Authenticate`, `Retry-After` and the like.
    pub lines: Vec<u8>,
}

impl Refusal {
    /// With this field in the answer, unless it is for codecs alone to write, or can be none.
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
    /// Whether the request may go on could not be found out; `detail` says why.
    pub(crate) fn unavailable(detail: &'static str) -> Self {
        Refusal { detail: Some(detail), ..Reason::AuthorizationUnavailable.into() }.into()
    }
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        Verdict::Refuse(refusal)
    }
}

/// An answer of a policy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status, 200 to 599.
    pub status: u16,
    /// Its lines, each with its CRLF; none about the length or the connection.
    pub lines: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// With these fields, but for those that codecs alone write, and for what can be no field.
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

/// A field as a line with its CRLF, if it can be one and is not for codecs alone to write.
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

/// What a policy waits for; then it goes on. It has to have a bound in time of its own. Dropped, it is called off.
pub type Waiting = Pin<Box<dyn Future<Output = After>>>;

/// What is done when the wait is over.
pub type After = Box<dyn FnOnce(&mut Request<'_>) -> Verdict>;

/// What is done when all of a request's body is here; without its framing.
pub type Read = Box<dyn FnOnce(&[u8], &mut Request<'_>) -> Verdict>;

/// What is done when the first bytes of a request's body are here; the flag says whether they are all of it.
pub type ReadBegin = Box<dyn FnOnce(&[u8], bool, &mut Request<'_>) -> Verdict>;

/// What is done when all upstreams have answered, or failed to.
pub type Heard = Box<dyn FnOnce(Vec<Result<Said, Reason>>, &mut Request<'_>) -> Verdict>;

/// A request to an upstream beside the client's: a GET with the fields that the request has when it meets the policy, but for
/// those that concern its own body, its connection or what of an answer is wanted.
#[derive(Clone, Debug)]
pub struct Question {
    /// The upstream, by name. Its policies hold.
    pub upstream: Arc<str>,
    /// The path in normal form; one that is not is refused.
    pub path: Vec<u8>,
    /// The query, without the question mark; empty: none.
    pub query: Vec<u8>,
    /// The host that it is sent with; `None`: that of the request.
    pub host: Option<Arc<str>>,
    /// How long it may take, to the last byte of the answer.
    pub timeout: Duration,
    /// Bytes that its answer may have.
    pub most: usize,
    /// Bytes that all answers that share this may have yet.
    pub budget: Rc<Cell<usize>>,
}

/// What an upstream has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its status.
    pub status: u16,
    /// Its `Content-Type`; empty: none.
    pub content_type: Vec<u8>,
    /// Its `Content-Encoding`; empty: none.
    pub content_encoding: Vec<u8>,
    /// All of its body.
    pub body: Vec<u8>,
}

impl Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Continue => f.write_str("Continue"),
            Verdict::Refuse(refusal) => f.debug_tuple("Refuse").field(refusal).finish(),
            Verdict::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
            Verdict::Wait(_) => f.write_str("Wait"),
            Verdict::Sleep(time, _) => f.debug_tuple("Sleep").field(time).finish(),
            Verdict::Body(most, _) => f.debug_tuple("Body").field(most).finish(),
            Verdict::Begin(most, _) => f.debug_tuple("Begin").field(most).finish(),
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
        let answer = Answer::with_fields(302, fields, Vec::new());
        let lines = String::from_utf8_lossy(&answer.lines).to_ascii_lowercase();
        assert_eq!(lines, "location: /login\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n");
    }
}
