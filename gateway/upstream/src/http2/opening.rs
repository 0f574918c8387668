//! Opens an HTTP/2 connection, once for all requests that wait for it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use h2::client::Builder;
use tollgate_http::h2::{BudgetedData, ResponseInspector};
use tollgate_net::ProxyHeader;

use super::connection::{Http2Connection, OpenParts, StreamPermit};
use super::io::{EndpointIo, FaultCell};
use super::{CONNECTION_WINDOW_BYTES, SEND_BUFFER_BYTES, SPARE_FIELDS, STREAM_WINDOW_BYTES, STREAMS_MAX};
use crate::connection::InUse;
use crate::{ConnectError, Permit, Pool, pool};

/// A connection that is being opened. No request owns it, so any of the requests that wait for it may leave.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// How many requests wait for it.
    waiters: Cell<usize>,
    wakers: RefCell<Vec<Waker>>,
    result: RefCell<Option<Result<Rc<Http2Connection>, ConnectError>>>,
    task: RefCell<Option<Waker>>,
}

impl Opening {
    /// Whether one more request may wait for it, because the connection will have capacity.
    pub fn has_capacity(&self) -> bool {
        self.waiters.get() < STREAMS_MAX
    }

    /// Adds a request that waits for it.
    pub fn join(self: &Rc<Self>, in_use: InUse) -> OpeningWaiter {
        self.waiters.set(self.waiters.get() + 1);
        OpeningWaiter { opening: self.clone(), in_use: Some(in_use) }
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
    /// Waits until the connection is open. The wait has no timeout of its own; the caller's deadline ends it.
    ///
    /// Returns `None` if other requests have taken all streams, so that the request must look for another
    /// connection.
    ///
    /// # Errors
    /// Returns an error if the endpoint is unreachable, or does not speak HTTP/2.
    pub async fn connect(mut self) -> Result<Option<StreamPermit>, ConnectError> {
        poll_fn(|cx| {
            match &*self.opening.result.borrow() {
                Some(Ok(connection)) => {
                    let in_use = self.in_use.take().filter(|_| connection.has_capacity());
                    return Poll::Ready(Ok(in_use.map(|in_use| connection.begin(in_use, false))));
                }
                Some(Err(error)) => return Poll::Ready(Err(error.clone())),
                None => {}
            }
            let mut waiting = self.opening.wakers.borrow_mut();
            if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for OpeningWaiter {
    fn drop(&mut self) {
        let joined = &self.opening.waiters;
        joined.set(joined.get() - 1);
        let opened = self.opening.result.borrow().as_ref().and_then(|result| result.as_ref().ok().cloned());
        if let (Some(in_use), Some(connection)) = (self.in_use.take(), opened) {
            // The stream that was reserved for this request goes to the next one in the queue.
            in_use.pool().offer_stream(&connection);
        }
        if joined.get() == 0
            && let Some(task) = self.opening.task.borrow_mut().take()
        {
            task.wake();
        }
    }
}

/// Starts to open a connection, for a request and the requests that join it.
pub(crate) fn start(pool: &Rc<Pool>, permit: Permit, in_use: InUse) -> OpeningWaiter {
    let opening = Rc::<Opening>::default();
    let joined = opening.join(in_use);
    pool.http2.add_opening(opening.clone());
    tollgate_net::spawn(open(pool.clone(), permit, opening));
    joined
}

async fn open(pool: Rc<Pool>, permit: Permit, opening: Rc<Opening>) {
    let opened = {
        let mut work = pin!(connect_and_handshake(&pool, permit));
        poll_fn(|cx| {
            // No request needs it now.
            if opening.waiters.get() == 0 {
                return Poll::Ready(None);
            }
            *opening.task.borrow_mut() = Some(cx.waker().clone());
            work.as_mut().poll(cx).map(Some)
        })
        .await
    };
    pool.http2.remove_opening(&opening);
    let Some(result) = opened else { return };
    let connection = result.as_ref().ok().cloned();
    *opening.result.borrow_mut() = Some(result);
    // In order: the first request gets the first stream.
    opening.wakers.take().into_iter().for_each(Waker::wake);
    let Some(connection) = connection else { return };
    // The requests in the queue get the streams that the joined requests do not need.
    for _ in opening.waiters.get()..STREAMS_MAX {
        if !pool.offer_stream(&connection) {
            break;
        }
    }
}

/// Connects, and waits for the endpoint's first SETTINGS. Only then is it certain that the endpoint speaks
/// HTTP/2, and how many concurrent requests it accepts. A client that starts earlier saves one round trip per
/// connection, but its requests may be refused, or read by a server of another protocol.
async fn connect_and_handshake(pool: &Rc<Pool>, permit: Permit) -> Result<Rc<Http2Connection>, ConnectError> {
    let set = pool.pool_set().clone();
    // The connection carries requests of many clients, so the plan asks for no PROXY header here.
    let stream = pool::dial(pool, ProxyHeader::Local).await?;
    if stream.is_tls() && stream.alpn() != Some(b"h2") {
        return Err(ConnectError::NoHttp2);
    }
    let last_read = Rc::new(Cell::new(tollgate_net::now()));
    let list = set.header_list_max_bytes.get();
    let inspector = Rc::new(RefCell::new(ResponseInspector::with_limit(list as usize)));
    let fault = FaultCell::default();
    let io = EndpointIo::new(stream, set.read_buffer.clone(), last_read.clone(), inspector.clone())
        .with_fault_cell(fault.clone());
    let failed = |error: &h2::Error| match fault.get() {
        // The library keeps only the kind of such an error.
        Some(fault) => {
            pool.tls_failed(fault);
            ConnectError::Tls(fault.clone())
        }
        None => failed(error),
    };
    let mut builder = Builder::new();
    builder
        // Zero until the endpoint's SETTINGS arrive, which then decide.
        .initial_max_send_streams(0)
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(list.saturating_mul(SPARE_FIELDS.0).saturating_add(SPARE_FIELDS.1))
        .max_send_buffer_size(SEND_BUFFER_BYTES);
    let (sender, mut frames) =
        builder.handshake::<_, BudgetedData>(io).await.map_err(|error| failed(&error))?;
    poll_fn(|cx: &mut Context<'_>| match Pin::new(&mut frames).poll(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(Err(ConnectError::Refused)),
        Poll::Ready(Err(error)) => Poll::Ready(Err(failed(&error))),
        Poll::Pending if sender.current_max_send_streams() > 0 => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    Ok(Http2Connection::start(pool, OpenParts { frames, permit }, sender, (last_read, inspector)))
}

fn failed(error: &h2::Error) -> ConnectError {
    if error.is_io() || error.is_remote() { ConnectError::Refused } else { ConnectError::NoHttp2 }
}
