//! Chooses the fallback of a route for an error.
//!
//! The exchange asks for an endpoint's response, and the code that forwards asks for an error of the gateway.
//! Each fallback of a route is used at most once, and only later ones may follow it, so every request ends.

use tollgate_observe::Reason;
use tollgate_plan::FallbackAction;

use crate::state::request_state::RequestState;

/// Fields that tell the client how to react to a status (RFC 9110, 11.6.1, 10.2.1 and 10.2.3). The page
/// carries them.
const KEPT: [&str; 3] = ["WWW-Authenticate", "Allow", "Retry-After"];

/// Returns whether the upstream or the file system caused an error of the gateway, and not the client or the gateway
/// itself.
fn is_of_upstream(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::DestinationUnavailable
            | Reason::NoEndpoints
            | Reason::ConnectionLimitReached
            | Reason::QueueTimeout
            | Reason::RequestLimit
            | Reason::AdaptiveLimit
            | Reason::CircuitOpen
            | Reason::DnsError
            | Reason::ConnectionRefused
            | Reason::TlsProtocolError
            | Reason::TlsCertificateError
            | Reason::TlsAlertReceived
            | Reason::ConnectionTimeout
            | Reason::ConnectionTerminated
            | Reason::HttpResponseTimeout
            | Reason::ConnectionWriteTimeout
            | Reason::HttpProtocolError
            | Reason::UpgradeFailed
            | Reason::ResponseHeadersTooLarge
            | Reason::RequestTimeout
            | Reason::ErrorPageUnavailable
            | Reason::FileNotFound
            | Reason::FileForbidden
            | Reason::FileUnavailable
    )
}

/// Chooses a fallback for an error: for an endpoint's response with this status, or, with a reason, for the
/// gateway's own error. `may_repeat`: the request may be sent again. Returns whether one fits.
#[cold]
pub(crate) fn choose_fallback(
    state: &mut RequestState,
    status: u16,
    reason: Reason,
    may_repeat: bool,
) -> bool {
    let RequestState { record, response, fallback: falling, .. } = state;
    let Some((active, index)) = &record.route else { return false };
    let Some(fallbacks) = &active.route(*index).fallback else { return false };
    if reason != Reason::None && !is_of_upstream(reason) {
        return false;
    }
    // If a page fails, its status is no error of its own: the request still has the error that the page
    // replaces.
    let page_of = falling.as_ref().filter(|falling| falling.page.is_some()).map(|falling| falling.status);
    let status = page_of.unwrap_or(status);
    let came_from = record.upstream.as_ref().map(|upstream| upstream.name.as_str());
    let fits = |instead: &FallbackAction| match instead {
        FallbackAction::Request(upstream) => {
            may_repeat
                && page_of.is_none()
                && came_from != Some(active.plan.upstreams[*upstream].name.as_str())
        }
        FallbackAction::Page { .. } | FallbackAction::Respond { .. } => true,
    };
    let first = falling.as_ref().map_or(0, |falling| falling.taken + 1);
    let found = fallbacks
        .iter()
        .enumerate()
        .skip(first)
        .find(|(_, fallback)| fallback.on.binary_search(&status).is_ok() && fits(&fallback.action));
    let Some((taken, _)) = found else { return false };
    let falling = falling.get_or_insert_default();
    falling.taken = taken;
    falling.page = None;
    if page_of.is_none() {
        (falling.status, falling.reason) = (status, reason);
        falling.lines.clear();
        if reason == Reason::None {
            for name in KEPT {
                for value in response.head.all_by_text(name.as_bytes()) {
                    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                        falling.lines.extend_from_slice(part);
                    }
                }
            }
        }
    }
    // The request has not just arrived any more, so `forward` must read the clock.
    record.mark_partial();
    true
}
