//! Picks the upstream and the endpoint of a connection of layer 4, and connects to it. While no byte was sent, a failed
//! connect is followed by another endpoint, within the retry rules of the upstream.

use std::future::poll_fn;
use std::io::IoSlice;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate_net::ProxyHeader;
use tollgate_observe::Reason;
use tollgate_plan::{HashBy, Policy};
use tollgate_upstream::{
    Acquired, ConnectError, ConnectPermit, Connection, Outcome, PickHints, Pool, Upstream,
};

use super::Established;
use crate::exchange::affinity::address_hash;
use crate::exchange::forward::connect::{ConnectBounds, connected};
use crate::exchange::forward::retry::{backoff, is_wanted};
use crate::exchange::upstream_side::OpenedConnection;
use crate::state::active::ActivePlan;
use crate::state::backlog::Backlog;
use crate::state::client::Client;
use crate::state::stream_record::StreamRecord;
use crate::state::stream_states::StreamState;
use crate::state::time_limit::TimeLimit;

/// A connection that was opened for one stream. A connection that carried anything before cannot carry other bytes.
pub(super) struct FreshConnection(Connection);

impl OpenedConnection for FreshConnection {
    type ConnectPermit = ConnectPermit;

    fn take(_: &Rc<Pool>, _: Instant) -> Option<Self> {
        None
    }

    async fn wait_for_connection(pool: &Rc<Pool>) -> Result<Acquired<Self, ConnectPermit>, ConnectError> {
        pool.wait_for_permit().await.map(Acquired::Permit)
    }

    async fn open(opening: ConnectPermit, client_header: ProxyHeader) -> Result<Option<Self>, ConnectError> {
        Ok(Some(Self(opening.connect(client_header).await?)))
    }
}

/// Connects a client to an endpoint. Otherwise closes the record with the reason, and resets the client's connection, so
/// that the client cannot take it for an orderly end.
pub(super) async fn establish(
    mut client: Box<Client>,
    mut record: StreamRecord,
    received: Vec<u8>,
) -> Option<Box<Established>> {
    match attempts(&mut client, &mut record).await {
        Ok(endpoint) => {
            let (mut to_endpoint, to_client) = (Backlog::default(), Backlog::default());
            if !received.is_empty() {
                record.count_moved(received.len() as u64, 0);
                to_endpoint.append(&[IoSlice::new(&received)]);
            }
            Some(Box::new(Established { client, record, endpoint, to_endpoint, to_client }))
        }
        Err(reason) => {
            // A share that closes does what `respond: close` of a whole stream does.
            if reason != Reason::NoStream {
                client.stream.reset_on_close();
            }
            record.end(reason);
            None
        }
    }
}

