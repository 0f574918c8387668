//! The task of one HTTP/2 client connection.
//!
//! [`serve`] drives it from the preface to the close of the socket. Each time it is polled,
//! [`ConnectionTask`] reads input within its [`FrameBudget`] budget, starts a task for each request that may
//! start, and writes what the streams have queued. It also ends the connection: after idle time, on a drain,
//! past an age or request limit, or when the client's frames cost too much.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate_http2::{ErrorCode, IncomingRequest, LocalSettings, ServerConnection};
use tollgate_net::Deadline;

use super::connection_state::ConnectionState;
use super::request;
use super::shared::Http2Shared;
use super::socket::Http2Socket;
use super::stream::Http2Stream;
use super::waiting_heads;
use crate::front::scheduler::frame_budget::{ClientTrust, FrameBudget, after_others};
use crate::state::client::Client;
use crate::state::worker::Worker;

/// How long a client has to receive GOAWAY or the last frames before the next step.
const GOAWAY_TIME: Duration = Duration::from_secs(2);
/// The largest window that the protocol allows (RFC 9113, 6.9.1).
const WINDOW_MAX_BYTES: u32 = (1 << 31) - 1;
/// Bytes that the kernel may buffer unsent. More urgent streams cannot overtake what is buffered there. And
/// if a client opens all windows and reads nothing, the kernel would take hundreds of responses.
const UNSENT_MAX_BYTES: u32 = 32 * 1024;
/// How many streams a client may cancel before they start, in addition to the number of requests that it has
/// started.
const EARLY_RESETS_MAX: u64 = 100;
/// This many refused streams count as one cancelled stream. A client that does not know the stream limit yet
/// may exceed it.
const REFUSED_PER_RESET: u64 = 4;

/// Serves a connection to its end. `early` is what was read from it already.
pub(super) async fn serve(client: Box<Client>, early: Vec<u8>, http2: Rc<Http2Shared>) {
    let Client { stream, peer, deadline, connection_context, .. } = *client;
    let worker = connection_context.worker().clone();
    let (frame_budget, tls) = (FrameBudget::new(http2.scheduler.clone()), stream.tls().cloned());
    let local_address = stream.local_address();
    stream.limit_unsent(UNSENT_MAX_BYTES);
    let io = Http2Socket::new(stream, worker.clone(), early, frame_budget.clone());
    let now = tollgate_net::now();
    connection_context.open(now);
    deadline.set(now, worker.active.borrow().plan.settings.timeouts.header);
    let connection = ServerConnection::new(settings(&worker), &http2.totals);
    let shared =
        ConnectionState::new(connection, connection_context, http2.stream_limit.clone(), tls, local_address);
    let mut serving = ConnectionTask {
        io,
        http2,
        shared,
        peer,
        deadline,
        frame_budget,
        has_read_ahead: false,
        requests: 0,
        phase: ConnectionPhase::Handshake,
        idle: None,
        goaway_deadline: None,
        age: None,
    };
    serving.age();
    poll_fn(|cx| serving.poll(cx)).await;
}

/// Returns the SETTINGS for a client.
fn settings(worker: &Worker) -> LocalSettings {
    let active = worker.active.borrow();
    let (limits, head) = (&active.plan.settings.limits, &active.plan.settings.head_limits);
    // The protocol counts 32 bytes for each field (RFC 9113, 6.5.2), and counts pseudo-fields. The limit
    // announced here is higher than the configured one, so that heads in between get a response with a
    // reason.
    let fields = head.head.saturating_add(head.fields.saturating_mul(32)).saturating_add(1024);
    LocalSettings {
        max_concurrent_streams: limits.http2_streams,
        stream_window: limits.http2_window,
        connection_window: limits.http2_window.saturating_mul(2).min(WINDOW_MAX_BYTES),
        max_head_bytes: u32::try_from(fields).unwrap_or(u32::MAX),
    }
}

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// The client's SETTINGS have not arrived.
    Handshake,
    Open,
    /// The gateway has sent GOAWAY; requests in progress are completed.
    Leaving,
    /// The last frames are being written, then the socket is closed.
    Ending,
}

/// The state of the connection's task.
struct ConnectionTask {
    io: Http2Socket,
    http2: Rc<Http2Shared>,
    shared: Rc<ConnectionState>,
    peer: SocketAddr,
    deadline: Deadline,
    frame_budget: Rc<FrameBudget>,
    /// Whether input was read once since requests of an untrusted client wait. They start only after that.
    has_read_ahead: bool,
    /// Requests started.
    requests: u64,
    phase: ConnectionPhase,
    /// The purpose of the deadline: whether the connection was idle when it was set, and its phase.
    idle: Option<(bool, ConnectionPhase)>,
    /// When this passes, the client has received the first GOAWAY, and the final one is sent.
    goaway_deadline: Option<Deadline>,
    /// Passes when the connection reaches its age limit; `None` if it has none.
    age: Option<Deadline>,
}

