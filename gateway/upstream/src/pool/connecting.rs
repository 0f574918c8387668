//! The wait for a connection or for a permit, and opening a connection to an endpoint.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tollgate_net::{Address, Datagrams, Deadline, ProxyHeader, Stream, component};
use tracing::{debug, trace};

use super::connection::{InUse, OpenGuard};
use super::queue::Grant;
use super::{Connection, Pool, PooledConnection};
use crate::{ConnectError, Permit, proxy_protocol, tls};

/// How long a connect may take after the endpoint is no longer a member of its upstream. A pod or a machine that is gone
/// does not answer, and the request has better chances at another endpoint. An endpoint that still exists answers within a
/// round trip: 250 ms are enough around the world.
const RETIRED_CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

impl Pool {
    /// Waits for a connection or for a permit to open one. Called if [`take`](Self::take) found none, or if
    /// the request needs a new connection. If a limit is reached, the request joins the queue. It then gets
    /// the first connection or permit that becomes free on this or another worker.
    ///
    /// # Errors
    /// Returns an error if a limit is reached and the queue is full, or if the queue timeout passes.
    pub async fn wait_for_connection(self: &Rc<Self>) -> Result<Acquired, ConnectError> {
        // Counted before the connection is open: an endpoint whose connects hang must not look idle.
        let in_use = InUse::new(self);
        loop {
            let permit = match self.pool_set.permit(self) {
                Some(permit) => permit,
                None => match self.pool_set.enqueue(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    // Otherwise something happened on it before this task ran.
                    Grant::Connection(free) if free.stream.peek().is_none() => {
                        return Ok(Acquired::Connection(self.reuse(free)));
                    }
                    // A stream comes from an old plan, under which the endpoint still spoke HTTP/2.
                    Grant::Connection(_) | Grant::Stream(_) => continue,
                },
            };
            return Ok(Acquired::Permit(ConnectPermit { in_use, permit }));
        }
    }
}

impl Pool {
    /// Waits for a permit to open a connection, for bytes that no used connection may carry. As
    /// [`wait_for_connection`](Self::wait_for_connection), but a connection that becomes free is closed, and its
    /// permit used.
    ///
    /// # Errors
    /// As [`wait_for_connection`](Self::wait_for_connection).
    pub async fn wait_for_permit(self: &Rc<Self>) -> Result<ConnectPermit, ConnectError> {
        let in_use = InUse::new(self);
        loop {
            let permit = match self.pool_set.permit(self) {
                Some(permit) => permit,
                None => match self.pool_set.enqueue(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    Grant::Connection(free) => {
                        let PooledConnection { stream, permit, .. } = *free.link;
                        drop(stream);
                        permit
                    }
                    // A stream comes from an old plan, under which the endpoint still spoke HTTP/2.
                    Grant::Stream(_) => continue,
                },
            };
            return Ok(ConnectPermit { in_use, permit });
        }
    }
}

impl Pool {
    /// Opens a socket for datagrams to the endpoint. The caller holds a [permit](Self::wait_for_permit), and bounds the
    /// wait: a name may have to be resolved.
    ///
    /// # Errors
    /// If the endpoint's name does not resolve, or the kernel refuses the socket.
    pub async fn open_datagrams(&self) -> Result<Datagrams, ConnectError> {
        let source = self.context.settings.borrow().source;
        Datagrams::connect(&self.address, source).await.map_err(|error| connect_failed(self, &error))
    }
}

/// The end of a request's wait for a connection.
#[derive(Debug)]
pub enum Acquired<C = Connection, O = ConnectPermit> {
    /// A connection that became free.
    Connection(C),
    /// The right to open a new connection.
    Permit(O),
}

/// The right to open a connection, together with the request that needs it.
#[derive(Debug)]
#[must_use = "dropping it returns the permit"]
pub struct ConnectPermit {
    in_use: InUse,
    permit: Permit,
}

impl ConnectPermit {
    /// Creates the right from a permit.
    pub(super) fn new(pool: &Rc<Pool>, permit: Permit) -> Self {
        Self { in_use: InUse::new(pool), permit }
    }

