//! One connection: its frames are read, and a task started for each stream.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tollgate_http::h2::Chunk;
use tollgate_net::Deadline;

use super::intake::{Intake, after_others};
use super::io::Io;
use super::request;
use super::shared::Shared;
use super::stream::Http2Stream;
use crate::connection::Client;
use crate::worker::Worker;

type Connection = h2::server::Connection<Io, Chunk>;

/// How long a connection that was told to end has to take what it was told.
const FAREWELL: Duration = Duration::from_secs(2);
/// The largest window that there can be (RFC 9113, 6.9.1).
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// Bytes that the library may keep of one response; `Gate` bounds those of all.
const SEND_BUFFER: usize = 128 * 1024;
/// Bytes that the kernel may keep unsent. What it takes is lost to streams that have something more urgent to say; and of who
/// opens all windows and reads nothing, it would take hundreds of answers.
const UNSENT: u32 = 32 * 1024;
/// Streams of a connection that may be gone before they are begun, beside as many as were.
const STILLBORN: u64 = 100;

/// Serves a connection to its end. `early` is what has come of it already.
pub(super) async fn serve(client: Box<Client>, early: Vec<u8>) {
    let Client { stream, peer, deadline, link, .. } = *client;
    let worker = link.worker().clone();
    let (intake, tls) = (Rc::new(Intake::default()), stream.tls().cloned());
    let local_address = stream.local_address();
    stream.limit_unsent(UNSENT);
    let io = Io::new(stream, worker.clone(), early, intake.clone());
    deadline.set(tollgate_net::now(), worker.active.borrow().plan.settings.timeouts.header);
    let Some(connection) = shake_hands(&worker, io, &deadline).await else { return };
    let shared = Shared::new(link, tls, local_address);
    let mut serving = Serving {
        connection,
        shared,
        peer,
        deadline,
        intake,
        has_looked: false,
        requests: 0,
        stillborn: 0,
        phase: Phase::Open,
        idle: None,
    };
    poll_fn(|cx| serving.poll(cx)).await;
}

/// The client's preface has come, or never will.
async fn shake_hands(worker: &Worker, io: Io, deadline: &Deadline) -> Option<Connection> {
    let mut builder = Builder::new();
    {
        let active = worker.active.borrow();
        let limits = &active.plan.settings.head_limits;
        // The library counts 32 bytes for each field (RFC 9113, 6.5.2), and pseudo-fields too. What is between this
        // limit and the configured one is answered with a reason.
        let (streams, window) =
            (active.plan.settings.limits.http2_streams, active.plan.settings.limits.http2_window);
        let list = limits.head.saturating_add(limits.fields.saturating_mul(32)).saturating_add(1024);
        builder
            .max_concurrent_streams(streams)
            .max_pending_accept_reset_streams(streams as usize)
            .max_header_list_size(u32::try_from(list).unwrap_or(u32::MAX))
            .initial_window_size(window)
            .initial_connection_window_size(window.saturating_mul(2).min(LARGEST_WINDOW))
            .max_send_buffer_size(SEND_BUFFER)
            // WebSocket (RFC 8441).
            .enable_connect_protocol();
    }
    let mut handshake = pin!(builder.handshake(io));
    poll_fn(|cx| match handshake.as_mut().poll(cx) {
        Poll::Ready(connection) => Poll::Ready(connection.ok()),
        Poll::Pending => deadline.poll_passed(cx).map(|()| None),
    })
    .await
}

/// Where a connection is between its begin and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The client knows that it is to send no more requests.
    Leaving,
    /// The last frame is on its way.
    Ending,
}

struct Serving {
    connection: Connection,
    shared: Rc<Shared>,
    peer: SocketAddr,
    deadline: Deadline,
    intake: Rc<Intake>,
    /// Whether what had come with the requests was looked at.
    has_looked: bool,
    requests: u64,
    /// Streams that were gone before they were begun.
    stillborn: u64,
    phase: Phase,
    /// For what the deadline is set: whether there were streams, and whether the connection was leaving.
    idle: Option<(bool, Phase)>,
}

