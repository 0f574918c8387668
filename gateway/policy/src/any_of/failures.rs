//! One refusal, made from the failures of all alternatives.
//!
//! `any_of` records each failure in [`Failures`], and asks for the verdict when no alternative has admitted
//! the request.

use std::sync::Arc;

use tollgate_observe::Reason;

use crate::{Policy, PolicyResponse, Refusal, Verdict};

/// The failures of the alternatives that refused a request.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// An alternative was not tried, because the request has no credential for it.
    missing: bool,
    /// An alternative could not be checked.
    unavailable: Option<Refusal>,
    /// The consumer is known but not permitted.
    forbidden: Option<Refusal>,
    /// The response of an authorization service.
    answer: Option<PolicyResponse>,
    /// A credential is wrong.
    refused: Option<Refusal>,
    /// The request is refused for a reason other than its credential: its address, or a missing certificate.
    other: Option<Refusal>,
    /// The challenge of each policy that refused, with the indices of the alternative and the policy.
    challenges: Vec<((usize, usize), Vec<u8>)>,
}

impl Failures {
    /// Records that the credential of an alternative is missing.
    pub fn missing(&mut self) {
        self.missing = true;
    }

    /// Records the refusal of a policy. Only the first refusal of each class is kept.
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

    /// Records the response of a service. Only the first is kept.
    pub fn answered(&mut self, answer: PolicyResponse) {
        self.answer.get_or_insert(answer);
    }

    /// Whether missing credentials are the only failure so far.
    pub fn only_missing(&self) -> bool {
        let Self { unavailable, forbidden, answer, refused, .. } = self;
        unavailable.is_none() && forbidden.is_none() && answer.is_none() && refused.is_none()
    }

    /// Returns the verdict for the client, in this order of precedence:
    ///
    /// - 503, if an alternative could not be checked: the request may pass later.
    /// - 403, if the consumer is known but not permitted.
    /// - The response of a service, such as a redirect to a login page.
    /// - 401, with the challenges of every alternative.
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
            return Verdict::Respond(answer);
        }
        if let Some(refusal) = refused {
            return Refusal { lines, ..refusal }.into();
        }
        match other {
            // A client that presents a credential may be admitted.
            _ if missing && !lines.is_empty() => {
                let detail = Some("no credential of any alternative of `any_of` is shown");
                Refusal { detail, lines, ..Reason::CredentialsMissing.into() }.into()
            }
            Some(refusal) => refusal.into(),
            None => Refusal::from(Reason::NotAuthorized).into(),
        }
    }

    /// Returns the challenges of all alternatives without duplicates. A policy that did not see this request
    /// contributes its general challenge.
    fn challenges(&mut self, alternatives: &[Vec<Arc<dyn Policy>>]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for (alternative, policies) in alternatives.iter().enumerate() {
            for (number, policy) in policies.iter().enumerate() {
                let challenge = self.challenges.iter().position(|(at, _)| *at == (alternative, number));
                let line = match (challenge, policy.authenticator()) {
                    (Some(challenge), _) => std::mem::take(&mut self.challenges[challenge].1),
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
