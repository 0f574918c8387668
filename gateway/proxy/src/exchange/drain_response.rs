//! Reads the rest of an HTTP/1 response that no client gets, so that its connection can be used again.
//!
//! [`return_to_pool`] is the way back for every HTTP/1 connection whose response was given up. It bounds the
//! bytes and the time, and closes the connection beyond them.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate_http::h1::BodyReader;
use tollgate_upstream::{Connection, Pool};

use crate::state::worker::Worker;

/// The most bytes that are read for this: for more, a new connection costs less.
const BYTES_MAX: usize = 64 * 1024;
/// The longest time for this. The connection counts as in use until then.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Returns an HTTP/1 connection to its pool, if the rest of the body arrives soon.
pub(crate) fn return_to_pool(
    worker: &Rc<Worker>,
    connection: Connection,
    body: Option<BodyReader>,
    now: Instant,
) {
    match body {
        Some(body) if body.is_done() => Pool::put(connection, now),
        Some(body) if body.remaining().is_none_or(|left| left <= BYTES_MAX as u64) => {
            tollgate_net::spawn(drain(worker.clone(), connection, body, now));
        }
        _ => {}
    }
}

/// Reads a body to its end, so that its connection can be used again.
async fn drain(worker: Rc<Worker>, mut connection: Connection, mut body: BodyReader, now: Instant) {
    let deadline = worker.timers.deadline();
    deadline.set(now, Some(TIME_MAX));
    let mut left = BYTES_MAX;
    let whole = poll_fn(|cx| {
        loop {
            if deadline.poll_passed(cx).is_ready() {
                return Poll::Ready(false);
            }
            let mut buffer = worker.receive.borrow_mut();
            let count = match connection.stream.poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count @ 1..)) if count <= left => count,
                Poll::Ready(_) => return Poll::Ready(false),
            };
            left -= count;
            match body.read(&mut buffer[..count]) {
                Ok(step) if body.is_done() => return Poll::Ready(step.used == count),
                Ok(_) => {}
                Err(_) => return Poll::Ready(false),
            }
        }
    });
    if whole.await {
        Pool::put(connection, tollgate_net::now());
    }
}
