//! One refusal of all that the alternatives say.

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::{Answer, Policy, Refusal, Verdict};

/// What the alternatives said that did not let a request in.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// An alternative was not tried, since nothing shows its credential.
    missing: bool,
    /// Whether it may come could not be found out.
    unavailable: Option<Refusal>,
    /// It is known who it is, and it may not.
    forbidden: Option<Refusal>,
    /// A service's own answer.
    answer: Option<Answer>,
    /// Its credential is wrong.
    refused: Option<Refusal>,
    /// It is refused whatever its credential is: by its address, or for want of a certificate.
    other: Option<Refusal>,
    /// The challenge of each policy that has refused, by the numbers of the alternative and the policy.
    challenges: Vec<((usize, usize), Vec<u8>)>,
}

impl Failures {
    /// An alternative's credential is not there.
    pub fn missing(&mut self) {
        self.missing = true;
    }

    /// A policy of an alternative refuses.
    pub fn refused(&mut self, at: (usize, usize), mut refusal: Refusal) {
        if refusal.reason.status() == 401 {
            self.challenges.push((at, std::mem::take(&mut refusal.lines)));
        }
        let place = match refusal.reason {
            Reason::CredentialsMissing => return self.missing = true,
            Reason::CredentialsRefused => &mut self.refused,
            Reason::NotAuthorized => &mut self.forbidden,
            Reason::AddressDenied | Reason::CertificateMissing => &mut self.other,
            _ => &mut self.unavailable,
        };
        place.get_or_insert(refusal);
    }

    /// A service answers in an alternative's place.
    pub fn answered(&mut self, answer: Answer) {
        self.answer.get_or_insert(answer);
    }

    /// Whether nothing speaks against the request but that credentials are missing.
    pub fn only_missing(&self) -> bool {
        let Self { unavailable, forbidden, answer, refused, .. } = self;
        unavailable.is_none() && forbidden.is_none() && answer.is_none() && refused.is_none()
    }

    /// What the client is told. A request that might be let in later is told so (503); one whose sender is known is told that
    /// it may not (403); a service's own answer, such as the way to a login page, counts over a 401; and a 401 names all that
    /// would do.
    pub fn verdict(mut self, alternatives: &[Vec<Arc<dyn Policy>>]) -> Verdict {
        let lines = self.challenges(alternatives);
        let Self { missing, unavailable, forbidden, answer, refused, other, .. } = self;
        if let Some(refusal) = unavailable.or(forbidden) {
            return refusal.into();
        }
        if let Some(mut answer) = answer {
            if answer.status == 401 {
                answer.lines.extend(lines);
            }
            return Verdict::Answer(answer);
        }
        if let Some(refusal) = refused {
            return Refusal { lines, ..refusal }.into();
        }
        match other {
            // A client that shows a credential may be let in.
            _ if missing && !lines.is_empty() => {
                let detail = Some("no credential of any alternative of `any_of` is shown");
                Refusal { detail, lines, ..Reason::CredentialsMissing.into() }.into()
            }
            Some(refusal) => refusal.into(),
            None => Refusal::from(Reason::NotAuthorized).into(),
        }
    }

    /// The challenges of all alternatives, each once: what a policy has said of this request, else what it always says.
    fn challenges(&mut self, alternatives: &[Vec<Arc<dyn Policy>>]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for (alternative, policies) in alternatives.iter().enumerate() {
            for (number, policy) in policies.iter().enumerate() {
                let said = self.challenges.iter().position(|(at, _)| *at == (alternative, number));
                let line = match (said, policy.authenticator()) {
                    (Some(said), _) => std::mem::take(&mut self.challenges[said].1),
                    (None, Some(authenticator)) => authenticator.challenge(),
                    (None, None) => continue,
                };
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        lines.concat()
    }
}
