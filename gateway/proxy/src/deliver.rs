//! The client takes what is ready for it.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate_observe::Reason;

use crate::backlog::Backlog;
use crate::client_side::ClientSide;
use crate::connection::Client;
use crate::total::Total;

/// Waits until the client has taken all of its backlog: as long as it takes some of it within every `bound`.
///
/// # Errors
/// When it takes nothing for so long, is gone, or the exchange as a whole takes too long.
pub(crate) async fn deliver<S: ClientSide>(
    client: &mut Client<S>,
    backlog: &mut Backlog,
    now: Instant,
    bound: Option<Duration>,
    total: Total,
) -> Result<(), Reason> {
    client.deadline.set(now, total.within(now, bound));
    poll_fn(|cx| {
        let before = backlog.len();
        let flushed = backlog.poll_flush(cx, &mut client.stream);
        if let Poll::Ready(result) = flushed {
            return Poll::Ready(result.map_err(|error| Backlog::reason(&error)));
        }
        if backlog.len() != before {
            let now = tollgate_net::now();
            client.deadline.set(now, total.within(now, bound));
        }
        client
            .deadline
            .poll_passed(cx)
            .map(|()| Err(if total.is_over() { Reason::RequestTimeout } else { Reason::ClientWriteTimeout }))
    })
    .await
}
