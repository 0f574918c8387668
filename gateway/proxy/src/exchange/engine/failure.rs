//! The rules for an exchange that ends without a response head: the endpoint's share in it, whether the
//! connection was stale, and which time limit has expired.
//!
//! An exchange with a client and a [hedged](super::hedged) one both apply them.

use std::io;
use std::time::Instant;

use tollgate_net::TlsFault;
use tollgate_observe::Reason;
use tollgate_upstream::{ConnectError, Outcome};

use super::progress::{DownloadProgress, Repeatable};
use crate::exchange::forward::Replay;
use crate::exchange::upstream_side::{NoHead, UpstreamSide};
use crate::state::time_limit::TimeLimit;

/// Why an exchange got no response head.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadFailure {
    pub reason: Reason,
    /// The endpoint's share in the failure; `None` if the gateway caused it.
    pub blame: Option<Outcome>,
    /// Whether the endpoint closed the idle connection while the request was sent, so that the request may be
    /// sent on a fresh one. That is not a retry and costs no budget.
    pub stale: bool,
}

/// Decides what the lack of a head means. `sent` is how often the request was sent. `may_repeat` returns
/// whether the retry rules allow to send the request again.
#[cold]
pub(super) fn without_head<U: UpstreamSide>(
    no_head: NoHead,
    upstream: &U,
    response: DownloadProgress,
    repeatable: &mut Repeatable,
    sent: u8,
    may_repeat: impl FnOnce(Replay) -> bool,
) -> HeadFailure {
    let (reason, blame, is_free) = match no_head {
        NoHead::Bad(reason) => return HeadFailure { reason, blame: by_endpoint(reason), stale: false },
        NoHead::Unseen if repeatable.is_whole() => {
            (Reason::ConnectionTerminated, Outcome::NoConnection, true)
        }
        NoHead::Reset => {
            let reason = Reason::ConnectionTerminated;
            return HeadFailure { reason, blame: Some(Outcome::Broken), stale: false };
        }
        // The endpoint is there, and perhaps overloaded: the request must not move on without an attempt, as it does
        // from an endpoint that refuses the connection.
        NoHead::Refused => (Reason::ConnectionRefused, Outcome::Broken, false),
        // If a sent part of the body is gone, the request cannot be sent again, processed or not.
        NoHead::Broken | NoHead::Unseen => {
            let stale = upstream.is_reused()
                && may_be_stale::<U>(sent)
                && response == DownloadProgress::Nothing
                && may_repeat(response.replay(*repeatable));
            let reason = Reason::ConnectionTerminated;
            return HeadFailure { reason, blame: Some(Outcome::Broken), stale };
        }
    };
    // The endpoint has not processed the request, so it counts as unsent. An endpoint that answers so on each
    // new connection must not keep a request in a loop.
    repeatable.unwrite();
    let stale = is_free && upstream.is_reused() && response.replay(*repeatable) == Replay::Unsent;
    HeadFailure { reason, blame: Some(blame), stale }
}

/// Returns the failure if the connection failed because the endpoint refused the gateway's certificate, and
/// records it. In TLS 1.3 the refusal may arrive after the gateway's handshake. The endpoint has not seen the
/// request then, so the request counts as unsent.
#[cold]
pub(super) fn refused_by_tls<U: UpstreamSide>(
    error: &io::Error,
    upstream: &U,
    response: DownloadProgress,
    repeatable: &mut Repeatable,
) -> Option<HeadFailure> {
    let fault = TlsFault::of_io(error).filter(|_| response == DownloadProgress::Nothing)?;
    upstream.pool().tls_failed(&fault);
    repeatable.unwrite();
    let reason = ConnectError::Tls(fault).reason();
    Some(HeadFailure { reason, blame: Some(Outcome::NoConnection), stale: false })
}

/// Returns whether a failure on a reused connection may count as stale, given how often the request was
/// `sent`. In HTTP/1 each stale connection is gone after one try. An HTTP/2 connection may survive, so the
/// number of tries is bounded.
fn may_be_stale<U: UpstreamSide>(sent: u8) -> bool {
    const MAX_SENDS: u8 = 8;
    !U::SEPARATE_HEADS || sent < MAX_SENDS
}

/// Returns the endpoint's share in a failure with this reason, if it has one.
pub(super) fn by_endpoint(reason: Reason) -> Option<Outcome> {
    match reason {
        Reason::ConnectionTerminated
        | Reason::HttpProtocolError
        | Reason::ResponseHeadersTooLarge
        | Reason::HttpResponseIncomplete => Some(Outcome::Broken),
        Reason::HttpResponseTimeout | Reason::ConnectionReadTimeout | Reason::ConnectionWriteTimeout => {
            Some(Outcome::TimedOut)
        }
        _ => None,
    }
}

/// Returns the reason for a timeout: the time limit that is over, or `awaited`, the reason of the wait itself.
/// `head_due` is the limit of the response head, while that is awaited.
pub(super) fn timeout_reason(total: TimeLimit, head_due: Option<TimeLimit>, awaited: Reason) -> Reason {
    if total.is_over() {
        Reason::RequestTimeout
    } else if head_due.is_some_and(TimeLimit::is_over) {
        Reason::HttpResponseTimeout
    } else {
        awaited
    }
}

/// Returns whether the client used up more of the request's time than the endpoint. `started` is the start of
/// the request, and `asked` the time from which the endpoint alone was awaited. The rule is for requests whose
/// body the gateway had to wait for: the endpoint is not at fault if little time was left for it.
pub(crate) fn is_client_slower(started: Instant, asked: Instant) -> bool {
    let now = tollgate_net::now();
    now.saturating_duration_since(asked) < asked.saturating_duration_since(started)
}
