//! The policies that a request would meet, without a socket: for `tollgate explain`.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_plan::{Action, ListenAddress, Plan, Route};
use tollgate_policy::{Answer, Context, Origin, Request, Shared, Shown, Verdict};

use super::walk::named;
use crate::forwarded::Believed;
use crate::rehearse::{Outcome, refused};
use crate::scratch::Scratch;

/// A policy that a request would meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetPolicy {
    /// Its kind, which is its key in the configuration.
    pub kind: &'static str,
    /// Where it is attached: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
    pub place: String,
    /// The set of policies that it comes from; nothing: it is written there.
    pub set: Option<Arc<str>>,
    /// What it does, in a few words.
    pub summary: String,
    /// What it says of the request.
    pub said: Said,
}

/// What a policy says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It goes on.
    Continues,
    /// It is refused, or answered.
    Ends,
    /// Somebody would be asked; here it goes on.
    Asks,
    /// Its body would be read, and it would go on or not; here it goes on.
    Reads,
    /// Upstreams would be asked, and what they say would be the answer.
    Gathers,
    /// It would stand still for some time, and then go on or not; here it goes on.
    Waits,
    /// It judges by the client's certificate, which is not there; here it goes on.
    NeedsCertificate,
    /// It judges by who it is, which one before it would find out; here it goes on.
    NeedsIdentity,
    /// It does not come so far.
    NotReached,
}

impl Said {
    /// In words.
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

/// What came of meeting them.
#[derive(Debug, Default)]
pub(crate) struct Rehearsed {
    pub met: Vec<MetPolicy>,
    /// What one of them made of the request; nothing: it goes on.
    pub end: Option<Outcome>,
    /// Which of the route's upstreams it is to go to, if that was said.
    pub share: Option<usize>,
}

/// Where a request comes from: the other end, whether by TLS, and the listener's address as it is written.
#[derive(Clone, Copy)]
pub(crate) struct From<'a> {
    pub peer: SocketAddr,
    pub secure: bool,
    pub bind: Option<&'a ListenAddress>,
}

/// The request meets the policies of its route, then those of the first upstream that may take it.
pub(crate) fn rehearse(plan: &Plan, route: &Route, scratch: &mut Scratch, from: From<'_>) -> Rehearsed {
    let mut out = Rehearsed::default();
    let mut context = Context::default();
    let chains = route.policies.as_ref();
    let chain = chains.and_then(|chains| from.bind.map_or(chains.usual, |bind| chains.at(bind)));
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
    // Nobody is to be asked because somebody wants to know what would be.
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
