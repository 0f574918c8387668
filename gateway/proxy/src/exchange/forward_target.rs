//! Where a request is forwarded.

use std::net::SocketAddr;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_http::h1::BodyLength;
use tollgate_observe::Reason;
use tollgate_plan::Route;
use tollgate_upstream::Upstream;

use crate::exchange::affinity::RequestAffinity;
use crate::exchange::rewrite::rewrite;
use crate::state::active::ActivePlan;
use crate::state::request_state::RequestState;

/// The route of a request, by its index in the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutedRequest {
    pub route: u32,
    /// The upstream of the route that policies have chosen, by number.
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

/// Chooses the upstream for a request that came from `peer`, and leaves the path for it in `state`.
///
/// # Errors
/// If the body is declared too long, the rewritten path is bad, or no upstream takes requests.
pub(crate) fn choose<'a>(
    state: &mut RequestState,
    active: &'a ActivePlan,
    RoutedRequest { route, share }: RoutedRequest,
    peer: &SocketAddr,
) -> Result<ForwardTarget<'a>, Reason> {
    let chosen = active.route(route);
    if declares_too_much(chosen, &state.request) {
        return Err(Reason::BodyTooLarge);
    }
    rewrite(chosen, state)?;
    let upstream = match share {
        Some(share) => active.share(route, share),
        None => active.upstream(route, &RequestAffinity::new(state, peer)),
    };
    upstream.map(|upstream| ForwardTarget { route, upstream }).ok_or(Reason::DestinationUnavailable)
}
