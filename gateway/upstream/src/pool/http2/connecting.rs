//! The wait for a stream, and opening an HTTP/2 connection, once for all requests that wait for it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};

use tollgate_http2::{ClientConnection, ClientSettings};
use tollgate_net::ProxyHeader;

use super::connection::{Http2Connection, OpenParts};
use super::opening::Opening;
use super::stream::StreamPermit;
use super::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, STREAMS_MAX};
use crate::endpoint_io::EndpointIo;
use crate::pool::Pool;
use crate::pool::connecting::{Acquired, dial};
use crate::pool::connection::InUse;
use crate::pool::queue::Grant;
use crate::{ConnectError, Permit};

impl Pool {
    /// As [`wait_for_connection`](Self::wait_for_connection), for a stream on an HTTP/2 connection.
    ///
    /// # Errors
    /// Returns an error if a limit is reached and the queue is full, or if the queue timeout passes.
    pub async fn wait_for_stream(
        self: &Rc<Self>,
    ) -> Result<Acquired<StreamPermit, OpeningWaiter>, ConnectError> {
        // Counted before there is a connection, as in `wait_for_connection`.
        let in_use = InUse::new(self);
        loop {
            if self.queue.is_empty() {
                if let Some(stream) = self.take_stream(tollgate_net::now()) {
                    return Ok(Acquired::Connection(stream));
                }
                let opening = self.http2.openings.borrow().iter().find(|it| it.has_capacity()).cloned();
                if let Some(opening) = opening {
                    return Ok(Acquired::Permit(OpeningWaiter::join(&opening, in_use)));
                }
            }
            let permit = match self.pool_set.permit(self) {
                Some(permit) => permit,
                None => match self.pool_set.enqueue(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    Grant::Stream(stream) => return Ok(Acquired::Connection(stream)),
                    Grant::Connection(_) => continue,
                },
            };
            return Ok(Acquired::Permit(start(self, permit, in_use)));
        }
    }
}

/// A request that waits for a connection that is being opened. When no request waits, the connect is
/// cancelled.
#[derive(Debug)]
pub struct OpeningWaiter {
    opening: Rc<Opening>,
    in_use: Option<InUse>,
}

impl OpeningWaiter {
    fn join(opening: &Rc<Opening>, in_use: InUse) -> Self {
        opening.join();
        Self { opening: opening.clone(), in_use: Some(in_use) }
    }

    /// Waits until the connection is open. The wait has no timeout of its own; the caller's deadline ends it.
    ///
    /// Returns `None` if other requests have taken all streams, so that the request must look for another
    /// connection.
    ///
    /// # Errors
    /// Returns an error if the endpoint is unreachable, or does not speak HTTP/2.
    pub async fn connect(mut self) -> Result<Option<StreamPermit>, ConnectError> {
        poll_fn(|cx| {
            let connection = ready!(self.opening.poll_result(cx))?;
            let in_use = self.in_use.take().filter(|_| connection.has_capacity());
            Poll::Ready(Ok(in_use.map(|in_use| StreamPermit::new(connection, in_use, false))))
        })
        .await
    }
}

impl Drop for OpeningWaiter {
    fn drop(&mut self) {
        if let (Some(in_use), Some(connection)) = (self.in_use.take(), self.opening.connection()) {
            // The stream that was reserved for this request goes to the next one in the queue.
            in_use.pool().offer_stream(&connection);
        }
        self.opening.leave();
    }
}

/// Starts to open a connection, for a request and the requests that join it.
pub(in crate::pool) fn start(pool: &Rc<Pool>, permit: Permit, in_use: InUse) -> OpeningWaiter {
    let opening = Rc::<Opening>::default();
    let waiter = OpeningWaiter::join(&opening, in_use);
    pool.http2.add_opening(opening.clone());
    tollgate_net::spawn(open(pool.clone(), permit, opening));
    waiter
}

async fn open(pool: Rc<Pool>, permit: Permit, opening: Rc<Opening>) {
    let opened = {
        let mut work = pin!(connect_and_handshake(&pool, permit));
        poll_fn(|cx| {
            if opening.poll_unneeded(cx).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    };
    pool.http2.remove_opening(&opening);
    let Some(result) = opened else { return };
    let connection = result.as_ref().ok().cloned();
    opening.finish(result);
    let Some(connection) = connection else { return };
    // The requests in the queue get the streams that the joined requests do not need. The connection is not
    // offered to other workers before the joined requests have had their turn. Otherwise two workers could
    // take the permit from each other forever.
    for _ in opening.waiters()..STREAMS_MAX {
        if !pool.grant_stream(&connection) {
            break;
        }
    }
}

/// Connects, and waits for the endpoint's first SETTINGS. Only then is it certain that the endpoint speaks
/// HTTP/2, and how many concurrent requests it accepts. A client that starts earlier saves one round trip per
/// connection, but its requests may be refused, or read by a server of another protocol.
async fn connect_and_handshake(pool: &Rc<Pool>, permit: Permit) -> Result<Rc<Http2Connection>, ConnectError> {
    let context = &pool.context;
    // The connection carries requests of many clients, so the plan asks for no PROXY header here.
    let stream = dial(pool, ProxyHeader::Local).await?;
    if stream.is_tls() && stream.alpn() != Some(b"h2") {
        return Err(ConnectError::NoHttp2);
    }
    let settings = ClientSettings {
        stream_window: STREAM_WINDOW_BYTES,
        connection_window: CONNECTION_WINDOW_BYTES,
        max_head_bytes: context.header_list_max_bytes.get(),
    };
    let client = ClientConnection::new(&settings, &context.http2_totals);
    let mut io = EndpointIo::new(stream, context.read_buffer.clone(), &context.bulk_queue);
    let is_open = poll_fn(|cx| match io.poll(&client, cx) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending if client.max_concurrent_streams() > 0 => Poll::Ready(client.can_open()),
        Poll::Pending => Poll::Pending,
    })
    .await;
    if is_open {
        let open = OpenParts { io, permit };
        let connection = Http2Connection::start(context.clone(), &pool.http2, open, client);
        tollgate_net::spawn(Pool::run_connection(Rc::downgrade(pool), connection.clone()));
        return Ok(connection);
    }
    if let Some(fault) = io.fault() {
        pool.tls_failed(fault);
        return Err(ConnectError::Tls(fault.clone()));
    }
    Err(match client.violation() {
        Some(_) => ConnectError::NoHttp2,
        None => ConnectError::Refused,
    })
}
