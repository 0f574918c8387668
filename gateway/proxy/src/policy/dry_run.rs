//! Evaluates the policies of a request without a socket, for `tollgate explain`. A policy that would wait,
//! read the body or ask another system is listed, and the evaluation goes on as if it had agreed.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_plan::{Plan, PlannedListener, Route};
use tollgate_policy::{Context, Dependency, Origin, PolicyResponse, PolicyStates, Request, Verdict};

use super::chain_evaluation::named;
use crate::exchange::forwarded::ForwardedFields;
use crate::policy::dry_run_outcome::{DryRunOutcome, refused};
use crate::state::request_state::RequestState;

/// A policy that a request would meet, and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRunPolicy {
    /// The kind of the policy: its key in the configuration.
    pub kind: &'static str,
    /// The place where it is attached: `gateway`, `listener/ADDRESS`, `route/NAME` or `upstream/NAME`.
    pub place: String,
    /// The policy set that it comes from; `None` if it is written at that place.
    pub set: Option<Arc<str>>,
    /// A short description of what it does.
    pub summary: String,
    /// Its verdict on the request.
    pub verdict: DryRunVerdict,
}

/// The verdict of a policy in a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRunVerdict {
    /// The request goes on.
    Continues,
    /// The policy refuses or answers the request.
    Ends,
    /// The policy would ask another system; the dry run goes on.
    Asks,
    /// The policy would read the body and then decide; the dry run goes on.
    Reads,
    /// The policy would ask upstreams and answer with what they return.
    Gathers,
    /// The policy would delay the request and then decide; the dry run goes on.
    Waits,
    /// The policy decides by the client's certificate, which a dry run lacks; it goes on.
    NeedsCertificate,
    /// The policy decides by the client's identity, which an earlier policy would establish; the dry run
    /// goes on.
    NeedsIdentity,
    /// An earlier policy refused or answered the request.
    NotReached,
}

impl DryRunVerdict {
    /// Returns the verdict in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            DryRunVerdict::Continues => "continues",
            DryRunVerdict::Ends => "ends here",
            DryRunVerdict::Asks => "asks somebody else; here it continues",
            DryRunVerdict::Reads => "reads the body; here it continues",
            DryRunVerdict::Gathers => "asks upstreams, and answers with what they say",
            DryRunVerdict::Waits => "waits; here it continues",
            DryRunVerdict::NeedsCertificate => "looks at the client's certificate; here it continues",
            DryRunVerdict::NeedsIdentity => "depends on who it is; here it continues",
            DryRunVerdict::NotReached => "not reached",
        }
    }
}

/// The dry run of the policies of a request.
#[derive(Debug, Default)]
pub(crate) struct PolicyDryRun {
    pub policies: Vec<DryRunPolicy>,
    /// How a policy ends the request; `None`: it goes on.
    pub end: Option<DryRunOutcome>,
    /// The upstream of the route that a policy names, by number.
    pub share: Option<usize>,
}

/// The sender of a request in a dry run: the peer, whether it uses TLS, and the listener's address as it is
/// written.
#[derive(Clone, Copy)]
pub(crate) struct DryRunSender<'a> {
    pub peer: SocketAddr,
    pub secure: bool,
    pub listener: Option<&'a PlannedListener>,
}

/// Evaluates the policies of the route, then the policies of the upstream that a policy named, or
/// else of the first upstream with a weight above 0.
pub(crate) fn dry_run(
    plan: &Plan,
    route: &Route,
    state: &mut RequestState,
    from: DryRunSender<'_>,
) -> PolicyDryRun {
    let mut out = PolicyDryRun::default();
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
    from: DryRunSender<'_>,
    out: &mut PolicyDryRun,
) {
    // A dry run must not cause calls to other systems.
    let shared = Arc::new(PolicyStates::without_background_io());
    for index in &plan.chains[chain as usize] {
        let attached = &plan.policies[*index as usize];
        let unknown = context.consumer.is_none()
            && out.policies.iter().any(|policy| {
                matches!(
                    policy.verdict,
                    DryRunVerdict::Asks | DryRunVerdict::Reads | DryRunVerdict::NeedsCertificate
                )
            });
        let verdict = if out.end.is_some() {
            DryRunVerdict::NotReached
        } else if attached.policy.depends_on() == Some(Dependency::Identity) && unknown {
            DryRunVerdict::NeedsIdentity
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
                Verdict::Continue => DryRunVerdict::Continues,
                Verdict::Wait(_) => DryRunVerdict::Asks,
                Verdict::Body(..) | Verdict::BodyStart(..) => DryRunVerdict::Reads,
                Verdict::Sleep(..) => DryRunVerdict::Waits,
                Verdict::Call(..) => {
                    let answer = PolicyResponse { status: 200, lines: Vec::new(), body: Vec::new() };
                    out.end = Some(DryRunOutcome::Answered(answer));
                    DryRunVerdict::Gathers
                }
                // A real request may come with a certificate.
                Verdict::Refuse(_)
                    if attached.policy.depends_on() == Some(Dependency::Certificate) && from.secure =>
                {
                    DryRunVerdict::NeedsCertificate
                }
                Verdict::Refuse(refusal) => {
                    let usual = refused(refusal.reason, refusal.detail);
                    out.end = Some(match (usual, refusal.status) {
                        (DryRunOutcome::Refused { reason, detail, .. }, Some(status)) => {
                            DryRunOutcome::Refused { reason, status, detail }
                        }
                        (usual, _) => usual,
                    });
                    DryRunVerdict::Ends
                }
                Verdict::Respond(answer) => {
                    out.end = Some(DryRunOutcome::Answered(answer));
                    DryRunVerdict::Ends
                }
            }
        };
        let (kind, place) = attached.name();
        let mut summary = attached.policy.summary();
        if let Some(cache) = context.cache.take() {
            summary = format!("{summary}; {}", cache.in_words(&context.cache_key));
        }
        out.policies.push(DryRunPolicy {
            kind,
            place: place.to_owned(),
            set: attached.set.clone(),
            summary,
            verdict,
        });
    }
}
