//! One client connection between its requests.
//!
//! `worker` starts [`serve`] for each connection that [`accept`](crate::front::accept) admits. `serve` handles the
//! PROXY header and TLS (`preamble`), and passes HTTP/2 connections to [`http2`]. An HTTP/1 connection then
//! waits for the first byte of a request and holds almost no memory. When that byte arrives, it borrows a
//! reusable future from a pool for its exchanges and returns it when it is idle again.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use tollgate_plan::Http2;

use crate::front::exchange_slot::{AfterExchanges, ExchangeSlot};
use crate::front::http2::{self, Http2Shared};
use crate::front::preamble::preamble;
use crate::state::client::Client;
use crate::state::future_pool::FuturePool;

/// The resources that the connections of a worker borrow while they are served.
pub(crate) struct ConnectionServices<F: ?Sized> {
    pub http2: Rc<Http2Shared>,
    /// The reusable futures for exchanges in HTTP/1.
    pub exchanges: FuturePool<Box<Client>, AfterExchanges, F>,
}

impl<F: Future<Output = Infallible>> ConnectionServices<F> {
    pub fn new() -> Self {
        Self { http2: Rc::new(Http2Shared::new()), exchanges: FuturePool::new() }
    }
}

/// Serves a connection to its end. `exchanges` handles requests for as long as one follows another, and
/// returns the state after that. The connection moves back and forth in its box, so each move copies one
/// pointer.
pub(crate) async fn serve<F>(
    mut client: Box<Client>,
    exchanges: impl Fn(Rc<ExchangeSlot>) -> F,
    services: Rc<ConnectionServices<F>>,
) where
    F: Future<Output = Infallible>,
{
    if client.connection_context.listener.has_preamble() {
        match preamble(client).await {
            Some(ready) => client = ready,
            None => return,
        }
    }
    if client.connection_context.listener.http2 == Http2::Only || client.stream.alpn() == Some(b"h2") {
        return http2::start(client, Vec::new(), services.http2.clone());
    }
    let now = tollgate_net::now();
    client.connection_context.open(now);
    client.deadline.set(now, client.connection_context.idle_bound(now));
    while wait_for_request(&mut client).await {
        match FuturePool::run(&services.exchanges, client, |slot| Box::pin(exchanges(slot))).await {
            AfterExchanges::Idle(back) => client = back,
            AfterExchanges::Closed => return,
            // A task of its own, since this one stays small for the many idle connections.
            AfterExchanges::Http2(begun) => return http2::start(begun.0, begun.1, services.http2.clone()),
        }
    }
    client.log_close(if client.is_draining() { "drain" } else { "idle" });
}

/// Waits for the first byte of a request. Returns `false` if the wait took too long, or if the worker drains.
///
/// Closing an idle connection can always lose a request that is on its way. The client loses none only if a
/// response tells it that the connection closes. So an idle connection has a grace period when the drain
/// starts: a client that sends requests often enough sends one more, and gets such a response.
async fn wait_for_request(client: &mut Client) -> bool {
    let mut hurried = false;
    poll_fn(|cx| {
        // A request that is already here is served even if its time is up or the worker drains.
        if client.stream.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        if !hurried && client.is_draining() {
            hurried = true;
            client.shorten_idle_time();
        }
        client.deadline.poll_passed(cx).map(|()| false)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    use tollgate_listen::ConnectionCounts;
    use tollgate_net::Runtime;
    use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Reason, Registry};

    use super::*;
    use crate::front::accept::admit;
    use crate::state::command::{Mailbox, WorkerSetup};
    use crate::state::request_guard::RequestStateGuard;
    use crate::state::worker::Worker;

    /// Panics during the first connection's request, while its record is open; closes the other connections.
    async fn panics_once(slot: Rc<ExchangeSlot>, first: u16) -> Infallible {
        loop {
            let client = slot.next().await;
            let worker = client.worker().clone();
            let mut state = RequestStateGuard::new(&worker);
            state.record.open(&worker.stats, tollgate_net::now(), client.peer, None);
            assert!(client.peer.port() != first, "a defect");
            drop(state);
            slot.done(AfterExchanges::Closed);
        }
    }

    #[test]
    fn a_panic_ends_its_connection_only_and_is_written_down() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut clients: Vec<TcpStream> = (0..2)
            .map(|_| {
                let stream =
                    TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
                stream
            })
            .collect();
        let registry = Registry::new(true);
        let config = LogConfig { target: LogTarget::Off, format: LogFormat::Combined };
        let log = AccessLog::start(config).expect("no log");
        tollgate_policy::register();
        let loaded = tollgate_config::from_text(
            "",
            "listen: 127.0.0.1:0\nroutes: [{match: /, respond: 204}]",
            &|_| None,
        );
        let plan = tollgate_plan::compile(&loaded.config.expect("a config")).expect("it compiles").plan;
        let (mailbox, control) = Mailbox::new();
        let setup = WorkerSetup {
            id: 0,
            plan: crate::state::rollout::Rollout::first(plan, &registry),
            control,
            mailboxes: vec![mailbox],
            loads: Arc::new(ConnectionCounts::new(1)),
            registry: registry.clone(),
            stats: registry.worker(),
            shared: tollgate_upstream::UpstreamStates::new(),
            log: log.sink(),
        };
        let runtime = Runtime::new().expect("a runtime");
        runtime.run(async {
            let worker = Worker::new(setup).expect("a worker");
            let first = clients[0].local_addr().expect("an address").port();
            let services = Rc::new(ConnectionServices::new());
            let start = |client| {
                let exchanges = move |slot| panics_once(slot, first);
                tollgate_net::spawn(serve(client, exchanges, services.clone()));
            };
            for _ in 0..2 {
                let (stream, peer) = listener.accept().expect("a connection");
                stream.set_nonblocking(true).expect("non-blocking");
                assert_eq!(worker.reserve(), Ok(0));
                let bind = worker.active().plan.listeners[0].bind.clone();
                let handle = worker.listeners.open(crate::state::listener::ListenerId(0), bind);
                let listener = handle.listener(&worker.active().plan).expect("the plan has it");
                admit(&worker, handle, stream.into(), peer, listener, &start);
            }
            for (turn, client) in clients.iter_mut().enumerate() {
                assert_eq!(registry.snapshot().client_connections, 2 - turn as u64);
                std::io::Write::write_all(client, b"x").expect("sent");
                while registry.snapshot().client_connections == 2 - turn as u64 {
                    tollgate_net::yield_now().await;
                }
            }
        });
        let counts = registry.snapshot();
        assert_eq!((counts.in_flight, counts.requests), (0, 2));
        assert_eq!(counts.reasons[Reason::ProxyInternalError as usize], 1);
        drop(runtime);
        for client in &mut clients {
            // An end or a reset: both mean closed.
            let _ = client.read(&mut [0]).map(|count| assert_eq!(count, 0));
        }
    }
}
