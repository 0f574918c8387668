//! A session of UDP: the datagrams between one client and one endpoint.
//!
//! [`datagrams`](crate::front::datagrams) creates a [`Session`] for a client, passes the client's datagrams to
//! [`Session::pass_to_endpoint`], and runs [`run`] in a task. The task connects a socket to the endpoint, sends the
//! endpoint's datagrams to the client through the listener's socket, and ends the session when nothing moves.
//!
//! UDP has no handshake, so addresses can be forged. Until the endpoint has answered, a session sends it a bounded
//! number of bytes; until the client has sent again after an answer, the client gets a bounded number.
//!
//! Datagrams to an endpoint that is gone vanish without an error, and a busy client would keep such a session alive. So
//! a session ends with the first datagram of its client after the upstream has lost its endpoint.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_listen::StreamSlot;
use tollgate_net::{Datagrams, Deadline};
use tollgate_observe::{DatagramDrop, Reason};
use tollgate_plan::{HashBy, Policy};
use tollgate_upstream::{ConnectPermit, Outcome, PickHints, Pool, Upstream};

use crate::exchange::affinity::address_hash;
use crate::exchange::stream::choose;
use crate::state::listener::ListenerHandle;
use crate::state::stream_record::StreamRecord;
use crate::state::stream_states::StreamState;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// How long a session without datagrams lasts when the worker drains or the listener closes.
const GRACE: Duration = Duration::from_millis(500);
/// Datagrams of a client that wait until the socket to the endpoint is open.
const WAITING_MAX: usize = 16;
/// Bytes of these datagrams, so that sessions in the queue of an upstream hold little: one datagram of the largest
/// size.
const WAITING_MAX_BYTES: usize = 64 * 1024;
/// Datagrams of an endpoint that a session passes on before the worker's other tasks run.
const DATAGRAMS_PER_TURN: usize = 16;

/// The session of one client.
#[derive(Debug)]
pub(crate) struct Session {
    worker: Rc<Worker>,
    handle: Rc<ListenerHandle>,
    /// The listener's socket, through which the client gets its datagrams.
    listener: Rc<Datagrams>,
    state: Rc<StreamState>,
    client: SocketAddr,
    record: RefCell<StreamRecord>,
    deadline: Deadline,
    total: TimeLimit,
    /// The socket to the endpoint, once it is open.
    endpoint: OnceCell<Datagrams>,
    /// Datagrams that arrived before the socket was open.
    waiting: RefCell<Vec<Box<[u8]>>>,
    /// Bytes sent to the endpoint before its first datagram, and whether that datagram has arrived.
    unanswered: Cell<u64>,
    is_answered: Cell<bool>,
    /// Bytes sent to the client before its first datagram after an answer, and whether that datagram has arrived.
    unconfirmed: Cell<u64>,
    is_confirmed: Cell<bool>,
    /// Why the session ends at once, after a datagram of the client.
    ends: Cell<Option<Reason>>,
    /// The plan's generation and the upstream's epoch under which the endpoint was last looked for.
    checked: Cell<(u64, u64)>,
    task: RefCell<Option<Waker>>,
}

impl Session {
    /// Creates the session of a client. `shown` is the client's address in the log.
    pub fn new(
        worker: &Rc<Worker>,
        handle: &Rc<ListenerHandle>,
        listener: Rc<Datagrams>,
        state: Rc<StreamState>,
        slot: Option<StreamSlot>,
        client: SocketAddr,
        shown: SocketAddr,
    ) -> Rc<Self> {
        let now = tollgate_net::now();
        let mut record = StreamRecord::new(worker, "UDP", shown, now);
        record.taken(&state, slot);
        let total = TimeLimit::new(now, state.stream.total);
        let deadline = worker.timers.deadline();
        deadline.set(now, total.within(now, state.stream.idle));
        Rc::new(Self {
            worker: worker.clone(),
            handle: handle.clone(),
            listener,
            state,
            client,
            record: RefCell::new(record),
            deadline,
            total,
            endpoint: OnceCell::new(),
            waiting: RefCell::default(),
            unanswered: Cell::new(0),
            is_answered: Cell::new(false),
            unconfirmed: Cell::new(0),
            is_confirmed: Cell::new(false),
            ends: Cell::new(None),
            checked: Cell::default(),
            task: RefCell::default(),
        })
    }

