//! The front of UDP: receives the datagrams of a listener, and gives each to the session of its sender.
//!
//! A worker runs [`serve`] once per socket. The kernel sends all datagrams of one client address and port to the same
//! socket, so a session belongs to one worker. A datagram of an unknown sender opens a session, within the bounds of the
//! stream and of the process; the [session](crate::exchange::session) has a task of its own, which ends it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use tollgate_net::{Datagrams, component};
use tollgate_observe::DatagramDrop;
use tracing::debug;

use crate::exchange::session::{self, Session};
use crate::state::listener::{ListenerHandle, Queued};
use crate::state::worker::Worker;

/// Datagrams that a socket receives before the worker's other tasks run.
const DATAGRAMS_PER_TURN: usize = 32;

/// The sessions of one socket, by client.
type Sessions = Rc<RefCell<HashMap<SocketAddr, Rc<Session>>>>;

/// Receives until the worker drains or the listener closes, and then until the last session has ended.
pub(crate) async fn serve(worker: Rc<Worker>, handle: Rc<ListenerHandle>, socket: Datagrams) {
    let (socket, sessions) = (Rc::new(socket), Sessions::default());
    poll_fn(|cx| {
        let is_over = worker.draining.get() || handle.closed().is_some();
        if is_over && sessions.borrow().is_empty() {
            return Poll::Ready(());
        }
        worker.wake_on_command(cx);
        if handle.closed() == Some(Queued::Leave) {
            // Another process reads from the same socket.
            return Poll::Pending;
        }
        for _ in 0..DATAGRAMS_PER_TURN {
            let mut buffer = worker.receive.borrow_mut();
            match socket.poll_receive_from(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok((count, client))) => {
                    received(&worker, &handle, &socket, &sessions, client, &buffer[..count]);
                }
                // An error of a datagram that was sent before, such as a closed port of a client.
                Poll::Ready(Err(error)) => log_error(&error),
            }
        }
        // More may wait; the other tasks come first.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    worker.listening_ended();
}

#[cold]
fn log_error(error: &io::Error) {
    debug!(target: component::LISTENER, %error, "a socket for datagrams reports an error");
}

/// Gives a datagram to its session, which may be a new one.
fn received(
    worker: &Rc<Worker>,
    handle: &Rc<ListenerHandle>,
    socket: &Rc<Datagrams>,
    sessions: &Sessions,
    client: SocketAddr,
    datagram: &[u8],
) {
    let known = sessions.borrow().get(&client).cloned();
    if let Some(session) = known {
        if session.pass_to_endpoint(datagram) {
            return;
        }
        // Its endpoint is gone; the next session has another one.
        sessions.borrow_mut().remove(&client);
    }
    if worker.draining.get() {
        return;
    }
    let Some(session) = open(worker, handle, socket, client) else { return };
    session.pass_to_endpoint(datagram);
    sessions.borrow_mut().insert(client, session.clone());
    let leave = Leave {
        all: sessions.clone(),
        client,
        session: session.clone(),
        worker: worker.clone(),
        handle: handle.clone(),
    };
    tollgate_net::spawn(async move {
        // Whatever ends the session, also a panic.
        let _leave = leave;
        session::run(session).await;
    });
}

/// Removes a session from the table when it is dropped, and returns its place.
struct Leave {
    all: Sessions,
    client: SocketAddr,
    session: Rc<Session>,
    worker: Rc<Worker>,
    handle: Rc<ListenerHandle>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut all = self.all.borrow_mut();
        // The client may have another session by now.
        if all.get(&self.client).is_some_and(|session| Rc::ptr_eq(session, &self.session)) {
            all.remove(&self.client);
        }
        drop(all);
        self.worker.connection_closed();
        let is_over = self.worker.draining.get() || self.handle.closed().is_some();
        if is_over && self.all.borrow().is_empty() {
            // The task of the socket waits for the last session.
            self.worker.wake_all();
        }
    }
}

/// Opens a session, unless no stream takes the datagram or a bound is reached. A socket of a closed listener stays open for
/// its last sessions; until then it also gets datagrams for a listener that was opened at the same address since.
fn open(
    worker: &Rc<Worker>,
    handle: &Rc<ListenerHandle>,
    socket: &Rc<Datagrams>,
    client: SocketAddr,
) -> Option<Rc<Session>> {
    let listener = match (handle.closed(), &worker.active.borrow().plan) {
        (None, plan) => handle.listener(plan)?,
        (Some(_), plan) => handle.successor(plan)?,
    };
    let stream = listener.streams.as_ref().and_then(|table| table.other().cloned());
    let Some(stream) = stream.filter(|stream| !stream.shares.is_empty()) else {
        worker.stats.stream(&listener.bind.to_string()).dropped(DatagramDrop::NoStream);
        return None;
    };
    let state = worker.stream_state(&stream);
    let ip = client.ip().to_canonical();
    let slot = state.take_slot(ip).ok().filter(|_| worker.reserve_here().is_ok());
    let Some(slot) = slot else {
        state.counts.dropped(DatagramDrop::SessionLimit);
        return None;
    };
    worker.connection_opened();
    let shown = SocketAddr::new(ip, client.port());
    Some(Session::new(worker, handle, socket.clone(), state, slot, client, shown))
}
