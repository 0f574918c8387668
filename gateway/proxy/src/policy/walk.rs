//! A request on its way through policies, as far as they let it go on at once.

use std::net::{IpAddr, SocketAddr};
use std::slice;
use std::sync::Arc;

use tollgate_http::Name;
use tollgate_observe::Reason;
use tollgate_plan::{Action, ListenAddress, Plan, UpstreamShare};
use tollgate_policy::{Context, Origin, Refusal, Request, Verdict, Word};

use super::{End, LivePolicy};
use crate::active::ActivePlan;
use crate::affinity::Asker;
use crate::announced::Announced;
use crate::forwarded::Believed;
use crate::identity::Identity;
use crate::scratch::Scratch;
use crate::secured::Secured;
use crate::worker::Worker;

impl Word for ActivePlan {
    fn passes(&self, peer: IpAddr, id: Name, name: &[u8]) -> bool {
        Believed(&self.plan.settings).passes(peer, id, name)
    }
}

/// The origin of a request: its client as trusted proxies announce it, and its peer.
type From<'a> = (&'a Announced, SocketAddr);

/// Which policies a request has still before it: the rest of a chain, and those of the upstream that is chosen then.
pub(super) struct Walk<'a> {
    active: &'a ActivePlan,
    route: u32,
    rest: slice::Iter<'a, Arc<LivePolicy>>,
    /// The one that wants more than that the request goes on; nothing: none does.
    wants: Option<&'a LivePolicy>,
    /// Whether an upstream is still to be chosen.
    chooses: bool,
    /// Which of its route's upstreams it goes to, by number, once that is known.
    share: Option<usize>,
    peer: SocketAddr,
    /// The client's address; port 0 is an unknown port.
    client: SocketAddr,
}

impl<'a> Walk<'a> {
    /// The policies of a route for who comes in at this address, then those of the upstream that it goes to.
    pub fn of_route(active: &'a ActivePlan, route: u32, bind: &ListenAddress, from: From<'_>) -> Self {
        let taken = active.route(route);
        let chain = taken.policies.as_ref().and_then(|chains| chains.at(bind));
        Self::new(active, route, chain, from, matches!(taken.action, Action::Forward(_)))
    }

    /// The policies of one chain alone.
    pub fn of_chain(active: &'a ActivePlan, route: u32, chain: Option<u32>, from: From<'_>) -> Self {
        Self::new(active, route, chain, from, false)
    }

    #[inline(always)]
    fn new(
        active: &'a ActivePlan,
        route: u32,
        chain: Option<u32>,
        (announced, peer): From<'_>,
        chooses: bool,
    ) -> Self {
        let rest = chain.map_or(&[][..], |chain| active.plan.chain(chain)).iter();
        let client = announced.client(peer);
        Self { active, route, rest, wants: None, chooses, share: None, peer, client }
    }

    /// It meets nobody.
    pub fn end(&mut self) {
        (self.rest, self.chooses) = ([].iter(), false);
    }

    /// Where the request comes from, which has just been received. `tls` is that of its connection; `secure`: whether that
    /// concerns the request.
    pub fn origin<'o>(
        &self,
        worker: &Worker,
        scratch: &Scratch,
        tls: Option<&'o Secured>,
        secure: bool,
    ) -> Origin<'o>
    where
        'a: 'o,
    {
        Origin {
            peer: self.peer,
            client: self.client.ip(),
            client_port: Some(self.client.port()).filter(|port| *port != 0),
            secure: scratch.ledger.announced.is_secure(secure),
            certificate: tls.and_then(|tls| tls.identity.as_ref()).and_then(Identity::der),
            route: &self.active.route(self.route).name,
            worker: worker.id,
            now: scratch.ledger.started().unwrap_or_else(tollgate_net::now),
            word: self.active,
        }
    }

    /// Which of its route's upstreams the request goes to, by number; `None`: that was not to be chosen.
    pub fn share(&self) -> Option<usize> {
        self.share
    }

    /// Meets one policy after the other, until one wants more than that the request goes on, or there are no more.
    pub fn on(&mut self, scratch: &mut Scratch, origin: &Origin<'_>, context: &mut Context) -> Verdict {
        loop {
            for live in self.rest.by_ref() {
                let verdict = live.policy.request(&mut seen(scratch, origin, context));
                note(scratch, context);
                match verdict {
                    Verdict::Continue => {}
                    verdict => {
                        self.wants = Some(live);
                        return verdict;
                    }
                }
            }
            if !self.chooses {
                return Verdict::Continue;
            }
            self.chooses = false;
            // Else it would be chosen once more, and could go where nobody has asked that upstream's policies.
            let Some((share, upstream)) = self.choose(scratch, context) else {
                self.wants = None;
                return Refusal::from(Reason::DestinationUnavailable).into();
            };
            self.share = Some(share);
            if let Some(chain) = self.active.plan.upstream_chains[upstream] {
                self.rest = self.active.plan.chain(chain).iter();
            }
        }
    }

    /// The request ends here: who has ended it counts that, and those behind see it go by.
    pub fn end_with(&mut self, end: &End, scratch: &mut Scratch, origin: &Origin<'_>, context: &mut Context) {
        if let Some(live) = self.wants {
            live.ended(end);
        }
        self.rest.by_ref().for_each(|live| live.policy.passed_over(&mut seen(scratch, origin, context)));
    }

    /// Which of the route's upstreams it goes to, and which of the plan's that is.
    fn choose(&self, scratch: &Scratch, context: &Context) -> Option<(usize, usize)> {
        let active = self.active;
        let Action::Forward(shares) = &active.route(self.route).action else { return None };
        let share = named(&active.plan, shares, context).or_else(|| {
            let asker = Asker::new(scratch, &self.peer);
            active.next_share(self.route, &asker)
        })?;
        Some((share, shares[share].upstream))
    }
}

/// Which of a route's upstreams a policy has named, by number.
pub(super) fn named(plan: &Plan, shares: &[UpstreamShare], context: &Context) -> Option<usize> {
    let name = context.upstream.as_deref()?;
    shares.iter().position(|share| plan.upstreams[share.upstream].name == name)
}

/// The request as a policy sees it.
pub(super) fn seen<'a>(
    scratch: &'a mut Scratch,
    origin: &'a Origin<'a>,
    context: &'a mut Context,
) -> Request<'a> {
    let Scratch { request, path, ledger, .. } = scratch;
    let authority = ledger.announced.announced_authority();
    Request::new(request, path, origin, context, &ledger.request_id).asked_at(authority)
}

/// Takes down what a policy has to tell of a request that it lets go on.
pub(super) fn note(scratch: &mut Scratch, context: &mut Context) {
    if let Some(note) = context.note.take() {
        scratch.ledger.detail = Some(note.into());
    }
}
