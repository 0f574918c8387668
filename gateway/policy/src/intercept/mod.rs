//! `intercept`: answers requests before they reach an endpoint, by path, query, method or scheme.
//!
//! The first rule that matches answers. A client must not be able to choose the host of a `Location`, and a
//! replaced path must satisfy the path rules.

mod config;

use std::borrow::Cow;
use std::sync::Arc;

use regex::bytes::Regex;
use tollgate_observe::Reason;
use tollgate_route::{Normalised, PathError, PathRules, normalise_rewritten};

use crate::{Planned, Policy, PolicyResponse, PolicyStates, Refusal, Request, Template, Verdict};

pub(crate) use config::InterceptSettings;

/// The rules of `intercept`. The first rule that matches a request answers it.
#[derive(Clone, Debug, Default)]
pub struct InterceptRules {
    /// The rules in evaluation order.
    pub rules: Box<[InterceptRule]>,
}

/// A rule that answers a request if all of its conditions hold.
#[derive(Clone, Debug, Default)]
pub struct InterceptRule {
    /// An expression that must match in the path with the query.
    pub uri: Option<Regex>,
    /// An expression that must match in the path.
    pub path: Option<Regex>,
    /// Whether the client must use TLS, or must not; `None`: no condition.
    pub secure: Option<bool>,
    /// The method is one of these; empty: any.
    pub methods: Box<[Box<[u8]>]>,
    /// The status of the response.
    pub status: u16,
    /// The `Location` of the response.
    pub location: Option<Location>,
    /// Whether the request's query is appended to `Location`.
    pub keep_query: bool,
    /// The body of the response.
    pub body: Box<[u8]>,
    /// The `Content-Type` of the body.
    pub content_type: Box<str>,
}

/// The `Location` of a response.
#[derive(Clone, Debug)]
pub enum Location {
    /// A template.
    To(Template),
    /// The request's path, with the first match replaced by this text. The result must satisfy the path
    /// rules.
    Replaced(Box<[u8]>, PathRules),
}

impl Planned for InterceptRules {
    fn kind(&self) -> &'static str {
        "intercept"
    }

    fn summary(&self) -> String {
        let statuses: Vec<_> = self.rules.iter().map(|rule| rule.status.to_string()).collect();
        format!("answers some with {}", statuses.join(", "))
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for InterceptRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(request)) else {
            return Verdict::Continue;
        };
        let location = match rule.location(request) {
            Ok(location) => location,
            Err(error) => {
                let detail = Some(error.as_str());
                return Verdict::Refuse(Refusal { detail, ..Reason::BadPath.into() });
            }
        };
        request.context.note = Some("answered by a rule of `intercept`");
        let fields = [
            location.as_deref().map(|location| (b"Location".as_slice(), location)),
            (!rule.body.is_empty()).then_some((b"Content-Type".as_slice(), rule.content_type.as_bytes())),
        ];
        Verdict::Respond(PolicyResponse::with_fields(
            rule.status,
            fields.into_iter().flatten(),
            rule.body.to_vec(),
        ))
    }
}

impl InterceptRule {
    fn matches(&self, request: &Request<'_>) -> bool {
        self.secure.is_none_or(|secure| secure == request.origin.secure)
            && (self.methods.is_empty() || self.methods.iter().any(|method| **method == *request.method()))
            && self.path.as_ref().is_none_or(|path| path.is_match(request.path()))
            && self.uri.as_ref().is_none_or(|uri| uri.is_match(&target(request)))
    }

    /// Returns the `Location` of the response, if it has one.
    ///
    /// # Errors
    /// When the path rules refuse the path after the replacement.
    fn location(&self, request: &Request<'_>) -> Result<Option<Vec<u8>>, PathError> {
        let (mut location, own_host) = match (&self.location, &self.path) {
            (None, _) | (Some(Location::Replaced(..)), None) => return Ok(None),
            (Some(Location::To(template)), _) => (template.fill(request), template.begins_with(b"//")),
            (Some(Location::Replaced(text, rules)), Some(path)) => {
                let made = path.replace(request.path(), &**text).into_owned();
                let own_host = text.starts_with(b"//");
                (in_normal_form(made, own_host, rules)?, own_host)
            }
        };
        // Keeps a client from choosing the host. Browsers treat a backslash as a slash (WHATWG URL, section
        // 4.4).
        if !own_host && location.starts_with(b"/") {
            let slashes = location.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
            location.drain(1..slashes);
        }
        if let (true, Some(query)) = (self.keep_query, request.query()) {
            location.push(if location.contains(&b'?') { b'&' } else { b'?' });
            location.extend_from_slice(query);
        }
        Ok(Some(location))
    }
}

/// Normalizes the path in a generated `Location`. Origin, query and fragment are literal text of the rule.
fn in_normal_form(mut made: Vec<u8>, own_host: bool, rules: &PathRules) -> Result<Vec<u8>, PathError> {
    let find = |from: usize, ends: &[u8]| {
        made.iter().skip(from).position(|byte| ends.contains(byte)).map_or(made.len(), |at| from + at)
    };
    let authority = match made.windows(3).position(|bytes| bytes == b"://") {
        _ if own_host => Some(2),
        Some(at) if !made.starts_with(b"/") => Some(at + 3),
        _ => None,
    };
    let begin = authority.map_or(0, |authority| find(authority, b"/?#"));
    let end = find(begin, b"?#");
    let mut normal = Vec::new();
    // A relative reference and a missing path are not normalized.
    if made[begin..end].starts_with(b"/")
        && normalise_rewritten(&made[begin..end], rules, &mut normal)? == Normalised::Changed
    {
        made.splice(begin..end, normal);
    }
    Ok(made)
}

