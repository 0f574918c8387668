//! Requests in plain text that are sent to `https`.

use std::net::SocketAddr;

use tollgate_http::{Name, RequestHead};
use tollgate_plan::{Listener, Plan, Redirect, Settings};

use crate::decide::normal_path;
use crate::forwarded::is_trusted;
use crate::scratch::Scratch;

/// Where certificates are proved to be asked for by the host's owner (RFC 8555, 8.3): whoever does that may have no
/// certificate yet, so these paths are served.
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// How the listener sends a request away, whose path is in normal form; `None`: it is served.
pub(crate) fn redirect<'a>(
    listener: Option<&'a Listener>,
    plan: &Plan,
    scratch: &Scratch,
    peer: SocketAddr,
) -> Option<&'a Redirect> {
    let redirect = listener?.redirect.as_ref()?;
    let Scratch { request, path, .. } = scratch;
    let path = normal_path(request, path);
    // `OPTIONS *` is for the server, and has no place to be sent to.
    let served = path.starts_with(CHALLENGES) || !path.starts_with(b"/");
    // A proxy in front that has the TLS would send the client in a circle.
    (!served && !came_by_tls(&plan.settings, request, peer)).then_some(redirect)
}

/// Whether a trusted proxy in front has the TLS of this request.
pub(crate) fn came_by_tls(settings: &Settings, request: &RequestHead, peer: SocketAddr) -> bool {
    request.head.get(Name::XForwardedProto).is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"))
        && is_trusted(&settings.forwarded, peer.ip())
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
    fitting.find(|listener| Some(listener.bind.port()) == port).or(first).map(|listener| &**listener)
}
