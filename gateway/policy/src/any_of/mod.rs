//! `any_of`: alternative policies that admit a request. The request must pass all policies of one
//! alternative.
//!
//! The alternatives are tried in order; the first that the request passes identifies the consumer. If a later
//! policy of an alternative refuses, the changes of its earlier policies are undone. If no alternative admits
//! the request, it gets one refusal, which [`Failures`] derives from the refusals of all alternatives.

mod config;
mod failures;

use std::fmt::{self, Debug};
use std::sync::Arc;

use tollgate_http::RequestHead;

use self::failures::Failures;
use crate::context::ContextSnapshot;
use crate::{Continuation, Dependency, Planned, Policy, PolicyStates, Request, Verdict};

pub(crate) use config::AnyOfSettings;

/// Alternatives, one of which must admit the request.
#[derive(Debug)]
pub struct AnyOfRules {
    /// The alternatives, each with its policies in evaluation order.
    pub alternatives: Vec<Vec<Arc<dyn Planned>>>,
}

impl Planned for AnyOfRules {
    fn kind(&self) -> &'static str {
        "any_of"
    }

    fn summary(&self) -> String {
        let policy = |policy: &Arc<dyn Planned>| format!("{} ({})", policy.kind(), policy.summary());
        let alternative =
            |all: &Vec<Arc<dyn Planned>>| all.iter().map(policy).collect::<Vec<_>>().join(" and ");
        self.alternatives.iter().map(alternative).collect::<Vec<_>>().join(", or ")
    }

    fn depends_on(&self) -> Option<Dependency> {
        let mut policies = self.alternatives.iter().flatten();
        policies
            .any(|policy| policy.depends_on() == Some(Dependency::Certificate))
            .then_some(Dependency::Certificate)
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        // The key is the kind and the number among policies of this kind. State (nonces above all) therefore
        // survives when alternatives of other kinds are added or removed.
        let mut kinds: Vec<&'static str> = Vec::new();
        let mut activate = |policy: &Arc<dyn Planned>| {
            let kind = policy.kind();
            let number = kinds.iter().filter(|known| **known == kind).count();
            kinds.push(kind);
            policy.clone().activate(&format!("{key}/{kind}/{number}"), shared)
        };
        let alternatives =
            self.alternatives.iter().map(|all| all.iter().map(&mut activate).collect()).collect();
        Arc::new(AnyOfState(Arc::new(Alternatives(alternatives))))
    }
}

/// The policies of each alternative.
#[derive(Debug)]
struct Alternatives(Vec<Vec<Arc<dyn Policy>>>);

#[derive(Debug)]
struct AnyOfState(Arc<Alternatives>);

impl Policy for AnyOfState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        for authenticator in self.0.authenticators() {
            authenticator.reserve_fields(request);
        }
        let tried = AlternativesEvaluation {
            all: self.0.clone(),
            alternative: 0,
            policy: 0,
            pass: Pass::WithCredentials,
            failures: Failures::default(),
            before: None,
        };
        tried.evaluate_next(request)
    }

    fn skipped(&self, request: &mut Request<'_>) {
        self.0.authenticators().for_each(|authenticator| authenticator.redact(request));
    }
}

impl Alternatives {
    fn authenticators(&self) -> impl Iterator<Item = &dyn crate::Authenticator> {
        self.0.iter().flatten().filter_map(|policy| policy.authenticator())
    }

    /// Classifies an alternative by the credentials of the request, before any of its policies runs.
    fn credential_state(&self, alternative: usize, request: &Request<'_>) -> CredentialState {
        let mut look = CredentialState::Complete;
        for authenticator in self.0[alternative].iter().filter_map(|policy| policy.authenticator()) {
            if authenticator.is_present(request) {
                continue;
            }
            if !authenticator.is_optional() {
                return CredentialState::Missing;
            }
            look = CredentialState::Anonymous;
        }
        look
    }
}

/// The classification of an alternative by the credentials of the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CredentialState {
    /// All of its credentials are present, or it needs none.
    Complete,
    /// A required credential is missing.
    Missing,
    /// An optional credential is missing.
    Anonymous,
}

/// The two passes over the alternatives. An alternative that admits a request without its optional credential
/// comes in the second pass. Otherwise it would admit requests that a later alternative identifies, or that
/// carry a wrong credential.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    WithCredentials,
    Anonymous,
}

/// The progress of a request through the alternatives.
struct AlternativesEvaluation {
    all: Arc<Alternatives>,
    /// The alternative that is being tried, and the index of its next policy.
    alternative: usize,
    policy: usize,
    pass: Pass,
    failures: Failures,
    /// The request before the alternative, saved if more than one policy may change it.
    before: Option<Box<SavedRequest>>,
}

