//! Evaluates the policies of a request in order, for as long as each lets it go on at once.
//!
//! [`ChainEvaluation`] evaluates the chain of the route, chooses the route's upstream, and then evaluates the
//! chain of that upstream. It stops at the first verdict that needs more, and can continue after it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use tollgate_http::Name;
use tollgate_observe::Reason;
use tollgate_plan::{Action, Plan, PlannedListener, UpstreamShare};
use tollgate_policy::{Context, ForwardingRule, Origin, Refusal, Request, Verdict};

use super::policy_end::PolicyEnd;
use crate::exchange::affinity::RequestAffinity;
use crate::exchange::forwarded::ForwardedFields;
use crate::state::active::ActivePlan;
use crate::state::active_policy::ActivePolicy;
use crate::state::announced::Announced;
use crate::state::client_certificate::PresentedCertificate;
use crate::state::client_tls::ClientTls;
use crate::state::record::EvaluatedPolicy;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

impl ForwardingRule for ActivePlan {
    fn passes(&self, peer: IpAddr, id: Name, name: &[u8]) -> bool {
        ForwardedFields(&self.plan.settings).passes(peer, id, name)
    }
}

/// The sender of a request: the client that trusted proxies announce, and the peer.
type RequestSender<'a> = (&'a Announced, SocketAddr);

/// The position of a request in its policies: the rest of the current chain, and whether the chain of an
/// upstream follows.
pub(super) struct ChainEvaluation<'a> {
    active: &'a Rc<ActivePlan>,
    route: u32,
    rest: slice::Iter<'a, Arc<ActivePolicy>>,
    /// The chain that it began with, by its index in the plan.
    chain: Option<u32>,
    /// The policy whose verdict stopped the evaluation; `None` while no policy did.
    stopped_by: Option<&'a Arc<ActivePolicy>>,
    /// Whether an upstream must still be chosen.
    chooses: bool,
    /// The chosen upstream of the route, by number, once it is known.
    share: Option<usize>,
    peer: SocketAddr,
    /// The client's address; port 0 means that the port is unknown.
    client: SocketAddr,
}

impl<'a> ChainEvaluation<'a> {
    /// Creates an evaluation of the policies of a route for requests that arrive at a listener, and then through
    /// the policies of the chosen upstream.
    pub fn of_route(
        active: &'a Rc<ActivePlan>,
        route: u32,
        listener: &PlannedListener,
        from: RequestSender<'_>,
    ) -> Self {
        let taken = active.route(route);
        let chain = taken.policies.as_ref().and_then(|chains| chains.at(listener));
        Self::new(active, route, chain, from, matches!(taken.action, Action::Forward(_)))
    }

    /// Creates an evaluation of one chain only.
    pub fn of_chain(
        active: &'a Rc<ActivePlan>,
        route: u32,
        chain: Option<u32>,
        from: RequestSender<'_>,
    ) -> Self {
        Self::new(active, route, chain, from, false)
    }

    #[inline(always)]
    fn new(
        active: &'a Rc<ActivePlan>,
        route: u32,
        chain: Option<u32>,
        (announced, peer): RequestSender<'_>,
        chooses: bool,
    ) -> Self {
        let rest = chain.map_or(&[][..], |chain| active.plan.chain(chain)).iter();
        let client = announced.client(peer);
        Self { active, route, rest, chain, stopped_by: None, chooses, share: None, peer, client }
    }

    /// Skips all remaining policies.
    pub fn end(&mut self) {
        (self.rest, self.chooses) = ([].iter(), false);
    }

