//! Finds the route of a request: normalises the path, then asks the router. [`request`](crate::front::request) calls
//! [`decide`] once per request, and `dry_run` does for `tollgate explain`. Matching, policies and the
//! upstream all use the same normal path.

use tollgate_http::{Method, TargetForm};
use tollgate_observe::Reason;
use tollgate_plan::{Plan, PlannedListener};
use tollgate_route::{Normalised, Router, normalise};

use crate::front::preflight;
use crate::state::request_path::{Routed, normal_path};
use crate::state::request_state::RequestState;

/// Returns the route of the request in `state`. If the normal path differs from the path as sent, leaves it
/// in `state.path`. The request arrived at `listener`, and `router` finds its routes.
///
/// # Errors
/// If there is no route, or if no route can take such a request.
pub(crate) fn decide(
    plan: &Plan,
    router: &Router,
    state: &mut RequestState,
    listener: Option<&PlannedListener>,
) -> Result<u32, Reason> {
    let RequestState { request, path, record, .. } = state;
    match request.form {
        TargetForm::Authority => return Err(Reason::ConnectRefused),
        TargetForm::Asterisk => {}
        // RFC 9112, 3.2.4: `OPTIONS http://host` addresses the server as a whole.
        TargetForm::Absolute if request.path.is_empty() => {
            let whole = request.method == Method::Options && request.query.is_none();
            path.push(if whole { b'*' } else { b'/' });
        }
        TargetForm::Origin | TargetForm::Absolute => {
            match normalise(request.slice(request.path), &plan.settings.paths, path) {
                Ok(Normalised::Unchanged) => path.clear(),
                Ok(Normalised::Changed) => {}
                Err(error) => {
                    record.remarks().detail = Some(error.as_str().into());
                    return Err(Reason::BadPath);
                }
            }
        }
    }
    let path = normal_path(request, path);
    if request.method == Method::Options
        && let Some((route, _)) = preflight::route(plan, router, request, path, listener)
    {
        return Ok(route);
    }
    router.find(&Routed { request, path }).ok_or(Reason::NoRoute)
}
