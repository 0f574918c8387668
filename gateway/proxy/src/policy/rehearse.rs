//! Evaluates the policies of a request without a socket, for `tollgate explain`. A policy that would wait,
//! read the body or ask another system is listed, and the evaluation goes on as if it had agreed.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_plan::{Action, ListenAddress, Plan, Route};
use tollgate_policy::{Answer, Context, Origin, Request, Shared, Shown, Verdict};

use super::walk::named;
use crate::forwarded::Believed;
use crate::rehearse::{Outcome, refused};
use crate::scratch::Scratch;

/// A policy that a request would meet, and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetPolicy {
    /// The kind of the policy: its key in the configuration.
    pub kind: &'static str,
    /// The place where it is attached: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
    pub place: String,
    /// The policy set that it comes from; `None` if it is written at that place.
    pub set: Option<Arc<str>>,
    /// A short description of what it does.
    pub summary: String,
    /// Its verdict on the request.
    pub said: Said,
}

/// The verdict of a policy in a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The request goes on.
    Continues,
    /// The policy refuses or answers the request.
    Ends,
    /// The policy would ask another system; the rehearsal goes on.
    Asks,
    /// The policy would read the body and then decide; the rehearsal goes on.
    Reads,
    /// The policy would ask upstreams and answer with what they return.
    Gathers,
    /// The policy would delay the request and then decide; the rehearsal goes on.
    Waits,
    /// The policy decides by the client's certificate, which a rehearsal lacks; it goes on.
    NeedsCertificate,
    /// The policy decides by the client's identity, which an earlier policy would establish; the rehearsal
    /// goes on.
    NeedsIdentity,
    /// An earlier policy refused or answered the request.
    NotReached,
}

impl Said {
    /// Returns the verdict in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Said::Continues => "continues",
            Said::Ends => "ends here",
            Said::Asks => "asks somebody else; here it continues",
            Said::Reads => "reads the body; here it continues",
            Said::Gathers => "asks upstreams, and answers with what they say",
            Said::Waits => "waits; here it continues",
            Said::NeedsCertificate => "looks at the client's certificate; here it continues",
            Said::NeedsIdentity => "depends on who it is; here it continues",
            Said::NotReached => "not reached",
        }
    }
}

/// The result of rehearsing the policies of a request.
#[derive(Debug, Default)]
pub(crate) struct Rehearsed {
    pub met: Vec<MetPolicy>,
    /// How a policy ends the request; `None`: it goes on.
    pub end: Option<Outcome>,
    /// The upstream of the route that a policy names, by number.
    pub share: Option<usize>,
}

/// The sender of a rehearsed request: the peer, whether it uses TLS, and the listener's address as it is
/// written.
#[derive(Clone, Copy)]
pub(crate) struct From<'a> {
    pub peer: SocketAddr,
    pub secure: bool,
    pub bind: Option<&'a ListenAddress>,
}

/// Evaluates the policies of the route, then the policies of an upstream: the one that a policy named, or
/// else the first with a weight above 0.
pub(crate) fn rehearse(plan: &Plan, route: &Route, scratch: &mut Scratch, from: From<'_>) -> Rehearsed {
    let mut out = Rehearsed::default();
    let mut context = Context::default();
    let chains = route.policies.as_ref();
    let chain = chains.and_then(|chains| from.bind.map_or(chains.default, |bind| chains.at(bind)));
    if let Some(chain) = chain {
        meet(plan, (route, chain), scratch, &mut context, from, &mut out);
    }
    if let Action::Forward(shares) = &route.action {
        out.share = named(plan, shares, &context);
        let taken = out.share.or_else(|| shares.iter().position(|share| share.weight > 0));
        if let Some(chain) = taken.and_then(|index| plan.upstream_chains[shares[index].upstream]) {
            meet(plan, (route, chain), scratch, &mut context, from, &mut out);
        }
    }
    out
}

fn meet(
    plan: &Plan,
    (route, chain): (&Route, u32),
    scratch: &mut Scratch,
    context: &mut Context,
    from: From<'_>,
    out: &mut Rehearsed,
) {
    // A rehearsal must not cause calls to other systems.
    let shared = Arc::new(Shared::silent());
    for index in &plan.chains[chain as usize] {
        let attached = &plan.policies[*index as usize];
        let unknown = context.consumer.is_none()
            && out
                .met
                .iter()
                .any(|met| matches!(met.said, Said::Asks | Said::Reads | Said::NeedsCertificate));
        let said = if out.end.is_some() {
            Said::NotReached
        } else if attached.policy.judges_by() == Some(Shown::Identity) && unknown {
            Said::NeedsIdentity
        } else {
            let client = scratch.ledger.announced.client(from.peer);
            let believed = Believed(&plan.settings);
            let origin = Origin {
                peer: from.peer,
                client: client.ip(),
                client_port: Some(client.port()).filter(|port| *port != 0),
                secure: scratch.ledger.announced.is_secure(from.secure),
                certificate: None,
                route: &route.name,
                worker: 0,
                now: tollgate_net::now(),
                word: &believed,
            };
            let Scratch { request, path, ledger, .. } = &mut *scratch;
            let live = attached.policy.clone().live(&attached.key, &shared);
            match live.request(
                &mut Request::new(request, path, &origin, context, &ledger.request_id)
                    .asked_at(ledger.announced.announced_authority()),
            ) {
                Verdict::Continue => Said::Continues,
                Verdict::Wait(_) => Said::Asks,
                Verdict::Body(..) | Verdict::Begin(..) => Said::Reads,
                Verdict::Sleep(..) => Said::Waits,
                Verdict::Call(..) => {
                    let answer = Answer { status: 200, lines: Vec::new(), body: Vec::new() };
                    out.end = Some(Outcome::Answered(answer));
                    Said::Gathers
                }
                // A real request may come with a certificate.
                Verdict::Refuse(_)
                    if attached.policy.judges_by() == Some(Shown::Certificate) && from.secure =>
                {
                    Said::NeedsCertificate
                }
                Verdict::Refuse(refusal) => {
                    let usual = refused(refusal.reason, refusal.detail);
                    out.end = Some(match (usual, refusal.status) {
                        (Outcome::Refused { reason, detail, .. }, Some(status)) => {
                            Outcome::Refused { reason, status, detail }
                        }
                        (usual, _) => usual,
                    });
                    Said::Ends
                }
                Verdict::Answer(answer) => {
                    out.end = Some(Outcome::Answered(answer));
                    Said::Ends
                }
            }
        };
        let (kind, place) = attached.name();
        let summary = attached.policy.summary();
        out.met.push(MetPolicy { kind, place: place.to_owned(), set: attached.set.clone(), summary, said });
    }
}
