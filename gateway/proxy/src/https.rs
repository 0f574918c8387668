//! Requests in plain text that are sent to `https`.

use tollgate_http::RequestHead;
use tollgate_plan::{Listener, Plan, Redirect};

use crate::decide::normal_path;
use crate::scratch::Scratch;

/// Where certificates are proved to be asked for by the host's owner (RFC 8555, 8.3): whoever does that may have no
/// certificate yet, so these paths are served.
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// How the listener sends a request away, whose path is in normal form; `None`: it is served.
pub(crate) fn redirect<'a>(listener: Option<&'a Listener>, scratch: &Scratch) -> Option<&'a Redirect> {
    let redirect = listener?.redirect.as_ref()?;
    let Scratch { request, path, ledger, .. } = scratch;
    let path = normal_path(request, path);
    // `OPTIONS *` is for the server, and has no place to be sent to.
    let served = path.starts_with(CHALLENGES) || !path.starts_with(b"/");
    // A proxy in front that has the TLS would send the client in a circle.
    (!served && !ledger.announced.is_secure(false)).then_some(redirect)
}

/// Where a request would come in: at a listener of its kind, that of the port that it names if there is one.
pub(crate) fn listener<'a>(plan: &'a Plan, request: &RequestHead, secure: bool) -> Option<&'a Listener> {
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
