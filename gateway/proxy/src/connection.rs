//! One client connection: waits for a request, and holds almost nothing while it waits.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use tollgate_net::{Deadline, Stream};

use crate::future_pool::FuturePool;
use crate::worker::Worker;

/// One client connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub stream: Stream,
    pub peer: SocketAddr,
    pub deadline: Deadline,
    /// Requests that it has carried.
    pub requests: u64,
    guard: Guard,
}

impl Client {
    pub fn new(worker: &Rc<Worker>, stream: Stream, peer: SocketAddr) -> Self {
        // On a dual-stack socket an IPv4 peer comes as ::ffff:a.b.c.d; nobody wants to see that in a header or log.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let deadline = worker.timers.deadline();
        worker.connection_opened();
        Self { stream, peer, deadline, requests: 0, guard: Guard(worker.clone()) }
    }

    pub fn worker(&self) -> &Rc<Worker> {
        &self.guard.0
    }
}

/// Counts the connection for as long as it lives.
#[derive(Debug)]
struct Guard(Rc<Worker>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// Serves a connection to its end. `exchange` carries requests for as long as they follow each other, and gives the
/// connection back when it has nothing more to read, or not at all when it is to be closed.
pub(crate) async fn serve<F>(mut client: Client, exchange: impl Fn(Client) -> F, exchanges: Rc<FuturePool<F>>)
where
    F: Future<Output = Option<Client>>,
{
    client.deadline.set(Instant::now(), client.worker().idle_timeout());
    while wait_for_request(&mut client).await {
        match exchanges.run(exchange(client)).await {
            Some(back) => client = back,
            None => return,
        }
    }
}

/// Waits for the first byte. Says whether it came: not if the wait took too long or the worker stops.
async fn wait_for_request(client: &mut Client) -> bool {
    poll_fn(|cx| {
        // A request that is already here is served even if its time is up, or the worker is draining.
        if client.stream.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        if client.deadline.poll_passed(cx).is_ready() || client.worker().draining.get() {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}
