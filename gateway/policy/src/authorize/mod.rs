//! `authorize`: decides which identified consumers may proceed.
//!
//! It reads the consumer that an earlier authentication policy has set in the context. A request without a
//! consumer is always refused, and `deny` overrides `allow`.

mod config;

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::{Consumer, Dependency, Planned, Policy, PolicyStates, Refusal, Request, Verdict};

pub(crate) use config::{AuthorizeRule, AuthorizeSettings, claims};

impl AuthorizeRule {
    fn matches(&self, consumer: &Consumer, method: &[u8]) -> bool {
        let Self { consumers, groups, claims, methods } = self;
        (consumers.is_empty() || consumers.contains(&consumer.name))
            && (groups.is_empty() || groups.iter().any(|group| consumer.groups.contains(group)))
            && claims.iter().all(|(claim, values)| consumer.has_claim(claim, values))
            && (methods.is_empty() || methods.iter().any(|own| own.as_bytes() == method))
    }
}

/// The rules that decide which identified consumers may proceed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizeRules {
    /// Rules that permit; `None`: every identified consumer.
    pub allow: Option<Vec<AuthorizeRule>>,
    /// Rules that forbid; they override `allow`.
    pub deny: Vec<AuthorizeRule>,
}

impl AuthorizeRules {
    /// Returns the cause of a refusal; `None` if the consumer is permitted.
    fn refuses(&self, consumer: Option<&Consumer>, method: &[u8]) -> Option<&'static str> {
        let Some(consumer) = consumer else { return Some("it is not known who asks") };
        if self.deny.iter().any(|rule| rule.matches(consumer, method)) {
            return Some("a rule of `deny` has it");
        }
        let allow = self.allow.as_ref()?;
        (!allow.iter().any(|rule| rule.matches(consumer, method))).then_some("no rule of `allow` has it")
    }
}

impl Planned for AuthorizeRules {
    fn kind(&self) -> &'static str {
        "authorize"
    }

    fn summary(&self) -> String {
        let allow = self.allow.as_ref().map_or("all".to_owned(), |rules| rules.len().to_string());
        format!("{allow} allowed, {} denied", self.deny.len())
    }

    fn depends_on(&self) -> Option<Dependency> {
        Some(Dependency::Identity)
    }

    fn activate(self: Arc<Self>, _: &str, _: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        self
    }
}

impl Policy for AuthorizeRules {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        match self.refuses(request.context.consumer.as_deref(), request.method()) {
            None => Verdict::Continue,
            detail => Refusal { detail, ..Reason::NotAuthorized.into() }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn deny_wins_and_all_of_a_rule_has_to_hold() {
        let alice = Consumer {
            name: "alice".to_owned(),
            groups: texts(&["admin", "dev"]),
            claims: vec![("scope".to_owned(), "read write".to_owned()), ("org".to_owned(), "a b".to_owned())],
        };
        let rule = |groups: &[&str], methods: &[&str]| AuthorizeRule {
            groups: texts(groups),
            methods: texts(methods),
            ..AuthorizeRule::default()
        };
        let may = |allow: Option<Vec<AuthorizeRule>>, deny: Vec<AuthorizeRule>| {
            AuthorizeRules { allow, deny }.refuses(Some(&alice), b"GET").is_none()
        };
        assert!(may(None, vec![]));
        assert!(!may(Some(vec![]), vec![]), "nobody is allowed");
        assert!(may(Some(vec![rule(&["x"], &[]), rule(&["dev"], &["GET"])]), vec![]));
        assert!(!may(Some(vec![rule(&["dev"], &["POST"])]), vec![]));
        assert!(!may(Some(vec![rule(&["dev"], &[])]), vec![rule(&["admin"], &[])]));
        let named = |name: &str| AuthorizeRule { consumers: texts(&[name]), ..AuthorizeRule::default() };
        assert!(may(Some(vec![named("alice")]), vec![named("bob")]));
        let claim = |name: &str, value: &str| AuthorizeRule {
            claims: vec![(name.to_owned(), texts(&[value]))],
            ..AuthorizeRule::default()
        };
        assert!(may(Some(vec![claim("scope", "write")]), vec![]));
        assert!(!may(Some(vec![claim("org", "a")]), vec![]), "blanks part words of a scope alone");
        assert!(may(Some(vec![claim("org", "a b")]), vec![]));
        assert!(!may(Some(vec![claim("none", "")]), vec![]));
        assert!(AuthorizeRules::default().refuses(None, b"GET").is_some(), "nobody is known");
    }
}
