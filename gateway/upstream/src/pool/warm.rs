//! Opens connections before a request needs them (`pool.warm`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use tollgate_net::{Deadline, ProxyHeader};

use super::connection::InUse;
use super::{ConnectPermit, Pool, http2};
use crate::Permit;

/// Delay after the first failure in a row. Each further failure doubles it.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Longest delay.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);
/// Timeout of a connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps the configured number of connections idle in a pool, until the pool is dropped. It opens them in
/// sequence, so that warming never causes a burst of connections.
pub(crate) async fn keep_warm(pool: Weak<Pool>) {
    let Some(deadline) = pool.upgrade().map(|pool| pool.context.timers.deadline()) else { return };
    let mut delay = RETRY_DELAY;
    while let Some(cold) = until_cold(&pool).await {
        match open(&cold, &deadline).await {
            true => delay = RETRY_DELAY,
            false => {
                drop(cold);
                deadline.set(tollgate_net::now(), Some(delay));
                until_passed(&pool, &deadline).await;
                delay = (2 * delay).min(RETRY_DELAY_MAX);
            }
        }
    }
}

/// Waits until the pool has too few idle connections. Returns `None` if the pool is gone.
async fn until_cold(pool: &Weak<Pool>) -> Option<Rc<Pool>> {
    poll_fn(|cx| {
        let Some(pool) = pool.upgrade() else { return Poll::Ready(None) };
        if pool.needs_warming() {
            return Poll::Ready(Some(pool));
        }
        let mut warmer = pool.warmer.borrow_mut();
        if !warmer.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *warmer = Some(cx.waker().clone());
        }
        Poll::Pending
    })
    .await
}

/// Waits for the deadline, or until the pool is gone.
async fn until_passed(pool: &Weak<Pool>, deadline: &Deadline) {
    poll_fn(|cx| match pool.strong_count() {
        0 => Poll::Ready(()),
        _ => deadline.poll_passed(cx),
    })
    .await;
}

/// Opens one connection, unless a limit is reached or a request waits for a permit. Returns whether the pool
/// has one more.
async fn open(pool: &Rc<Pool>, deadline: &Deadline) -> bool {
    if !pool.pool_set.has_no_waiters() || !pool.state().is_available() {
        return false;
    }
    let Some(permit) = Permit::try_acquire(&pool.context.shared, pool.state()) else { return false };
    deadline.set(tollgate_net::now(), Some(CONNECT_TIMEOUT));
    if pool.context.http2.get() {
        return open_http2(pool, permit, deadline).await;
    }
    let mut opening = pin!(ConnectPermit::new(pool, permit).connect(ProxyHeader::Local));
    let opened = poll_fn(|cx| match opening.as_mut().poll(cx) {
        Poll::Ready(opened) => Poll::Ready(opened.ok()),
        Poll::Pending => deadline.poll_passed(cx).map(|()| None),
    });
    let Some(mut connection) = opened.await else { return false };
    // It has not carried a request yet.
    connection.requests = 0;
    let before = pool.ready();
    Pool::put(connection, tollgate_net::now());
    // If the pool did not keep it (it may already be too old), the next one must not be opened at once.
    pool.ready() > before
}

/// As `open`, for an endpoint that speaks HTTP/2. The stream capacity on the new connection is released at
/// once.
async fn open_http2(pool: &Rc<Pool>, permit: Permit, deadline: &Deadline) -> bool {
    let mut opening = pin!(http2::start(pool, permit, InUse::new(pool)).connect());
    poll_fn(|cx| match opening.as_mut().poll(cx) {
        Poll::Ready(opened) => Poll::Ready(opened.is_ok()),
        Poll::Pending => deadline.poll_passed(cx).map(|()| false),
    })
    .await
}
