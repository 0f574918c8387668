//! Finds the route of a request: normalises the path, then asks the router. [`request`](crate::request) calls
//! [`decide`] once per request, and `rehearse` does for `tollgate explain`. Matching, policies and the
//! upstream all use the same normal path.

use tollgate_http::{Method, RequestHead, TargetForm};
use tollgate_observe::Reason;
use tollgate_plan::{ListenAddress, Plan, Route};
use tollgate_route::{Normalised, Request, normalise};

use crate::preflight;
use crate::request_state::RequestState;

/// Returns the route of the request in `state`. If the normal path differs from the path as sent, leaves it
/// in `state.path`. `bind` is the listener that the request came in at.
///
/// # Errors
/// If there is no route, or if no route can take such a request.
pub(crate) fn decide(
    plan: &Plan,
    state: &mut RequestState,
    bind: Option<&ListenAddress>,
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
        && let Some((route, _)) = preflight::route(plan, request, path, bind)
    {
        return Ok(route);
    }
    plan.router.find(&Routed { request, path }).ok_or(Reason::NoRoute)
}

/// Rewrites the path as the route demands, into `state.rewritten`.
///
/// # Errors
/// If the captured groups result in a path that would be refused in a request.
pub(crate) fn rewrite(route: &Route, state: &mut RequestState) -> Result<(), Reason> {
    let Some(rewrite) = &route.rewrite.path else { return Ok(()) };
    let RequestState { request, path, rewritten, record, .. } = state;
    let path = normal_path(request, path);
    // `OPTIONS *` addresses the server as a whole (RFC 9110, 9.3.7): no path can replace it.
    if path == b"*" {
        return Ok(());
    }
    rewrite.apply(path, rewritten).map_err(|error| {
        record.remarks().detail = Some(error.as_str().into());
        Reason::BadPath
    })
}

/// Returns the normal path: `changed`, or the request's own path if that is empty.
pub(crate) fn normal_path<'a>(request: &'a RequestHead, changed: &'a [u8]) -> &'a [u8] {
    if changed.is_empty() { request.slice(request.path) } else { changed }
}

/// Returns the path that goes upstream, without its query.
#[inline]
pub(crate) fn upstream_path(state: &RequestState) -> &[u8] {
    let RequestState { request, path, rewritten, .. } = state;
    if rewritten.is_empty() { normal_path(request, path) } else { rewritten }
}

/// The view of a request that the router gets.
pub(crate) struct Routed<'a> {
    pub request: &'a RequestHead,
    pub path: &'a [u8],
}

impl Request for Routed<'_> {
    fn method(&self) -> &[u8] {
        self.request.slice(self.request.method_text)
    }

    fn host(&self) -> &[u8] {
        self.request.slice(self.request.host)
    }

    fn path(&self) -> &[u8] {
        self.path
    }

    fn query(&self) -> Option<&[u8]> {
        self.request.query.map(|query| self.request.slice(query))
    }

    fn header(&self, lower_case_name: &str) -> Option<&[u8]> {
        self.request.head.get_by_text(lower_case_name.as_bytes())
    }
}
