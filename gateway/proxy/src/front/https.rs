//! Redirects plain-text requests to HTTPS, if their listener says so.

use tollgate_http::RequestHead;
use tollgate_plan::{Plan, PlannedListener, Redirect};

use crate::state::request_path::normal_path;
use crate::state::request_state::RequestState;

/// The paths of ACME challenges (RFC 8555, 8.3). They are always served, because the host may have no
/// certificate before the challenge succeeds.
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// Returns the redirect for a request whose path is normal; `None` if it is served here.
pub(crate) fn redirect<'a>(
    listener: Option<&'a PlannedListener>,
    state: &RequestState,
) -> Option<&'a Redirect> {
    let redirect = listener?.redirect.as_ref()?;
    let RequestState { request, path, record, .. } = state;
    let path = normal_path(request, path);
    // `OPTIONS *` addresses the server as a whole, so there is no location to redirect to.
    let served = path.starts_with(CHALLENGES) || !path.starts_with(b"/");
    // The proxy in front terminates TLS. A redirect would come back here, and loop.
    (!served && !record.announced.is_secure(false)).then_some(redirect)
}

/// Returns the listener that a request in a dry run would use: one with or without TLS as demanded, preferably
/// on the port that the request names.
pub(crate) fn listener<'a>(
    plan: &'a Plan,
    request: &RequestHead,
    secure: bool,
) -> Option<&'a PlannedListener> {
    let authority = request.slice(request.authority);
    let port = authority
        .rsplit(|byte| *byte == b':')
        .next()
        .and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
    let mut fitting = plan.listeners.iter().filter(|listener| listener.tls.is_some() == secure);
    let first = fitting.clone().next();
    fitting
        .find(|listener| listener.bind.tcp().map(|address| address.port()) == port)
        .or(first)
        .map(|listener| &**listener)
}
