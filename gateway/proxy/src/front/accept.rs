//! Accepts connections and places each with a worker: this one, or a less loaded one.
//!
//! A worker runs [`accept`] once per listening socket. A connection that goes to another worker is sent to
//! its mailbox; there, as here, [`admit`] registers it and starts to serve it. On shutdown the task accepts
//! what the kernel has queued, so that no connected client is reset.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_listen::{BACKLOG, NoSlot};
use tollgate_net::{DetachedStream, Listener as Socket, component};
use tollgate_observe::Reason;
use tollgate_plan::{Http2, ListenerProtocol, PlannedListener};
use tracing::{debug, trace};

use crate::state::client::Client;
use crate::state::command::WorkerCommand;
use crate::state::listener::{ListenerHandle, Queued};
use crate::state::worker::Worker;

/// Connections that a worker accepts before its other tasks run. If it accepted everything that waits (tokio
/// would stop at 128), a flood would delay every other task. Four cost about the same as two requests. nginx
/// accepts one (`multi_accept off`), which costs a poll for each connection of a burst.
pub(crate) const ACCEPTS_PER_TURN: i32 = 4;

/// How long accepting pauses when the process is out of file descriptors or memory.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the worker drains or the listener closes. Passes each connection to `serve` here, or to
/// another worker.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    handle: Rc<ListenerHandle>,
    listener: Socket,
    serve: impl Fn(Box<Client>),
) {
    let pause = worker.timers.deadline();
    let mut taken = 0;
    loop {
        if taken == ACCEPTS_PER_TURN {
            taken = 0;
            tollgate_net::yield_now().await;
        }
        let accepted = poll_fn(|cx| {
            if worker.draining.get() || handle.closed().is_some() {
                return Poll::Ready(None);
            }
            worker.wake_on_command(cx);
            let accepted = listener.poll_accept(cx);
            if accepted.is_pending() {
                // Pending means that other tasks have run when this continues.
                taken = 0;
            }
            accepted.map(Some)
        });
        let accepted = accepted.await;
        taken += 1;
        match accepted {
            None => break,
            Some(Ok((stream, peer))) => assign_to_worker(&worker, &handle, stream, peer, &serve),
            Some(Err(error)) if is_passing(&error) => {}
            // A resource is exhausted. Connections wait in the kernel's queue until there is more of it.
            Some(Err(error)) => {
                debug!(target: component::LISTENER, %error, "accepting pauses for lack of a resource");
                pause.set(tollgate_net::now(), Some(SHORTAGE_PAUSE));
                poll_fn(|cx| pause.poll_passed(cx)).await;
            }
        }
    }
    // The kernel has completed the handshake with these clients: closing the socket would reset them.
    let queued = if handle.closed() == Some(Queued::Leave) { 0 } else { BACKLOG };
    for number in 1..=queued {
        if number % ACCEPTS_PER_TURN == 0 {
            tollgate_net::yield_now().await;
        }
        match listener.accept_queued() {
            Ok((stream, peer)) => assign_to_worker(&worker, &handle, stream, peer, &serve),
            Err(error) if is_passing(&error) => {}
            Err(_) => break,
        }
    }
    drop(listener);
    worker.listening_ended();
}

/// Returns whether the error concerns one connection that died in the queue (accept(2)). The next one may be
/// fine.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Chooses a worker for a connection, and admits it here or sends it there. Refuses it if no worker has room.
fn assign_to_worker(
    worker: &Rc<Worker>,
    handle: &Rc<ListenerHandle>,
    stream: DetachedStream,
    peer: SocketAddr,
    serve: &impl Fn(Box<Client>),
) {
    let Some(listener) = handle.listener(&worker.active.borrow().plan) else { return };
    let other = match worker.reserve() {
        Ok(other) => other,
        Err(full) => {
            debug!(target: component::LISTENER, %peer, listener = %listener.bind, reason = ?full, "refused a connection");
            return refuse(worker, stream, &listener, full);
        }
    };
    if other == worker.id {
        return admit(worker, handle.clone(), stream, peer, listener, serve);
    }
    worker.stats.handed_over();
    let message = WorkerCommand::Connection(stream, peer, handle.id, listener);
    if let Err(WorkerCommand::Connection(stream, peer, _, listener)) = worker.mailboxes[other].send(message) {
        // That worker no longer runs.
        worker.take_over(other);
        admit(worker, handle.clone(), stream, peer, listener, serve);
    }
}

/// Registers a connection, for which this worker has reserved a place, and starts to serve it.
pub(crate) fn admit(
    worker: &Rc<Worker>,
    handle: Rc<ListenerHandle>,
    stream: DetachedStream,
    peer: SocketAddr,
    listener: Arc<PlannedListener>,
    serve: &impl Fn(Box<Client>),
) {
    match stream.attach() {
        Ok(stream) => {
            trace!(target: component::LISTENER, %peer, listener = %listener.bind, "accepted a connection");
            serve(Box::new(Client::new(worker, handle, stream, peer, listener)));
        }
        // A socket that the poller refuses is closed when it is dropped.
        Err(_) => worker.release(worker.id),
    }
}

/// Refuses a connection beyond the limit: sends a 503 if the client can read one, and closes it. A stream of layer 4 is
/// reset, since its client could take an orderly end for the server's.
fn refuse(worker: &Worker, stream: DetachedStream, listener: &PlannedListener, full: NoSlot) {
    worker.stats.client_rejected();
    if listener.protocol != ListenerProtocol::Http {
        return stream.reset();
    }
    if listener.tls.is_some() || listener.http2 == Http2::Only {
        // The client expects HTTP/2, or a TLS handshake, for which there is no capacity: it would not understand this
        // response.
        return;
    }
    let reason = match full {
        NoSlot::Limit => Reason::ConnectionLimit.as_str(),
        NoSlot::Resources => Reason::Overload.as_str(),
    };
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nTollgate-Reason: {reason}\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{reason}\n",
        reason.len() + 1
    );
    stream.reject(answer.as_bytes());
}