/// Returns the path, with the query if there is one.
fn target<'r>(request: &'r Request<'_>) -> Cow<'r, [u8]> {
    match request.query() {
        None => request.path().into(),
        Some(query) => [request.path(), b"?", query].concat().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sent;
    use crate::{Context, TemplatePart};

    fn answer(rule: InterceptRule, line: &str) -> Option<(u16, String)> {
        let (mut sent, mut context) = (Sent::with(line, ""), Context::default());
        let rules = InterceptRules { rules: [rule].into() };
        match rules.request(&mut sent.request(&mut context)) {
            Verdict::Respond(answer) => Some((answer.status, String::from_utf8(answer.lines).expect("text"))),
            _ => None,
        }
    }

    fn regex(text: &str) -> Option<Regex> {
        Some(Regex::new(text).expect("an expression"))
    }

    #[test]
    fn a_rule_has_requests_for_which_all_of_it_is_true() {
        let post: Box<[Box<[u8]>]> = [b"POST".as_slice().into()].into();
        for (rule, line, has) in [
            (InterceptRule::default(), "GET / HTTP/1.1", true),
            (
                InterceptRule { uri: regex("root.m+"), ..InterceptRule::default() },
                "GET /root.mm HTTP/1.1",
                true,
            ),
            (
                InterceptRule { uri: regex("select"), ..InterceptRule::default() },
                "GET /?q=select HTTP/1.1",
                true,
            ),
            (
                InterceptRule { path: regex("select"), ..InterceptRule::default() },
                "GET /?q=select HTTP/1.1",
                false,
            ),
            (InterceptRule { uri: regex("^/a$"), ..InterceptRule::default() }, "GET /a?b HTTP/1.1", false),
            (InterceptRule { secure: Some(true), ..InterceptRule::default() }, "GET / HTTP/1.1", false),
            (InterceptRule { secure: Some(false), ..InterceptRule::default() }, "GET / HTTP/1.1", true),
            (InterceptRule { methods: post.clone(), ..InterceptRule::default() }, "GET / HTTP/1.1", false),
            (InterceptRule { methods: post, ..InterceptRule::default() }, "POST / HTTP/1.1", true),
        ] {
            assert_eq!(answer(rule, line).is_some(), has, "{line}");
        }
    }

    #[test]
    fn redirects_never_lead_to_a_host_of_the_clients_choice() {
        let to = |parts: &[TemplatePart]| Some(Location::To(parts.to_vec().into()));
        let text = |text: &str| TemplatePart::Text(text.as_bytes().into());
        let replaced = |text: &str| Some(Location::Replaced(text.as_bytes().into(), PathRules::default()));
        let query = to(&[text("/"), TemplatePart::Parameter("to".into())]);
        let secure = to(&[text("https://"), TemplatePart::Host, TemplatePart::Path]);
        for (path, leads, keep_query, line, location) in [
            (None, secure, true, "GET /a?b=c HTTP/1.1", "https://a.example/a?b=c"),
            (None, to(&[TemplatePart::Path, text("/index?x")]), true, "GET /a?b HTTP/1.1", "/a/index?x&b"),
            (None, to(&[TemplatePart::Path]), false, "GET //evil.example HTTP/1.1", "/evil.example"),
            (regex("^/a/(.*)/(.*)"), replaced("/$1-$2"), false, "GET /a/b/c?d HTTP/1.1", "/b-c"),
            (regex("^/a/(.*)"), replaced("/$1"), true, "GET /a//evil.example?d HTTP/1.1", "/evil.example?d"),
            (regex("^/a"), replaced("//b.example"), false, "GET /a/b HTTP/1.1", "//b.example/b"),
            (
                regex("^/a/(.*)"),
                replaced("https://b.example//$1?x#y"),
                false,
                "GET /a/b HTTP/1.1",
                "https://b.example/b?x#y",
            ),
            (None, query.clone(), false, "GET /?to=\\evil.example HTTP/1.1", "/evil.example"),
            (None, query, false, "GET /?to=/\\/evil.example HTTP/1.1", "/evil.example"),
        ] {
            let rule =
                InterceptRule { path, location: leads, keep_query, status: 301, ..InterceptRule::default() };
            assert_eq!(answer(rule, line), Some((301, format!("location: {location}\r\n"))), "{line}");
        }
    }

    #[test]
    fn a_replacement_keeps_to_the_rules_of_paths() {
        for (path, line, error) in [
            ("25", "GET /%252e/a HTTP/1.1", PathError::DotSegment),
            ("20", "GET /a%20b HTTP/1.1", PathError::BadEscape),
            ("-", "GET /a/.- HTTP/1.1", PathError::DotSegment),
        ] {
            let leads = Some(Location::Replaced(Box::default(), PathRules::default()));
            let rule =
                InterceptRule { path: regex(path), location: leads, status: 301, ..InterceptRule::default() };
            let (mut sent, mut context) = (Sent::with(line, ""), Context::default());
            match (InterceptRules { rules: [rule].into() }).request(&mut sent.request(&mut context)) {
                Verdict::Refuse(refusal) => {
                    assert_eq!(
                        (refusal.reason, refusal.detail),
                        (Reason::BadPath, Some(error.as_str())),
                        "{line}"
                    );
                }
                _ => panic!("{line} is not refused"),
            }
        }
    }
}