    /// Passes a datagram of the client on. Returns `false` if the endpoint's port is closed, or if the endpoint takes
    /// nothing more: the session ends, and the datagram is for the next one.
    pub fn pass_to_endpoint(&self, datagram: &[u8]) -> bool {
        if self.has_lost_endpoint() {
            self.end(Reason::EndpointLeft);
            return false;
        }
        let bytes = datagram.len() as u64;
        if self.is_answered.get() {
            self.is_confirmed.set(true);
        } else {
            let sent = self.unanswered.get() + bytes;
            if self.state.stream.unanswered.is_some_and(|most| sent > most) {
                self.state.counts.dropped(DatagramDrop::Unanswered);
                return true;
            }
            self.unanswered.set(sent);
        }
        // A dropped datagram does not keep the session alive, so that a new session can choose another endpoint.
        self.moved(bytes, false);
        let Some(endpoint) = self.endpoint.get() else {
            self.keep(datagram);
            return true;
        };
        self.send(endpoint, datagram)
    }

    /// Keeps a datagram until the socket to the endpoint is open.
    fn keep(&self, datagram: &[u8]) {
        let waiting = &mut *self.waiting.borrow_mut();
        let bytes = waiting.iter().map(|kept| kept.len()).sum::<usize>() + datagram.len();
        if waiting.len() < WAITING_MAX && bytes <= WAITING_MAX_BYTES {
            waiting.push(datagram.into());
        } else {
            self.state.counts.dropped(DatagramDrop::NotSent);
        }
    }

    /// Returns whether the upstream has lost the endpoint. An upstream that has left the plan keeps its sessions, as it
    /// keeps its connections.
    fn has_lost_endpoint(&self) -> bool {
        let record = self.record.borrow();
        let (Some(upstream), Some(pool)) = (&record.upstream, &record.endpoint) else { return false };
        let active = self.worker.active.borrow();
        let now = (active.plan.generation(), upstream.state().epoch());
        if self.checked.replace(now) == now {
            return false;
        }
        active.by_name(&upstream.name).is_some_and(|current| current.has_lost(pool))
    }

    /// Makes the session's task end it.
    fn end(&self, reason: Reason) {
        self.ends.set(Some(reason));
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }

    fn send(&self, endpoint: &Datagrams, datagram: &[u8]) -> bool {
        let Err(error) = endpoint.send(datagram) else { return true };
        // An earlier datagram found the port closed.
        if error.kind() == io::ErrorKind::ConnectionRefused {
            self.end(Reason::ConnectionRefused);
            return false;
        }
        self.state.counts.dropped(DatagramDrop::NotSent);
        true
    }

    /// Passes a datagram of the endpoint on.
    fn pass_to_client(&self, datagram: &[u8]) {
        let bytes = datagram.len() as u64;
        self.is_answered.set(true);
        if !self.is_confirmed.get() {
            let sent = self.unconfirmed.get() + bytes;
            if self.state.stream.unconfirmed.is_some_and(|most| sent > most) {
                return self.state.counts.dropped(DatagramDrop::Unconfirmed);
            }
            self.unconfirmed.set(sent);
        }
        match self.listener.send_to(datagram, self.client) {
            Ok(()) => self.moved(bytes, true),
            Err(_) => self.state.counts.dropped(DatagramDrop::NotSent),
        }
    }

    /// Counts a datagram from the client, or to it.
    fn moved(&self, bytes: u64, to_client: bool) {
        let (bytes_in, bytes_out) = if to_client { (0, bytes) } else { (bytes, 0) };
        let record = &mut *self.record.borrow_mut();
        record.bytes_in += bytes_in;
        record.bytes_out += bytes_out;
        record.count_moved(bytes_in, bytes_out);
        self.state.counts.datagrams(u64::from(!to_client), u64::from(to_client));
        self.wait();
    }

    /// Sets the deadline of the idle timeout.
    fn wait(&self) {
        let idle = match self.is_closing() {
            false => self.state.stream.idle,
            // The client's next datagrams may reach another process, so this session waits only for outstanding
            // answers.
            true => Some(self.worker.grace.get().map_or(GRACE, |grace| grace.min(GRACE))),
        };
        let now = tollgate_net::now();
        self.deadline.set(now, self.total.within(now, idle));
    }

    fn is_closing(&self) -> bool {
        self.worker.draining.get() || self.handle.closed().is_some()
    }

    /// Returns why the session ends while it waits; `None`: it goes on.
    fn poll_end(&self, cx: &mut Context<'_>, hurried: &mut bool) -> Poll<Reason> {
        let is_over = self.is_closing();
        if is_over && !std::mem::replace(hurried, true) {
            self.wait();
        }
        self.deadline.poll_passed(cx).map(|()| match (self.total.is_over(), is_over) {
            (true, _) => Reason::TotalTimeout,
            (_, true) => Reason::ShuttingDown,
            _ => Reason::IdleTimeout,
        })
    }
}