async fn attempts(client: &mut Client, record: &mut StreamRecord) -> Result<Connection, Reason> {
    let state = record.state().cloned().ok_or(Reason::NoStream)?;
    let worker = record.worker().clone();
    let active = worker.active();
    let upstream = choose(&state, &active, client.peer.ip())?.clone();
    record.upstream = Some(upstream.clone());
    let rules = &upstream.rules().retry;
    let total = TimeLimit::new(record.started(), state.stream.total);
    upstream.count_request(tollgate_net::now());
    let hash = match &upstream.balance().policy {
        Policy::Hash(HashBy::ClientAddress) => Some(address_hash(client.peer.ip())),
        _ => None,
    };
    let mut tried: Vec<Rc<Pool>> = Vec::new();
    let mut under_way = None;
    loop {
        let now = tollgate_net::now();
        let breaker = upstream.acquire_breaker(now).map_err(|_| Reason::CircuitOpen)?;
        let hints = PickHints { hash, sticky: None, avoid: &tried };
        let pool = upstream.pick(&hints).ok_or_else(|| match upstream.is_without_endpoints() {
            true => Reason::NoEndpoints,
            false => Reason::DestinationUnavailable,
        })?;
        record.attempt_began(&pool, now);
        let listener = &client.connection_context.listener.bind;
        if pool.loops_back()
            && listener.tcp().is_some_and(|own| tollgate_net::leads_to(own, &pool.state().address))
        {
            // Each connection would open the next one.
            return Err(Reason::LoopDetected);
        }
        let client_header = client.proxy_header_for(&pool);
        let bounds = ConnectBounds { due: total, total, connect: state.stream.connect };
        let Client { deadline, stream, .. } = &mut *client;
        // A client may have closed its sending direction after its last byte.
        let client_left = |cx: &mut std::task::Context<'_>| stream.poll_peer_closed(cx, true).is_ready();
        let opened = connected::<FreshConnection>(&pool, client_header, &bounds, deadline, client_left).await;
        let failure = match opened {
            Ok((FreshConnection(connection), took)) => {
                record.attempt_connected(took);
                upstream.report(&pool, Outcome::Answered(200));
                if let Some(breaker) = breaker {
                    breaker.done(tollgate_net::now(), false);
                }
                return Ok(connection);
            }
            Err(failure) => failure,
        };
        if failure.reason != Reason::ClientClosed {
            worker.stats.upstream_failed(pool.slot(), failure.reason);
        }
        if let Some(blame) = failure.blame {
            upstream.report(&pool, blame);
            if let Some(breaker) = breaker {
                breaker.done(tollgate_net::now(), true);
            }
        }
        // The previous retry is over.
        drop(under_way.take());
        let now = tollgate_net::now();
        // The next endpoint is another one, which need not recover first, unless the upstream has no other.
        let wait = match record.attempts {
            1 => Duration::ZERO,
            made => backoff(rules, made - 1, |most| upstream.random_delay(most)),
        };
        if record.attempts >= rules.attempts
            || !is_wanted(&rules.on, failure.reason)
            || !total.allows_wait(now, wait)
        {
            return Err(over(total, failure.reason));
        }
        under_way = upstream.try_begin_retry(rules, now);
        if under_way.is_none() {
            return Err(failure.reason);
        }
        record.attempt_failed(&pool, failure.reason);
        tried.push(pool);
        if !wait.is_zero() {
            pause(client, wait).await?;
        }
    }
}

/// Returns the reason of a failure that the stream's own time limit may have caused.
fn over(total: TimeLimit, reason: Reason) -> Reason {
    if reason == Reason::RequestTimeout || total.is_over() { Reason::TotalTimeout } else { reason }
}

/// Waits before the next attempt.
async fn pause(client: &mut Client, wait: Duration) -> Result<(), Reason> {
    client.deadline.set(tollgate_net::now(), Some(wait));
    poll_fn(|cx| {
        if client.stream.poll_peer_closed(cx, true).is_ready() {
            return Poll::Ready(Err(Reason::ClientClosed));
        }
        client.deadline.poll_passed(cx).map(Ok)
    })
    .await
}

/// Chooses the upstream: by the client's address if one of them balances by it, else the next by weight.
///
/// # Errors
/// [`Reason::NoStream`] if the turn is a share that closes; [`Reason::DestinationUnavailable`] if no share has a weight.
pub(crate) fn choose<'a>(
    state: &StreamState,
    active: &'a ActivePlan,
    client: IpAddr,
) -> Result<&'a Rc<Upstream>, Reason> {
    let shares = state.stream.shares.as_slice();
    let number = match (&state.split, shares) {
        (None, [only]) if only.weight > 0 => Some(0),
        (Some(split), _) => {
            let tied = split.ties.then(|| split.by_hash.by_hash(address_hash(client))).flatten();
            tied.or_else(|| split.turns.pick())
        }
        _ => None,
    };
    let share = number.and_then(|number| shares.get(number)).ok_or(Reason::DestinationUnavailable)?;
    let upstream = share.upstream.as_deref().ok_or(Reason::NoStream)?;
    active.by_name(upstream).ok_or(Reason::DestinationUnavailable)
}