impl ConnectionTask {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.frame_budget.turn();
        self.connection().register_waker(cx);
        loop {
            // If the client does not read, its input is not read either until enough was written.
            let is_full = self.connection().is_full();
            let taken = if self.phase == ConnectionPhase::Ending || is_full {
                Poll::Ready(true)
            } else {
                self.handle_input(cx)
            };
            if self.phase == ConnectionPhase::Handshake && self.connection().has_peer_settings() {
                self.phase = ConnectionPhase::Open;
            }
            if self.phase != ConnectionPhase::Ending && self.must_end() {
                self.phase = ConnectionPhase::Ending;
                self.queue_ended_streams();
                self.deadline.set(tollgate_net::now(), Some(GOAWAY_TIME));
                continue;
            }
            if self.phase == ConnectionPhase::Open && self.shared.has_aged() {
                self.age();
            }
            let is_too_old = self.age.as_ref().is_some_and(|age| age.poll_passed(cx).is_ready());
            if self.phase == ConnectionPhase::Open && (is_too_old || self.must_announce_close()) {
                self.age = None;
                self.phase = ConnectionPhase::Leaving;
                self.connection().start_graceful_shutdown();
                let deadline = self.shared.worker().timers.deadline();
                deadline.set(tollgate_net::now(), Some(GOAWAY_TIME));
                self.goaway_deadline = Some(deadline);
            }
            if self.goaway_deadline.as_ref().is_some_and(|deadline| deadline.poll_passed(cx).is_ready()) {
                self.goaway_deadline = None;
                self.connection().finish_graceful_shutdown();
            }
            let is_over = match self.io.poll_write(&self.shared.connection, cx) {
                Poll::Ready(Err(_)) => true,
                Poll::Ready(Ok(())) => {
                    self.phase == ConnectionPhase::Ending && self.io.poll_shutdown(cx).is_ready()
                }
                Poll::Pending => false,
            };
            if is_over {
                return Poll::Ready(());
            }
            let Poll::Ready(is_there) = taken else {
                self.wait();
                self.shared.wake_later(cx);
                return Poll::Pending;
            };
            if !is_there {
                return Poll::Ready(());
            }
            // Writing may have made room for further input or requests.
            let connection = self.connection();
            let has_room = is_full && !connection.is_full();
            let may_start_stream = connection.has_request() && self.shared.may_start_stream();
            if self.phase != ConnectionPhase::Ending
                && !connection.is_full()
                && (has_room || may_start_stream || connection.is_finished())
            {
                continue;
            }
            self.wait();
            self.shared.wake_later(cx);
            if self.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
            match self.phase {
                // A client that never sent SETTINGS gets no GOAWAY.
                ConnectionPhase::Handshake | ConnectionPhase::Ending => return Poll::Ready(()),
                ConnectionPhase::Open | ConnectionPhase::Leaving => {
                    self.connection().end(ErrorCode::NO_ERROR);
                }
            }
        }
    }

    /// Sets the deadline of the age limit.
    #[cold]
    fn age(&mut self) {
        let now = tollgate_net::now();
        let Some(left) = self.shared.connection_context.age_left(now) else { return };
        let age = self.age.get_or_insert_with(|| self.shared.worker().timers.deadline());
        age.set(now, Some(left));
    }

    fn connection(&self) -> &ServerConnection {
        &self.shared.connection
    }

    /// Arranges for open streams to learn that the connection is over.
    fn queue_ended_streams(&self) {
        if !self.shared.is_idle() {
            self.http2.scheduler.connection_ended(self.shared.clone());
        }
    }

    /// Returns whether the connection must be closed.
    fn must_end(&self) -> bool {
        let connection = self.connection();
        if self.frame_budget.is_exhausted() {
            connection.end(ErrorCode::ENHANCE_YOUR_CALM);
        }
        connection.ended().is_some() || connection.is_finished()
    }

    /// Reads until nothing is left or the turn is over. Ready if the client has closed the connection.
    fn poll_read_all(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while ready!(self.poll_read(cx)) {}
        Poll::Ready(())
    }

    /// Reads once. Returns whether the client is still there.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.connection().ended().is_some() {
            return Poll::Pending;
        }
        let read = ready!(self.io.poll_read(&self.shared, cx));
        // Counts streams that ended before they started: the client reset them, or the gateway did for a
        // frame that violates the protocol. The client expects no response to them; a client that keeps doing
        // this wants none.
        let (early_resets, refused) = (self.connection().reset_before_start(), self.connection().refused());
        if early_resets + refused / REFUSED_PER_RESET > EARLY_RESETS_MAX + self.requests {
            self.frame_budget.exhaust();
        }
        Poll::Ready(read.is_ok_and(|count| count > 0))
    }

    /// Reads input and starts the requests that may start. The rest stays with the connection. It holds no
    /// more requests than may be open at once, or fewer if their heads are too large. Ready when nothing is
    /// left to do now, with whether the client is still there.
    fn handle_input(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // Input since the last turn, such as a reset, may decide that a waiting request does not start.
        if self.connection().has_request() && self.poll_read(cx) == Poll::Ready(false) {
            return Poll::Ready(false);
        }
        loop {
            if self.connection().has_request() && self.frame_budget.request_budget_is_spent(cx) {
                self.refuse_excess();
                return Poll::Pending;
            }
            if self.shared.client() == ClientTrust::Untested && !self.has_read_ahead {
                // Requests of an untested client start only after more of its input was examined.
                let has_gone = self.poll_read_all(cx).is_ready();
                if has_gone || self.frame_budget.is_exhausted() || !self.connection().has_request() {
                    return Poll::Ready(!has_gone);
                }
                self.refuse_excess();
                self.has_read_ahead = true;
                after_others(cx);
                return Poll::Pending;
            }
            if self.frame_budget.is_exhausted() {
                return Poll::Ready(true);
            }
            if !self.shared.may_start_stream() {
                let has_gone = self.poll_read_all(cx).is_ready();
                // The input just read may have changed that.
                if has_gone
                    || !self.shared.may_start_stream() && !waiting_heads::exceeds_limit(self.connection())
                {
                    self.refuse_excess();
                    if self.connection().has_request() {
                        self.shared.wait();
                    }
                    return Poll::Ready(!has_gone);
                }
            }
            if let Some(begun) = self.connection().next_request() {
                self.start_or_refuse(begun);
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(false),
                Poll::Pending => {
                    self.has_read_ahead = false;
                    self.shared.stop_waiting();
                    return Poll::Ready(true);
                }
            }
        }
    }

    /// Starts a request, or refuses it if too many wait already.
    fn start_or_refuse(&mut self, IncomingRequest { stream, fields }: IncomingRequest) {
        if !self.shared.may_start_stream() {
            self.frame_budget.count_refusal();
            return waiting_heads::refuse(&stream);
        }
        self.frame_budget.request();
        self.requests += 1;
        let stream = Http2Stream::new(stream, self.shared.clone());
        let client = Client::of_stream(&self.shared.connection_context, stream, self.peer, self.requests);
        request::start(client, fields, self.http2.futures.clone());
    }

    /// Bounds the memory of requests that wait.
    fn refuse_excess(&self) {
        waiting_heads::refuse_excess(self.connection(), self.shared.client());
    }

    /// Returns whether the client must be asked to send no more requests.
    fn must_announce_close(&self) -> bool {
        let connection_context = &self.shared.connection_context;
        let limit = connection_context.worker().active.borrow().plan.settings.limits.requests_per_connection;
        connection_context.announces_close() && (self.requests > 0 || connection_context.is_draining())
            || limit.is_some_and(|limit| self.requests >= limit)
    }

    /// Sets the deadline if its purpose has changed.
    fn wait(&mut self) {
        let for_what = Some((self.shared.is_idle(), self.phase));
        if self.idle == for_what || self.phase == ConnectionPhase::Ending {
            return;
        }
        self.idle = for_what;
        let connection_context = &self.shared.connection_context;
        let bound = match for_what {
            // `serve` has set it.
            Some((_, ConnectionPhase::Handshake)) => return,
            // Each stream has its own deadlines.
            Some((false, _)) | None => None,
            Some((true, ConnectionPhase::Open)) => self.shared.idle(),
            Some((true, _)) => {
                [connection_context.worker().grace.get(), self.shared.idle()].into_iter().flatten().min()
            }
        };
        match bound {
            Some(_) => self.deadline.set(tollgate_net::now(), bound),
            None => self.deadline.clear(),
        }
    }
}

impl Drop for ConnectionTask {
    /// Cuts the connection and arranges for open streams to learn that.
    fn drop(&mut self) {
        self.shared.connection.abort();
        self.queue_ended_streams();
    }
}
