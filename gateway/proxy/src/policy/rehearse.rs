//! Evaluates the policies of a request without a socket, for `tollgate explain`. A policy that would wait,
//! read the body or ask another system is listed, and the evaluation goes on as if it had agreed.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_plan::{Plan, PlannedListener, Route};
use tollgate_policy::{Context, Dependency, Origin, PolicyResponse, PolicyStates, Request, Verdict};

use super::chain_evaluation::named;
use crate::exchange::forwarded::ForwardedFields;
use crate::policy::rehearsed_outcome::{RehearsedOutcome, refused};
use crate::state::request_state::RequestState;

/// A policy that a request would meet, and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsedPolicy {
    /// The kind of the policy: its key in the configuration.
    pub kind: &'static str,
    /// The place where it is attached: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
    pub place: String,
    /// The policy set that it comes from; `None` if it is written at that place.
    pub set: Option<Arc<str>>,
    /// A short description of what it does.
    pub summary: String,
    /// Its verdict on the request.
    pub verdict: RehearsedVerdict,
}

/// The verdict of a policy in a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RehearsedVerdict {
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

impl RehearsedVerdict {
    /// Returns the verdict in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RehearsedVerdict::Continues => "continues",
            RehearsedVerdict::Ends => "ends here",
            RehearsedVerdict::Asks => "asks somebody else; here it continues",
            RehearsedVerdict::Reads => "reads the body; here it continues",
            RehearsedVerdict::Gathers => "asks upstreams, and answers with what they say",
            RehearsedVerdict::Waits => "waits; here it continues",
            RehearsedVerdict::NeedsCertificate => "looks at the client's certificate; here it continues",
            RehearsedVerdict::NeedsIdentity => "depends on who it is; here it continues",
            RehearsedVerdict::NotReached => "not reached",
        }
    }
}

/// The result of rehearsing the policies of a request.
#[derive(Debug, Default)]
pub(crate) struct Rehearsed {
    pub policies: Vec<RehearsedPolicy>,
    /// How a policy ends the request; `None`: it goes on.
    pub end: Option<RehearsedOutcome>,
    /// The upstream of the route that a policy names, by number.
    pub share: Option<usize>,
}

/// The sender of a rehearsed request: the peer, whether it uses TLS, and the listener's address as it is
/// written.
#[derive(Clone, Copy)]
pub(crate) struct RehearsedSender<'a> {
    pub peer: SocketAddr,
    pub secure: bool,
    pub listener: Option<&'a PlannedListener>,
}

/// Evaluates the policies of the route, then the policies of the upstream that a policy named, or
/// else of the first upstream with a weight above 0.
pub(crate) fn rehearse(
    plan: &Plan,
    route: &Route,
    state: &mut RequestState,
    from: RehearsedSender<'_>,
) -> Rehearsed {
    let mut out = Rehearsed::default();
    let mut context = Context::default();
    let chains = route.policies.as_ref();
    let chain =
        chains.and_then(|chains| from.listener.map_or(chains.default, |listener| chains.at(listener)));
    if let Some(chain) = chain {
        resolve(plan, (route, chain), state, &mut context, from, &mut out);
    }
    if let Some(shares) = route.shares() {
        out.share = named(plan, shares, &context);
        let taken = out.share.or_else(|| shares.iter().position(|share| share.weight > 0));
        if let Some(chain) = taken.and_then(|index| plan.upstream_chains[shares[index].upstream]) {
            resolve(plan, (route, chain), state, &mut context, from, &mut out);
        }
    }
    out
}

fn resolve(
    plan: &Plan,
    (route, chain): (&Route, u32),
    state: &mut RequestState,
    context: &mut Context,
    from: RehearsedSender<'_>,
    out: &mut Rehearsed,
) {
    // A rehearsal must not cause calls to other systems.
    let shared = Arc::new(PolicyStates::without_background_io());
    for index in &plan.chains[chain as usize] {
        let attached = &plan.policies[*index as usize];
        let unknown = context.consumer.is_none()
            && out.policies.iter().any(|policy| {
                matches!(
                    policy.verdict,
                    RehearsedVerdict::Asks | RehearsedVerdict::Reads | RehearsedVerdict::NeedsCertificate
                )
            });
        let verdict = if out.end.is_some() {
            RehearsedVerdict::NotReached
        } else if attached.policy.depends_on() == Some(Dependency::Identity) && unknown {
            RehearsedVerdict::NeedsIdentity
        } else {
            let client = state.record.announced.client(from.peer);
            let believed = ForwardedFields(&plan.settings);
            let origin = Origin {
                peer: from.peer,
                client: client.ip(),
                client_port: Some(client.port()).filter(|port| *port != 0),
                secure: state.record.announced.is_secure(from.secure),
                certificate: None,
                route: &route.name,
                worker: 0,
                now: tollgate_net::now(),
                forwarding: &believed,
            };
            let RequestState { request, path, record, .. } = &mut *state;
            let live = attached.policy.clone().activate(&attached.key, &shared);
            match live.request(
                &mut Request::new(request, path, &origin, context, &record.request_id)
                    .with_announced_authority(record.announced.announced_authority()),
            ) {
                Verdict::Continue => RehearsedVerdict::Continues,
                Verdict::Wait(_) => RehearsedVerdict::Asks,
                Verdict::Body(..) | Verdict::BodyStart(..) => RehearsedVerdict::Reads,
                Verdict::Sleep(..) => RehearsedVerdict::Waits,
                Verdict::Call(..) => {
                    let answer = PolicyResponse { status: 200, lines: Vec::new(), body: Vec::new() };
                    out.end = Some(RehearsedOutcome::Answered(answer));
                    RehearsedVerdict::Gathers
                }
                // A real request may come with a certificate.
                Verdict::Refuse(_)
                    if attached.policy.depends_on() == Some(Dependency::Certificate) && from.secure =>
                {
                    RehearsedVerdict::NeedsCertificate
                }
                Verdict::Refuse(refusal) => {
                    let usual = refused(refusal.reason, refusal.detail);
                    out.end = Some(match (usual, refusal.status) {
                        (RehearsedOutcome::Refused { reason, detail, .. }, Some(status)) => {
                            RehearsedOutcome::Refused { reason, status, detail }
                        }
                        (usual, _) => usual,
                    });
                    RehearsedVerdict::Ends
                }
                Verdict::Respond(answer) => {
                    out.end = Some(RehearsedOutcome::Answered(answer));
                    RehearsedVerdict::Ends
                }
            }
        };
        let (kind, place) = attached.name();
        let mut summary = attached.policy.summary();
        if let Some(cache) = context.cache.take() {
            summary = format!("{summary}; {}", cache.in_words(&context.cache_key));
        }
        out.policies.push(RehearsedPolicy {
            kind,
            place: place.to_owned(),
            set: attached.set.clone(),
            summary,
            verdict,
        });
    }
}
