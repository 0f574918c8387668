//! The destination of a request: its route, and the upstream if a policy chose it.

use std::net::SocketAddr;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_http::h1::BodyLength;
use tollgate_observe::Reason;
use tollgate_plan::{Respond, Route};
use tollgate_upstream::Upstream;

use crate::exchange::affinity::RequestAffinity;
use crate::exchange::choose_upstream::ChosenTarget;
use crate::exchange::rewrite::rewrite;
use crate::state::active::ActivePlan;
use crate::state::request_state::RequestState;

/// The route of a request, by its index in the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutedRequest {
    pub route: u32,
    /// The target of the route that policies have chosen, by number.
    pub share: Option<usize>,
}

/// The upstream that a request goes to, by a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardTarget<'a> {
    pub route: u32,
    pub upstream: &'a Rc<Upstream>,
}

/// Returns whether the request declares a longer body than the route accepts.
pub(crate) fn declares_too_much(route: &Route, request: &RequestHead) -> bool {
    matches!((route.body_limit, request.length), (Some(limit), BodyLength::Exactly(length)) if length > limit)
}

/// The destination of a request, or the response that it gets in place of one.
#[derive(Debug)]
pub(crate) enum Destination<'a> {
    Forward(ForwardTarget<'a>),
    Answer(&'a Respond),
}

/// Chooses the target for a request that came from `peer`, and leaves the path for it in `state`.
///
/// # Errors
/// If the body is declared too long, the rewritten path is bad, or no target takes requests.
pub(crate) fn choose<'a>(
    state: &mut RequestState,
    active: &'a ActivePlan,
    RoutedRequest { route, share }: RoutedRequest,
    peer: &SocketAddr,
) -> Result<Destination<'a>, Reason> {
    let chosen = active.route(route);
    if declares_too_much(chosen, &state.request) {
        return Err(Reason::BodyTooLarge);
    }
    rewrite(chosen, state)?;
    let target = match share {
        Some(share) => active.numbered(route, share),
        None => active.target(route, &RequestAffinity::new(state, peer)),
    };
    match target {
        Some(ChosenTarget::Upstream(upstream)) => Ok(Destination::Forward(ForwardTarget { route, upstream })),
        Some(ChosenTarget::Answer(respond)) => Ok(Destination::Answer(respond)),
        None => Err(Reason::DestinationUnavailable),
    }
}