    /// Describes where a request comes from that was just received. `tls` is the TLS state of its connection;
    /// `secure`: the request itself came over TLS.
    pub fn origin<'o>(
        &self,
        worker: &Worker,
        state: &RequestState,
        tls: Option<&'o ClientTls>,
        secure: bool,
    ) -> Origin<'o>
    where
        'a: 'o,
    {
        Origin {
            peer: self.peer,
            client: self.client.ip(),
            client_port: Some(self.client.port()).filter(|port| *port != 0),
            secure: state.record.announced.is_secure(secure),
            certificate: tls.and_then(|tls| tls.identity.as_ref()).and_then(PresentedCertificate::der),
            route: &self.active.route(self.route).name,
            worker: worker.id,
            now: state.record.started().unwrap_or_else(tollgate_net::now),
            forwarding: &**self.active,
        }
    }

    /// Returns the plan of the request.
    pub fn active(&self) -> &'a Rc<ActivePlan> {
        self.active
    }

    /// Returns the route of the request, by its index in the plan.
    pub fn route(&self) -> u32 {
        self.route
    }

    /// Returns the chosen upstream of the route, by number; `None` if the action needs none.
    pub fn share(&self) -> Option<usize> {
        self.share
    }

    /// Evaluates one policy after another. Returns the first verdict other than `Continue`, or `Continue` at
    /// the end.
    pub fn next_verdict(
        &mut self,
        state: &mut RequestState,
        origin: &Origin<'_>,
        context: &mut Context,
    ) -> Verdict {
        loop {
            for live in self.rest.by_ref() {
                let verdict = live.policy.request(&mut seen(state, origin, context));
                note(state, context);
                match verdict {
                    Verdict::Continue => {}
                    verdict => {
                        self.stopped_by = Some(live);
                        return verdict;
                    }
                }
            }
            if !self.chooses {
                return Verdict::Continue;
            }
            self.chooses = false;
            // If no upstream can be chosen, the request ends here. Otherwise `forward` would choose again,
            // and the request could reach an upstream whose policies have not seen it.
            let Some((share, upstream)) = self.choose(state, context) else {
                self.stopped_by = None;
                return Refusal::from(Reason::DestinationUnavailable).into();
            };
            self.share = Some(share);
            if let Some(chain) = upstream.and_then(|upstream| self.active.plan.upstream_chains[upstream]) {
                self.rest = self.active.plan.chain(chain).iter();
            }
        }
    }

    /// Ends the request: the policy that ended it counts that, and the policies after it see the request as
    /// passed over.
    pub fn end_with(
        &mut self,
        end: &PolicyEnd,
        state: &mut RequestState,
        origin: &Origin<'_>,
        context: &mut Context,
    ) {
        if let Some(live) = self.stopped_by {
            match end {
                PolicyEnd::Refused(..) => live.count_refused(),
                PolicyEnd::Answered(_) => live.count_answered(),
                PolicyEnd::Gone => {}
            }
        }
        self.rest.by_ref().for_each(|live| live.policy.skipped(&mut seen(state, origin, context)));
    }

    /// Notes that the policy whose verdict stopped the evaluation has waited, for the trace of the request.
    #[cold]
    pub fn note_wait(&self, state: &mut RequestState, waited_for: &'static str, took: Duration) {
        let Some(policy) = self.stopped_by else { return };
        let policies = &mut state.record.remarks().policies;
        match policies.last_mut().filter(|last| Arc::ptr_eq(&last.policy, policy)) {
            Some(last) => {
                last.waited_for.push(waited_for);
                last.waited = last.waited.map(|waited| waited + took);
            }
            None => policies.push(EvaluatedPolicy {
                policy: policy.clone(),
                verdict: Cow::Borrowed(""),
                waited_for: vec![waited_for],
                waited: Some(took),
            }),
        }
    }

    /// Notes the verdict of each policy, for the trace of the request. `end` is how the request ends, if its
    /// policies do not let it go on.
    #[cold]
    pub fn note_verdicts(&self, state: &mut RequestState, end: Option<&PolicyEnd>) {
        let plan = &self.active.plan;
        let shares = self.active.route(self.route).shares().unwrap_or_default();
        let upstream = self.share.and_then(|share| plan.upstream_chains[shares.get(share)?.upstream]);
        let chains = [self.chain, upstream].into_iter().flatten();
        let remarks = state.record.remarks();
        let mut waits = std::mem::take(&mut remarks.policies);
        // Under overload, no policy is evaluated.
        let mut is_over =
            self.stopped_by.is_none() && matches!(end, Some(PolicyEnd::Refused(Reason::Overload, ..)));
        for policy in chains.flat_map(|chain| plan.chain(chain)) {
            let verdict = match end {
                _ if is_over => Cow::Borrowed("not evaluated"),
                Some(end) if self.stopped_by.is_some_and(|by| Arc::ptr_eq(by, policy)) => {
                    is_over = true;
                    Cow::Owned(end.in_words())
                }
                _ => Cow::Borrowed("continue"),
            };
            let waited = waits.iter().position(|wait| Arc::ptr_eq(&wait.policy, policy));
            let (waited_for, waited) = match waited.map(|index| waits.swap_remove(index)) {
                Some(wait) => (wait.waited_for, wait.waited),
                None => (Vec::new(), None),
            };
            remarks.policies.push(EvaluatedPolicy { policy: policy.clone(), verdict, waited_for, waited });
        }
        remarks.policies_ended = Some(tollgate_net::now());
    }

    /// Chooses a target. Returns its number in the route, and the number of its upstream in the plan; a fixed response
    /// has none.
    fn choose(&self, state: &RequestState, context: &Context) -> Option<(usize, Option<usize>)> {
        let active = self.active;
        let shares = active.route(self.route).shares()?;
        let share = named(&active.plan, shares, context).or_else(|| {
            let affinity = RequestAffinity::new(state, &self.peer);
            active.next_share(self.route, &affinity)
        })?;
        Some((share, shares.get(share).map(|share| share.upstream)))
    }
}

/// Returns the upstream of the route that a policy has named, by number.
pub(super) fn named(plan: &Plan, shares: &[UpstreamShare], context: &Context) -> Option<usize> {
    let name = context.upstream.as_deref()?;
    shares.iter().position(|share| plan.upstreams[share.upstream].name == name)
}

/// Returns the view of the request that a policy gets.
pub(super) fn seen<'a>(
    state: &'a mut RequestState,
    origin: &'a Origin<'a>,
    context: &'a mut Context,
) -> Request<'a> {
    let RequestState { request, path, record, .. } = state;
    let authority = record.announced.announced_authority();
    Request::new(request, path, origin, context, &record.request_id).with_announced_authority(authority)
}

/// Records what a policy notes about a request that it lets go on.
pub(super) fn note(state: &mut RequestState, context: &mut Context) {
    if let Some(note) = context.note.take() {
        state.record.remarks().detail = Some(note.into());
    }
}
