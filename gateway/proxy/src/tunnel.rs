//! After 101: bytes both ways, whatever they mean.

use std::io::IoSlice;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::backlog::Backlog;
use crate::client_side::{ClientSide, Duplex};
use crate::connection::Client;
use crate::scratch::Scratch;
use crate::upstream_side::UpstreamSide;
use crate::worker::Worker;

/// Moves bytes both ways until both sides have ended, one breaks, or nothing moves for `idle`. Each side's end is
/// passed on alone.
pub(crate) async fn tunnel<S: ClientSide, U: UpstreamSide>(
    client: &mut Client<S>,
    worker: &Worker,
    scratch: &mut Scratch,
    mut upstream: U,
    idle: Option<Duration>,
) {
    let Scratch { inbox, to_client, to_upstream, ledger, .. } = scratch;
    // What the client sent before the answer came.
    to_upstream.append(&[IoSlice::new(inbox)]);
    ledger.bytes_in += inbox.len() as u64;
    inbox.clear();
    client.deadline.set(tollgate_net::now(), idle);
    // Counted as they come: a drain may end this at any time.
    let (mut up, mut down) = (Direction::new(&mut ledger.bytes_in), Direction::new(&mut ledger.bytes_out));
    // Either side may reset an upgraded connection as it likes: that is no failure of the exchange.
    std::future::poll_fn(|cx| {
        if client.deadline.poll_passed(cx).is_ready() {
            return Poll::Ready(());
        }
        let before = (*up.bytes, *down.bytes);
        let there = up.poll(cx, worker, &mut client.stream, &mut upstream, to_upstream);
        let back = down.poll(cx, worker, &mut upstream, &mut client.stream, to_client);
        if before != (*up.bytes, *down.bytes) {
            client.deadline.set(tollgate_net::now(), idle);
        }
        match (there, back) {
            (Poll::Ready(Err(())), _) | (_, Poll::Ready(Err(()))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ => client.deadline.poll_passed(cx),
        }
    })
    .await;
}

struct Direction<'a> {
    bytes: &'a mut u64,
    ended: bool,
    passed_on: bool,
}

impl<'a> Direction<'a> {
    fn new(bytes: &'a mut u64) -> Self {
        Self { bytes, ended: false, passed_on: false }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        backlog: &mut Backlog,
    ) -> Poll<Result<(), ()>> {
        loop {
            ready!(backlog.poll_flush(cx, to)).map_err(drop)?;
            if self.passed_on {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                ready!(to.poll_shutdown(cx)).map_err(drop)?;
                self.passed_on = true;
                continue;
            }
            let mut buffer = worker.receive.borrow_mut();
            let count = ready!(from.poll_read(cx, &mut buffer)).map_err(drop)?;
            self.ended = count == 0;
            *self.bytes += count as u64;
            if count > 0 {
                backlog.send(to, &[IoSlice::new(&buffer[..count])]).map_err(drop)?;
            }
        }
    }
}