struct SavedRequest {
    head: RequestHead,
    mark: ContextSnapshot,
}

impl AlternativesEvaluation {
    fn evaluate_next(mut self, request: &mut Request<'_>) -> Verdict {
        loop {
            if self.alternative >= self.all.0.len() {
                if self.pass == Pass::WithCredentials && self.failures.only_missing() {
                    (self.pass, self.alternative) = (Pass::Anonymous, 0);
                    continue;
                }
                self.all.authenticators().for_each(|authenticator| authenticator.redact(request));
                return self.failures.verdict(&self.all.0);
            }
            if self.policy == 0 {
                match (self.all.credential_state(self.alternative, request), self.pass) {
                    (CredentialState::Complete, Pass::WithCredentials)
                    | (CredentialState::Anonymous, Pass::Anonymous) => {}
                    (look, _) => {
                        if look == CredentialState::Missing {
                            self.failures.missing();
                        }
                        self.alternative += 1;
                        continue;
                    }
                }
                if self.all.0[self.alternative].len() > 1 {
                    let (head, mark) = (request.head.clone(), request.context.mark());
                    self.before = Some(Box::new(SavedRequest { head, mark }));
                }
            }
            let Some(policy) = self.all.0[self.alternative].get(self.policy).cloned() else {
                self.passed(request);
                return Verdict::Continue;
            };
            let verdict = policy.request(request);
            match self.apply(verdict, request) {
                Ok(tried) => self = tried,
                Err(verdict) => return verdict,
            }
        }
    }

    /// Processes the verdict of a policy. `Err`: the request must wait first.
    fn apply(mut self, verdict: Verdict, request: &mut Request<'_>) -> Result<Self, Verdict> {
        match verdict {
            Verdict::Continue => {
                self.policy += 1;
                return Ok(self);
            }
            Verdict::Refuse(refusal) => self.failures.refused((self.alternative, self.policy), refusal),
            Verdict::Respond(answer) => self.failures.answered(answer),
            Verdict::Wait(waiting) => {
                return Err(Verdict::Wait(Box::pin(async move {
                    let after = waiting.await;
                    Box::new(move |request: &mut Request<'_>| self.then(after(request), request))
                        as Continuation
                })));
            }
            Verdict::Sleep(time, after) => {
                let after = move |request: &mut Request<'_>| self.then(after(request), request);
                return Err(Verdict::Sleep(time, Box::new(after)));
            }
            Verdict::Body(most, read) => {
                let read =
                    move |body: &[u8], request: &mut Request<'_>| self.then(read(body, request), request);
                return Err(Verdict::Body(most, Box::new(read)));
            }
            Verdict::BodyStart(most, read) => {
                let read = move |body: &[u8], whole, request: &mut Request<'_>| {
                    self.then(read(body, whole, request), request)
                };
                return Err(Verdict::BodyStart(most, Box::new(read)));
            }
            Verdict::Call(questions, after) => {
                let after =
                    move |responses, request: &mut Request<'_>| self.then(after(responses, request), request);
                return Err(Verdict::Call(questions, Box::new(after)));
            }
        }
        if let Some(before) = self.before.take() {
            *request.head = before.head;
            request.context.undo(before.mark);
        }
        (self.alternative, self.policy) = (self.alternative + 1, 0);
        Ok(self)
    }

    /// Processes the verdict of a policy after its wait.
    fn then(self, verdict: Verdict, request: &mut Request<'_>) -> Verdict {
        match self.apply(verdict, request) {
            Ok(tried) => tried.evaluate_next(request),
            Err(verdict) => verdict,
        }
    }

    /// Ends the evaluation after an alternative has admitted the request. Conceals the credentials of all
    /// other alternatives, except in fields that the admitting policies forward.
    fn passed(&self, request: &mut Request<'_>) {
        let winner = &self.all.0[self.alternative];
        let kept = |field: &str| {
            let mut own = winner.iter().filter_map(|policy| policy.authenticator());
            own.any(|authenticator| authenticator.forwards(field))
        };
        let others = self.all.0.iter().enumerate().filter(|(number, _)| *number != self.alternative);
        let others = others.flat_map(|(_, policies)| policies).filter_map(|policy| policy.authenticator());
        others.for_each(|authenticator| authenticator.conceal(request, &kept));
    }
}

impl Debug for AlternativesEvaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tried").field("alternative", &self.alternative).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