/// Runs a session to its end.
pub(crate) async fn run(session: Rc<Session>) {
    let reason = match connect(&session).await {
        Ok((upstream, pool, permit)) => {
            let reason = relay(&session, &upstream, &pool).await;
            drop(permit);
            reason
        }
        Err(reason) => {
            let cause =
                if reason == Reason::NoStream { DatagramDrop::NoStream } else { DatagramDrop::NotSent };
            session.waiting.take().iter().for_each(|_| session.state.counts.dropped(cause));
            reason
        }
    };
    session.record.borrow_mut().end(reason);
}

/// Opens the socket to the endpoint that the upstream's balancer picks, and sends what waits.
async fn connect(session: &Session) -> Result<(Rc<Upstream>, Rc<Pool>, ConnectPermit), Reason> {
    let active = session.worker.active();
    let ip = session.client.ip().to_canonical();
    let upstream = choose(&session.state, &active, ip)?.clone();
    let hash = match &upstream.balance().policy {
        Policy::Hash(HashBy::ClientAddress) => Some(address_hash(ip)),
        _ => None,
    };
    let pool = upstream.pick(&PickHints { hash, ..PickHints::default() });
    let pool = pool.ok_or_else(|| match upstream.is_without_endpoints() {
        true => Reason::NoEndpoints,
        false => Reason::DestinationUnavailable,
    })?;
    {
        let record = &mut *session.record.borrow_mut();
        record.upstream = Some(upstream.clone());
        record.attempt_began(&pool, tollgate_net::now());
    }
    let permit = pool.wait_for_permit().await.map_err(|error| error.reason())?;
    let started = tollgate_net::now();
    let mut opening = Box::pin(pool.open_datagrams());
    let bound = session.worker.timers.deadline();
    bound.set(started, session.total.within(started, session.state.stream.connect));
    let opened = poll_fn(|cx| match opening.as_mut().poll(cx) {
        Poll::Ready(opened) => Poll::Ready(opened.map_err(|error| error.reason())),
        Poll::Pending => bound.poll_passed(cx).map(|()| Err(Reason::ConnectionTimeout)),
    });
    let opened = opened.await.and_then(|socket| match session.handle.is_reached_by(&socket) {
        // Each session would open the next one.
        true => Err(Reason::LoopDetected),
        false => Ok(socket),
    });
    drop(opening);
    let endpoint = opened.inspect_err(|reason| {
        session.worker.stats.upstream_failed(pool.slot(), *reason);
        upstream.report(&pool, Outcome::NoConnection);
    })?;
    let took = tollgate_net::now().saturating_duration_since(started);
    session.record.borrow_mut().attempt_connected(Some(took));
    let endpoint = session.endpoint.get_or_init(|| endpoint);
    for datagram in std::mem::take(&mut *session.waiting.borrow_mut()) {
        session.send(endpoint, &datagram);
    }
    // The time in the queue is not idle.
    session.wait();
    Ok((upstream, pool, permit))
}

/// Passes the endpoint's datagrams on until the session ends.
async fn relay(session: &Session, upstream: &Upstream, pool: &Rc<Pool>) -> Reason {
    let Some(endpoint) = session.endpoint.get() else { return Reason::ProxyInternalError };
    let mut hurried = false;
    let refused = || {
        session.worker.stats.upstream_failed(pool.slot(), Reason::ConnectionRefused);
        upstream.report(pool, Outcome::NoConnection);
        Poll::Ready(Reason::ConnectionRefused)
    };
    poll_fn(|cx| {
        match session.ends.get() {
            None => {}
            Some(Reason::ConnectionRefused) => return refused(),
            Some(reason) => return Poll::Ready(reason),
        }
        *session.task.borrow_mut() = Some(cx.waker().clone());
        for _ in 0..DATAGRAMS_PER_TURN {
            let mut buffer = session.worker.receive.borrow_mut();
            match endpoint.poll_receive(cx, &mut buffer) {
                Poll::Ready(Ok(count)) => {
                    if !session.is_answered.get() {
                        upstream.report(pool, Outcome::Answered(200));
                    }
                    session.pass_to_client(&buffer[..count]);
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return refused();
                }
                // Other errors concern single datagrams.
                Poll::Ready(Err(_)) => {}
                Poll::Pending => return session.poll_end(cx, &mut hurried),
            }
        }
        // More may wait; the other tasks come first.
        cx.waker().wake_by_ref();
        session.poll_end(cx, &mut hurried)
    })
    .await
}