impl Serving {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.intake.turn();
        loop {
            if !ready!(self.take_in(cx)) {
                return Poll::Ready(());
            }
            if self.intake.is_exhausted() && self.phase != Phase::Ending {
                self.end(Reason::ENHANCE_YOUR_CALM);
                continue;
            }
            if self.phase == Phase::Open && self.is_to_leave() {
                self.phase = Phase::Leaving;
                self.connection.graceful_shutdown();
                continue;
            }
            self.wait();
            self.shared.wake_later(cx);
            if self.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
            if self.phase == Phase::Ending {
                return Poll::Ready(());
            }
            self.end(Reason::NO_ERROR);
        }
    }

    /// Reads what has come, and begins what may be begun of it; the rest waits in the library, which keeps no more than may
    /// be open at once, unless their heads are too large. Ready when nothing is left to do now: whether the connection is still there.
    fn take_in(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if self.intake.is_turn_over(cx) {
                return Poll::Pending;
            }
            if self.shared.is_stranger() && !self.has_looked {
                // What it asks for is begun when what else it has sent was looked at.
                let is_over = self.connection.poll_closed(cx).is_ready();
                if is_over || self.intake.is_exhausted() || !self.intake.holds_some() {
                    return Poll::Ready(!is_over);
                }
                self.has_looked = true;
                after_others(cx);
                return Poll::Pending;
            }
            if self.intake.is_exhausted() {
                return Poll::Ready(self.connection.poll_closed(cx).is_pending());
            }
            if !self.shared.may_begin() {
                let is_over = self.connection.poll_closed(cx).is_ready();
                // What was written meanwhile may have changed that.
                if is_over || !self.shared.may_begin() && !self.intake.holds_too_much() {
                    if self.intake.holds_some() {
                        self.shared.wait();
                    }
                    return Poll::Ready(!is_over);
                }
            }
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.intake.request();
                    self.begin_or_refuse(request, respond);
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(false),
                Poll::Pending => {
                    self.has_looked = false;
                    self.intake.caught_up();
                    self.shared.waits_no_longer();
                    return Poll::Ready(true);
                }
            }
        }
    }

    /// A request is to be begun, or refused where too many wait already.
    fn begin_or_refuse(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Chunk>) {
        if respond.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready() {
            // Reset by the client, or by the library for a frame that breaks the protocol, before it was begun: nobody
            // waits for an answer, and who does so again and again wants none.
            self.stillborn += 1;
            if self.stillborn > STILLBORN + self.requests {
                self.intake.exhaust();
            }
            return;
        }
        if !self.shared.may_begin() {
            // Nothing was done for it: the client may send it again, here or elsewhere (RFC 9113, 8.7).
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        self.requests += 1;
        self.intake.request_begins();
        let (head, body) = request.into_parts();
        let stream = Http2Stream::new(body, respond, self.shared.clone());
        let client = Client::of_stream(&self.shared.link, stream, self.peer, self.requests);
        request::start(client, head);
    }

    /// Whether the client is to be told to send no more requests.
    fn is_to_leave(&self) -> bool {
        let link = &self.shared.link;
        let limit = link.worker().active.borrow().plan.settings.limits.requests_per_connection;
        link.is_leaving() && (self.requests > 0 || link.is_draining())
            || limit.is_some_and(|limit| self.requests >= limit)
    }

    /// Sets the deadline when what it is for has changed.
    fn wait(&mut self) {
        let for_what = Some((self.shared.is_idle(), self.phase));
        if self.idle == for_what || self.phase == Phase::Ending {
            return;
        }
        self.idle = for_what;
        let worker = self.shared.link.worker();
        let bound = match for_what {
            // Each stream has its own.
            Some((false, _)) | None => None,
            Some((true, Phase::Open)) => worker.idle_timeout(),
            Some((true, _)) => [worker.grace.get(), worker.idle_timeout()].into_iter().flatten().min(),
        };
        match bound {
            Some(_) => self.deadline.set(tollgate_net::now(), bound),
            None => self.deadline.clear(),
        }
    }

    fn end(&mut self, reason: Reason) {
        self.phase = Phase::Ending;
        self.connection.abrupt_shutdown(reason);
        self.deadline.set(tollgate_net::now(), Some(FAREWELL));
    }
}
