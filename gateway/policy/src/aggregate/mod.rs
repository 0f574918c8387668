//! `aggregate`: answers a request with one JSON document that combines the responses of several upstreams.
//!
//! All upstreams are asked at once. A response that declares JSON is validated and copied byte for byte; any
//! other text becomes a JSON string. If a required part fails, the request is refused. An optional part that
//! fails is replaced by its fallback, and the document can list it as failed.

mod config;
mod document;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_observe::Reason;

use self::document::value;
use crate::percent::encode;
use crate::{
    Planned, Policy, PolicyResponse, PolicyStates, Refusal, Request, Template, TemplatePart as Filled,
    UpstreamRequest, UpstreamResponse, Verdict,
};

pub(crate) use config::AggregateSettings;

/// Answers with one JSON document that combines the responses of several upstreams.
#[derive(Debug)]
pub struct AggregateRules {
    /// The parts of the document.
    pub parts: Vec<AggregatePart>,
    /// The layout of the document.
    pub shape: Vec<ShapePiece>,
    /// The maximum size of all parts together in bytes.
    pub total: usize,
}

/// A part of the document.
#[derive(Clone, Debug)]
pub struct AggregatePart {
    /// The name of the part in the document.
    pub name: String,
    /// The upstream that delivers the part, by name.
    pub to: Arc<str>,
    /// The path. A value that is filled in cannot start or end a path segment.
    pub path: Template,
    /// The query.
    pub query: Template,
    /// The host to send; `None`: the host of the client's request.
    pub host: Option<Arc<str>>,
    /// The time limit of the part.
    pub timeout: Duration,
    /// The maximum size of the part in bytes.
    pub most: usize,
    /// The consequence if the part fails.
    pub need: Requirement,
}

/// The consequence for a request if a part fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The request fails.
    Required,
    /// This JSON replaces the part.
    Optional(Box<str>),
}

/// A piece of the document's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapePiece {
    /// Literal JSON.
    Text(Box<str>),
    /// The part with this index.
    Part(usize),
    /// The list of the names of failed parts.
    Failed,
}

impl Planned for AggregateRules {
    fn kind(&self) -> &'static str {
        "aggregate"
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.parts.iter().map(|part| format!("{} of {}", part.name, part.to)).collect();
        names.join(", ")
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let place = key.strip_suffix("/aggregate").unwrap_or(key);
        let count = |event| shared.events().counter("aggregate", place, event);
        let counts =
            AggregateCounters { whole: count("whole"), partial: count("partial"), failed: count("failed") };
        Arc::new(Aggregate { rules: self, counts: Arc::new(counts) })
    }
}

#[derive(Debug)]
struct Aggregate {
    rules: Arc<AggregateRules>,
    counts: Arc<AggregateCounters>,
}

/// Counters of the results.
#[derive(Debug)]
struct AggregateCounters {
    /// Documents with all parts.
    whole: Arc<AtomicU64>,
    /// Documents with at least one fallback.
    partial: Arc<AtomicU64>,
    /// Requests that failed because a required part failed.
    failed: Arc<AtomicU64>,
}

impl Policy for Aggregate {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let budget = Rc::new(Cell::new(self.rules.total));
        let questions = self.rules.parts.iter().map(|part| part.question(request, &budget)).collect();
        let (rules, counts) = (self.rules.clone(), self.counts.clone());
        Verdict::Call(questions, Box::new(move |responses, _| rules.answer(responses, &counts)))
    }
}

impl AggregatePart {
    /// Returns the request to the upstream. If the path cannot be filled in, it stays empty and the request
    /// is refused later.
    fn question(&self, request: &Request<'_>, budget: &Rc<Cell<usize>>) -> UpstreamRequest {
        UpstreamRequest {
            upstream: self.to.clone(),
            path: path(&self.path, request).unwrap_or_default(),
            query: query(&self.query, request),
            host: self.host.clone(),
            timeout: self.timeout,
            max_bytes: self.most,
            budget: budget.clone(),
        }
    }
}

/// Returns the path for a request. Returns `None` if a value is empty or consists of dots, which could climb:
/// `/users/` is not what `/users/{consumer}` means.
fn path(template: &Template, request: &Request<'_>) -> Option<Vec<u8>> {
    let (mut out, mut sound) = (Vec::new(), true);
    template.each(request, |part, value| match part {
        Filled::Text(_) => out.extend_from_slice(value),
        // The value is already in normal form and may span several segments.
        Filled::Path if out.ends_with(b"/") => {
            out.extend_from_slice(value.strip_prefix(b"/").unwrap_or(value));
        }
        Filled::Path => out.extend_from_slice(value),
        _ => {
            sound &= value.iter().any(|byte| *byte != b'.');
            encode(value, &mut out);
        }
    });
    Some(out).filter(|_| sound)
}

fn query(template: &Template, request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    template.each(request, |part, value| match part {
        Filled::Text(_) | Filled::Query => out.extend_from_slice(value),
        _ => encode(value, &mut out),
    });
    out
}