    /// Opens the connection. If the pool [uses the PROXY protocol](Pool::uses_proxy_protocol),
    /// `client_header` names the client. The permit is returned if the connect fails or is cancelled. The
    /// wait has no timeout of its own; the caller's deadline ends it.
    ///
    /// # Errors
    /// Returns an error if the endpoint is unreachable or the TLS handshake fails.
    pub async fn connect(self, client_header: ProxyHeader) -> Result<Connection, ConnectError> {
        let Self { in_use, permit } = self;
        // Taken before the connect. If the plan changes before the connection is open, it is not reused.
        let opened = tollgate_net::now();
        let stream = dial(in_use.pool(), client_header).await?;
        let open = OpenGuard::new(in_use);
        let link = PooledConnection { stream, opened, since: opened, requests: 1, reused: false, permit };
        Ok(Connection { link: Box::new(link), open })
    }
}

/// Connects to a pool's endpoint. The wait has no timeout of its own while the endpoint is a member of the upstream.
async fn open(pool: &Pool) -> io::Result<Stream> {
    let source = pool.context.settings.borrow().source;
    let mut connecting = pin!(Stream::connect_from(&pool.address, source));
    let dial = Dial::new(pool);
    let mut bound: Option<Deadline> = None;
    poll_fn(|cx| {
        if let Poll::Ready(result) = connecting.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        if !pool.is_retired() {
            bound = None;
            dial.wait(cx.waker());
            return Poll::Pending;
        }
        let bound = bound.get_or_insert_with(|| {
            let deadline = pool.context.timers.deadline();
            deadline.set(tollgate_net::now(), Some(RETIRED_CONNECT_TIMEOUT));
            deadline
        });
        let retired =
            || io::Error::new(ErrorKind::TimedOut, "the endpoint is no longer a member of the upstream");
        bound.poll_passed(cx).map(|()| Err(retired()))
    })
    .await
}

/// A connect under way. The pool wakes its task when the endpoint is no longer a member of the upstream.
struct Dial<'p> {
    pool: &'p Pool,
    number: u64,
}

impl<'p> Dial<'p> {
    fn new(pool: &'p Pool) -> Self {
        let number = pool.next_dial.get();
        pool.next_dial.set(number.wrapping_add(1));
        Self { pool, number }
    }

    fn wait(&self, waker: &Waker) {
        self.pool.dialing.borrow_mut().insert(self.number, waker.clone());
    }
}

impl Drop for Dial<'_> {
    fn drop(&mut self) {
        self.pool.dialing.borrow_mut().remove(&self.number);
    }
}

/// Connects to a pool's endpoint, then writes the PROXY protocol header and performs the TLS handshake, if
/// the upstream has these.
pub(super) async fn dial(pool: &Pool, client_header: ProxyHeader) -> Result<Stream, ConnectError> {
    let address = &pool.address;
    let mut stream = open(pool).await.map_err(|error| connect_failed(pool, &error))?;
    pool.refusing_until.set(None);
    let upstream = pool.context.shared.name.as_str();
    trace!(target: component::UPSTREAM, upstream, endpoint = %address, "connected to the endpoint");
    if stream.is_self_connection() {
        pool.state.mark_leads_to_self();
    }
    if let Some(version) = pool.context.proxy_protocol.get() {
        proxy_protocol::write_header(&mut stream, client_header, version)
            .await
            .map_err(|_| ConnectError::Refused)?;
    }
    let tls = pool.context.tls.borrow().clone();
    match tls {
        None => Ok(stream),
        Some(tls) => match tls::connect_tls(stream, &tls, address).await {
            Ok(stream) => {
                pool.context.shared.tls_worked(&pool.state);
                Ok(stream)
            }
            Err(fault) => {
                pool.tls_failed(&fault);
                Err(ConnectError::Tls(fault))
            }
        },
    }
}

/// Returns the error of a connect, and reports its cause.
#[cold]
fn connect_failed(pool: &Pool, error: &io::Error) -> ConnectError {
    let (upstream, endpoint) = (pool.context.shared.name.as_str(), &pool.address);
    debug!(target: component::UPSTREAM, upstream, %endpoint, %error, "cannot connect to the endpoint");
    match error.kind() {
        ErrorKind::NotFound if matches!(endpoint, Address::Name { .. }) => ConnectError::Dns,
        _ if tollgate_net::is_shortage(error) => ConnectError::Shortage,
        _ => {
            pool.refused();
            ConnectError::Refused
        }
    }
}