impl AggregateRules {
    fn answer(
        &self,
        responses: Vec<Result<UpstreamResponse, Reason>>,
        counts: &AggregateCounters,
    ) -> Verdict {
        let (mut values, mut failed) = (Vec::new(), Vec::new());
        for (part, response) in self.parts.iter().zip(responses) {
            let value = match (response.map_err(|reason| (reason, None)).and_then(value), &part.need) {
                (Ok(value), _) => value,
                (Err(_), Requirement::Optional(fallback)) => {
                    failed.push(part.name.as_str());
                    fallback.to_string()
                }
                (Err((reason, detail)), Requirement::Required) => {
                    counts.failed.fetch_add(1, Relaxed);
                    // An error between the gateway and an upstream is not the client's fault.
                    let reason = if reason.status() >= 500 { reason } else { Reason::PartFailed };
                    let detail = detail.or(Some("a part that is required failed"));
                    return Refusal { detail, ..reason.into() }.into();
                }
            };
            values.push(value);
        }
        if failed.is_empty() { &counts.whole } else { &counts.partial }.fetch_add(1, Relaxed);
        let body = document::write(&self.shape, &values, &failed);
        // The gateway does not know how long each part may be cached.
        let lines = b"Content-Type: application/json\r\nCache-Control: no-store\r\n".to_vec();
        Verdict::Respond(PolicyResponse { status: 200, lines, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::testing::Sent;

    fn text(text: &str) -> Filled {
        Filled::Text(text.as_bytes().into())
    }

    fn part(name: &str, path: Vec<Filled>, need: Requirement) -> AggregatePart {
        AggregatePart {
            name: name.to_owned(),
            to: "u".into(),
            path: path.into(),
            query: vec![text("q="), Filled::Header("x-q".into()), text("&"), Filled::Query].into(),
            host: None,
            timeout: Duration::from_secs(1),
            most: 100,
            need,
        }
    }

    fn response(status: u16, content_type: &str, body: &str) -> Result<UpstreamResponse, Reason> {
        let (content_type, body) = (content_type.as_bytes().to_vec(), body.as_bytes().to_vec());
        Ok(UpstreamResponse { status, content_type, body, ..UpstreamResponse::default() })
    }

    fn asked(
        rules: AggregateRules,
        fields: &str,
        responses: Vec<Result<UpstreamResponse, Reason>>,
    ) -> (Vec<UpstreamRequest>, Verdict) {
        let policy = Arc::new(rules).activate("route/r/aggregate", &Arc::default());
        let (mut context, mut sent) = (Context::default(), Sent::new(fields));
        let mut request = sent.request(&mut context);
        let Verdict::Call(questions, after) = policy.request(&mut request) else { panic!("it asks") };
        (questions, after(responses, &mut request))
    }

    fn rules() -> AggregateRules {
        let shape = vec![
            ShapePiece::Text("{\"a\":".into()),
            ShapePiece::Part(0),
            ShapePiece::Text(",\"b\":[".into()),
            ShapePiece::Part(1),
            ShapePiece::Text("],\"failed\":".into()),
            ShapePiece::Failed,
            ShapePiece::Text("}".into()),
        ];
        let user = vec![text("/u/"), Filled::Header("x-user".into())];
        let parts = vec![
            part("a", user, Requirement::Required),
            part("b", vec![text("/b"), Filled::Path], Requirement::Optional("{\"x\":1}".into())),
        ];
        AggregateRules { parts, shape, total: 1000 }
    }

    #[test]
    fn variables_are_expanded_in_place() {
        let none = || vec![Err(Reason::PartFailed), Err(Reason::PartFailed)];
        let (questions, _) = asked(rules(), "X-User: a/../b?c#d\r\nX-Q: 1&r=2\r\n", none());
        assert_eq!(String::from_utf8_lossy(&questions[0].path), "/u/a%2F..%2Fb%3Fc%23d");
        assert_eq!(String::from_utf8_lossy(&questions[0].query), "q=1%26r%3D2&b=c");
        assert_eq!(String::from_utf8_lossy(&questions[1].path), "/b/a");
        for user in ["", "X-User: ..\r\n", "X-User: .\r\n"] {
            assert!(asked(rules(), user, none()).0[0].path.is_empty(), "{user}");
        }
    }

    #[test]
    fn a_document_of_the_parts() {
        let answer = |responses| match asked(rules(), "X-User: a\r\n", responses).1 {
            Verdict::Respond(answer) => String::from_utf8(answer.body).expect("text"),
            other => format!("{other:?}"),
        };
        let json = "application/json; charset=utf-8";
        assert_eq!(
            answer(vec![response(200, json, "{\"k\": 1}"), response(200, "text/plain", "x\"y\n")]),
            r#"{"a":{"k": 1},"b":["x\"y\n"],"failed":[]}"#
        );
        assert_eq!(
            answer(vec![response(204, "", ""), Err(Reason::RequestTimeout)]),
            r#"{"a":null,"b":[{"x":1}],"failed":["b"]}"#
        );
        for (failed, reason) in [
            (response(404, json, "{}"), Reason::PartFailed),
            (response(302, json, "{}"), Reason::PartFailed),
            (response(200, json, "{"), Reason::PartFailed),
            (response(200, "application/problem+json", "{}, {}"), Reason::PartFailed),
            (Err(Reason::RequestTimeout), Reason::RequestTimeout),
            (Err(Reason::ConnectionRefused), Reason::ConnectionRefused),
            (Err(Reason::BadPath), Reason::PartFailed),
        ] {
            match asked(rules(), "X-User: a\r\n", vec![failed, response(200, json, "1")]).1 {
                Verdict::Refuse(refusal) => assert_eq!(refusal.reason, reason),
                other => panic!("{other:?}"),
            }
        }
    }
}
